/** Tests pod defaults in TypeScript and in the CEL expressions of the MutatingAdmissionPolicy. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { asStored } from '../../../src/dev-cluster/cel.ts';
import { isObject, type JsonObject } from '../../../src/kube/types.ts';
import { decodePod } from '../../../src/policy/pod/index.ts';
import { generateDefaultsPolicy } from '../../../src/policy/psa/defaults-policy.ts';
import {
  DEFAULT_FIELDS,
  type DefaultField,
  type DefaultsSettings,
  hasDefaults,
  MAX_CONTAINERS,
  withPodDefaults,
} from '../../../src/policy/psa/defaults.ts';
import { evaluatePod } from '../../../src/policy/pss/index.ts';
import type { SccMode } from '../../../src/policy/scc/index.ts';
import { compileMutation } from '../../support/cel.ts';
import { readLines } from '../../support/conformance/cases.ts';
import { readFixture } from '../../support/fixtures.ts';
import { pods } from '../pss/arbitrary.ts';

const SETTINGS: DefaultsSettings = {
  defaults: { mode: 'apply', fields: DEFAULT_FIELDS, namespaceSelector: {}, exemptNamespaces: ['kube-system'] },
  scc: { mode: 'report', exemptNamespaces: ['without-scc'] },
};

function compile(settings: DefaultsSettings) {
  const [policy] = generateDefaultsPolicy(settings, 'defaults.example.com');
  assert.ok(policy);
  return compileMutation(policy);
}

const mutateAll = compile(SETTINGS);

/**
 * Returns the pod with defaults. Checks that both implementations agree, and that applying the defaults again changes
 * nothing.
 */
function complete(
  pod: JsonObject,
  { fields, mutate } = { fields: DEFAULT_FIELDS as readonly DefaultField[], mutate: mutateAll },
): JsonObject {
  const apply = (object: unknown): JsonObject => {
    const { pod: decoded } = decodePod(object);
    assert.ok(decoded);
    return withPodDefaults(decoded, fields);
  };
  const completed = apply(pod);
  assert.deepEqual(mutate(pod), completed);
  assert.equal(apply(completed), completed);
  assert.deepEqual(mutate(completed), completed);
  assertKept(pod, completed);
  return completed;
}

/** Returns the pod with the defaults of API servers, as they evaluate it. */
function store(pod: object): JsonObject {
  return { metadata: {}, spec: {}, ...(asStored(pod) as JsonObject) };
}

/** Checks that the second value contains all members of the first, except for empty lists. */
function assertKept(before: unknown, after: unknown): void {
  if (Array.isArray(before) && Array.isArray(after)) {
    if (before.length > 0) assert.equal(after.length, before.length);
    for (const [index, item] of before.entries()) assertKept(item, after[index]);
  } else if (isObject(before) && isObject(after)) {
    for (const [key, member] of Object.entries(before)) assertKept(member, after[key]);
  } else assert.equal(after, before);
}

interface Case {
  readonly name: string;
  readonly fields?: readonly DefaultField[];
  readonly annotations?: Readonly<Record<string, string>>;
  readonly spec: JsonObject;
  /**
   * The expected security contexts of the pod, its init containers and its containers. Absent if the pod does not
   * change.
   */
  readonly contexts?: readonly unknown[];
}

function listContexts({ spec }: JsonObject): readonly unknown[] {
  const { securityContext, initContainers = [], containers = [] } = spec as Readonly<Record<string, JsonObject[]>>;
  return [securityContext, ...[...initContainers, ...containers].map((one) => one['securityContext'])].map(
    (one) => one ?? null,
  );
}

suite('pod defaults set only missing fields:', () => {
  for (const { name, fields, annotations, spec, contexts } of readFixture<Case[]>('psa/defaults.yaml')) {
    test(name, () => {
      const pod = { metadata: { name: 'p', ...(annotations && { annotations }) }, spec };
      const options = fields && {
        fields,
        mutate: compile({ ...SETTINGS, defaults: { ...SETTINGS.defaults, fields } }),
      };
      assert.deepEqual(listContexts(complete(pod, options)), contexts ?? listContexts(pod));
    });
  }

  test('a pod without security contexts complies with the restricted level', () => {
    for (const os of [{}, { os: { name: 'windows' } }]) {
      const pod = complete({
        metadata: {},
        spec: { ...os, containers: [{ name: 'a' }], initContainers: [{ name: 'b' }] },
      });
      assert.ok(evaluatePod(pod, { level: 'restricted', version: 'latest' }).allowed);
    }
  });

  test('a pod with too many containers is not defaulted', () => {
    for (const [count, isChanged] of [
      [MAX_CONTAINERS, true],
      [MAX_CONTAINERS + 1, false],
    ] as const) {
      const [initial, ...containers] = Array.from({ length: count }, (_, index) => ({ name: `c${index}` }));
      const pod = { metadata: {}, spec: { initContainers: [initial], containers } };
      assert.equal(complete(pod) !== pod, isChanged);
    }
  });

  test('the policy and the webhook set the same defaults in arbitrary pods, and keep explicit values', () => {
    let changed = 0;
    fc.assert(
      fc.property(pods(), fc.subarray<string>([...DEFAULT_FIELDS]), (pod, absent) => {
        const without = (key: string, value: unknown): unknown => (absent.includes(key) ? undefined : value);
        const stored = store(JSON.parse(JSON.stringify(pod), without) as object);
        if (complete(stored) !== stored) changed++;
      }),
      { numRuns: 1000, seed: 1 },
    );
    assert.ok(changed >= 400, `${changed}`);
  });

  test('the policy and the webhook set the same defaults in recorded pods', () => {
    const recorded = readLines<{ readonly pod: JsonObject }>('random/pss-random.ndjson');
    for (const { pod } of recorded.filter((_, index) => index % 10 === 0)) {
      complete(store(pod));
    }
  });
});

suite('whether a namespace has pod defaults depends on its labels and on the settings:', () => {
  const pod = { metadata: { name: 'p' }, spec: { containers: [{ name: 'a' }] } };
  const label = 'portcullis.dev/scc';
  const disabled = 'security.openshift.io/disable-securitycontextconstraints';
  type Case = readonly [name: string, SccMode, Readonly<Record<string, string>>, boolean, exempt?: readonly string[]];
  const cases: readonly Case[] = [
    ['SCCs are in report mode', 'report', {}, true],
    ['SCCs are in enforce mode', 'enforce', {}, false],
    ['SCCs are in enforce mode, but the namespace is exempt', 'enforce', {}, true, ['kube-system', 'ns']],
    ['SCCs are in off mode', 'off', { [label]: 'enforce' }, true],
    ['the SCC label of the namespace selects enforce mode', 'report', { [label]: 'enforce' }, false],
    ['an unknown mode in the label means enforce mode', 'report', { [label]: 'x' }, false],
    ['the SCC label of the namespace selects report mode', 'enforce', { [label]: 'report' }, true],
    ['the run level turns SCCs off', 'enforce', { 'openshift.io/run-level': '1' }, true],
    ['the label of OpenShift turns SCCs off', 'enforce', { [disabled]: 'true' }, true],
  ];
  for (const [name, mode, labels, expected, exemptNamespaces = []] of cases) {
    test(name, () => {
      const settings = { ...SETTINGS, scc: { mode, exemptNamespaces } };
      assert.equal(hasDefaults({ metadata: { name: 'ns', labels } }, settings), expected);
      assert.deepEqual(compile(settings)(pod, labels), expected ? complete(pod) : pod);
    });
  }

  test('the policy selects namespaces by the namespace selector and the exemptions', () => {
    const defaults = { ...SETTINGS.defaults, namespaceSelector: { matchLabels: { tier: 'apps' } } };
    const [policy, binding] = generateDefaultsPolicy({ ...SETTINGS, defaults }, 'defaults.example.com');
    assert.deepEqual((policy?.spec['matchConstraints'] as JsonObject)['namespaceSelector'], {
      matchExpressions: [
        { key: 'tier', operator: 'In', values: ['apps'] },
        { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['kube-system'] },
      ],
    });
    assert.deepEqual(binding?.spec, { policyName: 'defaults.example.com' });
    const exists = { key: 'tier', operator: 'Exists' };
    for (const [namespaceSelector, expected] of [
      [{ matchExpressions: [{ ...exists, values: [] }] }, { matchExpressions: [exists] }],
      [{ matchExpressions: [] }, {}],
    ] as const) {
      const all = { ...SETTINGS.defaults, namespaceSelector, exemptNamespaces: [] };
      const [other] = generateDefaultsPolicy({ ...SETTINGS, defaults: all }, 'defaults.example.com');
      assert.deepEqual((other?.spec['matchConstraints'] as JsonObject)['namespaceSelector'], expected);
    }
    const selected = [
      ['shop', { tier: 'apps' }],
      ['shop', {}],
      ['kube-system', { tier: 'apps' }],
    ] as const;
    const has = selected.map(([name, labels]) =>
      hasDefaults({ metadata: { name, labels } }, { ...SETTINGS, defaults }),
    );
    assert.deepEqual(has, [true, false, false]);
  });

  test('no namespace has pod defaults in off mode', () => {
    const off = { ...SETTINGS, defaults: { ...SETTINGS.defaults, mode: 'off' as const } };
    assert.deepEqual(generateDefaultsPolicy(off, 'defaults.example.com'), []);
    assert.equal(hasDefaults({ metadata: { name: 'shop' } }, off), false);
  });
});
