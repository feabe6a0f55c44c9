import assert from 'node:assert/strict';
import { describe, suite, test } from 'node:test';
import definition from '../../src/install/definitions/securitycontextconstraints.json' with { type: 'json' };
import { type FieldShape, findShapeErrors } from '../../src/kube/field-shape.ts';
import { parseIdBlock, parseIdBlocks, SCC_FIELDS, USER_NAMESPACE_LEVELS } from '../../src/kube/scc.ts';
import { decodeScc, defaultScc, findSccTypeError } from '../../src/policy/scc/index.ts';

interface Schema {
  readonly type?: string;
  readonly format?: string;
  readonly nullable?: boolean;
  readonly enum?: readonly string[];
  readonly default?: string;
  readonly 'x-kubernetes-list-type'?: string;
  readonly items?: Schema;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly description?: string;
}

const schema: Schema | undefined = definition.spec.versions[0]?.schema.openAPIV3Schema;
const schemas = new Map(Object.entries(schema?.properties ?? {}).filter(([name]) => Object.hasOwn(SCC_FIELDS, name)));

function getShape({ type, format, items, properties }: Schema): FieldShape {
  if (type === 'array') return [getShape(items ?? {})];
  if (type !== 'object') return (format ?? type) as FieldShape;
  return Object.fromEntries(Object.entries(properties ?? {}).map(([name, own]) => [name, getShape(own)]));
}

function* getAll(name: string, own: Schema): Generator<readonly [string, Schema]> {
  yield [name, own];
  if (own.items) yield* getAll(`${name}[]`, own.items);
  for (const [inner, of] of Object.entries(own.properties ?? {})) yield* getAll(`${name}.${inner}`, of);
}

const all = [...schemas].flatMap(([name, own]) => [...getAll(name, own)]);

describe('the SCC CRD', () => {
  test('contains SCC_FIELDS and the fields of every object', () => {
    assert.deepEqual(Object.fromEntries([...schemas].map(([name, own]) => [name, getShape(own)])), SCC_FIELDS);
    assert.deepEqual(
      Object.keys(schema?.properties ?? {}).filter((name) => !schemas.has(name)),
      ['apiVersion', 'kind', 'metadata'],
    );
  });

  test('has a description of each field', () => {
    const silent = all.filter(([name, { description = '' }]) => !name.endsWith('[]') && description === '');
    assert.deepEqual(
      silent.map(([name]) => name),
      [],
    );
  });

  test('has only atomic lists', () => {
    const lists = all.filter(([, { type }]) => type === 'array');
    assert.ok(lists.length > 10);
    for (const [name, list] of lists) assert.equal(list['x-kubernetes-list-type'], 'atomic', name);
  });

  test('accepts null for all fields except the listed ones', () => {
    const strict = [...schemas].filter(([, { nullable }]) => nullable !== true).map(([name]) => name);
    assert.deepEqual(strict, [
      'allowPrivilegedContainer',
      'allowHostDirVolumePlugin',
      'allowHostNetwork',
      'allowHostPorts',
      'allowHostPID',
      'allowHostIPC',
      'userNamespaceLevel',
      'readOnlyRootFilesystem',
    ]);
  });

  test('requires only fields with defaults', () => {
    const given = Object.keys(defaultScc({}));
    assert.equal(schema?.required?.length, 12);
    assert.deepEqual(
      schema.required.filter((name) => !given.includes(name)),
      [],
    );
  });

  test('has the user namespace levels and the default level of the source code', () => {
    const level = schemas.get('userNamespaceLevel');
    assert.deepEqual(level?.enum, USER_NAMESPACE_LEVELS);
    assert.equal(level?.default, USER_NAMESPACE_LEVELS[0]);
  });
});

/** Generates objects with a value of the wrong type at each position in a shape. */
function* wrongValues(shape: FieldShape): Generator {
  yield typeof shape === 'string' && shape !== 'boolean' ? true : 'x';
  if (typeof shape === 'string') return;
  if (Array.isArray(shape)) {
    for (const item of wrongValues((shape as readonly [FieldShape])[0])) yield [item];
    yield [null];
    return;
  }
  for (const [name, own] of Object.entries(shape)) for (const value of wrongValues(own)) yield { [name]: value };
}

test('decisions read only SCC_FIELDS and the name of an SCC', () => {
  const derived = ['allowsAnySeccompProfile'];
  const read = Object.keys(decodeScc({}).fields).filter((name) => !derived.includes(name));
  assert.deepEqual(read.sort(), ['name', ...Object.keys(SCC_FIELDS)].sort());
});

describe('a value matches the schema if and only if decisions can read it', () => {
  for (const [name, shape] of Object.entries(SCC_FIELDS)) {
    test(name, () => {
      for (const value of wrongValues(shape)) {
        const scc = { [name]: value };
        assert.equal(findShapeErrors(scc, SCC_FIELDS).length, 1, JSON.stringify(scc));
        assert.notEqual(findSccTypeError(scc), undefined, JSON.stringify(scc));
      }
      for (const value of [null, undefined]) {
        assert.deepEqual(findShapeErrors({ [name]: value }, SCC_FIELDS), []);
        assert.equal(findSccTypeError({ [name]: value }), undefined);
      }
    });
  }
});

describe('findShapeErrors returns the errors in', () => {
  const shape: FieldShape = { a: 'int32', b: ['string'], c: { d: 'boolean' }, e: [{ f: 'int64' }], g: 'any' };
  const cases: readonly (readonly [json: string, expected: string])[] = [
    ['null', ''],
    ['{}', ''],
    ['{"a":2147483647,"b":[],"c":{},"e":[{}],"g":[{}]}', ''],
    ['[]', ': wrong type'],
    ['{"a":2147483648}', 'a: wrong type'],
    ['{"a":-2147483649}', 'a: wrong type'],
    ['{"e":[{"f":9223372036854775807},{"f":1e19},{"f":0.5}]}', 'e.1.f: wrong type, e.2.f: wrong type'],
    ['{"b":["x",null,1]}', 'b.1: wrong type, b.2: wrong type'],
    ['{"b":{}}', 'b: wrong type'],
    ['{"e":[null]}', 'e.0: wrong type'],
    ['{"c":{"d":1,"x":1},"y":1}', 'c.d: wrong type, c.x: one of d, y: one of a b c e g'],
    ['{"__proto__":{},"constructor":1}', '__proto__: one of a b c e g, constructor: one of a b c e g'],
  ];
  for (const [json, expected] of cases) {
    test(json, () => {
      const problems = findShapeErrors(JSON.parse(json), shape).map(
        (one) => `${one.path.join('.')}: ${'known' in one ? `one of ${one.known.join(' ')}` : 'wrong type'}`,
      );
      assert.equal(problems.join(', '), expected);
    });
  }
});

suite('parseIdBlock returns the block or the error for', () => {
  const cases: readonly (readonly [text: string, expected: unknown])[] = [
    ['1000660000/10000', { value: { min: 1_000_660_000, max: 1_000_669_999 } }],
    ['1000-1999', { value: { min: 1000, max: 1999 } }],
    [' 1-\t2', { value: { min: 1, max: 2 } }],
    ['1/3 and more', { value: { min: 1, max: 3 } }],
    ['5/0', { value: { min: 5, max: 4 } }],
    ['4294967295/2', { value: { min: 4_294_967_295, max: 0 } }],
    ['9-1', { value: { min: 9, max: 1 } }],
    ['', { error: 'unexpected EOF' }],
    ['1', { error: 'unexpected EOF' }],
    ['1/', { error: 'unexpected EOF' }],
    ['1:2', { error: 'input does not match format' }],
    ['1 -2', { error: 'input does not match format' }],
    ['-1-2', { error: 'expected integer' }],
    ['1-x', { error: 'expected integer' }],
    ['4294967296/1', { error: 'unsigned integer overflow on token 4294967296' }],
  ];
  for (const [text, expected] of cases) {
    test(JSON.stringify(text), () => assert.deepEqual(parseIdBlock(text), expected));
  }

  test('several blocks, up to the first error', () => {
    assert.deepEqual(parseIdBlocks('1/2,5-5'), {
      value: [
        { min: 1, max: 2 },
        { min: 5, max: 5 },
      ],
    });
    assert.deepEqual(parseIdBlocks('1/2,,x'), { error: 'unexpected EOF' });
  });
});

suite('values that OpenShift drops when it stores an SCC are treated as absent', () => {
  const cases: readonly (readonly [stored: string, given: object, absent: object])[] = [
    ['seccompProfiles: []', { seccompProfiles: [] }, {}],
    ['allowedUnsafeSysctls: []', { allowedUnsafeSysctls: [] }, {}],
    ['forbiddenSysctls: []', { forbiddenSysctls: [] }, {}],
    ['allowedFlexVolumes: []', { allowedFlexVolumes: [] }, {}],
    ['userNamespaceLevel: ""', { userNamespaceLevel: '' }, {}],
    ['runAsUser.type: ""', { runAsUser: { type: '' } }, { runAsUser: {} }],
    ['ranges: []', { fsGroup: { type: 'RunAsAny', ranges: [] } }, { fsGroup: { type: 'RunAsAny' } }],
    ['ranges[].min: 0', { fsGroup: { ranges: [{ min: 0, max: 5 }] } }, { fsGroup: { ranges: [{ max: 5 }] } }],
    ['ranges[].max: 0', { fsGroup: { ranges: [{ min: 0, max: 0 }] } }, { fsGroup: { ranges: [{}] } }],
  ];
  for (const [stored, given, absent] of cases) {
    test(stored, () => assert.deepEqual(decodeScc(given), decodeScc(absent)));
  }
});
