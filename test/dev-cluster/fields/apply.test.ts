import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import {
  applyConfiguration,
  decodeConfiguration,
  loadSchemas,
  trackUpdate,
  typeOfCrdSchema,
  type OwnedResource,
} from '../../../src/dev-cluster/fields/index.ts';
import type { ApiObject } from '../../../src/dev-cluster/types.ts';
import { ApiError, type Status } from '../../../src/kube/status.ts';

const schemas = loadSchemas();
const kind = { group: 'apps', version: 'v1', kind: 'Deployment' };
const deploymentType = schemas.typeOf(kind);
assert.ok(deploymentType);
const type = deploymentType;
const resource: OwnedResource = {
  group: 'apps',
  version: 'v1',
  resource: 'deployments',
  custom: false,
  subresources: ['status'],
};
const NOW = new Date('2026-01-01T00:00:00Z');

interface Options {
  readonly manager?: string;
  readonly force?: boolean;
  readonly now?: Date;
}

/** A deployment with the given fields of its spec. */
function specOnly(spec: object): ApiObject {
  return { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'd' }, spec };
}

/** A deployment with the given labels and fields of its spec. */
function config(labels: Record<string, string>, spec?: object): ApiObject {
  return { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'd', labels }, ...(spec ? { spec } : {}) };
}

function apply(
  live: ApiObject | undefined,
  applied: ApiObject,
  { manager = 'one', force = false, now = NOW }: Options = {},
): ApiObject {
  const request = { config: applied, kind, resource, subresource: '', type, manager, force, now };
  return applyConfiguration(live ? { ...request, live } : request);
}

function update(live: ApiObject | undefined, object: ApiObject, manager: string): ApiObject {
  const copy = structuredClone(object);
  trackUpdate({ ...(live ? { live } : {}), object: copy, resource, subresource: '', type, manager, now: NOW });
  return copy;
}

function refusal(act: () => unknown): Status {
  try {
    act();
  } catch (error) {
    assert.ok(error instanceof ApiError);
    return error.status;
  }
  return assert.fail('nothing was thrown');
}

const labelsOf = (object: ApiObject): unknown => object.metadata?.['labels'];
const entriesOf = (object: ApiObject): Record<string, unknown>[] =>
  (object.metadata?.['managedFields'] ?? []) as Record<string, unknown>[];
const ownersOf = (object: ApiObject): unknown[] =>
  entriesOf(object).map(({ manager, operation, fieldsV1 }) => [manager, operation, fieldsV1]);
const labelFields = (...names: string[]): object => ({
  'f:metadata': { 'f:labels': Object.fromEntries(names.map((name) => [`f:${name}`, {}])) },
});

suite('labels', () => {
  const created = apply(undefined, config({ a: 'one', b: 'one' }));

  test('an apply creates and owns what it says', () => {
    assert.deepEqual(labelsOf(created), { a: 'one', b: 'one' });
    assert.deepEqual(entriesOf(created), [
      {
        manager: 'one',
        operation: 'Apply',
        apiVersion: 'apps/v1',
        time: '2026-01-01T00:00:00Z',
        fieldsType: 'FieldsV1',
        fieldsV1: labelFields('a', 'b'),
      },
    ]);
  });

  test('another manager adds its own', () => {
    const object = apply(created, config({ c: 'two' }), { manager: 'two' });
    assert.deepEqual(labelsOf(object), { a: 'one', b: 'one', c: 'two' });
    assert.deepEqual(ownersOf(object), [
      ['one', 'Apply', labelFields('a', 'b')],
      ['two', 'Apply', labelFields('c')],
    ]);
  });

  test('the same value is shared', () => {
    const object = apply(created, config({ a: 'one' }), { manager: 'two' });
    // It has not changed anything, so it has no time, and comes first.
    assert.deepEqual(ownersOf(object), [
      ['two', 'Apply', labelFields('a')],
      ['one', 'Apply', labelFields('a', 'b')],
    ]);
    assert.equal(entriesOf(object)[0]?.['time'], undefined);
  });

  test('one conflict', () => {
    assert.deepEqual(
      refusal(() => apply(created, config({ a: 'two' }), { manager: 'two' })),
      {
        metadata: {},
        status: 'Failure',
        message: 'Apply failed with 1 conflict: conflict with "one": .metadata.labels.a',
        reason: 'Conflict',
        details: {
          causes: [{ reason: 'FieldManagerConflict', message: 'conflict with "one"', field: '.metadata.labels.a' }],
        },
        code: 409,
      },
    );
  });

  test('conflicts with several managers', () => {
    const three = update(
      created,
      { ...created, metadata: { ...created.metadata, labels: { a: 'one', b: 'three' } } },
      'three',
    );
    const status = refusal(() => apply(three, config({ a: 'x', b: 'x' }), { manager: 'two' }));
    assert.equal(
      status.message,
      'Apply failed with 2 conflicts: conflicts with "one":\n- .metadata.labels.a\nconflicts with "three" using apps/v1:\n- .metadata.labels.b',
    );
  });

  test('force takes over', () => {
    const object = apply(created, config({ a: 'two', b: 'two' }), { manager: 'two', force: true });
    assert.deepEqual(ownersOf(object), [['two', 'Apply', labelFields('a', 'b')]]);
  });

  test('what is given up goes', () => {
    const object = apply(created, config({ a: 'one' }));
    assert.deepEqual([labelsOf(object), ownersOf(object)], [{ a: 'one' }, [['one', 'Apply', labelFields('a')]]]);
  });

  test('what is given up stays while somebody else owns it', () => {
    const shared = apply(created, config({ b: 'one' }), { manager: 'two' });
    assert.deepEqual(labelsOf(apply(shared, config({ a: 'one' }))), { a: 'one', b: 'one' });
  });

  test('an apply that changes nothing keeps its time', () => {
    const object = apply(created, config({ a: 'one', b: 'one' }), { now: new Date('2030-01-01') });
    assert.deepEqual(object, created);
  });

  test('an update takes a label away from its applier', () => {
    const object = update(
      created,
      { ...created, metadata: { ...created.metadata, labels: { a: 'x', b: 'one' } } },
      'kubectl-label',
    );
    assert.deepEqual(ownersOf(object), [
      ['one', 'Apply', labelFields('b')],
      ['kubectl-label', 'Update', labelFields('a')],
    ]);
  });

  test('what was there before the first apply belongs to nobody by name', () => {
    const untracked = config({ a: 'one' });
    const object = apply(untracked, config({ b: 'one' }));
    assert.deepEqual(ownersOf(object), [
      ['one', 'Apply', labelFields('b')],
      ['before-first-apply', 'Update', { 'f:metadata': { 'f:labels': { '.': {}, 'f:a': {} } } }],
    ]);
  });
});

suite('lists', () => {
  const spec = (...containers: object[]): object => ({ template: { spec: { containers } } });
  const containersOf = (object: ApiObject): unknown =>
    (object['spec'] as { template: { spec: { containers: unknown } } }).template.spec.containers;
  const live = apply(undefined, specOnly(spec({ name: 'a', image: 'a' }, { name: 'b', image: 'b' })));

  test('items join by their keys', () => {
    const object = apply(live, specOnly(spec({ name: 'b', command: ['x'] })), { manager: 'two' });
    assert.deepEqual(containersOf(object), [
      { name: 'a', image: 'a', resources: {} },
      { name: 'b', image: 'b', command: ['x'], resources: {} },
    ]);
  });

  test('an item that is given up goes', () => {
    assert.deepEqual(containersOf(apply(live, specOnly(spec({ name: 'b', image: 'b' })))), [
      { name: 'b', image: 'b', resources: {} },
    ]);
  });

  test('items come in the order of the configuration', () => {
    const object = apply(
      live,
      specOnly(spec({ name: 'b', image: 'b' }, { name: 'c', image: 'c' }, { name: 'a', image: 'a' })),
    );
    assert.deepEqual(
      (containersOf(object) as { name: string }[]).map(({ name }) => name),
      ['b', 'c', 'a'],
    );
  });

  test('a conflict names the item', () => {
    const status = refusal(() => apply(live, specOnly(spec({ name: 'a', image: 'x' })), { manager: 'two' }));
    assert.equal(
      status.message,
      'Apply failed with 1 conflict: conflict with "one": .spec.template.spec.containers[name="a"].image',
    );
  });

  test('an item has two keys', () => {
    const port = { containerPort: 80, protocol: 'UDP' };
    const object = apply(undefined, specOnly(spec({ name: 'a', ports: [port, { containerPort: 80 }] })));
    const fields = JSON.stringify(entriesOf(object)[0]?.['fieldsV1']);
    assert.match(fields, /k:\{\\"containerPort\\":80,\\"protocol\\":\\"TCP\\"\}/);
    assert.match(fields, /k:\{\\"containerPort\\":80,\\"protocol\\":\\"UDP\\"\}/);
  });

  test('a selector is owned as a whole', () => {
    const object = apply(undefined, specOnly({ selector: { matchLabels: { a: 'b' } } }));
    assert.deepEqual(entriesOf(object)[0]?.['fieldsV1'], { 'f:spec': { 'f:selector': {} } });
  });
});

suite('what kubectl applied from the client before', () => {
  const last = JSON.stringify(config({ a: 'one' }));
  const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': last };
  const object = {
    ...config({ a: 'one', b: 'x' }),
    metadata: { name: 'd', labels: { a: 'one', b: 'x' }, annotations },
  };
  const live = update(undefined, object, 'kubectl-client-side-apply');

  test('kubectl may change', () => {
    const applied = apply(live, config({ a: 'two' }), { manager: 'kubectl' });
    assert.deepEqual(labelsOf(applied), { a: 'two', b: 'x' });
  });

  test('and the annotation follows', () => {
    const applied = apply(live, config({ a: 'two' }), { manager: 'kubectl' });
    assert.deepEqual(applied.metadata?.['annotations'], {
      'kubectl.kubernetes.io/last-applied-configuration':
        '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"a":"two"},"name":"d"}}\n',
    });
  });

  test('but not what it did not apply', () => {
    const status = refusal(() => apply(live, config({ a: 'two', b: 'two' }), { manager: 'kubectl' }));
    assert.equal(
      status.message,
      'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using apps/v1: .metadata.labels.b',
    );
  });

  test('nor may others', () => {
    assert.equal(refusal(() => apply(live, config({ a: 'two' }), { manager: 'helm' })).code, 409);
  });
});

suite('configurations that are refused', () => {
  const typed = 'failed to create typed patch object (/d; apps/v1, Kind=Deployment): ';
  const cases: [name: string, config: ApiObject, code: number, message: string][] = [
    ['of another kind', { ...config({}), kind: 'Pod', apiVersion: 'v1' }, 400, 'invalid object type: /v1, Kind=Pod'],
    ['of no kind', { metadata: { name: 'd' } }, 400, 'invalid object type: /, Kind='],
    [
      'with owners',
      { ...config({}), metadata: { name: 'd', managedFields: [] } },
      400,
      'metadata.managedFields must be nil',
    ],
    ['with an unknown field', specOnly({ bogus: 1 }), 500, `${typed}.spec.bogus: field not declared in schema`],
    [
      'with values of wrong types',
      specOnly({ replicas: 'x', paused: 1, template: [] }),
      500,
      `${typed}errors:\n  .spec.replicas: expected numeric (int or float), got string\n  .spec.paused: expected boolean, got &{1}\n  .spec.template: expected map, got &{[]}`,
    ],
    [
      'with items that cannot be told apart',
      specOnly({ template: { spec: { volumes: [{ name: 'v' }, { name: 'v' }] } } }),
      500,
      `${typed}.spec.template.spec.volumes: duplicate entries for key [name="v"]`,
    ],
    [
      'with an item without its key',
      { ...config({}), metadata: { name: 'd', ownerReferences: [null] } },
      500,
      `${typed}.metadata.ownerReferences: element 0: associative list with keys may not have a null element`,
    ],
    [
      'with a time that is none',
      { ...config({}), metadata: { name: 'd', deletionTimestamp: 'x' } },
      500,
      'failed to convert new object (/d; apps/v1, Kind=Deployment) to proper version: unable to convert unstructured object to apps/v1, Kind=Deployment: parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
    ],
  ];
  for (const [name, applied, code, message] of cases) {
    test(name, () => {
      const status = refusal(() => apply(undefined, applied));
      assert.deepEqual([status.code, status.message], [code, message]);
    });
  }
});

suite('custom resources', () => {
  const widgetKind = { group: 'example.com', version: 'v1', kind: 'Widget' };
  const widgets: OwnedResource = { ...widgetKind, resource: 'widgets', custom: true, subresources: ['status'] };
  const widgetType = typeOfCrdSchema({
    type: 'object',
    properties: {
      spec: {
        type: 'object',
        properties: {
          set: { type: 'array', items: { type: 'string' }, 'x-kubernetes-list-type': 'set' },
          map: {
            type: 'array',
            items: { type: 'object', properties: { id: { type: 'integer' }, v: { type: 'string' } } },
            'x-kubernetes-list-type': 'map',
            'x-kubernetes-list-map-keys': ['id'],
          },
          plain: { type: 'array', items: { type: 'string' } },
          atom: { type: 'object', 'x-kubernetes-map-type': 'atomic', additionalProperties: { type: 'string' } },
          open: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
          port: { 'x-kubernetes-int-or-string': true },
        },
      },
    },
  });
  const applyWidget = (spec: object, live?: ApiObject, manager = 'one'): ApiObject => {
    const request = {
      config: { apiVersion: 'example.com/v1', kind: 'Widget', metadata: { name: 'w' }, spec },
      kind: widgetKind,
      resource: widgets,
      subresource: '',
      type: widgetType,
      manager,
      force: false,
      now: NOW,
    };
    return applyConfiguration(live ? { ...request, live } : request);
  };
  const cases: [name: string, spec: object, fields: object][] = [
    ['sets', { set: ['a', 'b'] }, { 'f:set': { 'v:"a"': {}, 'v:"b"': {} } }],
    ['lists by key', { map: [{ id: 1, v: 'x' }] }, { 'f:map': { 'k:{"id":1}': { '.': {}, 'f:id': {}, 'f:v': {} } } }],
    ['plain lists', { plain: ['a'] }, { 'f:plain': {} }],
    ['atomic maps', { atom: { a: 'b' } }, { 'f:atom': {} }],
    ['open objects', { open: { a: { b: [1] } } }, { 'f:open': { 'f:a': { '.': {}, 'f:b': {} } } }],
    ['ints or strings', { port: 'http' }, { 'f:port': {} }],
  ];
  for (const [name, spec, fields] of cases) {
    test(`own ${name}`, () => {
      const object = applyWidget(spec);
      assert.deepEqual(object['spec'], spec);
      assert.deepEqual(entriesOf(object)[0]?.['fieldsV1'], { 'f:spec': fields });
    });
  }

  test('sets join', () => {
    const object = applyWidget({ set: ['c', 'a'] }, applyWidget({ set: ['a', 'b'] }), 'two');
    assert.deepEqual(object['spec'], { set: ['c', 'a', 'b'] });
  });
});

suite('bodies of an apply', () => {
  test('are YAML or JSON', () => {
    const expected = { kind: 'Pod', metadata: { name: 'p' } };
    for (const text of ['kind: Pod\nmetadata:\n  name: p\n', '{"kind":"Pod","metadata":{"name":"p"}}']) {
      assert.deepEqual(decodeConfiguration({ text, fieldValidation: 'Strict' }), { object: expected, warnings: [] });
    }
  });

  test('that are no objects are refused', () => {
    const status = refusal(() => decodeConfiguration({ text: '[1]', fieldValidation: 'Ignore' }));
    assert.deepEqual(
      [status.code, status.message],
      [
        400,
        'error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}',
      ],
    );
  });

  test('that are broken are refused with their line', () => {
    const status = refusal(() => decodeConfiguration({ text: 'a: 1\nb: [', fieldValidation: 'Ignore' }));
    assert.match(status.message, /^error decoding YAML: error converting YAML to JSON: yaml: line 2: /);
  });

  test('with a key that comes twice', () => {
    const text = 'a: 1\na: 2\n';
    const duplicate = 'error converting YAML to JSON: yaml: unmarshal errors:\n  line 2: key "a" already set in map';
    assert.deepEqual(decodeConfiguration({ text, fieldValidation: 'Warn' }).warnings, [duplicate]);
    assert.deepEqual(decodeConfiguration({ text, fieldValidation: 'Ignore' }).warnings, []);
    const status = refusal(() => decodeConfiguration({ text, fieldValidation: 'Strict' }));
    assert.equal(status.message, `error strict decoding YAML: ${duplicate}`);
  });
});
