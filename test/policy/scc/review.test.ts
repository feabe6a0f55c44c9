/** Reviews: which SCC admits a pod, for whom. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { JsonObject } from '../../../src/kube/types.ts';
import { answerReview, type ReviewInput } from '../../../src/policy/scc/review.ts';
import { canUseBy, laxScc } from '../../support/scc.ts';
import { ALICE, DEMO, STANDARD_GRANTS, STANDARD } from './requests.ts';

const CONTAINERS = [{ name: 'app', image: 'app:1' }];
const template = (spec: JsonObject = {}, metadata: JsonObject = {}): JsonObject => ({
  metadata,
  spec: { containers: CONTAINERS, ...spec },
});

type Given = Partial<ReviewInput> & {
  readonly kind: string;
  readonly spec: JsonObject;
  readonly metadata?: JsonObject;
};

function ask({ kind, spec, metadata, ...rest }: Given) {
  return answerReview({
    review: { kind, spec, ...(metadata === undefined ? {} : { metadata }) },
    namespace: DEMO,
    sccs: STANDARD,
    userInfo: ALICE,
    canUse: canUseBy([STANDARD_GRANTS]),
    hasServiceAccount: (name) => name === 'default' || name === 'builder',
    ...rest,
  });
}

const SUBJECT = 'PodSecurityPolicySubjectReview';
const SELF = 'PodSecurityPolicySelfSubjectReview';
const ACCOUNTS = 'PodSecurityPolicyReview';

const reference = (name: string) => ({
  kind: 'SecurityContextConstraints',
  name,
  apiVersion: 'security.openshift.io/v1',
});

describe('reviews that cannot be answered', () => {
  const RULE =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
  const cases: readonly {
    readonly name: string;
    readonly given: Given;
    readonly expected: readonly [number, string];
  }[] = [
    {
      name: 'another kind',
      given: { kind: 'SubjectAccessReview', spec: {} },
      expected: [400, `not one of ${SUBJECT}, ${SELF}, ${ACCOUNTS}`],
    },
    {
      name: 'nobody is asked about',
      given: { kind: SUBJECT, spec: { template: template() } },
      expected: [
        422,
        `${SUBJECT} "" is invalid: spec.user: Required value: at least one of user, groups or serviceAccountName must be specified`,
      ],
    },
    {
      name: 'nothing but a kind',
      given: { kind: SUBJECT, spec: {} },
      expected: [
        422,
        `${SUBJECT} "" is invalid: spec.user: Required value: at least one of user, groups or serviceAccountName must be specified`,
      ],
    },
    {
      name: 'a pod that cannot be decoded',
      given: { kind: SELF, spec: { template: template({ hostPID: 'yes' }) } },
      expected: [400, 'spec.template.spec.hostPID: Invalid value: "yes": must be a boolean'],
    },
    {
      name: 'metadata, and names that are none',
      given: {
        kind: ACCOUNTS,
        metadata: { name: 'x', namespace: 'demo', creationTimestamp: null },
        spec: { template: template({ serviceAccountName: 'A' }), serviceAccountNames: ['', 'B'] },
      },
      expected: [
        422,
        `${ACCOUNTS} "" is invalid: [spec.template.spec.serviceAccountName: Invalid value: "A": ${RULE}, spec.serviceAccountNames[0]: Invalid value: "", spec.serviceAccountNames[1]: Invalid value: "B": ${RULE}, metadata: Invalid value: {"name":"x","namespace":"demo","creationTimestamp":null}: must be empty]`,
      ],
    },
    {
      name: 'service accounts that do not exist',
      given: { kind: ACCOUNTS, spec: { template: template(), serviceAccountNames: ['builder', 'x', 'y'] } },
      expected: [
        400,
        '[unable to retrieve ServiceAccount x: serviceaccount "x" not found, unable to retrieve ServiceAccount y: serviceaccount "y" not found]',
      ],
    },
    {
      name: 'a broken SCC, if it stops everything',
      given: {
        kind: SELF,
        spec: { template: template() },
        sccs: [laxScc({ name: 'broken', runAsUser: { type: 'MustRunAs' }, users: ['alice'] })],
        compatibility: { brokenScc: 'refuse' },
      },
      expected: [500, 'error creating provider for SCC broken in namespace demo: MustRunAs requires a UID'],
    },
  ];
  for (const { name, given, expected } of cases) {
    test(name, () => {
      const answer = ask(given);
      assert.ok('error' in answer);
      assert.deepEqual([answer.error.code, answer.error.message], expected);
    });
  }
});

describe('answers', () => {
  const container = {
    ...CONTAINERS[0],
    imagePullPolicy: 'IfNotPresent',
    resources: {},
    terminationMessagePath: '/dev/termination-log',
    terminationMessagePolicy: 'File',
  };
  const filled = {
    spec: {
      containers: [{ ...container, securityContext: { readOnlyRootFilesystem: true } }],
      dnsPolicy: 'ClusterFirst',
      enableServiceLinks: true,
      restartPolicy: 'Always',
      schedulerName: 'default-scheduler',
      securityContext: {},
      serviceAccount: 'builder',
      serviceAccountName: 'builder',
      terminationGracePeriodSeconds: 30,
    },
  };
  const lax = laxScc({ name: 'web', readOnlyRootFilesystem: true, users: ['system:serviceaccount:demo:builder'] });
  const cases: readonly {
    readonly name: string;
    readonly given: Given;
    readonly status: JsonObject;
    readonly warnings?: readonly string[];
  }[] = [
    {
      name: 'a user without groups is in no group',
      given: { kind: SUBJECT, spec: { template: template(), user: 'alice' } },
      status: {},
    },
    {
      name: 'a group is enough',
      given: { kind: SUBJECT, spec: { template: template(), groups: ['system:authenticated'] } },
      status: { allowedBy: reference('restricted-v2') },
    },
    {
      name: 'the requester with all groups',
      given: { kind: SELF, spec: { template: template() } },
      status: { allowedBy: reference('restricted-v2') },
    },
    {
      name: 'the reason is told where nothing fits, and only there',
      given: { kind: SELF, spec: { template: template({ hostPID: true }) } },
      status: { reason: 'CantAssignSecurityContextConstraintProvider' },
    },
    {
      name: 'no reason stays from an SCC that did not fit before the one that does',
      given: { kind: SELF, spec: { template: template({ hostUsers: false }) }, sccs: STANDARD, canUse: () => true },
      status: { allowedBy: reference('anyuid') },
    },
    {
      name: 'the service account counts, and then the pod is told that the SCC makes of it',
      given: {
        kind: SUBJECT,
        spec: { template: template({ serviceAccountName: 'builder' }), user: 'bob' },
        sccs: [lax],
      },
      status: { allowedBy: reference('web'), template: filled },
    },
    {
      name: 'each SCC is tried on the pod as it was sent',
      given: {
        kind: ACCOUNTS,
        spec: { template: template({ hostIPC: true, serviceAccountName: 'builder' }) },
        canUse: () => true,
        sccs: [
          laxScc({ name: 'a', priority: 1, readOnlyRootFilesystem: true, allowHostIPC: false }),
          laxScc({ name: 'b', allowHostIPC: true }),
        ],
      },
      status: {
        allowedServiceAccounts: [
          {
            name: 'builder',
            allowedBy: reference('b'),
            template: {
              spec: {
                ...filled.spec,
                hostIPC: true,
                containers: [container],
              },
            },
          },
        ],
      },
    },
    {
      name: 'an SCC that cannot work is left out, and said so',
      given: {
        kind: ACCOUNTS,
        spec: { template: template(), serviceAccountNames: ['default', 'builder'] },
        canUse: () => true,
        sccs: [laxScc({ name: 'broken', runAsUser: { type: 'MustRunAs' } }), laxScc({ name: 'web' })],
      },
      status: {
        allowedServiceAccounts: [
          { name: 'default', allowedBy: reference('web') },
          { name: 'builder', allowedBy: reference('web') },
        ],
      },
      warnings: ['error creating provider for SCC broken in namespace demo: MustRunAs requires a UID'],
    },
    {
      name: 'a broken SCC leaves an account without any, if it stops everything',
      given: {
        kind: ACCOUNTS,
        spec: { template: template() },
        canUse: () => true,
        sccs: [laxScc({ name: 'broken', runAsUser: { type: 'MustRunAs' } }), laxScc({ name: 'web' })],
        compatibility: { brokenScc: 'refuse' },
      },
      status: { allowedServiceAccounts: [] },
      warnings: ['error creating provider for SCC broken in namespace demo: MustRunAs requires a UID'],
    },
    {
      name: 'the SCC that the pod requires is the only one',
      given: {
        kind: SELF,
        spec: { template: template({}, { annotations: { 'openshift.io/required-scc': 'privileged' } }) },
        canUse: () => true,
      },
      status: { allowedBy: reference('privileged') },
    },
    {
      name: 'the SCC that the pod requires does not exist',
      given: { kind: SELF, spec: { template: template({}, { annotations: { 'openshift.io/required-scc': 'nope' } }) } },
      status: {},
      warnings: [
        'failed to retrieve the required SCC "nope": securitycontextconstraints.security.openshift.io "nope" not found',
      ],
    },
    {
      name: 'what the API fills in counts: host ports of host network',
      given: {
        kind: SELF,
        spec: {
          template: template({
            hostNetwork: true,
            containers: [{ name: 'a', image: 'a', ports: [{ containerPort: 80 }] }],
          }),
        },
        canUse: () => true,
        sccs: [laxScc({ name: 'net', allowHostNetwork: true })],
      },
      status: { reason: 'CantAssignSecurityContextConstraintProvider' },
    },
    {
      name: 'a reference has what the SCC is known by',
      given: {
        kind: SELF,
        spec: { template: template() },
        canUse: () => true,
        sccs: [{ ...laxScc({}), metadata: { name: 'lax', uid: 'u1', resourceVersion: '7' } }],
      },
      status: { allowedBy: { ...reference('lax'), uid: 'u1', resourceVersion: '7' } },
    },
  ];
  for (const { name, given, status, warnings = [] } of cases) {
    test(name, () => assert.deepEqual(ask(given), { status, warnings }));
  }

  test('whoever is like OpenShift forgets that service accounts are authenticated, and which SCC a pod requires', () => {
    const annotations = { 'openshift.io/required-scc': 'nope' };
    const spec = { template: template({}, { annotations }), serviceAccountNames: ['default'] };
    const given = { kind: ACCOUNTS, spec };
    const allowed = (answer: ReturnType<typeof ask>) => 'status' in answer && answer.status['allowedServiceAccounts'];
    assert.deepEqual(allowed(ask({ ...given, compatibility: 'openshift' })), []);
    assert.deepEqual(allowed(ask({ ...given, spec: { ...spec, template: template() } })), [
      { name: 'default', allowedBy: reference('restricted-v2') },
    ]);
    const openToAccounts = canUseBy([{ group: 'system:serviceaccounts', sccs: ['anyuid'] }]);
    assert.deepEqual(allowed(ask({ ...given, compatibility: 'openshift', canUse: openToAccounts })), [
      { name: 'default', allowedBy: reference('anyuid') },
    ]);
  });
});
