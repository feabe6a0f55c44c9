import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { decodeValue } from '../../../src/dev-cluster/fields/decode-value.ts';
import {
  applyConfiguration,
  loadSchemas,
  trackUpdate,
  type FieldType,
  type ObjectType,
} from '../../../src/dev-cluster/fields/index.ts';
import {
  createFieldSet,
  difference,
  fromFieldsV1,
  intersection,
  isEmpty,
  pathsOf,
  toFieldsV1,
  union,
  type FieldSet,
} from '../../../src/dev-cluster/fields/typed/field-set.ts';
import type { ApiObject } from '../../../src/dev-cluster/types.ts';
import { ApiError } from '../../../src/kube/status.ts';

const kind = { group: '', version: 'v1', kind: 'Pod' };
const podType = loadSchemas().typeOf(kind);
assert.ok(podType);
const type = podType;
const resource = { ...kind, resource: 'pods', custom: false, subresources: ['status'] };

/** Paths of a few elements, so that sets meet. */
const paths = fc.array(
  fc.array(fc.constantFrom('f:a', 'f:b', 'f:__proto__', 'k:{"name":"x"}', 'v:"y"', 'v:1'), {
    minLength: 1,
    maxLength: 4,
  }),
  { maxLength: 8 },
);
const sets = paths.map((list) => createFieldSet(list));
const printed = (set: FieldSet): string[] => pathsOf(set).map((path) => path.join(' '));

suite('sets of fields', () => {
  test('come back from fieldsV1', () => {
    fc.assert(
      fc.property(sets, (set) => {
        const fields: unknown = JSON.parse(JSON.stringify(toFieldsV1(set)));
        const back = fromFieldsV1(fields);
        assert.ok(back);
        assert.deepEqual(printed(back), printed(set));
      }),
    );
  });

  test('obey the laws of sets', () => {
    fc.assert(
      fc.property(sets, sets, (a, b) => {
        const [left, right] = [new Set(printed(a)), new Set(printed(b))];
        const all = [...left, ...right];
        assert.deepEqual(new Set(printed(union(a, b))), new Set(all));
        assert.deepEqual(new Set(printed(intersection(a, b))), new Set([...left].filter((path) => right.has(path))));
        assert.deepEqual(new Set(printed(difference(a, b))), new Set([...left].filter((path) => !right.has(path))));
        assert.equal(isEmpty(difference(a, a)), true);
      }),
    );
  });
});

/** Values of a type, to a depth; lists with keys do not repeat them. */
function valuesOf(of: FieldType, depth: number): fc.Arbitrary<unknown> {
  switch (of.kind) {
    case 'any':
      return fc.constantFrom({ a: 1 }, { b: { c: 'x' } });
    case 'list': {
      const keys = of.listType === 'map' ? of.keys : [];
      return fc.uniqueArray(valuesOf(of.items, depth - 1), {
        minLength: 1,
        maxLength: 3,
        selector: (item) => JSON.stringify(keys.length === 0 ? item : keys.map((key) => (item as ApiObject)[key])),
      });
    }
    case 'object':
      return of.additional
        ? fc.dictionary(fc.constantFrom('a', 'b', '__proto__'), valuesOf(of.additional, depth - 1), { maxKeys: 2 })
        : objectsOf(of, depth);
    case 'scalar':
      return SCALARS[of.scalar] ?? fc.constantFrom('a', 'b');
  }
}

const SCALARS: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  boolean: fc.constant(true),
  int32: fc.integer({ min: 1, max: 3 }),
  int64: fc.integer({ min: 1, max: 3 }),
  'int-or-string': fc.constantFrom(80, 'http'),
  quantity: fc.constantFrom('1', '100m'),
  time: fc.constant('2024-01-01T00:00:00Z'),
  bytes: fc.constant('AAAA'),
};

const LEFT_OUT = new Set(['managedFields', 'status', 'kind', 'apiVersion', 'ephemeralContainers']);

/** Some of the fields of a struct; those that tell list items apart are always there. */
function objectsOf({ fields }: ObjectType, depth: number): fc.Arbitrary<object> {
  const usable = [...fields].filter(
    ([name, field]) => !LEFT_OUT.has(name) && (depth > 0 || field.type.kind === 'scalar'),
  );
  const isKey = ([name, field]: (typeof usable)[number]): boolean =>
    name === 'name' || name === 'containerPort' || field.default !== undefined;
  const optional = usable.filter((entry) => !isKey(entry));
  return fc
    .subarray(optional, { maxLength: Math.min(MAX_FIELDS, optional.length) })
    .chain((picked) =>
      fc.record(
        Object.fromEntries(
          [...usable.filter(isKey), ...picked].map(([name, field]) => [name, valuesOf(field.type, depth - 1)]),
        ),
      ),
    );
}

const MAX_FIELDS = 6;

const pods: fc.Arbitrary<ApiObject> = objectsOf(type, 5).map((object) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  ...object,
}));
const RUNS = { numRuns: 100 };

/** Pods as they come back from the API server, which leaves out what is empty and writes what always is. */
const configs = pods.map((pod) => decodeValue({ ...pod, metadata: { ...pod.metadata, name: 'p' } }, type).object);

function apply(live: ApiObject | undefined, config: ApiObject, manager: string, force: boolean): ApiObject {
  const now = new Date(0);
  const request = { config, kind, resource, subresource: '', type, manager, force, now };
  return applyConfiguration(live ? { ...request, live } : request);
}

suite('decoding', () => {
  test('never throws, and what it returns stays as it is', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const { object } = decodeValue({ metadata: value, spec: value }, type);
        const again = decodeValue(object, type);
        assert.equal(again.error, undefined);
        assert.deepEqual(again.unknown, []);
        assert.equal(JSON.stringify(again.object), JSON.stringify(object));
      }),
    );
  });

  test('keeps all of an object of its type but for empty values', () => {
    fc.assert(
      fc.property(pods, (pod) => {
        const { error, unknown } = decodeValue(pod, type);
        assert.deepEqual([error, unknown], [undefined, []]);
      }),
      RUNS,
    );
  });
});

suite('server-side apply', () => {
  test('applying the same again changes nothing', () => {
    fc.assert(
      fc.property(configs, (config) => {
        const once = apply(undefined, config, 'one', false);
        assert.equal(JSON.stringify(apply(once, config, 'one', false)), JSON.stringify(once));
      }),
      RUNS,
    );
  });

  test('another manager may apply the same without a conflict', () => {
    fc.assert(
      fc.property(configs, (config) => {
        const once = apply(undefined, config, 'one', false);
        const twice = apply(once, config, 'two', false);
        assert.deepEqual({ ...twice, metadata: {} }, { ...once, metadata: {} });
      }),
      RUNS,
    );
  });

  test('force never ends in a conflict, and then the configuration holds', () => {
    fc.assert(
      fc.property(configs, configs, (first, second) => {
        const object = apply(apply(undefined, first, 'one', false), second, 'two', true);
        const again = apply(object, second, 'two', false);
        assert.equal(JSON.stringify(again), JSON.stringify(object));
      }),
      RUNS,
    );
  });

  test('what one applied alone goes when it applies nothing', () => {
    fc.assert(
      fc.property(configs, (config) => {
        const empty = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' } };
        const object = apply(apply(undefined, config, 'one', false), empty, 'one', false);
        assert.deepEqual(object['spec'], { containers: null });
        assert.equal(object.metadata?.['managedFields'], undefined);
        assert.equal(object.metadata?.['name'], 'p');
      }),
      RUNS,
    );
  });

  test('conflicts are the only errors between well-typed objects', () => {
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

suite('updates', () => {
  test('an update leaves no field with two updaters', () => {
    fc.assert(
      fc.property(pods, pods, (first, second) => {
        const track = (object: ApiObject, manager: string, live?: ApiObject): ApiObject => {
          const copy = decodeValue(object, type).object;
          const request = { object: copy, resource, subresource: '', type, manager, now: new Date(0) };
          trackUpdate(live ? { ...request, live } : request);
          return copy;
        };
        const updated = track(second, 'two', track(first, 'one'));
        const entries = (updated.metadata?.['managedFields'] ?? []) as { fieldsV1: object }[];
        const [a, b] = entries.map(({ fieldsV1 }) => fromFieldsV1(fieldsV1));
        if (a && b) assert.equal(isEmpty(intersection(a, b)), true);
      }),
      RUNS,
    );
  });
});
