import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type OwnedResource, trackUpdate } from '../../../src/dev-cluster/fields/managed-fields.ts';
import { BUILT_IN } from '../../../src/dev-cluster/fields/schema.ts';
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

interface Change {
  readonly live?: ApiObject;
  readonly object: ApiObject;
  readonly manager?: string;
  readonly subresource?: string;
}

/** Returns the object with its owners after a change. */
function track({ live, object, manager = 'm', subresource = '' }: Change): ApiObject {
  const copy = structuredClone(object);
  trackUpdate({ ...(live ? { live } : {}), object: copy, resource: PODS, subresource, manager, now: NOW });
  return copy;
}

/** Returns the owners of an object with their operation, subresource and fields. */
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

suite('an update of managed fields', () => {
  const live = track({ object: POD });
  const relabelled = { ...POD, metadata: { name: 'p', labels: { a: '2', b: '1' } } };

  test('by the same manager extends the entry of the manager', () => {
    const [entry, ...others] = owners(track({ live, object: relabelled }));
    assert.deepEqual(others, []);
    assert.match(JSON.stringify(entry), /"f:labels":\{"\.":\{\},"f:a":\{\},"f:b":\{\}\}/);
  });

  test('that removes a field removes its ownership', () => {
    const object = track({ live, object: { ...POD, metadata: { name: 'p' } }, manager: 'n' });
    assert.deepEqual(owners(object), [
      ['m', 'Update', { 'f:spec': { 'f:containers': { 'k:{"name":"c"}': CONTAINER } } }],
    ]);
  });

  test('that changes nothing keeps the owners', () => {
    const object = track({ live, object: POD, manager: 'n' });
    assert.deepEqual(object.metadata?.['managedFields'], live.metadata?.['managedFields']);
  });
});
