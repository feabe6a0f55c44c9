/** What a person is told beside a decision. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { JsonObject } from '../../../src/kube/types.ts';
import { assignScc, validateScc, type SccInput } from '../../../src/policy/scc/index.ts';
import { STANDARD_CLUSTER_ROLES, STANDARD_SCCS, standardUseRole } from '../../../src/policy/scc/standard.ts';
import { laxScc, namespaceWith, type Grant } from '../../support/scc.ts';
import { create } from './arbitrary.ts';
import { ADMIN, ALICE, DEMO, podWith, request, STANDARD } from './requests.ts';

interface Case {
  readonly name: string;
  readonly given: Partial<SccInput> & { readonly grants?: readonly Grant[] };
  readonly expected: readonly string[];
}

const withContainer = (...contexts: readonly JsonObject[]): JsonObject =>
  podWith({ containers: contexts.map((securityContext, index) => ({ name: `c${index}`, securityContext })) });

const grantOf = (scc: string): string =>
  `SCC "${scc}" would admit the pod if service account "default" were granted its use: bind ClusterRole "system:openshift:scc:${scc}".`;

const customScc = (copyOf: string, change: string): string =>
  `Needs a custom SCC: copy "${copyOf}" and ${change}, then grant its use to service account "default". Of the existing SCCs, only "privileged" would admit the pod.`;

/** A pod as restricted-v2 has left it. */
const admittedPod = (spec: JsonObject): JsonObject => {
  const decision = assignScc(request({}));
  const { object } = decision.allowed ? decision : {};
  const pod = object as { readonly spec: JsonObject };
  return { ...pod, spec: { ...pod.spec, ...spec } };
};

const NONE = 'No SCC would admit the pod as it is.';

const WRONG_RANGES = [
  { key: 'uid-range', value: 'rubbish', text: 'rubbish of namespace "demo" is invalid (expected integer)' },
  { key: 'uid-range', value: '', text: '"" of namespace "demo" is empty' },
  { key: 'mcs', value: '', text: '"" of namespace "demo" is empty' },
  { key: 'supplemental-groups', value: '1-', text: '1- of namespace "demo" is invalid (unexpected EOF)' },
];

describe('a pod that no SCC admits', () => {
  const cases: readonly Case[] = [
    {
      name: 'one field in the way',
      given: { object: withContainer({ runAsUser: 0 }) },
      expected: [
        'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.runAsUser=0.',
        grantOf('anyuid'),
      ],
    },
    {
      name: 'not the first SCC is to be granted, but the least permissive',
      given: { object: withContainer({ runAsUser: 1000 }) },
      expected: [
        'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.runAsUser=1000.',
        grantOf('nonroot-v2'),
      ],
    },
    {
      name: 'a value that containers have from their pod is one of the pod, and told once',
      given: {
        object: podWith({
          securityContext: { runAsUser: 0, seLinuxOptions: { level: 's0' } },
          containers: [{ name: 'a' }, { name: 'b', securityContext: { runAsUser: 1 } }],
        }),
      },
      expected: [
        'The closest usable SCC is "restricted-v2". It does not allow: spec.securityContext.seLinuxOptions.level=s0, spec.securityContext.runAsUser=0, spec.containers[1].securityContext.runAsUser=1.',
        grantOf('hostmount-anyuid-v2'),
      ],
    },
    {
      name: 'what belongs to the node, and ports where they are declared',
      given: {
        object: podWith({
          hostNetwork: true,
          hostPID: true,
          initContainers: [{ name: 'i', ports: [{ containerPort: 1 }, { containerPort: 2, hostPort: 2 }] }],
        }),
      },
      expected: [
        'The closest usable SCC is "restricted-v2". It does not allow: spec.hostNetwork=true, spec.hostPID=true, spec.initContainers[0].ports[1].hostPort=2.',
        grantOf('hostaccess'),
      ],
    },
    {
      name: 'several values of one field',
      given: { object: withContainer({ capabilities: { add: ['SYS_ADMIN', 'NET_ADMIN'] } }) },
      expected: [
        'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.capabilities.add=NET_ADMIN,SYS_ADMIN.',
        customScc('restricted-v2', 'set allowedCapabilities=NET_ADMIN,SYS_ADMIN'),
      ],
    },
    {
      name: 'volumes, groups, sysctls and what an SCC demands',
      given: {
        canUse: (_subject, scc) => scc === 'restricted-v3',
        object: podWith({
          securityContext: { fsGroup: 5, supplementalGroups: [6, 7], sysctls: [{ name: 'kernel.msgmax', value: '1' }] },
          volumes: [{ name: 'v', nfs: { server: 's', path: '/' } }],
        }),
      },
      expected: [
        'The closest usable SCC is "restricted-v3". It does not allow: spec.securityContext.fsGroup=5, spec.securityContext.supplementalGroups=[6,7], spec.hostUsers (not set), spec.securityContext.sysctls[0].name=kernel.msgmax, spec.volumes[0]=nfs.',
        customScc('hostmount-anyuid', 'set allowedUnsafeSysctls=kernel.msgmax'),
      ],
    },
    {
      name: 'more fields than there is room for',
      given: { object: withContainer(...Array.from({ length: 9 }, () => ({ privileged: true }))) },
      expected: [
        'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.privileged=true, spec.containers[1].securityContext.privileged=true, spec.containers[2].securityContext.privileged=true and 6 more.',
        grantOf('privileged'),
      ],
    },
    {
      name: 'seccomp profiles stand where they were written',
      given: {
        object: {
          ...podWith({
            containers: [
              { name: 'a', securityContext: { seccompProfile: { type: 'Unconfined' } } },
              { name: 'b', image: 'b' },
            ],
          }),
          metadata: { annotations: { 'container.seccomp.security.alpha.kubernetes.io/b': 'localhost/x' } },
        },
      },
      expected: [
        'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.seccompProfile.type=Unconfined, metadata.annotations[container.seccomp.security.alpha.kubernetes.io/b]=localhost/x.',
        customScc('restricted-v2', 'set seccompProfiles=unconfined,localhost/x'),
      ],
    },
    {
      name: 'of the SCCs that may be used the one with fewer fields in its way',
      given: {
        object: podWith({ hostPID: true, containers: [{ name: 'a', securityContext: { runAsUser: 0 } }] }),
        userInfo: ALICE,
        grants: [{ user: 'alice', sccs: ['anyuid'] }],
      },
      expected: [
        'The closest usable SCC is "anyuid". It does not allow: spec.hostPID=true.',
        customScc('anyuid', 'set allowHostPID=true'),
      ],
    },
    {
      name: 'nothing may be used, and something could be granted',
      given: { canUse: () => false },
      expected: [grantOf('restricted-v2')],
    },
    {
      name: 'nothing may be used, and nothing would help',
      given: { canUse: () => false, sccs: STANDARD.slice(0, 1), object: podWith({ hostIPC: true }) },
      expected: ['No SCC is usable. The closest one is "anyuid". It does not allow: spec.hostIPC=true.', NONE],
    },
    {
      name: 'no SCC would help',
      given: {
        sccs: STANDARD.filter(({ metadata }) => metadata?.name === 'restricted-v2'),
        object: podWith({ hostIPC: true }),
      },
      expected: ['The closest usable SCC is "restricted-v2". It does not allow: spec.hostIPC=true.', NONE],
    },
    {
      name: 'an SCC that is none of the platform is granted by its verb',
      given: { sccs: [laxScc({ name: 'web' })], canUse: () => false },
      expected: ['SCC "web" would admit the pod if service account "default" were granted its use.'],
    },
    {
      name: 'a pod without a service account: to the user',
      given: {
        object: podWith({ serviceAccountName: '' }),
        sccs: [laxScc({ name: 'web' })],
        userInfo: ALICE,
        canUse: () => false,
      },
      expected: ['SCC "web" would admit the pod if user "alice" were granted its use.'],
    },
    {
      name: 'an SCC that cannot work is not near',
      given: {
        sccs: [laxScc({ name: 'broken', runAsUser: { type: 'MustRunAs' }, users: ['alice'] })],
        userInfo: ALICE,
      },
      expected: [],
    },
    {
      name: 'the SCC that the pod requires does not exist',
      given: {
        object: podWith({}, { annotations: { 'openshift.io/required-scc': 'nope' } }),
        sccs: STANDARD.slice(0, 3),
      },
      expected: [
        'Annotation openshift.io/required-scc requires SCC "nope", which does not exist. Existing SCCs: anyuid, hostaccess, hostmount-anyuid.',
      ],
    },
    {
      name: 'the SCC that the pod requires may not be used',
      given: { object: podWith({}, { annotations: { 'openshift.io/required-scc': 'privileged' } }) },
      expected: [grantOf('privileged')],
    },
    {
      name: 'the pod does not fit the SCC that it requires',
      given: {
        object: {
          ...withContainer({ runAsUser: 0 }),
          metadata: { annotations: { 'openshift.io/required-scc': 'restricted-v2' } },
        },
      },
      expected: [
        'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.runAsUser=0.',
      ],
    },
    {
      name: 'the namespace has no ranges yet',
      given: { namespace: namespaceWith({}, 'new') },
      expected: [
        'Namespace "new" has no annotation openshift.io/sa.scc.uid-range yet. Retry in a few seconds. If this persists, the range allocator is not running or has no free range (event UIDRangeFull).',
      ],
    },
    {
      name: 'the namespace has ids from elsewhere, and no label',
      given: { namespace: namespaceWith({ 'openshift.io/sa.scc.uid-range': '5000/10' }, 'new') },
      expected: [
        'Namespace "new" has no annotation openshift.io/sa.scc.mcs. Set it, or remove openshift.io/sa.scc.uid-range=5000/10 so that both are allocated.',
      ],
    },
    {
      name: 'the namespace has no label, and ids that are none',
      given: { namespace: namespaceWith({ 'openshift.io/sa.scc.uid-range': 'some ids' }, 'new') },
      expected: [
        'Namespace "new" has no annotation openshift.io/sa.scc.mcs. Set it, or remove openshift.io/sa.scc.uid-range="some ids" so that both are allocated.',
      ],
    },
    ...WRONG_RANGES.map(({ key, value, text }) => ({
      name: `an annotation of the namespace is wrong: ${key}=${value}`,
      given: {
        namespace: namespaceWith({ ...DEMO.metadata?.annotations, [`openshift.io/sa.scc.${key}`]: value }),
        object: withContainer({ runAsUser: 0 }),
      },
      expected: [
        `Annotation openshift.io/sa.scc.${key}=${text}. Correct it, or remove it so that a value is allocated.`,
      ],
    })),
    {
      name: 'an SCC without which no pod is admitted is missing',
      given: { compatibility: { requiredSccs: ['restricted-v2', 'nosuch'] } },
      expected: [
        'SCC "nosuch" does not exist, and no pod is admitted without it. Create it, or remove it from --scc-required.',
      ],
    },
    { name: 'there is no SCC', given: { sccs: [] }, expected: [] },
    {
      name: 'more containers than anybody runs',
      given: { object: withContainer(...Array.from({ length: 1001 }, () => ({ privileged: true }))) },
      expected: [],
    },
    { name: 'something else than a pod', given: { object: { spec: 'x' } }, expected: [] },
  ];
  for (const { name, given, expected } of cases) {
    test(name, () => {
      const decision = assignScc(request(given));
      assert.equal(decision.allowed, false);
      assert.deepEqual(decision.warnings, expected);
      assert.deepEqual(assignScc({ ...request(given), compatibility: 'openshift' }).warnings, []);
    });
  }
});

describe('a change that is not allowed', () => {
  const bare = podWith({});
  const recorded = podWith({}, { annotations: { 'openshift.io/scc': 'restricted-v2' } });
  const changed = podWith({ priority: 1 }, { annotations: { 'openshift.io/scc': 'restricted-v2' } });

  test('on an update', () => {
    const decision = assignScc(request({ operation: 'UPDATE', object: changed, oldObject: recorded }));
    assert.deepEqual(decision.warnings, [
      'SCC "restricted-v2" would have to change metadata.annotations[seccomp.security.alpha.kubernetes.io/pod], spec.containers[0].securityContext.runAsUser and 6 more. An update cannot change them: create the pod again.',
    ]);
  });
  const UPDATES: readonly (Case & { readonly given: { readonly object: JsonObject } })[] = [
    {
      name: 'a pod from before SCCs were enforced: create it anew with what it needs, not with what an update would',
      given: { object: withContainer({ runAsUser: 0 }), oldObject: bare },
      expected: [
        'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.runAsUser=0.',
        'SCC "anyuid" would admit the pod if it were created again and service account "default" were granted its use: bind ClusterRole "system:openshift:scc:anyuid".',
      ],
    },
    {
      name: 'a pod that would get nothing from the SCC to grant',
      given: {
        object: withContainer({ runAsUser: 0 }),
        oldObject: bare,
        sccs: [...STANDARD, laxScc({ name: 'any' })],
      },
      expected: [
        'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.runAsUser=0.',
        'SCC "any" would admit the pod if service account "default" were granted its use.',
      ],
    },
    {
      name: 'a pod that only its debug container keeps from its SCC',
      given: {
        object: podWith({ ephemeralContainers: [{ name: 'debug', securityContext: { privileged: true } }] }),
        oldObject: bare,
      },
      expected: [
        'The closest usable SCC is "restricted-v2". It does not allow: spec.ephemeralContainers[0].securityContext.privileged=true.',
        'SCC "restricted-v2" would admit the pod if it were created again.',
      ],
    },
    {
      name: 'a debug container that no SCC may be used for',
      given: {
        subResource: 'ephemeralcontainers',
        object: podWith({ ephemeralContainers: [{ name: 'debug', securityContext: { privileged: true } }] }),
        oldObject: bare,
      },
      expected: [
        'The closest usable SCC is "restricted-v2". It does not allow: spec.ephemeralContainers[0].securityContext.privileged=true.',
        grantOf('privileged'),
      ],
    },
  ];
  for (const { name, given, expected } of UPDATES) {
    test(name, () => {
      for (const decide of [assignScc, validateScc]) {
        const decision = decide(request({ operation: 'UPDATE', ...given }));
        assert.equal(decision.allowed, false);
        assert.deepEqual(decision.warnings, expected);
      }
    });
  }
  test('in the second pass', () => {
    const decision = validateScc(
      request({ object: bare, sccs: [laxScc({ readOnlyRootFilesystem: true })], canUse: () => true }),
    );
    assert.deepEqual(decision.warnings, [
      'SCC "lax" would have to change spec.containers[0].securityContext.readOnlyRootFilesystem. The pod was changed after its SCC had been assigned.',
    ]);
  });
  test('of the SCC that is required', () => {
    const object = podWith({}, { annotations: { 'openshift.io/required-scc': 'anyuid' } });
    assert.deepEqual(assignScc(request({ operation: 'UPDATE', object, oldObject: recorded })).warnings, []);
  });
});

describe('a pod that is admitted', () => {
  const cases: readonly Case[] = [
    { name: 'by its service account', given: {}, expected: [] },
    {
      name: 'by its user alone',
      given: { userInfo: ADMIN, object: withContainer({ runAsUser: 0 }) },
      expected: [
        'SCC "anyuid" admits the pod only because its creator may use it. Service account "default" may not use it, so such pods fail when a controller creates them.',
      ],
    },
    {
      name: 'by its user, while the service account has another SCC',
      given: { userInfo: ADMIN },
      expected: [
        'SCC "anyuid" admits the pod only because its creator may use it. Service account "default" may not use it, so such pods get SCC "restricted-v2" when a controller creates them.',
      ],
    },
    {
      name: 'by its user, the service account being taken for nobody',
      given: { userInfo: ALICE, compatibility: { identity: 'openshift' } },
      expected: [],
    },
    {
      name: 'without a service account',
      given: { userInfo: ALICE, object: podWith({ serviceAccountName: '' }) },
      expected: [],
    },
    {
      name: 'on an update: it runs already',
      given: {
        operation: 'UPDATE',
        userInfo: ADMIN,
        sccs: [laxScc({ name: 'web', groups: ['system:cluster-admins'] })],
        object: podWith({}, { annotations: { 'openshift.io/scc': 'web' }, labels: { a: 'b' } }),
        oldObject: podWith({}, { annotations: { 'openshift.io/scc': 'web' } }),
      },
      expected: [],
    },
    {
      name: 'a debug container by its user alone',
      given: {
        operation: 'UPDATE',
        subResource: 'ephemeralcontainers',
        userInfo: ADMIN,
        object: admittedPod({ ephemeralContainers: [{ name: 'debug', securityContext: { privileged: true } }] }),
        oldObject: admittedPod({}),
      },
      expected: [
        'SCC "privileged" admits the debug container only because you may use it. Service account "default" may not use it. The pod now exceeds SCC "restricted-v2", which it is annotated with.',
      ],
    },
    {
      name: 'a debug container that the service account might have, too',
      given: {
        operation: 'UPDATE',
        subResource: 'ephemeralcontainers',
        userInfo: ADMIN,
        object: admittedPod({ ephemeralContainers: [{ name: 'debug' }] }),
        oldObject: admittedPod({}),
      },
      expected: [],
    },
    {
      name: 'a user namespace, and an id that it does not have',
      given: { object: podWith({ hostUsers: false }) },
      expected: [
        'A pod with spec.hostUsers=false has IDs up to 65535, but SCC "restricted-v2" runs it as user 1000660000. Set annotation openshift.io/required-scc=restricted-v3, or set runAsUser to a value from 1000 to 65534.',
      ],
    },
    {
      name: 'a user namespace, and an id that it does not have and that the pod itself asks for',
      given: { object: podWith({ hostUsers: false, securityContext: { runAsUser: 1000660001 } }) },
      expected: [
        'A pod with spec.hostUsers=false has IDs up to 65535, but SCC "restricted-v2" runs it as user 1000660001. Set runAsUser to at most 65535, or remove spec.hostUsers.',
      ],
    },
    {
      name: 'a user namespace, and an id in it',
      given: { object: podWith({ hostUsers: false, securityContext: { runAsUser: 1000 } }) },
      expected: [],
    },
    {
      name: 'Windows',
      given: { object: podWith({ os: { name: 'windows' } }), userInfo: ADMIN },
      expected: [],
    },
  ];
  for (const { name, given, expected } of cases) {
    test(name, () => {
      const decision = assignScc(request(given));
      assert.equal(decision.allowed, true);
      assert.deepEqual(decision.warnings, expected);
      assert.deepEqual(assignScc({ ...request(given), compatibility: 'openshift' }).warnings, []);
    });
  }
});

describe('names and values', () => {
  const long = 'x'.repeat(300);

  test('that are long are cut, and those that steer a terminal quoted', () => {
    const object = withContainer({ seLinuxOptions: { level: 's0\u001b[2J', role: long } });
    const sccs = [laxScc({ name: 'a', seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { level: 's1' } } })];
    const { warnings } = assignScc(request({ object, sccs, canUse: () => true }));
    assert.deepEqual(warnings, [
      `The closest usable SCC is "a". It does not allow: spec.containers[0].securityContext.seLinuxOptions.level="s0\\x1b[2J", spec.containers[0].securityContext.seLinuxOptions.role=${'x'.repeat(37)}....`,
      NONE,
    ]);
  });
  test('that stand in paths hold no control characters', () => {
    const object = podWith(
      { containers: [{ name: `a\n${long}`, securityContext: {} }] },
      {
        annotations: { [`container.seccomp.security.alpha.kubernetes.io/a\n${long}`]: 'odd' },
      },
    );
    const [warning = ''] = assignScc(request({ object })).warnings;
    assert.equal(warning.length, 256);
    assert.ok(!/\p{Cc}/u.test(warning), warning);
  });
});

test('warnings are short, of one line, and hold nothing of the environment of containers', () => {
  const secret = 'hunter2-hunter2';
  fc.assert(
    fc.property(create, fc.constantFrom(assignScc, validateScc), (input, decide) => {
      const pod = structuredClone(input.object) as { spec: { containers?: Record<string, unknown>[] } };
      for (const container of pod.spec.containers ?? []) {
        container['env'] = [{ name: 'PASSWORD', value: secret }];
        container['args'] = [secret];
      }
      const { warnings } = decide({ ...input, object: pod, compatibility: {} });
      assert.ok(warnings.length <= 2);
      for (const warning of warnings) {
        assert.ok(warning.length <= 256 && warning.endsWith('.') && !/[\p{Cc}]/u.test(warning), warning);
        assert.ok(!warning.includes(secret), warning);
      }
    }),
    { numRuns: 500 },
  );
});

test('what is said to be grantable admits the pod once it is granted', () => {
  let granted = 0;
  fc.assert(
    fc.property(create, (input) => {
      const decision = assignScc({ ...input, compatibility: {} });
      const [, scc] =
        decision.warnings.map((text) => /^SCC "([^"]+)" would admit the pod/.exec(text)).find((match) => match) ?? [];
      if (scc === undefined) return;
      granted++;
      const canUse: SccInput['canUse'] = (subject, name, namespace) =>
        name === scc || input.canUse(subject, name, namespace);
      const after = assignScc({ ...input, compatibility: {}, canUse });
      assert.equal(after.allowed && after.facts?.scc, scc);
    }),
    { numRuns: 500 },
  );
  assert.ok(granted > 20, String(granted));
});

test('the roles that are named are those that ship', () => {
  const roles = STANDARD_CLUSTER_ROLES.map(({ metadata }) => metadata?.name);
  for (const { scc } of STANDARD_SCCS) assert.ok(roles.includes(standardUseRole(scc.metadata?.name ?? '')));
  assert.equal(standardUseRole('web'), undefined);
  assert.equal(standardUseRole('constructor'), undefined);
});
