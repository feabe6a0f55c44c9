import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import type { SccSettings } from '../../src/policy/scc/mode.ts';
import { createSccRig, podOf, podRequest, RANGES, type SccRig } from '../support/scc-webhooks.ts';

const PATH = '/scc/mutate';
const REFUSED = 'unable to validate against any security context constraint: ';
const denied = (...names: readonly string[]): string[] =>
  names.map((name) => `provider "${name}": Forbidden: not usable by user or serviceaccount`);
const NO_ACCESS = denied(
  'restricted',
  'nested-container',
  'nonroot-v2',
  'nonroot',
  'hostmount-anyuid',
  'hostmount-anyuid-v2',
  'hostnetwork-v2',
  'hostnetwork',
  'hostaccess',
  'privileged',
);
const ROOT = podOf({ runAsUser: 0 });
const ROOT_REFUSED = `${REFUSED}[${[
  ...denied('anyuid'),
  'provider restricted-v2: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000660000, 1000669999]',
  'provider restricted-v3: .spec.hostUsers: Invalid value: null: Host Users must be set to false',
  'provider restricted-v3: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000, 65534]',
  ...NO_ACCESS,
].join(', ')}]`;
const ROOT_WARNINGS = [
  'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.runAsUser=0.',
  'SCC "anyuid" would admit the pod if service account "default" were granted its use: bind ClusterRole "system:openshift:scc:anyuid".',
];
const UNKNOWN_MODE =
  'label portcullis.dev/scc: unknown mode "on", "enforce" applies; must be one of enforce, report, off';

interface Answer {
  readonly allowed: boolean;
  readonly message?: string;
  readonly warnings?: readonly string[];
  readonly facts?: object;
  /** The SCC that the pod gets; absent if the pod stays as it is. */
  readonly scc?: string;
}

function answerOf(decision: Decision, request: AdmissionRequest): Answer {
  const { allowed, warnings = [], facts } = decision;
  const object = decision.allowed ? (decision.object as JsonObject | undefined) : undefined;
  const { annotations } = (object?.['metadata'] ?? {}) as { annotations?: Record<string, string> };
  const scc = object === request.object ? undefined : annotations?.['openshift.io/scc'];
  return {
    allowed,
    ...(decision.allowed ? {} : { message: decision.status.message }),
    ...(warnings.length === 0 ? {} : { warnings }),
    ...(facts === undefined ? {} : { facts }),
    ...(scc === undefined ? {} : { scc }),
  };
}

interface ModeCase {
  readonly name: string;
  readonly settings?: Partial<SccSettings>;
  /** Labels of the namespace. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly namespace?: string;
  readonly request?: Partial<AdmissionRequest>;
  readonly pod?: unknown;
  readonly expected: Answer;
}

const ASSIGNED: Answer = {
  allowed: true,
  scc: 'restricted-v2',
  facts: { scc: 'restricted-v2', subjectType: 'serviceaccount' },
};
const ROOT_DENIED: Answer = { allowed: false, message: ROOT_REFUSED, warnings: ROOT_WARNINGS };
const ROOT_REPORTED: Answer = {
  allowed: true,
  warnings: [
    'would be refused if security context constraints were enforced: unable to validate against any security context constraint',
    ...ROOT_WARNINGS,
  ],
  facts: { mode: 'report', verdict: 'deny', reason: ROOT_REFUSED },
};
const LEFT_ALONE: Answer = { allowed: true };

const MODES: readonly ModeCase[] = [
  { name: 'enforce: refused', pod: ROOT, expected: ROOT_DENIED },
  { name: 'enforce: changed', expected: ASSIGNED },
  { name: 'report: refused', settings: { mode: 'report' }, pod: ROOT, expected: ROOT_REPORTED },
  {
    name: 'report: refused, without the advice of ours',
    settings: { mode: 'report', compatibility: 'openshift' },
    pod: ROOT,
    expected: {
      allowed: true,
      warnings: [
        'would be refused if security context constraints were enforced: provider restricted-v2: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000660000, 1000669999]',
      ],
      facts: {
        mode: 'report',
        verdict: 'deny',
        reason: ROOT_REFUSED,
      },
    },
  },
  {
    name: 'report: it would be changed, and nobody is told',
    settings: { mode: 'report' },
    expected: { allowed: true, facts: { mode: 'report', scc: 'restricted-v2', subjectType: 'serviceaccount' } },
  },
  {
    name: 'report: admitted for the sake of the user, who is told',
    settings: { mode: 'report' },
    pod: ROOT,
    request: { userInfo: { username: 'root', groups: ['system:masters'] } },
    expected: {
      allowed: true,
      warnings: [
        'SCC "anyuid" admits the pod only because its creator may use it. Service account "default" may not use it, so such pods fail when a controller creates them.',
      ],
      facts: { mode: 'report', scc: 'anyuid', subjectType: 'user' },
    },
  },
  { name: 'off', settings: { mode: 'off' }, pod: ROOT, expected: LEFT_ALONE },
  {
    name: 'off, whatever the namespace says',
    settings: { mode: 'off' },
    labels: { 'portcullis.dev/scc': 'enforce' },
    pod: ROOT,
    expected: LEFT_ALONE,
  },
  { name: 'off in the namespace', labels: { 'portcullis.dev/scc': 'off' }, pod: ROOT, expected: LEFT_ALONE },
  {
    name: 'report in the namespace',
    labels: { 'portcullis.dev/scc': 'report' },
    pod: ROOT,
    expected: ROOT_REPORTED,
  },
  {
    name: 'enforce in the namespace',
    settings: { mode: 'report' },
    labels: { 'portcullis.dev/scc': 'enforce' },
    pod: ROOT,
    expected: ROOT_DENIED,
  },
  {
    name: 'a mode that does not exist, refused',
    settings: { mode: 'report' },
    labels: { 'portcullis.dev/scc': 'on' },
    pod: ROOT,
    expected: { ...ROOT_DENIED, warnings: [UNKNOWN_MODE, ...ROOT_WARNINGS] },
  },
  {
    name: 'a mode that does not exist, changed',
    labels: { 'portcullis.dev/scc': 'on' },
    expected: { ...ASSIGNED, warnings: [UNKNOWN_MODE] },
  },
  { name: 'an exempt namespace', namespace: 'kube-system', pod: ROOT, expected: LEFT_ALONE },
  {
    name: 'a namespace that is exempt here',
    settings: { exemptNamespaces: ['shop'] },
    labels: { 'portcullis.dev/scc': 'enforce' },
    pod: ROOT,
    expected: LEFT_ALONE,
  },
  { name: 'a run level', labels: { 'openshift.io/run-level': '0' }, pod: ROOT, expected: LEFT_ALONE },
  {
    name: 'another resource',
    request: { resource: { group: '', version: 'v1', resource: 'secrets' } },
    expected: LEFT_ALONE,
  },
  {
    name: 'pods of another group',
    request: { resource: { group: 'metrics.k8s.io', version: 'v1', resource: 'pods' } },
    expected: LEFT_ALONE,
  },
  { name: 'a subresource that carries no pod', request: { subResource: 'eviction' }, expected: LEFT_ALONE },
  {
    name: 'a pod on Windows',
    pod: podOf({}, { os: { name: 'windows' } }),
    expected: LEFT_ALONE,
  },
  {
    name: 'no pod at all',
    pod: 7,
    expected: { allowed: false, message: 'object was marked as kind pod but was unable to be converted: 7' },
  },
  {
    name: 'an SCC that does not exist is required',
    pod: { ...podOf(), metadata: { name: 'web', annotations: { 'openshift.io/required-scc': 'none' } } },
    expected: {
      allowed: false,
      message:
        'failed to retrieve the required SCC "none": securitycontextconstraints.security.openshift.io "none" not found',
      warnings: [
        'Annotation openshift.io/required-scc requires SCC "none", which does not exist. Existing SCCs: anyuid, hostaccess, hostmount-anyuid, hostmount-anyuid-v2, hostnetwork, hostnetwork-v2, nested-container, nonroot, nonroot-v2, privileged, restricted and 2 more.',
      ],
    },
  },
];

function createFilled(settings: Partial<SccSettings> | undefined, labels?: Readonly<Record<string, string>>): SccRig {
  const rig = createSccRig(settings === undefined ? {} : { settings });
  for (const name of ['shop', 'kube-system']) {
    rig.store.put('Namespace', { metadata: { name, annotations: RANGES, ...(labels ? { labels } : {}) } });
  }
  return rig;
}

suite('modes', () => {
  for (const { name, settings, labels, namespace = 'shop', request: change, pod = podOf(), expected } of MODES) {
    test(name, () => {
      const request = podRequest(pod, { namespace, ...change });
      const decision = createFilled(settings, labels).ask(PATH, request);
      assert.ok(!(decision instanceof Promise), 'answered at once');
      assert.deepEqual(answerOf(decision, request), expected);
      if (!decision.allowed) assert.deepEqual([decision.status.code, decision.status.reason], [403, 'Forbidden']);
    });
  }

  test('what the audit log is told in report mode', () => {
    const decision = createFilled({ mode: 'report' }).ask(PATH, podRequest(podOf())) as Decision;
    assert.deepEqual(decision.auditAnnotations, {
      denied: 'anyuid',
      reason: '"restricted-v2" is the only one not too restrictive and not denied',
      mode: 'report',
    });
  });
});

suite('waiting for the ranges of a namespace', () => {
  const request = podRequest(podOf());
  const NOT_YET =
    'Namespace "shop" has no annotation openshift.io/sa.scc.uid-range yet. Retry in a few seconds. If this persists, the range allocator is not running or has no free range (event UIDRangeFull).';
  const NO_LEVEL =
    'Namespace "shop" has no annotation openshift.io/sa.scc.mcs. Set it, or remove openshift.io/sa.scc.uid-range=1000660000/10000 so that both are allocated.';

  const LACKING: readonly { readonly name: string; readonly namespace?: object; readonly expected: Answer }[] = [
    {
      name: 'no namespace',
      expected: { allowed: false, message: 'error fetching namespace "shop": namespace "shop" not found' },
    },
    {
      name: 'no annotation',
      namespace: { metadata: { name: 'shop' } },
      expected: {
        allowed: false,
        message: 'error fetching namespace "shop": unable to find annotation openshift.io/sa.scc.uid-range',
        warnings: [NOT_YET],
      },
    },
    {
      name: 'no range of ids',
      namespace: { metadata: { name: 'shop', annotations: { 'openshift.io/sa.scc.mcs': 's0:c26,c5' } } },
      expected: {
        allowed: false,
        message: 'error fetching namespace "shop": unable to find annotation openshift.io/sa.scc.uid-range',
        warnings: [NOT_YET],
      },
    },
    {
      name: 'no level',
      namespace: { metadata: { name: 'shop', annotations: { 'openshift.io/sa.scc.uid-range': '1000660000/10000' } } },
      expected: {
        allowed: false,
        message: 'error fetching namespace "shop": unable to find annotation openshift.io/sa.scc.mcs',
        warnings: [NO_LEVEL],
      },
    },
  ];
  for (const { name, namespace, expected } of LACKING) {
    test(`${name}, and none comes`, async () => {
      const rig = createSccRig();
      if (namespace) rig.store.put('Namespace', namespace);
      const startMs = performance.now();
      const decision = await rig.ask(PATH, request, 600);
      const waitedMs = performance.now() - startMs;
      assert.deepEqual(answerOf(decision, request), expected);
      assert.ok(waitedMs >= 90 && waitedMs < 500, `the API server still waits: ${waitedMs}`);
    });

    test(`${name}, and it comes`, async () => {
      const rig = createSccRig();
      if (namespace) rig.store.put('Namespace', namespace);
      const decision = rig.ask(PATH, request, 15_000);
      assert.ok(decision instanceof Promise);
      rig.store.put('Namespace', { metadata: { name: 'other', annotations: RANGES } });
      rig.store.put('Namespace', { metadata: { name: 'shop', annotations: RANGES } });
      assert.deepEqual(answerOf(await decision, request), ASSIGNED);
    });

    if (!namespace) continue;
    test(`${name}, where it is only reported`, () => {
      const rig = createSccRig({ settings: { mode: 'report' } });
      rig.store.put('Namespace', namespace);
      const decision = rig.ask(PATH, request, 15_000);
      assert.ok(!(decision instanceof Promise), 'nobody waits');
      assert.deepEqual(answerOf(decision, request), {
        allowed: true,
        warnings: [
          `would be refused if security context constraints were enforced: ${expected.message ?? ''}`,
          ...(expected.warnings ?? []),
        ],
        facts: { mode: 'report', verdict: 'deny', reason: expected.message },
      });
    });
  }

  test('an API server without patience is answered at once', async () => {
    const decision = await createSccRig().ask(PATH, request, 100);
    assert.equal(decision.allowed, false);
  });

  test('what does not need the ranges does not wait', () => {
    const windows = podRequest(podOf({}, { os: { name: 'windows' } }));
    const decision = createSccRig().ask(PATH, windows, 15_000);
    assert.ok(!(decision instanceof Promise));
    assert.deepEqual(answerOf(decision, windows), LEFT_ALONE);
  });

  test('the wait ends when SCCs stop to be enforced there', async () => {
    const rig = createSccRig();
    rig.store.put('Namespace', { metadata: { name: 'shop' } });
    const decision = rig.ask(PATH, podRequest(ROOT), 15_000);
    rig.store.put('Namespace', { metadata: { name: 'shop', labels: { 'portcullis.dev/scc': 'off' } } });
    const answer = await decision;
    assert.deepEqual([answer.allowed, answer.allowed && answer.object], [true, undefined]);
  });

  test('five hundred pods of a new namespace', async () => {
    const rig = createSccRig();
    const decisions = Array.from({ length: 500 }, () => Promise.resolve(rig.ask(PATH, request, 15_000)));
    rig.store.put('Namespace', { metadata: { name: 'shop' } });
    rig.store.put('Namespace', { metadata: { name: 'shop', annotations: RANGES } });
    for (const decision of await Promise.all(decisions)) assert.deepEqual(answerOf(decision, request), ASSIGNED);
  });
});

test('what is counted', async () => {
  const rig = createFilled({ mode: 'enforce' });
  const old = podOf({}, { name: 'old' });
  const requests: readonly AdmissionRequest[] = [
    podRequest(podOf()),
    podRequest(podOf()),
    podRequest(ROOT),
    podRequest(podOf({}, { os: { name: 'windows' } })),
    podRequest(old, { operation: 'UPDATE', oldObject: podOf({ privileged: false }) }),
    podRequest(podOf(), { subResource: 'made-up-by-the-client' }),
    podRequest(podOf(), { namespace: 'kube-system' }),
  ];
  for (const request of requests) void rig.ask(PATH, request);
  const series = (rest: string, count: number): string => `portcullis_scc_decisions_total{${rest}} ${count}`;
  assert.deepEqual(await rig.series('portcullis_scc_decisions_total'), [
    series('operation="create",mode="enforce",decision="allow",scc="restricted-v2",subject_type="serviceaccount"', 2),
    series('operation="create",mode="enforce",decision="deny",scc="",subject_type=""', 1),
    series('operation="create",mode="enforce",decision="skip",scc="",subject_type=""', 1),
    series('operation="update",mode="enforce",decision="deny",scc="",subject_type=""', 1),
    series('operation="other",mode="enforce",decision="allow",scc="restricted-v2",subject_type="serviceaccount"', 1),
  ]);
});
