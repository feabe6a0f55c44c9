import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { fieldManagerName, trackUpdate, type OwnedResource } from '../../../src/dev-cluster/fields/managed-fields.ts';
import { BUILT_IN, customResourceSchema } from '../../../src/dev-cluster/fields/schema.ts';
import type { ApiObject } from '../../../src/dev-cluster/types.ts';

const NOW = new Date('2026-01-01T00:00:00.900Z');
const PODS: OwnedResource = {
  group: '',
  version: 'v1',
  kind: 'Pod',
  resource: 'pods',
  schema: BUILT_IN,
  custom: false,
  subresources: ['status'],
};

const schema = customResourceSchema({
  type: 'object',
  properties: {
    spec: { type: 'object', properties: { mode: { type: 'string' } } },
    status: { type: 'object', properties: { mode: { type: 'string' } } },
  },
});

const WIDGETS: OwnedResource = { ...PODS, group: 'example.com', resource: 'widgets', schema, custom: true };

interface Change {
  readonly live?: ApiObject;
  readonly object: ApiObject;
  readonly manager?: string;
  readonly subresource?: string;
  readonly resource?: OwnedResource;
  readonly now?: Date;
}

/** The object with its owners after a change. */
function track({ live, object, manager = 'm', subresource = '', resource = PODS, now = NOW }: Change): ApiObject {
  const copy = structuredClone(object);
  trackUpdate({ ...(live ? { live } : {}), object: copy, resource, subresource, manager, now });
  return copy;
}

/** The owners of an object: name, operation, subresource and fields. */
function owners(object: ApiObject): unknown[] {
  return ((object.metadata?.['managedFields'] ?? []) as Record<string, unknown>[]).map((entry) =>
    [entry['manager'], entry['operation'], entry['subresource'], entry['fieldsV1']].filter(
      (part) => part !== undefined,
    ),
  );
}

const POD: ApiObject = {
  kind: 'Pod',
  apiVersion: 'v1',
  metadata: { name: 'p', labels: { a: '1' } },
  spec: { containers: [{ name: 'c', image: 'i', resources: {} }] },
  status: {},
};

const CONTAINER = { '.': {}, 'f:image': {}, 'f:name': {}, 'f:resources': {} };

suite('a create', () => {
  test('of a custom resource sets the owner of its spec', () => {
    const object = { kind: 'Widget', apiVersion: 'example.com/v1', metadata: { name: 'w' }, spec: { mode: 'a' } };
    assert.deepEqual(owners(track({ object, resource: WIDGETS })), [
      ['m', 'Update', { 'f:spec': { '.': {}, 'f:mode': {} } }],
    ]);
  });
});

suite('an update', () => {
  const live = track({ object: POD });
  const relabelled = { ...POD, metadata: { name: 'p', labels: { a: '2', b: '1' } } };

  test('by the same manager extends its entry', () => {
    const [entry, ...others] = owners(track({ live, object: relabelled }));
    assert.deepEqual(others, []);
    assert.match(JSON.stringify(entry), /"f:labels":\{"\.":\{\},"f:a":\{\},"f:b":\{\}\}/);
  });

  test('without a field removes the owner of the field', () => {
    const object = track({ live, object: { ...POD, metadata: { name: 'p' } }, manager: 'n' });
    assert.deepEqual(owners(object), [
      ['m', 'Update', { 'f:spec': { 'f:containers': { 'k:{"name":"c"}': CONTAINER } } }],
    ]);
  });

  test('without a change keeps owners and times', () => {
    const object = track({ live, object: POD, manager: 'n', now: new Date('2027-01-01') });
    assert.deepEqual(object.metadata?.['managedFields'], live.metadata?.['managedFields']);
  });

  test('replaces the owners with those in the request', () => {
    const managedFields = [
      {
        manager: 'x',
        operation: 'Apply',
        apiVersion: 'v1',
        fieldsType: 'FieldsV1',
        fieldsV1: { 'f:metadata': { 'f:labels': { 'f:a': {} } } },
      },
    ];
    const object = { ...POD, metadata: { ...POD.metadata, managedFields } };
    assert.deepEqual(owners(track({ live, object })), [
      ['x', 'Apply', { 'f:metadata': { 'f:labels': { 'f:a': {} } } }],
    ]);
  });

  test('of an object without owners adds no owners', () => {
    assert.deepEqual(owners(track({ live: POD, object: relabelled })), []);
  });
});

suite('names of managers', () => {
  const cases: [fieldManager: string | undefined, userAgent: string | undefined, expected: string][] = [
    ['kubectl-create', 'kubectl/v1.32.4', 'kubectl-create'],
    [undefined, 'kubectl/v1.32.4 (linux/amd64)', 'kubectl'],
    [undefined, 'a\u0000b\u200bc/1', 'abc'],
    [undefined, undefined, 'unknown'],
    [undefined, 'é'.repeat(100), 'é'.repeat(64)],
  ];
  for (const [fieldManager, userAgent, expected] of cases) {
    test(`${fieldManager ?? 'none'} and ${JSON.stringify(userAgent)}`, () => {
      assert.equal(fieldManagerName(fieldManager, userAgent), expected);
    });
  }
});
