import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { applyConfiguration } from '../../../src/dev-cluster/fields/apply.ts';
import { type OwnedResource, trackUpdate } from '../../../src/dev-cluster/fields/managed-fields.ts';
import { BUILT_IN, customResourceSchema } from '../../../src/dev-cluster/fields/schema.ts';
import type { ApiObject } from '../../../src/dev-cluster/types.ts';
import { ApiError, type Status } from '../../../src/kube/status.ts';

const resource: OwnedResource = {
  group: 'apps',
  version: 'v1',
  kind: 'Deployment',
  resource: 'deployments',
  schema: BUILT_IN,
  custom: false,
  subresources: ['status'],
};
const NOW = new Date('2026-01-01T00:00:00Z');

interface Options {
  readonly manager?: string;
  readonly force?: boolean;
  readonly now?: Date;
}

/** Returns a Deployment with the given spec fields. */
function specOnly(spec: object): ApiObject {
  return { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'd' }, spec };
}

/** Returns a Deployment with the given labels and spec fields. */
function config(labels: Record<string, string>, spec?: object): ApiObject {
  return { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'd', labels }, ...(spec ? { spec } : {}) };
}

function apply(
  live: ApiObject | undefined,
  applied: ApiObject,
  { manager = 'one', force = false, now = NOW }: Options = {},
): ApiObject {
  const request = { config: applied, resource, subresource: '', manager, force, now };
  return applyConfiguration(live ? { ...request, live } : request);
}

function update(live: ApiObject | undefined, object: ApiObject, manager: string): ApiObject {
  const copy = structuredClone(object);
  trackUpdate({ ...(live ? { live } : {}), object: copy, resource, subresource: '', manager, now: NOW });
  return copy;
}

function refusal(act: () => unknown): Status {
  try {
    act();
  } catch (error) {
    assert.ok(error instanceof ApiError);
    return error.status;
  }
  return assert.fail('no error was thrown');
}

const getLabels = (object: ApiObject): unknown => object.metadata?.['labels'];
const getEntries = (object: ApiObject): Record<string, unknown>[] =>
  (object.metadata?.['managedFields'] ?? []) as Record<string, unknown>[];

suite('server-side apply of labels', () => {
  const created = apply(undefined, config({ a: 'one', b: 'one' }));

  test('groups conflicts by manager', () => {
    const three = update(
      created,
      { ...created, metadata: { ...created.metadata, labels: { a: 'one', b: 'three' } } },
      'three',
    );
    const { code, message } = refusal(() => apply(three, config({ a: 'x', b: 'x' }), { manager: 'two' }));
    assert.equal(code, 409);
    assert.equal(
      message,
      'Apply failed with 2 conflicts: conflicts with "one":\n- .metadata.labels.a\nconflicts with "three" using apps/v1:\n- .metadata.labels.b',
    );
  });

  test('keeps a field that its manager no longer applies if another manager owns it', () => {
    const shared = apply(created, config({ b: 'one' }), { manager: 'two' });
    assert.deepEqual(getLabels(apply(shared, config({ a: 'one' }))), { a: 'one', b: 'one' });
  });
});

suite('server-side apply of lists', () => {
  const spec = (...containers: object[]): object => ({ template: { spec: { containers } } });
  const getContainers = (object: ApiObject): unknown =>
    (object['spec'] as { template: { spec: { containers: unknown } } }).template.spec.containers;
  const live = apply(undefined, specOnly(spec({ name: 'a', image: 'a' }, { name: 'b', image: 'b' })));

  test('merges items by their key', () => {
    const object = apply(live, specOnly(spec({ name: 'b', command: ['x'] })), { manager: 'two' });
    assert.deepEqual(getContainers(object), [
      { name: 'a', image: 'a' },
      { name: 'b', image: 'b', command: ['x'] },
    ]);
  });

  test('orders items as in the configuration', () => {
    const object = apply(
      live,
      specOnly(spec({ name: 'b', image: 'b' }, { name: 'c', image: 'c' }, { name: 'a', image: 'a' })),
    );
    assert.deepEqual(
      (getContainers(object) as { name: string }[]).map(({ name }) => name),
      ['b', 'c', 'a'],
    );
  });

  test('names the item of a conflict', () => {
    const status = refusal(() => apply(live, specOnly(spec({ name: 'a', image: 'x' })), { manager: 'two' }));
    assert.equal(
      status.message,
      'Apply failed with 1 conflict: conflict with "one": .spec.template.spec.containers[name="a"].image',
    );
  });

  test('merges items by two keys', () => {
    const port = { containerPort: 80, protocol: 'UDP' };
    const object = apply(undefined, specOnly(spec({ name: 'a', ports: [port, { containerPort: 80 }] })));
    const fields = JSON.stringify(getEntries(object)[0]?.['fieldsV1']);
    assert.match(fields, /k:\{\\"containerPort\\":80,\\"protocol\\":\\"TCP\\"\}/);
    assert.match(fields, /k:\{\\"containerPort\\":80,\\"protocol\\":\\"UDP\\"\}/);
  });

  test('treats a selector as a single field with one owner', () => {
    const object = apply(undefined, specOnly({ selector: { matchLabels: { a: 'b' } } }));
    assert.deepEqual(getEntries(object)[0]?.['fieldsV1'], { 'f:spec': { 'f:selector': {} } });
  });
});

test('server-side apply rejects a configuration of another kind', () => {
  const { code, message } = refusal(() => apply(undefined, { ...config({}), kind: 'Pod', apiVersion: 'v1' }));
  assert.deepEqual([code, message], [400, 'invalid object type: /v1, Kind=Pod']);
});

suite('server-side apply of custom resources', () => {
  const schema = customResourceSchema({
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
  const widgets = { group: 'example.com', version: 'v1', kind: 'Widget', resource: 'widgets', schema };
  const applyWidget = (spec: object, live?: ApiObject, manager = 'one'): ApiObject => {
    const request = {
      config: { apiVersion: 'example.com/v1', kind: 'Widget', metadata: { name: 'w' }, spec },
      resource: { ...widgets, custom: true, subresources: ['status'] },
      subresource: '',
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
    ['open objects', { open: { a: { b: [1] } } }, { 'f:open': { 'f:a': { 'f:b': {} } } }],
    ['ints or strings', { port: 'http' }, { 'f:port': {} }],
  ];
  for (const [name, spec, fields] of cases) {
    test(`sets the owners of ${name}`, () => {
      const object = applyWidget(spec);
      assert.deepEqual(object['spec'], spec);
      assert.deepEqual(getEntries(object)[0]?.['fieldsV1'], { 'f:spec': fields });
    });
  }

  test('merges sets', () => {
    const object = applyWidget({ set: ['c', 'a'] }, applyWidget({ set: ['a', 'b'] }), 'two');
    assert.deepEqual(object['spec'], { set: ['c', 'a', 'b'] });
  });
});
