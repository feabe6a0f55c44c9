import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type PodFieldChange, findChanges } from '../../../src/kube/pod-changes.ts';
import type { JsonObject } from '../../../src/kube/types.ts';
import { decidePod, type ExplainedPod, explainPod, type PodVerdict } from '../../../src/policy/scc/advice/explain.ts';
import { assignScc } from '../../../src/policy/scc/assign.ts';
import { type Grant, laxScc, namespaceWith } from '../../support/scc.ts';
import { create, type ListedInput } from './arbitrary.ts';
import { ADMIN, podWith, request, STANDARD } from './requests.ts';

const IN_ORDER = [
  ...['anyuid', 'restricted-v2', 'restricted-v3', 'restricted', 'nested-container', 'nonroot-v2', 'nonroot'],
  ...['hostmount-anyuid', 'hostmount-anyuid-v2', 'hostnetwork-v2', 'hostnetwork', 'hostaccess', 'privileged'],
];

const getNames = ({ sccs }: ExplainedPod): readonly string[] => sccs.map(({ name }) => name);
const getScc = (verdict: PodVerdict): string | undefined => (verdict.outcome === 'admitted' ? verdict.scc : undefined);

const root = podWith({ containers: [{ name: 'a', securityContext: { runAsUser: 0 } }] });
const requiring = (scc: string): JsonObject => podWith({}, { annotations: { 'openshift.io/required-scc': scc } });

describe('explainPod lists no SCCs for a request with', () => {
  const cases: readonly { readonly name: string; readonly given: Partial<ListedInput>; readonly allowed: boolean }[] = [
    { name: 'an object that is not a pod', given: { object: 'x' }, allowed: false },
    { name: 'a field of the wrong type', given: { object: podWith({ hostPID: 'yes' }) }, allowed: false },
    { name: 'Windows', given: { object: podWith({ os: { name: 'windows' } }) }, allowed: true },
  ];
  for (const { name, given, allowed } of cases) {
    test(name, () => {
      const input = request(given);
      assert.deepEqual(explainPod(input), { verdict: decidePod(input), decision: assignScc(input), sccs: [] });
      assert.equal(assignScc(input).allowed, allowed);
    });
  }
});

describe('explainPod explains a denial', () => {
  test('in a namespace without ranges, with all SCCs and no suggestion', () => {
    const noRanges = explainPod(request({ namespace: namespaceWith({}, 'new') }));
    assert.deepEqual(getNames(noRanges), IN_ORDER);
    assert.deepEqual(Object.keys(noRanges.verdict), ['outcome', 'message']);
    const broken = noRanges.sccs.filter((scc) => scc.broken !== undefined).map(({ name }) => name);
    assert.deepEqual(
      IN_ORDER.filter((name) => !broken.includes(name)),
      ['hostmount-anyuid-v2', 'privileged'],
    );
    assert.deepEqual(noRanges.sccs[0], {
      name: 'anyuid',
      priority: 10,
      score: 154_950,
      isCandidate: true,
      usableBy: [],
      fits: false,
      errors: [
        'provider "anyuid": Internal error: unable to find pre-allocated mcs annotation for namespace new while trying to configure SCC anyuid: unable to find annotation openshift.io/sa.scc.mcs',
      ],
      disallowedFields: [],
      broken:
        'unable to find pre-allocated mcs annotation for namespace new while trying to configure SCC anyuid: unable to find annotation openshift.io/sa.scc.mcs',
    });
  });
  test('by a required SCC that does not exist', () => {
    const { verdict, sccs } = explainPod(request({ object: requiring('nope') }));
    assert.deepEqual(Object.keys(verdict), ['outcome', 'message']);
    assert.ok(sccs.every(({ isCandidate }) => !isCandidate));
  });
  test('with an empty explanation if the cluster has no SCCs', () => {
    const { sccs, ...rest } = explainPod(request({ sccs: [] }));
    assert.deepEqual([sccs, Object.keys(rest)], [[], ['verdict', 'decision']]);
  });
  test('with the closest SCC, and the least permissive one that would admit the pod', () => {
    const { verdict, sccs } = explainPod(request({ object: root }));
    assert.ok(verdict.outcome === 'denied');
    assert.deepEqual([verdict.closest?.scc, verdict.grantable], ['restricted-v2', 'anyuid']);
    assert.deepEqual(sccs[1], {
      name: 'restricted-v2',
      priority: 0,
      score: 132_010,
      isCandidate: true,
      usableBy: ['serviceaccount', 'user'],
      fits: false,
      errors: [
        'provider restricted-v2: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000660000, 1000669999]',
      ],
      disallowedFields: [{ path: 'spec.containers[0].securityContext.runAsUser', values: [0] }],
    });
  });
});

describe('explainPod explains an admission', () => {
  test('with the chosen SCC, the next SCC and the reason', () => {
    const explanation = explainPod(request({ userInfo: ADMIN }));
    const { verdict, next, decision } = explanation;
    assert.deepEqual(getNames(explanation), IN_ORDER);
    assert.deepEqual([getScc(verdict), next], ['anyuid', 'restricted-v2']);
    assert.equal(
      decision.auditAnnotations['reason'],
      '"anyuid" is most restrictive, not denied, and chosen over "restricted-v2" because "anyuid" has higher priority',
    );
    assert.deepEqual(explanation.sccs[0]?.usableBy, ['user']);
    assert.deepEqual(explanation.sccs[1]?.usableBy, ['serviceaccount', 'user']);
  });
  test('with the required SCC as the only candidate', () => {
    const { verdict, next, sccs } = explainPod(request({ object: requiring('restricted-v2'), userInfo: ADMIN }));
    assert.deepEqual([getScc(verdict), next], ['restricted-v2', undefined]);
    assert.deepEqual(
      sccs.filter(({ isCandidate }) => isCandidate).map(({ name }) => name),
      ['restricted-v2'],
    );
  });
  test('with the SCCs in decision order', () => {
    const object = podWith({ hostUsers: false });
    assert.equal(getNames(explainPod(request({ object, preferUserNamespaces: true })))[1], 'restricted-v3');
    assert.equal(getNames(explainPod(request({ object })))[1], 'restricted-v2');
  });
  test('with the defaulted pod of an SCC that the user may not use', () => {
    const { sccs } = explainPod(request({ sccs: [laxScc({ name: 'web', readOnlyRootFilesystem: true })] }));
    assert.deepEqual(sccs[0]?.object, {
      metadata: { name: 'web', namespace: 'demo', annotations: { 'openshift.io/scc': 'web' } },
      spec: {
        serviceAccountName: 'default',
        containers: [{ name: 'app', image: 'app:1', securityContext: { readOnlyRootFilesystem: true } }],
      },
    });
  });
});

test('an explanation agrees with the decision', () => {
  fc.assert(
    fc.property(create, (input) => {
      const explanation = explainPod(input);
      const { decision, verdict, sccs, next } = explanation;
      assert.deepEqual(decision, assignScc(input));
      assert.deepEqual(verdict, decidePod(input));
      const eligible = sccs.filter(({ isCandidate, usableBy, fits }) => isCandidate && usableBy.length > 0 && fits);
      if (verdict.outcome !== 'admitted') {
        assert.equal(next, undefined);
        return;
      }
      assert.deepEqual([verdict.scc, next], [eligible[0]?.name, eligible[1]?.name]);
      assert.deepEqual(eligible[0]?.object, decision.allowed && decision.object);
      assert.equal(verdict.subjectType, eligible[0]?.usableBy[0]);
    }),
    { numRuns: 300 },
  );
});

test('each SCC that does not allow the pod has disallowed fields or a defect', () => {
  fc.assert(
    fc.property(create, (input) => {
      for (const { fits, errors, disallowedFields, broken, object } of explainPod(input).sccs) {
        assert.equal(fits, errors.length === 0);
        assert.equal(fits, object !== undefined);
        if (!fits) assert.equal(disallowedFields.length === 0, broken !== undefined);
        for (const { path } of disallowedFields) assert.match(path, /^(?:spec\.|metadata\.annotations\[)/);
      }
    }),
    { numRuns: 300 },
  );
});

test('an explanation does not change its input', () => {
  const input = request({ sccs: structuredClone(STANDARD), object: structuredClone(root) });
  const before = structuredClone({ sccs: input.sccs, object: input.object, namespace: input.namespace });
  explainPod(input);
  assert.deepEqual({ sccs: input.sccs, object: input.object, namespace: input.namespace }, before);
});

type Given = Partial<ListedInput> & { readonly grants?: readonly Grant[] };

/** Returns a plan without denial messages. */
function planned(given: Given): unknown {
  const result: PodVerdict = decidePod(request(given));
  if (result.outcome !== 'denied') return result;
  const { message, ...rest } = result;
  assert.ok(message.length > 0);
  return rest;
}

describe('planSccPod denies', () => {
  const cases: readonly { name: string; given: Given; expected: unknown }[] = [
    {
      name: 'a required SCC that does not allow the pod',
      given: {
        object: podWith({ hostPID: true }, { annotations: { 'openshift.io/required-scc': 'restricted-v2' } }),
      },
      expected: {
        outcome: 'denied',
        closest: { scc: 'restricted-v2', disallowedFields: [{ path: 'spec.hostPID', values: [true] }] },
      },
    },
    {
      name: 'a pod that no SCC allows',
      given: {
        object: podWith({ hostPID: true }),
        sccs: [laxScc({ name: 'lax' })],
        grants: [{ group: 'system:authenticated', sccs: ['lax'] }],
      },
      expected: {
        outcome: 'denied',
        closest: { scc: 'lax', disallowedFields: [{ path: 'spec.hostPID', values: [true] }] },
        suggestedScc: { original: 'lax', changes: ['set allowHostPID=true'] },
      },
    },
  ];
  for (const { name, given, expected } of cases) {
    test(name, () => assert.deepEqual(planned(given), expected));
  }
});

describe('planSccPod admits a pod with', () => {
  test('the changes that the SCC makes', () => {
    const result = decidePod(request({}));
    assert.ok(result.outcome === 'admitted');
    assert.deepEqual([result.scc, result.subjectType], ['restricted-v2', 'serviceaccount']);
    assert.deepEqual(
      new Map(result.changes.map(({ path, after }) => [path, after])),
      new Map<string, unknown>([
        ['metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]', 'runtime/default'],
        ['spec.securityContext.fsGroup', 1_000_660_000],
        ['spec.securityContext.seLinuxOptions.level', 's0:c26,c5'],
        ['spec.securityContext.seccompProfile.type', 'RuntimeDefault'],
        ['spec.containers[0].securityContext.runAsUser', 1_000_660_000],
        ['spec.containers[0].securityContext.runAsNonRoot', true],
        ['spec.containers[0].securityContext.capabilities.drop', ['ALL']],
        ['spec.containers[0].securityContext.allowPrivilegeEscalation', false],
      ]),
    );
  });

  test('no changes', () => {
    const given = {
      sccs: [laxScc({ name: 'lax' })],
      grants: [{ user: 'system:serviceaccount:demo:default', sccs: ['lax'] }],
    };
    assert.deepEqual(planned(given), { outcome: 'admitted', scc: 'lax', subjectType: 'serviceaccount', changes: [] });
  });
});

describe('findChanges finds', () => {
  const cases: readonly { name: string; before: unknown; after: unknown; expected: readonly PodFieldChange[] }[] = [
    { name: 'no changes between equal pods', before: { spec: { a: 1 } }, after: { spec: { a: 1 } }, expected: [] },
    {
      name: 'only the whole value if values are not pods',
      before: undefined,
      after: 'x',
      expected: [{ path: '', after: 'x' }],
    },
    {
      name: 'fields of an added object',
      before: { spec: { containers: [{ name: 'a' }] } },
      after: {
        spec: { containers: [{ name: 'a', securityContext: { runAsUser: 5, capabilities: { drop: ['ALL'] } } }] },
      },
      expected: [
        { path: 'spec.containers[0].securityContext.runAsUser', after: 5 },
        { path: 'spec.containers[0].securityContext.capabilities.drop', after: ['ALL'] },
      ],
    },
    {
      name: 'fields of an object that was empty or null',
      before: { spec: { securityContext: {}, a: null } },
      after: { spec: { securityContext: { fsGroup: 5 }, a: { b: 1 } } },
      expected: [
        { path: 'spec.securityContext.fsGroup', after: 5 },
        { path: 'spec.a.b', after: 1 },
      ],
    },
    {
      name: 'empty objects that are added and removed',
      before: { spec: { a: {} } },
      after: { spec: { b: {} } },
      expected: [
        { path: 'spec.a', before: {} },
        { path: 'spec.b', after: {} },
      ],
    },
    {
      name: 'changed and removed values',
      before: { spec: { a: 1, b: { c: 2 } } },
      after: { spec: { a: 2 } },
      expected: [
        { path: 'spec.a', before: 1, after: 2 },
        { path: 'spec.b.c', before: 2 },
      ],
    },
    {
      name: 'lists with different lengths as a whole',
      before: { spec: { a: ['x'] } },
      after: { spec: { a: ['x', 'y'] } },
      expected: [{ path: 'spec.a', before: ['x'], after: ['x', 'y'] }],
    },
    {
      name: 'annotations except the annotations of SCC admission',
      before: { metadata: {} },
      after: {
        metadata: {
          annotations: {
            'openshift.io/scc': 'restricted-v2',
            'security.openshift.io/validated-scc-subject-type': 'user',
            'seccomp.security.alpha.kubernetes.io/pod': 'runtime/default',
            simple: 'x',
          },
        },
      },
      expected: [
        { path: 'metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]', after: 'runtime/default' },
        { path: 'metadata.annotations[simple]', after: 'x' },
      ],
    },
    {
      name: 'keys that are not field names',
      before: JSON.parse('{"spec":{"__proto__":1}}'),
      after: JSON.parse('{"spec":{"constructor":{"a b":2}}}'),
      expected: [
        { path: 'spec[__proto__]', before: 1 },
        { path: 'spec.constructor[a b]', after: 2 },
      ],
    },
  ];
  for (const { name, before, after, expected } of cases) {
    test(name, () => assert.deepEqual(findChanges(before, after), expected));
  }
});
