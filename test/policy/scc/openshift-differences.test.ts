/** Tests decisions that differ from OpenShift by default, and are restored in OpenShift compatibility mode. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { SecurityContextConstraints } from '../../../src/kube/scc.ts';
import { finishSteps } from '../../../src/kube/steps.ts';
import { classify } from '../../../src/policy/rollout/evaluation.ts';
import { createSccLevels, findNeededLevel, sccLevelProfile } from '../../../src/policy/rollout/label-sync.ts';
import { assignScc } from '../../../src/policy/scc/assign.ts';
import { laxScc, namespaceWith } from '../../support/scc.ts';
import { denialMessage, podWith, request } from './requests.ts';

type Given = Parameters<typeof request>[0];

/** The SCC of an admitted pod, or the message of a denial. */
function outcome(given: Given, compatibility: 'openshift' | object): string {
  const decision = assignScc({ ...request(given), compatibility });
  return denialMessage(decision) ?? (decision.allowed ? (decision.facts?.scc ?? '') : '');
}

const RANGES = {
  'openshift.io/sa.scc.uid-range': '1000660000/10000',
  'openshift.io/sa.scc.supplemental-groups': '1000660000/10000',
  'openshift.io/sa.scc.mcs': 's0:c26,c5',
};
const ANY = laxScc({ name: 'any', groups: ['system:serviceaccounts'] });
const WITH_RANGE = laxScc({ name: 'range', runAsUser: { type: 'MustRunAsRange' } });
const UNUSABLE = 'unable to validate against any security context constraint: ';

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
      sccs: [ANY, WITH_RANGE],
      namespace: namespaceWith({ ...RANGES, 'openshift.io/sa.scc.uid-range': '' }),
    },
    byDefault: 'any',
    openshift:
      'unable to find pre-allocated uid annotation for namespace demo while trying to configure SCC range: found annotation openshift.io/sa.scc.uid-range but it was empty',
  },
  {
    name: 'an invalid UID range',
    given: {
      sccs: [ANY, WITH_RANGE],
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
      sccs: [laxScc({ name: 'all', groups: ['system:authenticated'] })],
    },
    byDefault: 'all',
    openshift: `${UNUSABLE}provider "all": Forbidden: not usable by user or serviceaccount`,
  },
];

suite('decisions that compatibility: openshift restores', () => {
  for (const { name, given, byDefault, openshift } of cases) {
    test(name, () => {
      // OpenShift requires ten standard SCCs. These tests are about the other differences.
      const strict = { identity: 'openshift', brokenScc: 'deny', unprocessedPods: 'evaluate' };
      assert.deepEqual([outcome(given, {}), outcome(given, strict)], [byDefault, openshift]);
      const standard = { ...given, sccs: [...request({}).sccs, ...(given.sccs ?? [])] };
      assert.notEqual(outcome(standard, 'openshift'), byDefault);
    });
  }

  test('no mode restores null items, which API servers do not send', () => {
    for (const compatibility of [{}, 'openshift'] as const) {
      assert.equal(
        outcome({ object: podWith({ containers: [null] }) }, compatibility),
        'object was marked as kind pod but was unable to be converted: spec.containers[0]: Invalid value: null: must be an object',
      );
    }
    const sccs = [{ ...ANY, allowedCapabilities: [null as unknown as string] }];
    const given = { object: podWith({}), sccs };
    assert.equal(
      outcome(given, {}),
      `${UNUSABLE}provider "any": Internal error: error creating provider for SCC any in namespace demo: allowedCapabilities[0]: Invalid value: null: must not be null`,
    );
  });
});

suite('levels and labels that compatibility: openshift restores', () => {
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
    upstream: string,
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
    ['an unknown volume type', { volumes: ['holo'] }, 'baseline', 'privileged'],
  ];
  const needed = (
    fields: Partial<SecurityContextConstraints>,
    compatibility: 'openshift' | object,
    accounts = ['default'],
  ) => {
    const profile = sccLevelProfile(compatibility);
    const sccLevels = createSccLevels([{ ...laxScc({ name: 'own' }), ...restricted, ...fields }], { profile });
    const namespace = namespaceWith(RANGES);
    return finishSteps(
      findNeededLevel({ namespace, serviceAccounts: accounts, sccLevels, canUse: () => false, compatibility }),
    )?.level;
  };
  for (const [name, fields, accurate, upstream] of levels) {
    test(`the level of ${name}`, () => {
      assert.deepEqual([needed(fields, {}), needed(fields, 'openshift')], [accurate, upstream]);
    });
  }

  test('service accounts that may use no SCC', () => {
    const groups: readonly string[] = [];
    assert.deepEqual([needed({ groups }, {}), needed({ groups }, 'openshift')], ['restricted', undefined]);
  });

  test('the prefix openshift without a hyphen is not reserved, which affects only a category', () => {
    const violators = [{ causes: ['serviceAccount' as const] }];
    const category = (name: string) => classify({ metadata: { name } }, violators);
    assert.deepEqual(['openshift', 'openshift-x', 'openshifter'].map(category), [
      ['openshift'],
      ['openshift'],
      ['unknown'],
    ]);
  });
});
