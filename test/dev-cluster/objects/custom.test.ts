import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { resourcesOfDefinition } from '../../../src/dev-cluster/objects/custom.ts';
import { strategyOf } from '../../../src/dev-cluster/objects/index.ts';
import type { ApiObject, ResourceInfo, Strategy } from '../../../src/dev-cluster/types.ts';
import { formatFieldError } from '../../../src/kube/field-error.ts';

const definitions = strategyOf('apiextensions.k8s.io', 'CustomResourceDefinition');

/** A definition of Gadgets whose schema has these fields in its spec. */
function definition(
  properties: object = {},
  more: { root?: object; version?: object; spec?: object; name?: string } = {},
): ApiObject {
  const spec = { type: 'object', properties };
  const openAPIV3Schema = {
    type: 'object',
    properties: { spec, status: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
    ...more.root,
  };
  const version = {
    name: 'v1',
    served: true,
    storage: true,
    subresources: { status: {} },
    schema: { openAPIV3Schema },
  };
  const made: ApiObject = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: more.name ?? 'gadgets.example.com' },
    spec: {
      group: 'example.com',
      scope: 'Namespaced',
      names: { kind: 'Gadget', plural: 'gadgets', shortNames: ['gd'] },
      versions: [{ ...version, ...more.version }],
      ...more.spec,
    },
  };
  definitions.defaults(made);
  return made;
}

function resourceOf(made: ApiObject): ResourceInfo {
  const [resource] = resourcesOfDefinition(made);
  assert.ok(resource);
  return resource;
}

function gadget(spec: unknown, more: object = {}): ApiObject {
  return { apiVersion: 'example.com/v1', kind: 'Gadget', metadata: { name: 'g', namespace: 'a' }, spec, ...more };
}

describe('definitions', () => {
  const at = 'spec.versions[0].schema.openAPIV3Schema';
  const cases: { name: string; given: ApiObject; errors: string[] }[] = [
    { name: 'a sound one', given: definition({ a: { type: 'string' } }), errors: [] },
    {
      name: 'names',
      given: definition(
        {},
        { name: 'x', spec: { group: 'example', scope: 'Some', names: { kind: 'Gad_get', plural: 'Gadgets' } } },
      ),
      errors: [
        'metadata.name: Invalid value: "x": must be spec.names.plural+"."+spec.group',
        'spec.group: Invalid value: "example": should be a domain with at least one dot',
        'spec.scope: Unsupported value: "Some": supported values: "Cluster", "Namespaced"',
        ...(['plural', 'singular', 'kind', 'listKind'] as const).map((field) => {
          const value = { plural: 'Gadgets', singular: 'gad_get', kind: 'Gad_get', listKind: 'Gad_getList' }[field];
          const rule = `a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`;
          const mixed = field.toLowerCase().endsWith('kind') ? 'may have mixed case, but should otherwise match: ' : '';
          return `spec.names.${field}: Invalid value: "${value}": ${mixed}${rule}`;
        }),
      ],
    },
    {
      name: 'nothing said',
      given: definition({}, { spec: { group: '', scope: '', names: {}, versions: [] }, name: '.' }),
      errors: [
        "metadata.name: Invalid value: \".\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        'spec.group: Required value',
        'spec.scope: Required value',
        'spec.versions: Invalid value: []: must have exactly one version marked as storage version',
        'spec.names.plural: Required value',
        'spec.names.singular: Required value',
        'spec.names.kind: Required value',
        'spec.names.listKind: Required value',
      ],
    },
    {
      name: 'no schema, columns that cannot be made',
      given: definition(
        {},
        {
          version: {
            schema: null,
            additionalPrinterColumns: [
              { name: 'A', type: 'text', jsonPath: '.spec[?(@.a>1)]' },
              { name: '', type: '', jsonPath: '' },
            ],
          },
        },
      ),
      errors: [
        `${at}: Required value: schemas are required`,
        'spec.versions[0].additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string',
        'spec.versions[0].additionalPrinterColumns[0].jsonPath: Invalid value: ".spec[?(@.a>1)]": is not a simple path: ".spec[?(@.a>1)]"',
        'spec.versions[0].additionalPrinterColumns[1].name: Required value',
        'spec.versions[0].additionalPrinterColumns[1].type: Required value: must be one of boolean,date,integer,number,string',
        'spec.versions[0].additionalPrinterColumns[1].jsonPath: Required value',
      ],
    },
    {
      name: 'types must be said',
      given: definition(
        {
          a: {},
          b: { type: 'array' },
          c: { type: 'array', items: {} },
          d: { type: 'text' },
          e: { 'x-kubernetes-int-or-string': true },
        },
        { root: { type: 'array' } },
      ),
      errors: [
        `${at}.type: Invalid value: "array": must be object at the root`,
        `${at}.properties[spec].properties[a].type: Required value: must not be empty for specified object fields`,
        `${at}.properties[spec].properties[b].items: Required value: must be specified`,
        `${at}.properties[spec].properties[c].items.type: Required value: must not be empty for specified array items`,
        `${at}.properties[spec].properties[d].type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string"`,
        `${at}.items: Required value: must be specified`,
      ],
    },
    {
      name: 'what schemas cannot have',
      given: definition({
        a: { type: 'array', items: { type: 'string' }, uniqueItems: true, 'x-kubernetes-list-type': 'bag' },
        b: {
          type: 'object',
          $ref: '#/x',
          properties: { x: { type: 'string' } },
          additionalProperties: { type: 'string' },
        },
        c: { type: 'array', items: { type: 'object' }, 'x-kubernetes-list-type': 'map' },
      }),
      errors: [
        `${at}.properties[spec].properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic`,
        `${at}.properties[spec].properties[a].x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "map", "set"`,
        `${at}.properties[spec].properties[b].$ref: Forbidden: $ref is not supported`,
        `${at}.properties[spec].properties[b].additionalProperties: Forbidden: must not be used together with properties`,
        `${at}.properties[spec].properties[c].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map`,
      ],
    },
    {
      name: 'rules that cannot be evaluated here',
      given: definition({
        a: {
          type: 'string',
          'x-kubernetes-validations': [
            { rule: '' },
            { rule: 'self.' },
            { rule: 'size(self)' },
            { rule: 'isURL(self)' },
            { rule: 'true', reason: 'Because', messageExpression: "'x'", optionalOldSelf: true },
          ],
        },
      }),
      errors: [
        `${at}.properties[spec].properties[a].x-kubernetes-validations[0].rule: Required value: rule is not specified`,
        `${at}.properties[spec].properties[a].x-kubernetes-validations[1].rule: Invalid value: "self.": compilation failed: Expected IDENTIFIER, got EOF`,
        `${at}.properties[spec].properties[a].x-kubernetes-validations[2].rule: Invalid value: "size(self)": must evaluate to bool`,
        `${at}.properties[spec].properties[a].x-kubernetes-validations[3].rule: Invalid value: "isURL(self)": compilation failed: found no matching overload for 'isURL(dyn)'`,
        `${at}.properties[spec].properties[a].x-kubernetes-validations[4].reason: Unsupported value: "Because": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"`,
        `${at}.properties[spec].properties[a].x-kubernetes-validations[4].messageExpression: Forbidden: not supported by the development cluster`,
        `${at}.properties[spec].properties[a].x-kubernetes-validations[4].optionalOldSelf: Forbidden: not supported by the development cluster`,
      ],
    },
    {
      name: 'converters',
      given: definition({}, { spec: { conversion: { strategy: 'Webhook' } } }),
      errors: ['spec.conversion.strategy: Forbidden: the development cluster converts no versions: must be None'],
    },
  ];
  for (const { name, given, errors } of cases) {
    test(name, () => assert.deepEqual(definitions.validateCreate(given).map(formatFieldError), errors));
  }

  test('scope and names stay', () => {
    const next = definition({}, { spec: { scope: 'Cluster' } });
    assert.deepEqual(definitions.validateUpdate(next, definition(), '').map(formatFieldError), [
      'spec.scope: Invalid value: "Cluster": field is immutable',
    ]);
  });

  test('the versions that have been stored are remembered', () => {
    const made = definition();
    definitions.prepareForCreate(made);
    assert.deepEqual(made['status'], {
      conditions: null,
      acceptedNames: { plural: '', kind: '' },
      storedVersions: ['v1'],
    });
    const next = definition({}, { version: { name: 'v2' } });
    definitions.prepareForUpdate(next, made, '');
    assert.deepEqual((next['status'] as { storedVersions: unknown }).storedVersions, ['v1', 'v2']);
  });
});

describe('the resource of a definition', () => {
  test('as it is served', () => {
    const { columns, strategy, ...rest } = resourceOf(definition());
    assert.equal(typeof strategy.defaults, 'function');
    assert.deepEqual(rest, {
      group: 'example.com',
      version: 'v1',
      kind: 'Gadget',
      listKind: 'GadgetList',
      resource: 'gadgets',
      singular: 'gadget',
      namespaced: true,
      shortNames: ['gd'],
      categories: [],
      verbs: ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'],
      subresources: ['status'],
      custom: true,
    });
    assert.deepEqual(
      columns.map(({ name }) => name),
      ['Name', 'Age'],
    );
  });

  test('only the versions that are served', () => {
    assert.deepEqual(resourcesOfDefinition(definition({}, { version: { served: false } })), []);
  });

  const cells: { type: string; jsonPath: string; expected: unknown }[] = [
    { type: 'string', jsonPath: '.spec.text', expected: 'hello' },
    { type: 'string', jsonPath: '.spec.list', expected: '[{"type":"A","ok":"yes"},{"type":"B","ok":"no"}]' },
    { type: 'string', jsonPath: '.spec.none', expected: null },
    { type: 'string', jsonPath: '.spec.nil', expected: '<no value>' },
    { type: 'date', jsonPath: '.spec.nil', expected: null },
    { type: 'integer', jsonPath: '.spec.nil', expected: null },
    { type: 'string', jsonPath: '.spec.constructor', expected: null },
    { type: 'integer', jsonPath: '.spec.number', expected: 3 },
    { type: 'integer', jsonPath: '.spec.text', expected: null },
    { type: 'number', jsonPath: '.spec.number', expected: 3 },
    { type: 'boolean', jsonPath: '.spec.yes', expected: true },
    { type: 'date', jsonPath: '.spec.then', expected: '60s' },
    { type: 'string', jsonPath: '.spec.list[1].ok', expected: 'no' },
    { type: 'string', jsonPath: '.spec.list[*].type', expected: 'A' },
    { type: 'string', jsonPath: '.spec.list[?(@.type=="B")].ok', expected: 'no' },
    { type: 'string', jsonPath: ".spec['text']", expected: 'hello' },
  ];
  for (const { type, jsonPath, expected } of cells) {
    test(`a column: ${jsonPath} as ${type}`, () => {
      const version = { additionalPrinterColumns: [{ name: 'C', type, jsonPath }] };
      const column = resourceOf(definition({}, { version })).columns[1];
      const list = [
        { type: 'A', ok: 'yes' },
        { type: 'B', ok: 'no' },
      ];
      const object = gadget({ text: 'hello', number: 3, yes: true, then: '2026-01-01T00:00:00Z', list, nil: null });
      assert.ok(column);
      assert.deepEqual(column.cell(object, new Date('2026-01-01T00:01:00Z')), expected);
      assert.equal(column.description, `Custom resource definition column (in JSONPath format): ${jsonPath}`);
    });
  }
});

describe('defaults', () => {
  test('at every depth, and for nulls where null is not allowed', () => {
    const { strategy } = resourceOf(
      definition({
        a: { type: 'string', default: 'x' },
        nested: { type: 'object', default: {}, properties: { b: { type: 'integer', default: 3 } } },
        list: { type: 'array', items: { type: 'object', properties: { c: { type: 'boolean', default: true } } } },
        map: {
          type: 'object',
          additionalProperties: { type: 'object', properties: { d: { type: 'string', default: 'y' } } },
        },
        free: { type: 'string', nullable: true, default: 'z' },
      }),
    );
    const given = gadget(JSON.parse('{"a":null,"list":[{},{"c":false}],"map":{"__proto__":{}},"free":null}'));
    strategy.defaults(given);
    assert.equal(
      JSON.stringify(given['spec']),
      '{"a":"x","list":[{"c":true},{"c":false}],"map":{"__proto__":{"d":"y"}},"free":null,"nested":{"b":3}}',
    );
  });
});

describe('objects against their schema', () => {
  const { strategy } = resourceOf(
    definition({
      text: { type: 'string', minLength: 2, maxLength: 3, pattern: '^a' },
      number: { type: 'integer', minimum: 1, maximum: 4, multipleOf: 2 },
      open: { type: 'number', minimum: 0, exclusiveMinimum: true, maximum: 1, exclusiveMaximum: true },
      list: { type: 'array', minItems: 1, maxItems: 2, items: { type: 'string', enum: ['a', 'b'] } },
      set: { type: 'array', items: { type: 'string' }, 'x-kubernetes-list-type': 'set' },
      keyed: {
        type: 'array',
        items: { type: 'object', properties: { k: { type: 'string' }, v: { type: 'string' } } },
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['k'],
      },
      map: { type: 'object', minProperties: 1, maxProperties: 1, additionalProperties: { type: 'integer' } },
      port: { 'x-kubernetes-int-or-string': true },
      date: { type: 'string', format: 'date-time' },
      bytes: { type: 'string', format: 'byte' },
      bytesOrNothing: { type: 'string', anyOf: [{ format: 'byte' }, { maxLength: 0 }] },
      needs: { type: 'object', required: ['x', 'toString'], properties: { x: { type: 'string' } } },
      either: {
        type: 'object',
        properties: { a: { type: 'string' }, b: { type: 'string' } },
        oneOf: [{ required: ['a'] }, { required: ['b'] }],
      },
      some: {
        type: 'object',
        properties: { a: { type: 'string' } },
        anyOf: [{ required: ['a'] }, { required: ['b'] }],
      },
      never: { type: 'string', not: { enum: ['x'] } },
      null: { type: 'string', nullable: true },
    }),
  );
  const cases: { name: string; spec: unknown; errors: string[] }[] = [
    { name: 'nothing', spec: {}, errors: [] },
    {
      name: 'everything right',
      spec: {
        text: 'ab',
        number: 2,
        open: 0.5,
        list: ['a'],
        set: ['a', 'b'],
        keyed: [{ k: 'a' }, { k: 'b' }],
        map: { a: 1 },
        port: 'http',
        date: '2026-01-01T00:00:00.123Z',
        needs: { x: 'y', toString: 'z' },
        either: { a: 'x' },
        some: { a: 'x' },
        never: 'y',
        null: null,
      },
      errors: [],
    },
    {
      name: 'types',
      spec: { text: 1, number: 'x', list: {}, map: [], port: true, needs: null, open: 'x' },
      errors: [
        'spec.text: Invalid value: "integer": spec.text in body must be of type string: "integer"',
        'spec.number: Invalid value: "string": spec.number in body must be of type integer: "string"',
        'spec.list: Invalid value: "object": spec.list in body must be of type array: "object"',
        'spec.map: Invalid value: "array": spec.map in body must be of type object: "array"',
        'spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"',
        'spec.needs: Invalid value: "null": spec.needs in body must be of type object: "null"',
        'spec.open: Invalid value: "string": spec.open in body must be of type number: "string"',
      ],
    },
    {
      name: 'a fraction',
      spec: { number: 1.5 },
      errors: ['spec.number: Invalid value: "number": spec.number in body must be of type integer: "number"'],
    },
    {
      name: 'texts',
      spec: { text: 'b', date: 'yesterday', never: 'x' },
      errors: [
        'spec.text: Invalid value: "b": spec.text in body should be at least 2 chars long',
        'spec.text: Invalid value: "b": spec.text in body should match \'^a\'',
        'spec.date: Invalid value: "yesterday": spec.date in body must be of type date-time: "yesterday"',
        'spec.never: Invalid value: "": "spec.never" must not validate the schema (not)',
      ],
    },
    { name: 'a long text', spec: { text: 'abcd' }, errors: ['spec.text: Too long: may not be more than 3 bytes'] },
    {
      name: 'numbers',
      spec: { number: 5, open: 1 },
      errors: [
        'spec.number: Invalid value: 5: spec.number in body should be less than or equal to 4',
        'spec.number: Invalid value: 5: spec.number in body should be a multiple of 2',
        'spec.open: Invalid value: 1: spec.open in body should be less than 1',
      ],
    },
    {
      name: 'small numbers',
      spec: { number: 0, open: 0 },
      errors: [
        'spec.number: Invalid value: 0: spec.number in body should be greater than or equal to 1',
        'spec.open: Invalid value: 0: spec.open in body should be greater than 0',
      ],
    },
    {
      name: 'no bytes',
      spec: { bytes: '', bytesOrNothing: '' },
      errors: ['spec.bytes: Invalid value: "": spec.bytes in body must be of type byte: ""'],
    },
    {
      name: 'bytes',
      spec: { bytes: 'AQ==', bytesOrNothing: 'AQ==' },
      errors: [],
    },
    {
      name: 'lists',
      spec: {
        list: ['a', 'b', 'c'],
        set: ['a', 'a'],
        keyed: [
          { k: 'a', v: '1' },
          { k: 'a', v: '2' },
        ],
      },
      errors: [
        'spec.list[2]: Unsupported value: "c": supported values: "a", "b"',
        'spec.list: Too many: 3: must have at most 2 items',
        'spec.set[1]: Duplicate value: "a"',
        'spec.keyed[1]: Duplicate value: {"k":"a"}',
      ],
    },
    {
      name: 'an empty list',
      spec: { list: [] },
      errors: ['spec.list: Invalid value: 0: spec.list in body should have at least 1 items'],
    },
    {
      name: 'maps',
      spec: { map: { a: 1, b: 'x' } },
      errors: [
        'spec.map: Too many: 2: must have at most 1 items',
        'spec.map.b: Invalid value: "string": spec.map.b in body must be of type integer: "string"',
      ],
    },
    {
      name: 'an empty map',
      spec: { map: {} },
      errors: ['spec.map: Invalid value: 0: spec.map in body should have at least 1 properties'],
    },
    {
      name: 'fields that must be there',
      spec: { needs: {} },
      errors: ['spec.needs.x: Required value', 'spec.needs.toString: Required value'],
    },
    {
      name: 'choices',
      spec: { either: {}, some: {} },
      errors: [
        'spec.either: Invalid value: "": "spec.either" must validate one and only one schema (oneOf). Found none valid',
        'spec.some: Invalid value: "": "spec.some" must validate at least one schema (anyOf)',
      ],
    },
    {
      name: 'both of two choices',
      spec: { either: { a: 'x', b: 'y' } },
      errors: [
        'spec.either: Invalid value: "": "spec.either" must validate one and only one schema (oneOf). Found 2 valid alternatives',
      ],
    },
  ];
  for (const { name, spec, errors } of cases) {
    test(name, () => assert.deepEqual(strategy.validateCreate(gadget(spec)).map(formatFieldError), errors));
  }

  test('what was wrong and has not been touched is let through', () => {
    const old = gadget({ text: 'wrong', number: 9 });
    assert.deepEqual(strategy.validateUpdate(gadget({ text: 'wrong', number: 7 }), old, '').map(formatFieldError), [
      'spec.number: Invalid value: 7: spec.number in body should be less than or equal to 4',
      'spec.number: Invalid value: 7: spec.number in body should be a multiple of 2',
    ]);
  });
});

describe('rules', () => {
  const rules = (...given: object[]): object => ({ 'x-kubernetes-validations': given });
  const errors = (strategy: Strategy, object: ApiObject, old?: ApiObject): string[] =>
    (old ? strategy.validateUpdate(object, old, '') : strategy.validateCreate(object)).map(formatFieldError);
  const item = {
    type: 'object',
    properties: {
      k: { type: 'string' },
      n: { type: 'integer', ...rules({ rule: 'self >= oldSelf', message: 'only up' }) },
    },
  };
  const { strategy } = resourceOf(
    definition(
      {
        min: { type: 'integer', nullable: true },
        max: { type: 'integer', ...rules({ rule: 'self < 100' }) },
        name: { type: 'string', ...rules({ rule: 'self == oldSelf', message: 'name is immutable' }) },
        keyed: { type: 'array', items: item, 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k'] },
        loose: { type: 'array', items: { type: 'string', ...rules({ rule: 'self == oldSelf' }) } },
        labels: {
          type: 'object',
          additionalProperties: { type: 'string', ...rules({ rule: "self.startsWith('x')", message: 'x first' }) },
        },
        odd: {
          type: 'object',
          'x-kubernetes-preserve-unknown-fields': true,
          ...rules({ rule: "self.a == 'b'", message: 'a is b' }),
        },
        when: { type: 'integer', ...rules({ rule: 'self < 10', reason: 'FieldValueForbidden', message: 'too late' }) },
      },
      {
        root: rules(
          { rule: "self.metadata.name == 'g'", message: 'name must be g' },
          {
            rule: '!has(self.spec.min) || self.spec.min <= self.spec.max',
            message: 'min above max',
            fieldPath: '.spec.min',
            reason: 'FieldValueRequired',
          },
        ),
      },
    ),
  );
  const cases: { name: string; given: ApiObject; old?: ApiObject; errors: string[] }[] = [
    { name: 'all hold', given: gadget({ min: 1, max: 2 }), errors: [] },
    { name: 'null is absent', given: gadget({ min: null, max: 2 }), errors: [] },
    {
      name: 'the name',
      given: gadget({}, { metadata: { name: 'h', namespace: 'a' } }),
      errors: ['<nil>: Invalid value: name must be g'],
    },
    {
      name: 'a field and a reason of its own',
      given: gadget({ min: 3, max: 2 }),
      errors: ['spec.min: Required value: min above max'],
    },
    {
      name: 'no message',
      given: gadget({ max: 100 }),
      errors: ['spec.max: Invalid value: 100: failed rule: self < 100'],
    },
    { name: 'a reason', given: gadget({ when: 10 }), errors: ['spec.when: Forbidden: too late'] },
    { name: 'nothing was there before', given: gadget({ name: 'a' }), errors: [] },
    {
      name: 'something was',
      given: gadget({ name: 'b' }),
      old: gadget({ name: 'a' }),
      errors: ['spec.name: Invalid value: "b": name is immutable'],
    },
    {
      name: 'items are known by their keys',
      given: gadget({
        keyed: [
          { k: 'new', n: 0 },
          { k: 'a', n: 1 },
        ],
      }),
      old: gadget({ keyed: [{ k: 'a', n: 2 }] }),
      errors: ['spec.keyed[1].n: Invalid value: 1: only up'],
    },
    { name: 'other items are not known', given: gadget({ loose: ['b'] }), old: gadget({ loose: ['a'] }), errors: [] },
    {
      name: 'values of a map',
      given: gadget({ labels: { a: 'y' } }),
      errors: ['spec.labels[a]: Invalid value: "y": x first'],
    },
    {
      name: 'what cannot be told',
      given: gadget({ odd: { constructor: 'x' } }),
      errors: ['spec.odd: Invalid value: "object": No such key: a evaluating rule: a is b'],
    },
    {
      name: 'rules wait until the object fits its schema',
      given: gadget({ max: 'x' }, { metadata: { name: 'h', namespace: 'a' } }),
      errors: [
        'spec.max: Invalid value: "string": spec.max in body must be of type integer: "string"',
        '<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation',
      ],
    },
  ];
  for (const { name, given, old, errors: expected } of cases) {
    test(name, () => assert.deepEqual(errors(strategy, given, old), expected));
  }
});

describe('status and generation', () => {
  const withStatus = resourceOf(definition()).strategy;
  const without = resourceOf(definition({}, { version: { subresources: {} } })).strategy;
  const old = (): ApiObject =>
    gadget({ a: 1 }, { status: { s: 1 }, metadata: { name: 'g', namespace: 'a', generation: 3, labels: { l: '1' } } });
  const cases: { name: string; strategy: Strategy; next: ApiObject; subresource?: string; expected: unknown }[] = [
    {
      name: 'the status stays',
      strategy: withStatus,
      next: gadget({ a: 1 }, { status: { s: 2 } }),
      expected: [{ a: 1 }, { s: 1 }, 3],
    },
    {
      name: 'changes count',
      strategy: withStatus,
      next: gadget({ a: 2 }, { status: { s: 2 } }),
      expected: [{ a: 2 }, { s: 1 }, 4],
    },
    {
      name: 'only the status changes',
      strategy: withStatus,
      next: gadget({ a: 2 }, { status: { s: 2 } }),
      subresource: 'status',
      expected: [{ a: 1 }, { s: 2 }, 3],
    },
    {
      name: 'without a status of its own, it is a field like any other',
      strategy: without,
      next: gadget({ a: 1 }, { status: { s: 2 } }),
      expected: [{ a: 1 }, { s: 2 }, 4],
    },
  ];
  for (const { name, strategy, next, subresource = '', expected } of cases) {
    test(name, () => {
      strategy.prepareForUpdate(next, old(), subresource);
      assert.deepEqual([next['spec'], next['status'], next.metadata?.['generation']], expected);
    });
  }

  test('a request for the status changes no metadata', () => {
    const next = gadget({}, { metadata: { name: 'g', namespace: 'a', resourceVersion: '5', labels: { l: '2' } } });
    withStatus.prepareForUpdate(next, old(), 'status');
    assert.deepEqual(next.metadata, {
      name: 'g',
      namespace: 'a',
      resourceVersion: '5',
      generation: 3,
      labels: { l: '1' },
    });
  });

  test('a new object has no status yet', () => {
    const made = gadget({}, { status: { s: 1 } });
    withStatus.prepareForCreate(made);
    assert.deepEqual([Object.hasOwn(made, 'status'), made.metadata?.['generation']], [false, 1]);
  });
});

describe('what would take too long', { timeout: 20_000 }, () => {
  const errorsOf = (properties: object, spec: object, old?: object): string[] => {
    const { strategy } = resourceOf(definition(properties));
    const errors = old ? strategy.validateUpdate(gadget(spec), gadget(old), '') : strategy.validateCreate(gadget(spec));
    return errors.map(formatFieldError);
  };

  test('sets and maps of many items', () => {
    const names = Array.from({ length: 100_000 }, (_, index) => `n${index}`);
    const set = { type: 'array', items: { type: 'string' }, 'x-kubernetes-list-type': 'set' };
    assert.deepEqual(errorsOf({ set }, { set: [...names, 'n5'] }), ['spec.set[100000]: Duplicate value: "n5"']);
    const map = {
      type: 'array',
      items: {
        type: 'object',
        properties: { name: { type: 'string' }, value: { type: 'integer' } },
        'x-kubernetes-validations': [{ rule: 'self.value >= oldSelf.value', message: 'must not fall' }],
      },
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['name'],
    };
    const items = names.map((name) => ({ name }));
    assert.deepEqual(
      errorsOf(
        { map: { ...map, items: { type: 'object', properties: { name: { type: 'string' } } } } },
        { map: [...items, { name: 'n5' }] },
      ),
      ['spec.map[100000]: Duplicate value: {"name":"n5"}'],
    );
    const few = (value: number): object => ({
      map: [
        { name: 'b', value: 1 },
        { name: 'a', value },
      ],
    });
    const before = {
      map: [
        { name: 'a', value: 2 },
        { name: 'b', value: 0 },
      ],
    };
    assert.deepEqual(errorsOf({ map }, few(1), before), ['spec.map[1]: Invalid value: must not fall']);
    assert.deepEqual(errorsOf({ map }, few(3), before), []);
  });

  test('alternatives within alternatives', () => {
    let schema: object = { type: 'string' };
    for (let level = 0; level < 40; level++) schema = { oneOf: [{ maxLength: 0, ...schema }], type: 'object' };
    assert.equal(errorsOf({ text: { ...schema, type: 'string' } }, { text: 'x' }).length > 0, true);
  });

  const budget =
    '<nil>: Invalid value: "object": validation failed due to running out of cost budget, no further validation rules will be run';
  const list = { type: 'array', items: { type: 'string' } };
  for (const [name, rule] of [
    ['loops in loops', 'self.list.all(a, self.list.all(b, self.list.all(c, a + b + c != "x")))'],
    ['a pattern that backtracks', 'self.text.matches("^(a+)+$")'],
  ] as const) {
    test(`rules: ${name}`, () => {
      const spec = { list: Array.from({ length: 2000 }, (_, index) => `${index}`), text: `${'a'.repeat(60)}!` };
      const properties = {
        spec: {
          type: 'object',
          properties: { list, text: { type: 'string' } },
          'x-kubernetes-validations': [{ rule }],
        },
      };
      const { strategy } = resourceOf(definition({}, { root: { properties } }));
      const startMs = performance.now();
      assert.deepEqual(strategy.validateCreate(gadget(spec)).map(formatFieldError), [budget]);
      assert.ok(performance.now() - startMs < 5_000);
    });
  }
});
