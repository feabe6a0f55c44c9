/** Tests decisions that differ from OpenShift by default, but not in OpenShift compatibility mode. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { SecurityContextConstraints } from '../../../src/kube/scc.ts';
import { finishSteps } from '../../../src/kube/steps.ts';
import { classify, createSccLevels, findNeededLevel, sccLevelProfile } from '../../../src/policy/rollout/index.ts';
import { assignScc } from '../../../src/policy/scc/assign.ts';
import { type Compatibility, OPENSHIFT_REQUIRED_SCCS } from '../../../src/policy/scc/mode.ts';
import { laxScc, namespaceWith } from '../../support/scc.ts';
import { denialMessage, podWith, request } from './requests.ts';

type Given = Parameters<typeof request>[0];

/** Returns the SCC of an admitted pod, or the message of a denial. */
function outcome(given: Given, compatibility: Compatibility): string {
  const decision = assignScc({ ...request(given), compatibility });
  return denialMessage(decision) ?? (decision.allowed ? (decision.facts?.scc ?? '') : '');
}

const RANGES = {
  'openshift.io/sa.scc.uid-range': '1000660000/10000',
  'openshift.io/sa.scc.supplemental-groups': '1000660000/10000',
  'openshift.io/sa.scc.mcs': 's0:c26,c5',
};
const ANY = laxScc({ name: 'any', groups: ['system:serviceaccounts'] });
/** The SCCs that OpenShift requires. No subject may use these SCCs. */
const REQUIRED = OPENSHIFT_REQUIRED_SCCS.map((name) => laxScc({ name }));
const WITH_RANGE = laxScc({ name: 'range', runAsUser: { type: 'MustRunAsRange' } });
const UNUSABLE = 'unable to validate against any security context constraint: ';

const HINT =
  'no access to scc/restricted: Forbidden: the pod fails to validate against the `restricted-v2` security context constraint, but would validate successfully against the `restricted` security context constraint';

/** Returns the message of a denial if no subject may use the SCCs. */
function unusable(names: readonly string[], ...hints: readonly string[]): string {
  const messages = names.map((name) => `provider "${name}": Forbidden: not usable by user or serviceaccount`);
  return `${UNUSABLE}[${[...messages, ...hints].join(', ')}]`;
}

interface Case {
  readonly name: string;
  readonly given: Given;
  readonly byDefault: string;
  readonly openshift: string;
}

const cases: readonly Case[] = [
  {
    name: 'an empty UID range',
    given: {
      sccs: [ANY, WITH_RANGE, ...REQUIRED],
      namespace: namespaceWith({ ...RANGES, 'openshift.io/sa.scc.uid-range': '' }),
    },
    byDefault: 'any',
    openshift:
      'unable to find pre-allocated uid annotation for namespace demo while trying to configure SCC range: found annotation openshift.io/sa.scc.uid-range but it was empty',
  },
  {
    name: 'an invalid UID range',
    given: {
      sccs: [ANY, WITH_RANGE, ...REQUIRED],
      namespace: namespaceWith({ ...RANGES, 'openshift.io/sa.scc.uid-range': 'many' }),
    },
    byDefault: 'any',
    openshift:
      'unable to find pre-allocated uid annotation for namespace demo while trying to configure SCC range: expected integer',
  },
  {
    name: 'an anonymous creator',
    given: {
      userInfo: { username: 'system:anonymous', groups: ['system:unauthenticated'] },
      sccs: [laxScc({ name: 'all', groups: ['system:authenticated'] }), ...REQUIRED],
    },
    byDefault: 'all',
    openshift: unusable(['all', ...OPENSHIFT_REQUIRED_SCCS], HINT),
  },
  {
    name: 'an invalid SCC',
    given: { sccs: [ANY, laxScc({ name: 'broken', runAsUser: { type: 'MustRunAs' } }), ...REQUIRED] },
    byDefault: 'any',
    openshift: 'error creating provider for SCC broken in namespace demo: MustRunAs requires a UID',
  },
  {
    name: 'missing standard SCCs',
    given: { sccs: [ANY, ...REQUIRED.slice(2)] },
    byDefault: 'any',
    openshift: 'securitycontextconstraints.security.openshift.io cache is missing anyuid, hostaccess',
  },
  {
    name: 'an update that does not change the spec of a pod without a recorded SCC',
    given: {
      operation: 'UPDATE',
      userInfo: { username: 'system:anonymous', groups: ['system:unauthenticated'] },
      object: podWith({}, { labels: { a: 'b' } }),
      oldObject: podWith({}),
      sccs: REQUIRED,
    },
    byDefault: '',
    openshift: unusable(OPENSHIFT_REQUIRED_SCCS, HINT),
  },
];

suite('compatibility: openshift restores the decisions of OpenShift:', () => {
  for (const { name, given, byDefault, openshift } of cases) {
    test(name, () => {
      assert.deepEqual([outcome(given, 'portcullis'), outcome(given, 'openshift')], [byDefault, openshift]);
    });
  }

  test('an ordinary pod is admitted for its service account, but on OpenShift for its creator', () => {
    const subject = (compatibility: Compatibility) => {
      const decision = assignScc({ ...request({}), compatibility });
      return decision.allowed ? decision.facts?.subjectType : decision.status.message;
    };
    assert.deepEqual([subject('portcullis'), subject('openshift')], ['serviceaccount', 'user']);
  });

  test('no mode restores null items in lists, which API servers do not send', () => {
    for (const compatibility of ['portcullis', 'openshift'] as const) {
      assert.equal(
        outcome({ object: podWith({ containers: [null] }) }, compatibility),
        'object was marked as kind pod but was unable to be converted: spec.containers[0]: Invalid value: null: must be an object',
      );
    }
    const sccs = [{ ...ANY, allowedCapabilities: [null as unknown as string] }];
    const given = { object: podWith({}), sccs };
    assert.equal(
      outcome(given, 'portcullis'),
      `${UNUSABLE}provider "any": Internal error: error creating provider for SCC any in namespace demo: allowedCapabilities[0]: Invalid value: null: must not be null`,
    );
  });
});

suite('compatibility: openshift restores the levels and labels of OpenShift:', () => {
  const restricted = {
    allowPrivilegeEscalation: false,
    requiredDropCapabilities: ['ALL'],
    seLinuxContext: { type: 'MustRunAs' },
    runAsUser: { type: 'MustRunAsNonRoot' },
    seccompProfiles: ['runtime/default'],
    volumes: ['emptyDir'],
    groups: ['system:authenticated'],
  } as const;
  const levels: readonly (readonly [
    name: string,
    fields: Partial<SecurityContextConstraints>,
    accurate: string,
    upstream: string | undefined,
  ])[] = [
    ['a default capability', { defaultAddCapabilities: ['NET_ADMIN'] }, 'privileged', 'restricted'],
    [
      'a sysctl that v1.27 allows',
      { allowedUnsafeSysctls: ['net.ipv4.ip_local_reserved_ports'] },
      'restricted',
      'privileged',
    ],
    [
      'user namespaces',
      { userNamespaceLevel: 'RequirePodLevel', runAsUser: { type: 'RunAsAny' } },
      'restricted',
      'baseline',
    ],
    ['an unknown volume type', { volumes: ['holo'] }, 'baseline', undefined],
  ];
  const needed = (
    fields: Partial<SecurityContextConstraints>,
    compatibility: Compatibility,
    accounts = ['default'],
  ) => {
    const profile = sccLevelProfile(compatibility);
    const sccLevels = createSccLevels([{ ...laxScc({ name: 'own' }), ...restricted, ...fields }], { profile });
    const namespace = namespaceWith(RANGES);
    return finishSteps(
      findNeededLevel({
        namespace,
        serviceAccounts: accounts,
        sccLevels,
        access: { canUse: () => false },
        compatibility,
      }),
    )?.level;
  };
  for (const [name, fields, accurate, upstream] of levels) {
    test(`the level of ${name}`, () => {
      assert.deepEqual([needed(fields, 'portcullis'), needed(fields, 'openshift')], [accurate, upstream]);
    });
  }

  test('levels ignore service accounts that may not use any SCC', () => {
    const groups: readonly string[] = [];
    assert.deepEqual([needed({ groups }, 'portcullis'), needed({ groups }, 'openshift')], ['restricted', undefined]);
  });

  test('the prefix openshift without a hyphen is not reserved, which only changes the category of violations', () => {
    const violators = [{ causes: ['serviceAccount' as const] }];
    const category = (name: string) => classify({ metadata: { name } }, violators);
    assert.deepEqual(['openshift', 'openshift-x', 'openshifter'].map(category), [
      ['openshift'],
      ['openshift'],
      ['unknown'],
    ]);
  });
});
