import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { applyConfiguration } from '../../../src/dev-cluster/fields/apply.ts';
import { decodeValue } from '../../../src/dev-cluster/fields/decode.ts';
import { fromFieldsV1 } from '../../../src/dev-cluster/fields/field-set.ts';
import { trackUpdate } from '../../../src/dev-cluster/fields/managed-fields.ts';
import { BUILT_IN } from '../../../src/dev-cluster/fields/schema.ts';
import type { ApiObject } from '../../../src/dev-cluster/types.ts';
import { ApiError } from '../../../src/kube/status.ts';
import type { JsonObject } from '../../../src/kube/types.ts';

const resource = {
  group: '',
  version: 'v1',
  kind: 'Pod',
  resource: 'pods',
  schema: BUILT_IN,
  custom: false,
  subresources: ['status'],
};

const texts = fc.constantFrom('a', 'b');
const optional = (model: Record<string, fc.Arbitrary<unknown>>, required: string[] = []): fc.Arbitrary<object> =>
  fc.record(model, { requiredKeys: required });
const keyed = (items: fc.Arbitrary<object>, ...keys: string[]): fc.Arbitrary<object[]> =>
  fc.uniqueArray(items, {
    minLength: 1,
    maxLength: 3,
    selector: (item) => JSON.stringify(keys.map((key) => (item as ApiObject)[key])),
  });
const maps = fc.dictionary(fc.constantFrom('a', 'b', '__proto__'), texts, { minKeys: 1, maxKeys: 2 });

const containers = optional(
  {
    name: texts,
    image: texts,
    args: fc.array(texts, { minLength: 1, maxLength: 2 }),
    env: keyed(optional({ name: texts, value: texts }, ['name']), 'name'),
    ports: keyed(
      optional(
        { containerPort: fc.integer({ min: 1, max: 3 }), protocol: fc.constantFrom('TCP', 'UDP'), name: texts },
        ['containerPort', 'protocol'],
      ),
      'containerPort',
      'protocol',
    ),
    resources: optional({ limits: maps }),
    securityContext: optional({ privileged: fc.boolean(), capabilities: optional({ add: fc.constant(['A']) }) }),
  },
  ['name'],
);

const configs: fc.Arbitrary<ApiObject> = fc
  .record({
    metadata: optional({ labels: maps, finalizers: fc.uniqueArray(texts, { minLength: 1 }) }),
    spec: optional({
      containers: keyed(containers, 'name'),
      volumes: keyed(optional({ name: texts, emptyDir: optional({ medium: texts }) }, ['name']), 'name'),
      nodeSelector: maps,
      hostNetwork: fc.boolean(),
      securityContext: optional({ runAsUser: fc.integer({ min: 0, max: 2 }) }),
    }),
  })
  .map(({ metadata, spec }) => ({ apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, name: 'p' }, spec }));

const RUNS = { numRuns: 200 };

function apply(live: ApiObject | undefined, config: ApiObject, manager: string, force: boolean): ApiObject {
  const now = new Date(0);
  const request = { config, resource, subresource: '', manager, force, now };
  return applyConfiguration(live ? { ...request, live } : request);
}

test('decoding never throws an error, and decoding twice has the same result', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const { object } = decodeValue({ metadata: value, spec: value }, BUILT_IN);
      assert.equal(JSON.stringify(decodeValue(object, BUILT_IN).object), JSON.stringify(object));
    }),
  );
});

suite('after server-side apply of a random configuration,', () => {
  test('applying it again changes nothing', () => {
    fc.assert(
      fc.property(configs, (config) => {
        const once = apply(undefined, config, 'one', false);
        assert.equal(JSON.stringify(apply(once, config, 'one', false)), JSON.stringify(once));
      }),
      RUNS,
    );
  });

  test('another manager can apply the same configuration without a conflict', () => {
    fc.assert(
      fc.property(configs, (config) => {
        const once = apply(undefined, config, 'one', false);
        const twice = apply(once, config, 'two', false);
        assert.deepEqual({ ...twice, metadata: {} }, { ...once, metadata: {} });
      }),
      RUNS,
    );
  });

  test('another manager can force a different configuration', () => {
    fc.assert(
      fc.property(configs, configs, (first, second) => {
        const object = apply(apply(undefined, first, 'one', false), second, 'two', true);
        assert.equal(JSON.stringify(apply(object, second, 'two', false)), JSON.stringify(object));
      }),
      RUNS,
    );
  });

  test('the fields of its only manager are removed when the manager applies an empty configuration', () => {
    fc.assert(
      fc.property(configs, (config) => {
        const empty = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' } };
        const object = apply(apply(undefined, config, 'one', false), empty, 'one', false);
        assert.deepEqual(object['spec'] ?? {}, {});
        assert.deepEqual(object.metadata, { name: 'p' });
      }),
      RUNS,
    );
  });

  test('other configurations cause no errors except conflicts', () => {
    fc.assert(
      fc.property(configs, configs, (first, second) => {
        try {
          apply(apply(undefined, first, 'one', false), second, 'two', false);
        } catch (error) {
          assert.ok(error instanceof ApiError);
          assert.equal(error.status.code, 409);
        }
      }),
      RUNS,
    );
  });
});

test('after random updates, no field has two owners with the Update operation', () => {
  fc.assert(
    fc.property(configs, configs, (first, second) => {
      const track = (object: ApiObject, manager: string, live?: ApiObject): ApiObject => {
        const copy = decodeValue(object, BUILT_IN).object;
        const request = { object: copy, resource, subresource: '', manager, now: new Date(0) };
        trackUpdate(live ? { ...request, live } : request);
        return copy;
      };
      const updated = track(second, 'two', track(first, 'one'));
      const entries = (updated.metadata?.['managedFields'] ?? []) as { fieldsV1: JsonObject }[];
      const [a, b] = entries.map(({ fieldsV1 }) => fromFieldsV1(fieldsV1));
      if (a && b) assert.equal(a.isDisjointFrom(b), true);
    }),
    RUNS,
  );
});
