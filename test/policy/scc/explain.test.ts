import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { JsonObject } from '../../../src/kube/types.ts';
import { explainScc, type SccExplanation, planPod, type PlannedPod } from '../../../src/policy/scc/advice/explain.ts';
import { assignScc } from '../../../src/policy/scc/index.ts';
import { laxScc, namespaceWith, type Grant } from '../../support/scc.ts';
import { create, type ListedInput } from './arbitrary.ts';
import { ADMIN, podWith, request, STANDARD } from './requests.ts';
import { findChanges, type Change } from '../../../src/policy/scc/advice/changes.ts';

// What every SCC says of a pod.

const IN_ORDER = [
  ...['anyuid', 'restricted-v2', 'restricted-v3', 'restricted', 'nested-container', 'nonroot-v2', 'nonroot'],
  ...['hostmount-anyuid', 'hostmount-anyuid-v2', 'hostnetwork-v2', 'hostnetwork', 'hostaccess', 'privileged'],
];

const namesOf = ({ sccs }: SccExplanation): readonly string[] => sccs.map(({ name }) => name);

const root = podWith({ containers: [{ name: 'a', securityContext: { runAsUser: 0 } }] });
const requiring = (scc: string): JsonObject => podWith({}, { annotations: { 'openshift.io/required-scc': scc } });

describe('requests that are decided before SCCs are looked at', () => {
  const cases: readonly { readonly name: string; readonly given: Partial<ListedInput>; readonly allowed: boolean }[] = [
    { name: 'no pod', given: { object: 'x' }, allowed: false },
    { name: 'a field of a wrong type', given: { object: podWith({ hostPID: 'yes' }) }, allowed: false },
    { name: 'Windows', given: { object: podWith({ os: { name: 'windows' } }) }, allowed: true },
    { name: 'a deletion', given: { operation: 'DELETE' }, allowed: true },
  ];
  for (const { name, given, allowed } of cases) {
    test(name, () => {
      const input = request(given);
      assert.deepEqual(explainScc(input), { decision: assignScc(input), sccs: [] });
      assert.equal(assignScc(input).allowed, allowed);
    });
  }
});

describe('refusals', () => {
  test('for another reason than the SCCs hold no advice, and tell of all SCCs none the less', () => {
    const noRanges = explainScc(request({ namespace: namespaceWith({}, 'new') }));
    assert.deepEqual(namesOf(noRanges), IN_ORDER);
    assert.deepEqual([noRanges.closest, noRanges.grantable, noRanges.chosen], [undefined, undefined, undefined]);
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
  test('of an SCC that does not exist', () => {
    const { decision, sccs, ...rest } = explainScc(request({ object: requiring('nope') }));
    assert.deepEqual(rest, {});
    assert.equal(decision.allowed, false);
    assert.ok(sccs.every(({ isCandidate }) => !isCandidate));
  });
  test('without any SCC', () => {
    const { sccs, ...rest } = explainScc(request({ sccs: [] }));
    assert.deepEqual([sccs, Object.keys(rest)], [[], ['decision']]);
  });
  test('tell the closest SCC, and the least permissive one that would admit the pod', () => {
    const { closest, grantable, sccs } = explainScc(request({ object: root }));
    assert.deepEqual([closest, grantable], ['restricted-v2', 'anyuid']);
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

describe('admissions', () => {
  test('tell the chosen SCC, the next one and why', () => {
    const explanation = explainScc(request({ userInfo: ADMIN }));
    const { chosen, next, reason, closest: closest, grantable } = explanation;
    assert.deepEqual(namesOf(explanation), IN_ORDER);
    assert.deepEqual(
      { chosen, next, reason, closest, grantable },
      {
        chosen: 'anyuid',
        next: 'restricted-v2',
        reason:
          '"anyuid" is most restrictive, not denied, and chosen over "restricted-v2" because "anyuid" has higher priority',
        closest: undefined,
        grantable: undefined,
      },
    );
    assert.deepEqual(explanation.sccs[0]?.usableBy, ['user']);
    assert.deepEqual(explanation.sccs[1]?.usableBy, ['serviceaccount', 'user']);
  });
  test('by the SCC that the pod requires: the others are no candidates', () => {
    const { chosen, next, sccs } = explainScc(request({ object: requiring('restricted-v2'), userInfo: ADMIN }));
    assert.deepEqual([chosen, next], ['restricted-v2', undefined]);
    assert.deepEqual(
      sccs.filter(({ isCandidate }) => isCandidate).map(({ name }) => name),
      ['restricted-v2'],
    );
  });
  test('the order is that of the request', () => {
    const object = podWith({ hostUsers: false });
    assert.equal(namesOf(explainScc(request({ object, preferUserNamespaces: true })))[1], 'restricted-v3');
    assert.equal(namesOf(explainScc(request({ object })))[1], 'restricted-v2');
  });
  test('the pod as it would become, under SCCs that may not be used as well', () => {
    const { sccs } = explainScc(request({ sccs: [laxScc({ name: 'web', readOnlyRootFilesystem: true })] }));
    assert.deepEqual(sccs[0]?.object, {
      metadata: { name: 'web', namespace: 'demo', annotations: { 'openshift.io/scc': 'web' } },
      spec: {
        serviceAccountName: 'default',
        containers: [{ name: 'app', image: 'app:1', securityContext: { readOnlyRootFilesystem: true } }],
      },
    });
  });
});

describe('updates', () => {
  const recorded = podWith({}, { annotations: { 'openshift.io/scc': 'restricted-v2' } });
  test('do not fit where they would be changed', () => {
    const object = podWith({ priority: 1 }, { annotations: { 'openshift.io/scc': 'restricted-v2' } });
    const { sccs, chosen } = explainScc(request({ operation: 'UPDATE', object, oldObject: recorded }));
    assert.equal(chosen, undefined);
    assert.deepEqual(sccs[1]?.errors, ['the SCC would have to change the pod, which an update cannot do']);
    assert.equal(sccs.at(-1)?.fits, true);
  });
  test('of pods from before there were SCCs have none', () => {
    const oldObject = podWith({});
    const object = podWith({}, { labels: { a: 'b' } });
    const { decision, chosen, next } = explainScc(request({ operation: 'UPDATE', object, oldObject }));
    assert.deepEqual([decision.allowed, chosen, next], [true, undefined, undefined]);
  });
});

test('what is explained is what is decided', () => {
  fc.assert(
    fc.property(create, (input) => {
      const explanation = explainScc(input);
      const { decision, sccs, chosen, next, reason } = explanation;
      assert.deepEqual(decision, assignScc(input));
      const eligible = sccs.filter(({ isCandidate, usableBy, fits }) => isCandidate && usableBy.length > 0 && fits);
      if (decision.allowed) assert.deepEqual([chosen, next], [eligible[0]?.name, eligible[1]?.name]);
      else assert.deepEqual([chosen, next], [undefined, undefined]);
      if (chosen === undefined) return;
      assert.deepEqual(eligible[0]?.object, decision.allowed && decision.object);
      assert.equal(reason, decision.auditAnnotations['reason']);
      assert.equal(decision.facts?.subjectType, eligible[0]?.usableBy[0]);
    }),
    { numRuns: 300 },
  );
});

test('every SCC that a pod does not fit names the fields, or is broken', () => {
  fc.assert(
    fc.property(create, (input) => {
      for (const { fits, errors, disallowedFields: disallowedFields, broken, object } of explainScc(input).sccs) {
        assert.equal(fits, errors.length === 0);
        assert.equal(fits, object !== undefined);
        if (!fits) assert.equal(disallowedFields.length === 0, broken !== undefined);
        for (const { path } of disallowedFields) assert.match(path, /^(?:spec\.|metadata\.annotations\[)/);
      }
    }),
    { numRuns: 300 },
  );
});

test('the input is never changed', () => {
  const input = request({ sccs: structuredClone(STANDARD), object: structuredClone(root) });
  const before = structuredClone({ sccs: input.sccs, object: input.object, namespace: input.namespace });
  explainScc(input);
  assert.deepEqual({ sccs: input.sccs, object: input.object, namespace: input.namespace }, before);
});

type Given = Partial<ListedInput> & { readonly grants?: readonly Grant[] };

/** Without the long texts of refusals. */
function planned(given: Given): unknown {
  const result: PlannedPod = planPod(request(given));
  if (result.outcome !== 'refused') return result;
  const { message, ...rest } = result;
  assert.ok(message.length > 0);
  return rest;
}

describe('refused', () => {
  const cases: readonly { name: string; given: Given; expected: unknown }[] = [
    {
      name: 'what no object is',
      given: { object: 'pod' },
      expected: { outcome: 'refused' },
    },
    {
      name: 'a pod that cannot be decoded',
      given: { object: podWith({ hostPID: 'yes' }) },
      expected: { outcome: 'refused' },
    },
    {
      name: 'a namespace without ranges',
      given: { namespace: namespaceWith({}) },
      expected: { outcome: 'refused' },
    },
    { name: 'no SCC', given: { sccs: [] }, expected: { outcome: 'refused' } },
    {
      name: 'an SCC that is required and not there',
      given: { object: podWith({}, { annotations: { 'openshift.io/required-scc': 'gone' } }) },
      expected: { outcome: 'refused' },
    },
    {
      name: 'an SCC that is required and does not fit, though another would',
      given: {
        object: podWith({ hostPID: true }, { annotations: { 'openshift.io/required-scc': 'restricted-v2' } }),
      },
      expected: {
        outcome: 'refused',
        closest: { scc: 'restricted-v2', disallowedFields: [{ path: 'spec.hostPID', values: [true] }] },
      },
    },
    {
      name: 'what the least permissive SCC would admit, were it granted',
      given: { object: podWith({ securityContext: { runAsUser: 999 } }) },
      expected: {
        outcome: 'refused',
        closest: {
          scc: 'restricted-v2',
          disallowedFields: [{ path: 'spec.securityContext.runAsUser', values: [999] }],
        },
        grantable: 'nonroot-v2',
      },
    },
    {
      name: 'what no SCC admits',
      given: {
        object: podWith({ hostPID: true }),
        sccs: [laxScc({ name: 'lax' })],
        grants: [{ group: 'system:authenticated', sccs: ['lax'] }],
      },
      expected: {
        outcome: 'refused',
        closest: { scc: 'lax', disallowedFields: [{ path: 'spec.hostPID', values: [true] }] },
      },
    },
  ];
  for (const { name, given, expected } of cases) {
    test(name, () => assert.deepEqual(planned(given), expected));
  }
});

describe('admitted or ignored', () => {
  test('a pod of Windows', () => {
    assert.deepEqual(planned({ object: podWith({ os: { name: 'windows' } }) }), { outcome: 'ignored' });
  });

  test('with what the SCC gives it', () => {
    const result = planPod(request({}));
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

  test('without any change', () => {
    const given = {
      sccs: [laxScc({ name: 'lax' })],
      grants: [{ user: 'system:serviceaccount:demo:default', sccs: ['lax'] }],
    };
    assert.deepEqual(planned(given), { outcome: 'admitted', scc: 'lax', subjectType: 'serviceaccount', changes: [] });
  });

  test('because of its creator alone', () => {
    const { username = '' } = request({}).userInfo;
    const given = { object: podWith({ hostPID: true }), grants: [{ user: username, sccs: ['privileged'] }] };
    const result = planPod(request(given));
    assert.ok(result.outcome === 'admitted');
    assert.deepEqual([result.scc, result.subjectType], ['privileged', 'user']);
  });
});

describe('what differs between two pods', () => {
  const cases: readonly { name: string; before: unknown; after: unknown; expected: readonly Change[] }[] = [
    { name: 'nothing', before: { spec: { a: 1 } }, after: { spec: { a: 1 } }, expected: [] },
    { name: 'no pods', before: undefined, after: 'x', expected: [{ path: '', after: 'x' }] },
    {
      name: 'fields of an object that was not there',
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
      name: 'an object that comes and goes empty',
      before: { spec: { a: {} } },
      after: { spec: { b: {} } },
      expected: [
        { path: 'spec.a', before: {} },
        { path: 'spec.b', after: {} },
      ],
    },
    {
      name: 'other values, one that went away',
      before: { spec: { a: 1, b: { c: 2 } } },
      after: { spec: { a: 2 } },
      expected: [
        { path: 'spec.a', before: 1, after: 2 },
        { path: 'spec.b.c', before: 2 },
      ],
    },
    {
      name: 'lists of other lengths, as a whole',
      before: { spec: { a: ['x'] } },
      after: { spec: { a: ['x', 'y'] } },
      expected: [{ path: 'spec.a', before: ['x'], after: ['x', 'y'] }],
    },
    {
      name: 'annotations, without those that tell the SCC',
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
      name: 'keys of any kind',
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
