import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { parseAllDocuments } from 'yaml';
import type { JsonObject, UserInfo } from '../../../src/kube/types.ts';
import { assignScc, validateScc, type SccInput } from '../../../src/policy/scc/index.ts';
import { type Grant, laxScc, namespaceWith } from '../../support/scc.ts';
import { ADMIN, ALICE, annotationsOf, DEMO, messageOf, podWith, REPLICA_SETS, request, STANDARD } from './requests.ts';
import { createStatus } from '../../../src/kube/status.ts';
import { reportScc } from '../../../src/policy/scc/assign.ts';
import type { SccDecision } from '../../../src/policy/scc/request.ts';
import {
  decideWithKnownAccess,
  accessQuestionKey,
  type AccessQuestion,
  type CanUse,
} from '../../../src/policy/scc/access.ts';
import { STANDARD_SCCS } from '../../../src/policy/scc/standard.ts';

// Pods that are created and updated in a cluster with the standard SCCs.

const UNABLE = 'unable to validate against any security context constraint: ';
const denied = (...names: string[]): string[] =>
  names.map((name) => `provider "${name}": Forbidden: not usable by user or serviceaccount`);
const BEFORE_V2 = denied('anyuid');
const AFTER_V3 = denied(
  ...['restricted', 'nested-container', 'nonroot-v2', 'nonroot', 'hostmount-anyuid', 'hostmount-anyuid-v2'],
  ...['hostnetwork-v2', 'hostnetwork', 'hostaccess', 'privileged'],
);
const NO_USER_NAMESPACE =
  'provider restricted-v3: .spec.hostUsers: Invalid value: null: Host Users must be set to false';
const HINT =
  'no access to scc/restricted: Forbidden: the pod fails to validate against the `restricted-v2` security context constraint, but would validate successfully against the `restricted` security context constraint';

suite('a pod becomes what its SCC makes of it', () => {
  const fixtures: readonly { name: string; userInfo: UserInfo; grants: readonly Grant[] }[] = [
    { name: 'restricted-v2', userInfo: REPLICA_SETS, grants: [] },
    { name: 'restricted-v3', userInfo: REPLICA_SETS, grants: [] },
    { name: 'anyuid', userInfo: ADMIN, grants: [] },
    {
      name: 'nested-container',
      userInfo: REPLICA_SETS,
      grants: [{ user: 'system:serviceaccount:demo:builder', sccs: ['nested-container'] }],
    },
  ];
  for (const { name, userInfo, grants } of fixtures) {
    test(name, () => {
      const text = readFileSync(new URL(`../../fixtures/scc/${name}.yaml`, import.meta.url), 'utf8');
      const [before, after] = parseAllDocuments(text).map((document) => document.toJS() as JsonObject);
      const decision = assignScc(request({ object: before, userInfo, grants }));
      assert.deepEqual(decision.allowed ? decision.object : messageOf(decision), after);
      assert.deepEqual(validateScc(request({ object: after, userInfo, grants })), {
        allowed: true,
        warnings: [],
        auditAnnotations: { chosen: name },
        facts: decision.facts,
      });
    });
  }
});

suite('the SCC and the subject', () => {
  const cases: readonly {
    readonly name: string;
    readonly object: JsonObject;
    readonly userInfo?: UserInfo;
    readonly grants?: readonly Grant[];
    readonly scc: string;
    readonly subjectType: string;
  }[] = [
    {
      name: 'the service account, if it may use the SCC as well as the user',
      object: podWith({}),
      userInfo: ADMIN,
      grants: [{ user: 'system:serviceaccount:demo:default', sccs: ['anyuid'] }],
      scc: 'anyuid',
      subjectType: 'serviceaccount',
    },
    {
      name: 'a grant to all service accounts of the namespace',
      object: podWith({}),
      grants: [{ group: 'system:serviceaccounts:demo', sccs: ['anyuid'] }],
      scc: 'anyuid',
      subjectType: 'serviceaccount',
    },
    {
      name: 'a grant in another namespace does not count',
      object: podWith({}),
      grants: [{ user: 'system:serviceaccount:demo:default', namespace: 'other', sccs: ['anyuid'] }],
      scc: 'restricted-v2',
      subjectType: 'serviceaccount',
    },
    {
      name: 'a pod without a service account has the user alone',
      object: podWith({ serviceAccountName: '' }),
      userInfo: { username: 'system:node:n1', groups: ['system:nodes', 'system:authenticated'] },
      scc: 'restricted-v2',
      subjectType: 'user',
    },
    {
      name: 'an SCC that allows no seccomp profile is passed over if the pod sets one',
      object: podWith({ securityContext: { seccompProfile: { type: 'RuntimeDefault' } } }),
      userInfo: ADMIN,
      scc: 'restricted-v2',
      subjectType: 'serviceaccount',
    },
    {
      name: 'annotations that the client presets are overwritten',
      object: podWith(
        {},
        { annotations: { 'openshift.io/scc': 'privileged', 'security.openshift.io/validated-scc-subject-type': 'x' } },
      ),
      scc: 'restricted-v2',
      subjectType: 'serviceaccount',
    },
  ];
  for (const { name, scc, subjectType, ...given } of cases) {
    test(name, () => {
      const annotations = annotationsOf(assignScc(request(given))) ?? {};
      assert.equal(annotations['openshift.io/scc'], scc);
      assert.equal(annotations['security.openshift.io/validated-scc-subject-type'], subjectType);
    });
  }
});

suite('refusals', () => {
  const cases: readonly {
    readonly name: string;
    readonly object: JsonObject;
    readonly message: string;
  }[] = [
    {
      name: 'a user outside of the range, which restricted would not allow either',
      object: podWith({ securityContext: { runAsUser: 0 } }),
      message: `${UNABLE}[${[
        ...BEFORE_V2,
        'provider restricted-v2: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000660000, 1000669999]',
        NO_USER_NAMESPACE,
        'provider restricted-v3: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000, 65534]',
        ...AFTER_V3,
      ].join(', ')}]`,
    },
    {
      name: 'what restricted would allow',
      object: podWith({ containers: [{ name: 'app', securityContext: { allowPrivilegeEscalation: true } }] }),
      message: `${UNABLE}[${[
        ...BEFORE_V2,
        'provider restricted-v2: .containers[0].allowPrivilegeEscalation: Invalid value: true: Allowing privilege escalation for containers is not allowed',
        NO_USER_NAMESPACE,
        'provider restricted-v3: .containers[0].allowPrivilegeEscalation: Invalid value: true: Allowing privilege escalation for containers is not allowed',
        ...AFTER_V3,
        HINT,
      ].join(', ')}]`,
    },
    {
      name: 'only the required SCC counts, without brackets if it says one thing',
      object: podWith({}, { annotations: { 'openshift.io/required-scc': 'privileged' } }),
      message: `${UNABLE}provider "privileged": Forbidden: not usable by user or serviceaccount`,
    },
    {
      name: 'a required SCC that does not exist',
      object: podWith({}, { annotations: { 'openshift.io/required-scc': 'gone' } }),
      message:
        'failed to retrieve the required SCC "gone": securitycontextconstraints.security.openshift.io "gone" not found',
    },
    {
      name: 'complaints that name no SCC are made once',
      object: podWith({ securityContext: { sysctls: [{ name: 'kernel.msgmax', value: '1' }] } }),
      message: `${UNABLE}[${[
        ...BEFORE_V2,
        'spec.securityContext.sysctls[0]: Forbidden: unsafe sysctl "kernel.msgmax" is not allowed',
        NO_USER_NAMESPACE,
        ...AFTER_V3,
      ].join(', ')}]`,
    },
  ];
  for (const { name, object, message } of cases) {
    test(name, () => {
      const decision = assignScc(request({ object }));
      assert.equal(messageOf(decision), message);
      assert.ok(!decision.allowed && decision.status.code === 403 && decision.status.reason === 'Forbidden');
    });
  }

  test('no SCC at all', () => {
    assert.equal(messageOf(assignScc(request({ sccs: [] }))), 'no SecurityContextConstraints found in cluster');
  });

  for (const { key, given } of [
    { key: 'openshift.io/sa.scc.uid-range', given: {} },
    { key: 'openshift.io/sa.scc.mcs', given: { 'openshift.io/sa.scc.uid-range': '1/5' } },
  ]) {
    test(`a namespace without ${key}, even for those who may everything`, () => {
      const namespace = { metadata: { name: 'demo', annotations: given } };
      const message = messageOf(assignScc(request({ namespace, userInfo: ADMIN })));
      assert.equal(message, `error fetching namespace "demo": unable to find annotation ${key}`);
    });
  }
});

suite('requests that SCCs have nothing to do with', () => {
  const object = podWith({ hostNetwork: true });
  const cases = [
    { name: 'Windows', given: { object: podWith({ os: { name: 'windows' }, hostNetwork: true }) } },
    { name: 'the status', given: { operation: 'UPDATE', subResource: 'status', object, oldObject: podWith({}) } },
    { name: 'a binding', given: { subResource: 'binding', object } },
    { name: 'deletion', given: { operation: 'DELETE', object: null, oldObject: object } },
    {
      name: 'owners and finalizers',
      given: {
        operation: 'UPDATE',
        object: podWith(
          { hostNetwork: true },
          { finalizers: ['x/y'], ownerReferences: [{ uid: '1' }], managedFields: [{}] },
        ),
        oldObject: object,
      },
    },
    {
      name: 'the annotation of the network plugin',
      given: {
        operation: 'UPDATE',
        object: podWith({ hostNetwork: true }, { annotations: { 'k8s.ovn.org/pod-networks': '{}' } }),
        oldObject: object,
      },
    },
    {
      name: 'a scheduling gate is lifted',
      given: {
        operation: 'UPDATE',
        object,
        oldObject: podWith({ hostNetwork: true, schedulingGates: [{ name: 'gate' }] }),
      },
    },
  ] as const;
  for (const { name, given } of cases) {
    test(name, () => {
      const input = request(given);
      const passed = { allowed: true, warnings: [], auditAnnotations: {} };
      assert.deepEqual(assignScc(input), { ...passed, object: input.object });
      assert.deepEqual(validateScc(input), passed);
    });
  }
});

suite('updates', () => {
  const admitted = assignScc(request({}));
  const oldObject = admitted.allowed ? (admitted.object as JsonObject & { readonly spec: JsonObject }) : undefined;
  assert.ok(oldObject);
  const debug = { name: 'debug', image: 'tools:1' };

  test('a label on an admitted pod', () => {
    const object = { ...oldObject, metadata: { ...(oldObject['metadata'] as JsonObject), labels: { a: 'b' } } };
    const decision = assignScc(request({ operation: 'UPDATE', object, oldObject }));
    assert.deepEqual(decision, {
      allowed: true,
      object,
      warnings: [],
      auditAnnotations: { chosen: 'restricted-v2' },
      facts: { scc: 'restricted-v2', subjectType: 'serviceaccount' },
    });
  });

  test('the required SCC cannot be changed', () => {
    const metadata = oldObject['metadata'] as { readonly annotations: JsonObject };
    const annotations = { ...metadata.annotations, 'openshift.io/required-scc': 'restricted-v2' };
    const object = { ...oldObject, metadata: { ...metadata, annotations } };
    assert.equal(
      messageOf(assignScc(request({ operation: 'UPDATE', object, oldObject }))),
      'invalid change of required security context constraint annotation: openshift.io/required-scc',
    );
  });

  test('an ephemeral container gets its values through its own subresource', () => {
    const object = { ...oldObject, spec: { ...oldObject.spec, ephemeralContainers: [debug] } };
    const input = request({ operation: 'UPDATE', subResource: 'ephemeralcontainers', object, oldObject });
    const decision = assignScc(input);
    assert.ok(decision.allowed, messageOf(decision));
    assert.deepEqual((decision.object as typeof oldObject).spec['ephemeralContainers'], [
      {
        ...debug,
        securityContext: {
          runAsUser: 1_000_660_000,
          runAsNonRoot: true,
          allowPrivilegeEscalation: false,
          capabilities: { drop: ['ALL'] },
        },
      },
    ]);
    assert.deepEqual(decision.auditAnnotations, { chosen: 'restricted-v2' });
  });

  test('not through the pod itself: the SCC would have to change it, which is no error of its own', () => {
    const object = { ...oldObject, spec: { ...oldObject.spec, ephemeralContainers: [debug] } };
    const message = messageOf(assignScc(request({ operation: 'UPDATE', object, oldObject })));
    const wrongIds = [
      'provider restricted-v3: .spec.securityContext.fsGroup: Invalid value: [1000660000]: 1000660000 is not an allowed group',
      NO_USER_NAMESPACE,
      'provider restricted-v3: .containers[0].runAsUser: Invalid value: 1000660000: must be in the ranges: [1000, 65534]',
    ];
    assert.equal(message, `${UNABLE}[${[...BEFORE_V2, ...wrongIds, ...AFTER_V3].join(', ')}]`);
  });

  test('a resize changes nothing', () => {
    const containers = (oldObject.spec['containers'] as readonly JsonObject[]).map((container) => ({
      ...container,
      resources: { requests: { cpu: '2' } },
    }));
    const object = { ...oldObject, spec: { ...oldObject.spec, containers } };
    const decision = assignScc(request({ operation: 'UPDATE', subResource: 'resize', object, oldObject }));
    assert.deepEqual(decision.allowed && decision.object, object);
  });

  test('an old object that is no pod', () => {
    assert.equal(
      messageOf(assignScc(request({ operation: 'UPDATE', oldObject: ['<>'] }))),
      'object was marked as kind pod but was unable to be converted: ["<>"]',
    );
  });
});

suite('audit annotations', () => {
  const cases = [
    {
      name: 'chosen over the next',
      given: { userInfo: ADMIN },
      expected: {
        denied: '',
        reason:
          '"anyuid" is most restrictive, not denied, and chosen over "restricted-v2" because "anyuid" has higher priority',
      },
    },
    {
      name: 'the only one',
      given: {},
      expected: { denied: 'anyuid', reason: '"restricted-v2" is the only one not too restrictive and not denied' },
    },
    {
      name: 'chosen by name',
      given: { object: podWith({ hostUsers: false, containers: [] }), sccs: [] },
      expected: {},
    },
  ] as const;
  for (const { name, given, expected } of cases) {
    test(name, () => assert.deepEqual(assignScc(request(given)).auditAnnotations, expected));
  }

  test('all denied', () => {
    const { auditAnnotations } = assignScc(request({ canUse: () => false }));
    assert.equal(auditAnnotations['reason'], 'all denied');
    assert.match(auditAnnotations['denied'] ?? '', /^anyuid,restricted-v2,/);
  });

  test('what is too restrictive says so', () => {
    const object = podWith({ hostPID: true, containers: [] });
    const { auditAnnotations } = assignScc(request({ object }));
    assert.equal(auditAnnotations['reason'], 'all too restrictive or denied');
    assert.equal(
      auditAnnotations['too-restrictive-restricted-v2'],
      'provider restricted-v2: .spec.hostPID: Invalid value: true: Host PID is not allowed to be used',
    );
  });
});

suite('the second pass', () => {
  const admitted = assignScc(request({}));
  const object = admitted.allowed ? (admitted.object as JsonObject) : {};
  const metadata = object['metadata'] as { readonly annotations: JsonObject };
  const recorded = (scc: string, more: JsonObject = {}): JsonObject => ({
    ...object,
    metadata: { ...metadata, annotations: { ...metadata.annotations, 'openshift.io/scc': scc, ...more } },
  });

  test('the recorded SCC is a hint: another may accept the pod', () => {
    assert.deepEqual(validateScc(request({ object: recorded('privileged') })).auditAnnotations, {
      chosen: 'restricted-v2',
      'denied-validation': 'originally chosen "privileged" got denied in final validation after mutating admission',
      'reason-validation':
        'originally chosen "privileged" did not pass final validation after mutating admission, but "restricted-v2" did instead',
    });
  });

  test('the required SCC binds', () => {
    const pod = recorded('restricted-v2', { 'openshift.io/required-scc': 'anyuid' });
    assert.equal(
      messageOf(validateScc(request({ object: pod }))),
      'required scc/anyuid does not match the suggested scc/restricted-v2',
    );
  });

  test('a container that came later without its values is refused, without a word about it', () => {
    const spec = object['spec'] as { readonly containers: readonly unknown[] };
    const pod = { ...recorded('restricted-v2'), spec: { ...spec, containers: [...spec.containers, { name: 'late' }] } };
    const sccs = request({}).sccs.filter(({ metadata: { name } = {} }) => name === 'restricted-v2');
    const decision = validateScc(request({ object: pod, sccs }));
    assert.equal(messageOf(decision), `${UNABLE}[]`);
    assert.deepEqual(decision.auditAnnotations, {
      'denied-validation':
        'originally chosen "restricted-v2" got denied in final validation after mutating admission, and no other matched',
      'too-restrictive-restricted-v2': 'failures final validation after mutating admission',
    });
  });

  test('equal complaints are repeated', () => {
    const sysctls = [{ name: 'kernel.msgmax', value: '1' }];
    const pod = podWith({ hostUsers: false, securityContext: { sysctls }, containers: [] });
    const sccs = request({}).sccs.filter(({ metadata: { name = '' } = {} }) => /^restricted-v/.test(name));
    const text = 'spec.securityContext.sysctls[0]: Forbidden: unsafe sysctl "kernel.msgmax" is not allowed';
    assert.equal(messageOf(validateScc(request({ object: pod, sccs }))), `${UNABLE}[${text} ${text}]`);
  });
});

test('who asks is given to the authorizer as authenticated', () => {
  const asked: unknown[] = [];
  const extra = { 'example.com/team': ['a'] };
  assignScc(
    request({
      userInfo: { ...ALICE, uid: '7', extra },
      sccs: request({}).sccs.slice(0, 1),
      canUse: (subject, sccName, namespaceName) => {
        asked.push([subject, sccName, namespaceName]);
        return false;
      },
    }),
  );
  const groups = ['system:serviceaccounts', 'system:serviceaccounts:demo', 'system:authenticated'];
  assert.deepEqual(asked, [
    [{ username: 'system:serviceaccount:demo:default', groups }, 'anyuid', DEMO.metadata?.name],
    [{ username: 'alice', groups: ['system:authenticated'], uid: '7', extra }, 'anyuid', 'demo'],
  ]);
});

// Where this program is not like OpenShift unless told to be.

const SCC = 'openshift.io/scc';
const SUBJECT = 'security.openshift.io/validated-scc-subject-type';

suite('identity', () => {
  for (const [compatibility, subjectType] of [
    [undefined, 'serviceaccount'],
    [{ identity: 'accurate' }, 'serviceaccount'],
    [{ identity: 'openshift' }, 'user'],
    ['openshift', 'user'],
  ] as const) {
    test(JSON.stringify(compatibility) ?? 'by default', () => {
      const annotations = annotationsOf(assignScc(request({ compatibility })));
      assert.equal(annotations?.[SCC], 'restricted-v2');
      assert.equal(annotations[SUBJECT], subjectType);
    });
  }
});

suite('an SCC that cannot work', () => {
  const broken = laxScc({ name: 'broken', priority: 99, runAsUser: { type: 'MustRunAs' } });
  const sccs = [...STANDARD, broken];
  const error = 'error creating provider for SCC broken in namespace demo: MustRunAs requires a UID';

  test('fits no pod, and says so to those who may use it', () => {
    const decision = assignScc(request({ sccs, canUse: () => true }));
    assert.equal(annotationsOf(decision)?.[SCC], 'anyuid');
    assert.equal(decision.auditAnnotations['too-restrictive-broken'], `provider "broken": Internal error: ${error}`);
  });

  test('alone it refuses', () => {
    assert.equal(
      messageOf(assignScc(request({ sccs: [broken], canUse: () => true }))),
      `unable to validate against any security context constraint: provider "broken": Internal error: ${error}`,
    );
  });

  test('it stops every pod, if it is to be as on OpenShift', () => {
    assert.equal(messageOf(assignScc(request({ sccs, compatibility: { brokenScc: 'refuse' } }))), error);
    assert.equal(messageOf(assignScc(request({ sccs, compatibility: 'openshift' }))), error);
  });

  test('all that are broken are named then, those behind the others, too', () => {
    const more = [...sccs, laxScc({ name: 'z', fsGroup: {}, seLinuxContext: { type: 'No' } })];
    assert.equal(
      messageOf(assignScc(request({ sccs: more, compatibility: 'openshift' }))),
      `[${error}, error creating provider for SCC z in namespace demo: Unrecognized SELinuxContext strategy type No]`,
    );
  });

  test('a field of a wrong type makes an SCC useless, not lax', () => {
    const odd = { ...laxScc({ name: 'odd', users: ['alice'] }), allowPrivilegedContainer: 'yes' };
    assert.equal(
      messageOf(assignScc(request({ sccs: [odd as never], canUse: () => true }))),
      'unable to validate against any security context constraint: provider "odd": Internal error: error creating provider for SCC odd in namespace demo: allowPrivilegedContainer: Invalid value: "yes": must be a boolean',
    );
  });

  for (const [key, value, cause] of [
    [
      'openshift.io/sa.scc.uid-range',
      '',
      'uid annotation: found annotation openshift.io/sa.scc.uid-range but it was empty',
    ],
    ['openshift.io/sa.scc.uid-range', 'x', 'uid annotation: expected integer'],
    ['openshift.io/sa.scc.mcs', '', 'mcs annotation: found annotation openshift.io/sa.scc.mcs but it was empty'],
    [
      'openshift.io/sa.scc.supplemental-groups',
      '',
      'group annotation: unable to find groups using openshift.io/sa.scc.supplemental-groups and openshift.io/sa.scc.uid-range annotations',
    ],
  ] as const) {
    test(`the namespace has ${key}: ${JSON.stringify(value)}`, () => {
      const annotations = { ...DEMO.metadata?.annotations, [key]: value };
      const namespace = { metadata: { name: 'demo', annotations } };
      const own = STANDARD.filter(({ metadata }) => metadata?.name === 'restricted-v2');
      const colon = cause.indexOf(':');
      assert.equal(
        messageOf(assignScc(request({ namespace, sccs: own, compatibility: { brokenScc: 'refuse' } }))),
        `unable to find pre-allocated ${cause.slice(0, colon)} for namespace demo while trying to configure SCC restricted-v2${cause.slice(colon)}`,
      );
    });
  }
});

suite('required SCCs', () => {
  const sccs = STANDARD.filter(({ metadata }) => metadata?.name !== 'anyuid' && metadata?.name !== 'nonroot');

  test('none are by default', () => {
    assert.equal(annotationsOf(assignScc(request({ sccs })))?.[SCC], 'restricted-v2');
  });

  for (const [compatibility, names] of [
    ['openshift', 'anyuid, nonroot'],
    [{ requiredSccs: ['restricted-v2', 'ours', 'nonroot'] }, 'nonroot, ours'],
  ] as const) {
    test(`without ${names} nothing is admitted`, () => {
      assert.equal(
        messageOf(assignScc(request({ sccs, compatibility }))),
        `securitycontextconstraints.security.openshift.io cache is missing ${names}`,
      );
    });
  }
});

suite('pods from before there were SCCs', () => {
  const oldObject = podWith({ hostNetwork: true });
  const labelled = podWith({ hostNetwork: true }, { labels: { a: 'b' } });
  const update = (object: JsonObject, old = oldObject) => request({ operation: 'UPDATE', object, oldObject: old });

  test('are updated freely as long as their spec stays', () => {
    const passed = { allowed: true, warnings: [], auditAnnotations: {} };
    assert.deepEqual(assignScc(update(labelled)), { ...passed, object: labelled });
    assert.deepEqual(validateScc(update(labelled)), passed);
  });

  test('are judged on OpenShift', () => {
    assert.equal(assignScc({ ...update(labelled), compatibility: 'openshift' }).allowed, false);
    assert.equal(validateScc({ ...update(labelled), compatibility: 'openshift' }).allowed, false);
  });

  for (const [name, object, old] of [
    ['their spec changes', podWith({ hostNetwork: true, hostPID: true }), oldObject],
    ['they carry an SCC', labelled, podWith({ hostNetwork: true }, { annotations: { [SCC]: 'privileged' } })],
    ['they claim an SCC', podWith({ hostNetwork: true }, { annotations: { [SCC]: 'privileged' } }), oldObject],
  ] as const) {
    test(`are judged if ${name}`, () => {
      assert.equal(assignScc(update(object, old)).allowed, false);
      assert.equal(validateScc(update(object, old)).allowed, false);
    });
  }

  test('cannot take on a required SCC', () => {
    const object = podWith({ hostNetwork: true }, { annotations: { 'openshift.io/required-scc': 'privileged' } });
    assert.equal(
      messageOf(assignScc(update(object))),
      'invalid change of required security context constraint annotation: openshift.io/required-scc',
    );
  });
});

suite('preference for user namespaces', () => {
  const inUserNamespace = podWith({ hostUsers: false });
  for (const [name, given, scc] of [
    ['is off', { object: inUserNamespace }, 'restricted-v2'],
    ['among equals', { object: inUserNamespace, preferUserNamespaces: true }, 'restricted-v3'],
    ['for pods that have one', { preferUserNamespaces: true }, 'restricted-v2'],
    [
      'never across scores',
      {
        object: inUserNamespace,
        preferUserNamespaces: true,
        sccs: STANDARD.filter(({ metadata: { name: own = '' } = {} }) =>
          ['restricted-v2', 'nested-container'].includes(own),
        ),
        canUse: () => true,
      },
      'restricted-v2',
    ],
  ] as const) {
    test(name, () => assert.equal(annotationsOf(assignScc(request(given)))?.[SCC], scc));
  }
});

const PREFIX = 'would be refused if security context constraints were enforced: ';

function refusal(message: string, rest: Partial<Pick<SccDecision, 'warnings' | 'auditAnnotations'>> = {}): SccDecision {
  return {
    allowed: false,
    status: createStatus(403, 'Forbidden', message),
    warnings: [],
    auditAnnotations: {},
    ...rest,
  };
}

suite('a refusal becomes a warning', () => {
  const many = Array.from({ length: 40 }, (_, index) => `e${index}`).join(',');
  const LONG = `unable to validate against any security context constraint: [${many},${many}]`;
  const ONE =
    'unable to validate against any security context constraint: provider v2: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000660000, 1000669999]';
  const cases: readonly {
    readonly name: string;
    readonly refused: SccDecision;
    readonly warnings: readonly string[];
  }[] = [
    { name: 'short', refused: refusal('no SCC'), warnings: [`${PREFIX}no SCC`] },
    {
      name: 'few errors',
      refused: refusal('unable to validate against any security context constraint: [a, b]'),
      warnings: [`${PREFIX}unable to validate against any security context constraint: [a, b]`],
    },
    {
      name: 'errors that other warnings sum up',
      refused: refusal('unable to validate against any security context constraint: [a, b]', { warnings: ['do this'] }),
      warnings: [`${PREFIX}unable to validate against any security context constraint`, 'do this'],
    },
    {
      name: 'one error in which there is a list',
      refused: refusal(ONE, { warnings: ['do this'] }),
      warnings: [`${PREFIX}${ONE}`, 'do this'],
    },
    {
      name: 'one error that is too long, and that other warnings sum up',
      refused: refusal(ONE.replace('v2', 'x'.repeat(100)), { warnings: ['do this'] }),
      warnings: [`${PREFIX}unable to validate against any security context constraint`, 'do this'],
    },
    {
      name: 'too many errors: those of the first SCC that may be used',
      refused: refusal(LONG, {
        auditAnnotations: { 'too-restrictive-b': 'what b says', 'too-restrictive-a': 'what a says', denied: 'x' },
      }),
      warnings: [`${PREFIX}what b says`],
    },
    {
      name: 'too many errors, and no SCC may be used',
      refused: refusal(LONG, { auditAnnotations: { denied: 'x' } }),
      warnings: [`${(PREFIX + LONG).slice(0, 255)}…`],
    },
    {
      name: 'too long without errors',
      refused: refusal('x'.repeat(300)),
      warnings: [`${(PREFIX + 'x'.repeat(300)).slice(0, 255)}…`],
    },
  ];
  for (const { name, refused, warnings } of cases) {
    test(name, () => {
      const report = reportScc(refused);
      assert.equal(report.allowed, true);
      assert.deepEqual(report.warnings, warnings);
      assert.ok(report.warnings?.every((warning) => warning.length <= 256));
      assert.deepEqual(report.facts, {
        mode: 'report',
        verdict: 'deny',
        reason: refused.allowed ? '' : refused.status.message,
      });
      assert.deepEqual(report.auditAnnotations, { ...refused.auditAnnotations, mode: 'report' });
    });
  }
});

test('what is admitted stays as it is', () => {
  const facts = { scc: 'anyuid', subjectType: 'user' };
  const object = { kind: 'Pod' };
  assert.deepEqual(reportScc({ allowed: true, object, warnings: ['mind'], auditAnnotations: { denied: '' }, facts }), {
    allowed: true,
    warnings: ['mind'],
    auditAnnotations: { denied: '', mode: 'report' },
    facts: { ...facts, mode: 'report' },
  });
});

const INPUT: Omit<SccInput, 'canUse' | 'object'> = {
  operation: 'CREATE',
  namespace: namespaceWith({ 'openshift.io/sa.scc.uid-range': '1000/10', 'openshift.io/sa.scc.mcs': 's0:c1,c0' }),
  userInfo: { username: 'alice', groups: ['system:authenticated'] },
  sccs: STANDARD_SCCS.map(({ scc }) => scc),
};

/** Asks until the decision stands. */
function settle(decide: (canUse: CanUse) => SccDecision, answer: (question: AccessQuestion) => boolean) {
  const answers = new Map<string, boolean>();
  const asked: string[] = [];
  for (;;) {
    const step = decideWithKnownAccess(decide, (question) => answers.get(accessQuestionKey(question)));
    if ('decision' in step) return { decision: step.decision, asked };
    assert.ok(step.questions.length > 0);
    for (const question of step.questions) {
      assert.ok(!answers.has(accessQuestionKey(question)), 'nothing is asked twice');
      answers.set(accessQuestionKey(question), answer(question));
      asked.push(`${question.subject.username} ${question.sccName}`);
    }
  }
}

suite('deciding on what is known', () => {
  test('a question is the same for everybody who asks it, and for nobody else', () => {
    const question: AccessQuestion = {
      subject: { username: 'a', groups: ['b'] },
      sccName: 'anyuid',
      namespaceName: 'shop',
    };
    const others: readonly AccessQuestion[] = [
      { ...question, subject: { username: 'a', groups: ['b', 'c'] } },
      { ...question, subject: { username: 'a', groups: ['b'], uid: '1' } },
      { ...question, subject: { username: 'a', groups: ['b'], extra: { k: ['v'] } } },
      { ...question, sccName: 'privileged' },
      { ...question, namespaceName: 'other' },
    ];
    assert.equal(accessQuestionKey(question), accessQuestionKey(structuredClone(question)));
    assert.equal(new Set([question, ...others].map(accessQuestionKey)).size, 6);
  });

  test('nothing is asked where nothing depends on it', () => {
    const { decision, asked } = settle(
      (canUse) => assignScc({ ...INPUT, object: 7, canUse }),
      () => true,
    );
    assert.equal(decision.allowed, false);
    assert.deepEqual(asked, []);
  });

  test('whatever the answers: who asks comes to the choice, and to the refusal, of who knows', () => {
    const uid = fc.option(fc.constantFrom(0, 1000, 70_000), { nil: undefined });
    const pod = fc.record({
      uid,
      privileged: fc.boolean(),
      hostUsers: fc.constantFrom(undefined, false),
      serviceAccountName: fc.constantFrom(undefined, 'web'),
      hostNetwork: fc.boolean(),
    });
    const rights = fc.array(fc.boolean(), { minLength: 26, maxLength: 26 });
    fc.assert(
      fc.property(pod, rights, fc.constantFrom(assignScc, validateScc), (asks, allowed, pass) => {
        const { uid: runAsUser, privileged, ...spec } = asks;
        const containers = [{ name: 'c', image: 'i', securityContext: { runAsUser, privileged } }];
        const object = JSON.parse(
          JSON.stringify({ metadata: { name: 'web' }, spec: { ...spec, containers } }),
        ) as object;
        const answer = ({ subject, sccName }: Pick<AccessQuestion, 'subject' | 'sccName'>): boolean => {
          const place = INPUT.sccs.findIndex(({ metadata }) => metadata?.name === sccName);
          return allowed[place * 2 + Number(subject.username === 'alice')] ?? false;
        };
        const decide = (canUse: CanUse): SccDecision => pass({ ...INPUT, object, canUse });
        const knowing = decide((subject, sccName) => answer({ subject, sccName }));
        const asking = settle(decide, answer).decision;
        if (!knowing.allowed || !asking.allowed) assert.deepEqual(asking, knowing);
        else {
          assert.deepEqual([asking.facts, asking.object], [knowing.facts, knowing.object]);
          assert.deepEqual(asking.warnings, knowing.warnings);
        }
      }),
      { numRuns: 300 },
    );
  });
});
