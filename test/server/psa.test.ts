/**
 * Tests the Pod Security Admission webhooks, including decisions based on the store, metrics, previews of enforcement,
 * and namespace labels.
 */
import assert from 'node:assert/strict';
import { describe, suite, test } from 'node:test';
import { createStore, type WritableStore } from '../../src/cluster/store.ts';
import { createDefaultSettings } from '../../src/config/portcullis-configuration.ts';
import { type AdmissionRequest, allow, type Decision } from '../../src/kube/admission.ts';
import type { PSAEnforcementConfig } from '../../src/kube/psa-enforcement-config.ts';
import type { Namespace } from '../../src/kube/types.ts';
import { createPodSecurity, DEFAULT_CONFIGURATION } from '../../src/policy/psa/index.ts';
import { DEFAULT_ROLLOUT, type RolloutSettings } from '../../src/policy/rollout/index.ts';
import type { SccMode } from '../../src/policy/scc/index.ts';
import { createRangePreview, DEFAULT_RANGES } from '../../src/policy/uid-range/index.ts';
import { createDisclosure } from '../../src/server/disclosure.ts';
import { createEvaluations } from '../../src/server/evaluations.ts';
import { createPodSecurityReviewer, createWorkloadAdmission } from '../../src/server/pod-security.ts';
import { createWaitingRoom } from '../../src/server/waiting-room.ts';
import { onlyRegistered } from '../../src/server/webhooks/index.ts';
import { createEnforcementConfigReviewer } from '../../src/server/webhooks/objects/enforcement-config.ts';
import { createObjectWebhooks } from '../../src/server/webhooks/objects/index.ts';
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts';
import { createEnforcementPreview, createLabelPreview } from '../../src/views/enforcement-preview.ts';
import { readLines } from '../support/conformance/cases.ts';
import { GATE_OFF } from '../support/feature-gate.ts';
import { managedFieldsEntry } from '../support/namespace-writes.ts';
import {
  compliantPod,
  deploymentRequest,
  hostNetworkPod,
  type Labels,
  namespaceRequest,
  namespaceWith,
  PLAIN_DETAILS,
  plainPod,
  podRequest,
} from '../support/pod-security.ts';
import { putStandardSccs, RANGES } from '../support/scc-webhooks.ts';

type Exemptions = (typeof DEFAULT_CONFIGURATION)['exemptions'];
type WebhookOptions = Partial<Parameters<typeof createPodSecurityReviewer>[0]>;

interface Rig {
  readonly store: WritableStore;
  readonly metrics: Metrics;
  decide(request: AdmissionRequest): Promise<Decision>;
  /** Decides on a request with the given timeout of the API server. */
  decideWithin(timeoutMs: number, request: AdmissionRequest): Promise<Decision>;
  /** Replaces the exemptions in the effective configuration. */
  exempt(change: Partial<Exemptions>): void;
}

/** Creates the webhook with a store that contains the namespace `ns` with Pod Security labels. */
function createRig(labels: Labels = {}, options: WebhookOptions = {}, arePodsRead = true): Rig {
  const store = createStore();
  store.put('Namespace', namespaceWith(labels));
  if (arePodsRead) store.markSynced();
  const metrics = createMetrics({ version: '0.0.0' });
  let podSecurity = createPodSecurity(DEFAULT_CONFIGURATION);
  const webhook = createPodSecurityReviewer({
    podSecurity: () => podSecurity,
    metrics: metrics.podSecurity,
    waitingRoom: createWaitingRoom(),
    evaluate: createEvaluations(() => 0),
    discloses: createDisclosure(true),
    ...options,
  });
  const context = { store, now: () => 0 };
  return {
    store,
    metrics,
    decide: async (request) => await webhook.decide(request, context),
    decideWithin: async (deadlineMs, request) => await webhook.decide(request, { ...context, deadlineMs }),
    exempt(change) {
      const exemptions = { ...DEFAULT_CONFIGURATION.exemptions, ...change };
      podSecurity = createPodSecurity({ ...DEFAULT_CONFIGURATION, exemptions });
    },
  };
}

/** Returns the Pod Security series that are not 0. */
async function series(metrics: Metrics): Promise<string[]> {
  const text = await metrics.expose();
  return text
    .split('\n')
    .filter((line) => /^(?:pod_security|portcullis_exemption)_/.test(line) && !line.endsWith(' 0'));
}

test('the metrics of Pod Security have the same initial series and stability level as upstream', async () => {
  const text = await createRig().metrics.expose();
  assert.deepEqual(
    text.split('\n').filter((line) => line.startsWith('pod_security_')),
    [
      ...['create', 'update'].map(
        (operation) =>
          `pod_security_evaluations_total{decision="allow",policy_level="privileged",policy_version="latest",mode="enforce",request_operation="${operation}",resource="pod",subresource=""} 0`,
      ),
      ...['create', 'update'].flatMap((operation) =>
        ['pod', 'controller'].map(
          (resource) =>
            `pod_security_exemptions_total{request_operation="${operation}",resource="${resource}",subresource=""} 0`,
        ),
      ),
    ],
  );
  const help = text.split('\n').filter((line) => line.startsWith('# HELP pod_security_'));
  assert.equal(help.length, 3);
  for (const line of help) assert.match(line, /^# HELP \w+ \[ALPHA\] /);
});

interface CountCase {
  readonly name: string;
  readonly labels: Labels;
  readonly exemptNamespaces?: readonly string[];
  readonly request: AdmissionRequest;
  readonly expected: readonly string[];
}

const evaluation = (decision: string, level: string, version: string, mode: string, request: string) =>
  `pod_security_evaluations_total{decision="${decision}",policy_level="${level}",policy_version="${version}",mode="${mode}",${request}} 1`;

const CREATE_POD = 'request_operation="create",resource="pod",subresource=""';
const CREATE_CONTROLLER = 'request_operation="create",resource="controller",subresource=""';

const COUNTS: readonly CountCase[] = [
  {
    name: 'an allowed pod',
    labels: { enforce: 'restricted', 'enforce-version': 'v1.30' },
    request: podRequest(compliantPod()),
    expected: [evaluation('allow', 'restricted', 'v1.30', 'enforce', CREATE_POD)],
  },
  {
    name: 'a denied pod at versions that are not known',
    labels: { enforce: 'baseline', 'enforce-version': 'v1.999', audit: 'baseline' },
    request: podRequest(hostNetworkPod()),
    expected: [
      evaluation('deny', 'baseline', 'future', 'enforce', CREATE_POD),
      evaluation('deny', 'baseline', 'latest', 'audit', CREATE_POD),
    ],
  },
  {
    name: 'a pod at the privileged level, with version latest instead of the version in the label',
    labels: { 'enforce-version': 'v1.20', warn: 'baseline' },
    request: podRequest(compliantPod(), {
      operation: 'UPDATE',
      requestSubResource: 'ephemeralcontainers',
      oldObject: plainPod(),
      object: { ...plainPod(), spec: { ...plainPod().spec, ephemeralContainers: [{ name: 'e' }] } },
    }),
    expected: [
      evaluation(
        'allow',
        'privileged',
        'latest',
        'enforce',
        'request_operation="update",resource="pod",subresource="ephemeralcontainers"',
      ),
    ],
  },
  {
    name: 'a workload with a warning and an invalid label',
    labels: { enforce: 'x', warn: 'baseline' },
    request: deploymentRequest({ spec: { template: hostNetworkPod() } }),
    expected: [
      evaluation('deny', 'baseline', 'latest', 'warn', CREATE_CONTROLLER),
      `pod_security_errors_total{fatal="false",${CREATE_CONTROLLER}} 1`,
    ],
  },
  {
    name: 'an exempt workload',
    labels: {},
    exemptNamespaces: ['ns'],
    request: deploymentRequest({}),
    expected: [`pod_security_exemptions_total{${CREATE_CONTROLLER}} 1`],
  },
  {
    name: 'an exempt pod',
    labels: {},
    exemptNamespaces: ['ns'],
    request: podRequest(hostNetworkPod()),
    expected: [
      `pod_security_exemptions_total{${CREATE_POD}} 1`,
      'portcullis_exemption_uses_total{exemption="namespace",name="ns"} 1',
    ],
  },
  {
    name: 'a pod that cannot be decoded',
    labels: { enforce: 'baseline' },
    request: podRequest(7),
    expected: [`pod_security_errors_total{fatal="true",${CREATE_POD}} 1`],
  },
  {
    name: 'a namespace with an invalid label, without counting it',
    labels: {},
    request: namespaceRequest('CREATE', namespaceWith({ enforce: 'x' }), null),
    expected: [],
  },
];

suite('the version of the API server', () => {
  const containers = [{ name: 'c', image: 'i', livenessProbe: { httpGet: { host: '10.0.0.1', port: 80 } } }];
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p', namespace: 'ns' }, spec: { containers } };
  const DETAIL = 'probe or lifecycle host (container "c" uses probe or lifecycle host "10.0.0.1")';
  for (const [emulationVersion, enforceVersion, isAllowed] of [
    [undefined, 'latest', false],
    ['v1.33', 'latest', true],
    ['v1.33', 'v1.40', true],
    ['v1.34', 'latest', false],
    ['v1.34', 'v1.33', true],
    ['v1.99', 'latest', false],
  ] as const) {
    test(`${emulationVersion ?? 'unknown'}: baseline:${enforceVersion} ${isAllowed ? 'ignores' : 'denies'} a host in a probe`, async () => {
      const { store, decide } = createRig({ enforce: 'baseline', 'enforce-version': enforceVersion });
      store.emulationVersion = emulationVersion;
      const decision = await decide(podRequest(pod));
      const message = `pods "p" is forbidden: violates PodSecurity "baseline:${enforceVersion}": ${DETAIL}`;
      assert.equal(decision.allowed ? undefined : decision.status.message, isAllowed ? undefined : message);
    });
  }

  test('determines the version of the warnings about a new label', async () => {
    const { store, decideWithin } = createRig({});
    store.put('Pod', pod);
    const warnings = async (version: 'v1.33' | 'v1.34'): Promise<number> => {
      store.emulationVersion = version;
      const request = namespaceRequest('UPDATE', namespaceWith({ enforce: 'baseline' }), namespaceWith({}));
      return (await decideWithin(10_000, request)).warnings?.length ?? 0;
    };
    assert.deepEqual([await warnings('v1.33'), await warnings('v1.34')], [0, 2]);
  });
});

suite('the metrics count evaluations, exemptions and errors for', () => {
  for (const { name, labels, exemptNamespaces: namespaces = [], request, expected } of COUNTS) {
    test(name, async () => {
      const { decide, exempt, metrics } = createRig(labels);
      exempt({ namespaces });
      await decide(request);
      const sorted = (line: string) => line.replace(/\{(.*)\}/, (_all, list: string) => list.split(',').sort().join());
      assert.deepEqual((await series(metrics)).map(sorted), expected.map(sorted));
    });
  }
});

test('decisions depend on the current namespaces and pods in the store', async () => {
  const { decide, decideWithin, store } = createRig({ enforce: 'baseline' });
  const request = podRequest(hostNetworkPod());
  assert.equal((await decide(request)).allowed, false);
  store.put('Namespace', namespaceWith({ enforce: 'privileged' }));
  assert.equal((await decide(request)).allowed, true);
  store.put('Pod', hostNetworkPod());
  store.put('Pod', { ...hostNetworkPod(), metadata: { name: 'p', namespace: 'other' } });
  const tighten = namespaceRequest('UPDATE', namespaceWith({ enforce: 'baseline' }), namespaceWith({}));
  assert.deepEqual((await decideWithin(10_000, tighten)).warnings, [
    'existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest"',
    'p: host namespaces',
  ]);
});

test('the evaluation of many pods does not delay other reviews', async () => {
  let nowMs = 0;
  const { decideWithin, store } = createRig({}, { evaluate: createEvaluations(() => nowMs++) });
  for (let index = 0; index < 2000; index++) {
    store.put('Pod', { ...hostNetworkPod(), metadata: { name: `p${index}`, namespace: 'ns' } });
  }
  const tighten = namespaceRequest('UPDATE', namespaceWith({ enforce: 'baseline' }), namespaceWith({}));
  let turns = 0;
  let isDecided = false;
  const countTurns = (): void => {
    turns++;
    if (!isDecided) setImmediate(countTurns);
  };
  setImmediate(countTurns);
  const { warnings } = await decideWithin(60_000, tighten);
  isDecided = true;
  assert.deepEqual(warnings?.slice(1), ['p0 (and 1999 other pods): host namespaces']);
  assert.ok(turns >= 100, String(turns));
});

test('all pods of 2,000 namespaces that are relabeled at once are evaluated', async () => {
  // The clock measures the CPU time of this thread, so other processes do not use up the time for evaluations.
  const now = (): number => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1000;
  };
  const store = createStore();
  store.markSynced();
  const webhook = createPodSecurityReviewer({
    podSecurity: () => createPodSecurity(DEFAULT_CONFIGURATION),
    metrics: createMetrics({ version: '0.0.0' }).podSecurity,
    waitingRoom: createWaitingRoom(),
    evaluate: createEvaluations(now),
    discloses: createDisclosure(true),
  });
  const reviews = Array.from({ length: 2000 }, async (_unused, index) => {
    const name = `team-${index}`;
    for (let pod = 0; pod < 5; pod++)
      store.put('Pod', { ...hostNetworkPod(), metadata: { name: `p${pod}`, namespace: name } });
    const object = namespaceWith({ enforce: 'baseline' });
    const named = { ...object, metadata: { ...object.metadata, name } };
    const request = namespaceRequest('UPDATE', named, namespaceWith({}), { name, namespace: name });
    return await webhook.decide(request, { store, now, deadlineMs: now() + 10_000 });
  });
  const warnings = (await Promise.all(reviews)).map(({ warnings }) => warnings?.[1]);
  assert.deepEqual([...new Set(warnings)], ['p0 (and 4 other pods): host namespaces']);
});

describe('100 concurrent evaluations of namespaces that take one second each', () => {
  for (const [clients, areClientsKnown, evaluated] of [
    ['known', true, 100],
    ['unknown', false, 3],
  ] as const) {
    test(`by ${clients} clients are complete for ${evaluated} namespaces`, async () => {
      let nowMs = 0;
      const evaluate = createEvaluations(() => nowMs, areClientsKnown);
      const { decideWithin, store } = createRig({}, { evaluate });
      const pod = hostNetworkPod();
      // The evaluation of the pod takes one second.
      Object.defineProperty(pod, 'spec', { get: () => ((nowMs += 500), { hostNetwork: true, containers: [] }) });
      store.put('Pod', pod);
      const tighten = namespaceRequest('UPDATE', namespaceWith({ enforce: 'baseline' }), namespaceWith({}));
      const reviews = Array.from({ length: 100 }, () => decideWithin(1_000_000, tighten));
      const complete = (await Promise.all(reviews)).filter(({ warnings }) => warnings?.[1] === 'p: host namespaces');
      assert.equal(complete.length, evaluated);
    });
  }
});

suite('before all pods are read, a request for a stricter level', () => {
  const tighten = namespaceRequest('UPDATE', namespaceWith({ enforce: 'baseline' }), namespaceWith({}));

  test('waits until they are read', async () => {
    const { decideWithin, store } = createRig({}, {}, false);
    const deciding = decideWithin(10_000, tighten);
    setImmediate(() => {
      store.put('Pod', hostNetworkPod());
      store.markSynced('Pod');
    });
    const { warnings } = await deciding;
    assert.deepEqual(warnings?.slice(1), ['p: host namespaces']);
  });

  test('is allowed with the warning of Kubernetes before the API server times out', async () => {
    const { decideWithin, store } = createRig({}, {}, false);
    store.put('Pod', hostNetworkPod());
    const { allowed, warnings } = await decideWithin(520, tighten);
    assert.equal(allowed, true);
    assert.deepEqual(warnings, ['failed to list pods while checking new PodSecurity enforce level']);
  });

  test('does not delay other decisions', async () => {
    const { decide } = createRig({ enforce: 'baseline' }, {}, false);
    assert.equal((await decide(podRequest(hostNetworkPod()))).allowed, false);
    const loosen = namespaceRequest('UPDATE', namespaceWith({}), namespaceWith({ enforce: 'baseline' }));
    assert.deepEqual(await decide(loosen), { allowed: true });
  });
});

suite('a request in a namespace that is not in the store', () => {
  const NOT_FOUND = 'Internal error occurred: failed to lookup namespace "ns"';
  const denial = (decision: Decision): string | undefined => (decision.allowed ? undefined : decision.status.message);

  test('waits until the namespace appears', async () => {
    for (const [level, expected] of [
      ['baseline', 'pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'],
      ['privileged', undefined],
    ] as const) {
      const { decideWithin, store, metrics } = createRig();
      store.remove('Namespace', 'ns');
      const deciding = decideWithin(10_000, podRequest(hostNetworkPod()));
      setImmediate(() => store.put('Namespace', namespaceWith({ enforce: level })));
      assert.equal(denial(await deciding), expected);
      const counted = (await series(metrics)).filter((line) => line.startsWith('pod_security_errors_total'));
      assert.deepEqual(counted, [], 'counts only the final decision');
    }
  });

  test('is denied before the API server times out', async () => {
    const { decideWithin, store } = createRig();
    store.remove('Namespace', 'ns');
    assert.equal(denial(await decideWithin(520, podRequest(hostNetworkPod()))), NOT_FOUND);
    assert.equal(denial(await decideWithin(400, podRequest(hostNetworkPod()))), NOT_FOUND);
  });

  test('is denied immediately if it has no namespace', async () => {
    const decision = await createRig().decide(podRequest(hostNetworkPod(), { namespace: '' }));
    assert.equal(denial(decision), 'Internal error occurred: failed to lookup namespace ""');
  });
});

test('a new configuration applies to the next request', async () => {
  const { decide, exempt } = createRig({ enforce: 'baseline' });
  const request = podRequest(hostNetworkPod());
  assert.equal((await decide(request)).allowed, false);
  exempt({ namespaces: ['ns'] });
  assert.deepEqual(await decide(request), { allowed: true, auditAnnotations: { exempt: 'namespace' } });
  exempt({});
  assert.equal((await decide(request)).allowed, false);
});

interface PreviewCase {
  readonly settings?: Partial<RolloutSettings>;
  readonly config?: PSAEnforcementConfig;
  readonly gate?: 'off';
  /** Labels of the namespace `ns`. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly sccMode?: SccMode;
  /** The published default level for namespaces without a label. */
  readonly publishedDefault?: 'restricted';
  readonly exempt?: Partial<Exemptions>;
  /** The SCC that the service account `default` in the namespace may use. */
  readonly scc?: string;
  readonly hasRanges?: false;
  readonly request: AdmissionRequest;
}

/** A timeout that is too short to wait for the ranges of a namespace. */
const BRIEF_MS = 500;

const DATED: Partial<RolloutSettings> = { phase: 'Evaluate', enforcementDate: '2027-01-31' };
const ENFORCE: Partial<RolloutSettings> = { phase: 'Enforce' };

const INSTALLATION = { namespace: 'portcullis', version: '0.0.0' };
const DEFAULT_SETTINGS = createDefaultSettings({ controllers: [], namespace: 'portcullis' });

async function previewWarnings(previewCase: PreviewCase): Promise<readonly string[]> {
  const rollout = { ...DEFAULT_ROLLOUT, ...previewCase.settings };
  const mode = previewCase.sccMode ?? 'enforce';
  const scc = { mode, exemptNamespaces: [], compatibility: 'portcullis', preferUserNamespaces: false } as const;
  const { store, decideWithin, exempt } = createRig(
    {},
    {
      workloads: createWorkloadAdmission({
        settings: () => ({ ...DEFAULT_SETTINGS, scc }),
        previewRanges: createRangePreview(() => DEFAULT_RANGES),
      }),
      preview: createEnforcementPreview(
        INSTALLATION,
        () => ({ rollout, scc, disabledControllers: [] }),
        () => new Date('2027-01-31T23:00:00Z'),
      ),
    },
  );
  exempt(previewCase.exempt ?? {});
  fillStore(store, previewCase);
  const decision = await decideWithin(BRIEF_MS, previewCase.request);
  assert.equal(decision.allowed, true);
  return decision.warnings ?? [];
}

function fillStore(store: WritableStore, previewCase: PreviewCase): void {
  const { labels = {}, config, publishedDefault, scc, hasRanges = true } = previewCase;
  store.put('Namespace', { metadata: { name: 'ns', labels, annotations: hasRanges ? RANGES : {} } });
  store.put('ServiceAccount', { metadata: { name: 'default', namespace: 'ns' } });
  putStandardSccs(store);
  if (previewCase.gate === 'off') store.put('FeatureGate', GATE_OFF);
  if (config) store.put('PSAEnforcementConfig', { metadata: { name: 'cluster' }, ...config });
  if (publishedDefault) {
    const annotations = { 'portcullis.dev/pod-security-default': publishedDefault };
    store.put('ConfigMap', { metadata: { name: 'portcullis-pod-security', namespace: 'portcullis', annotations } });
  }
  if (scc !== undefined) {
    store.put('RoleBinding', {
      metadata: { name: 'use', namespace: 'ns' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: `system:openshift:scc:${scc}` },
      subjects: [{ kind: 'ServiceAccount', name: 'default', namespace: 'ns' }],
    });
  }
}

const deployment = ({ spec }: { readonly spec?: unknown }, replicas = 1, metadata: object = {}) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'd', namespace: 'ns', ...metadata },
  spec: { replicas, template: { spec } },
});

const HOST_NETWORK = 'PodSecurity "restricted:latest": host namespaces (hostNetwork=true)';
/** The warnings about a template with hostNetwork that SCC admission denies. */
const SCC_DENIAL = [
  'pods of this template will be denied: unable to validate against any security context constraint',
  'The closest usable SCC is "restricted-v2". It does not allow: spec.hostNetwork=true.',
  'SCC "hostnetwork-v2" would admit the pod if service account "default" were allowed to use it. Bind ClusterRole "system:openshift:scc:hostnetwork-v2".',
];
const OWNED = { ownerReferences: [{ apiVersion: 'v1', kind: 'X', name: 'x', uid: '1', controller: true }] };

suite('planned enforcement causes a warning about', () => {
  const CASES: readonly (readonly [name: string, previewCase: PreviewCase, warnings: readonly string[]])[] = [
    [
      'a Deployment, with the enforcement date',
      { settings: DATED, request: deploymentRequest(deployment(hostNetworkPod())) },
      [...SCC_DENIAL, `enforcement from 2027-01-31 will deny these pods because they violate ${HOST_NETWORK}`],
    ],
    [
      'a pod in the Enforce phase',
      { settings: ENFORCE, request: podRequest(hostNetworkPod()) },
      [`enforcement will deny these pods because they violate ${HOST_NETWORK}`],
    ],
    [
      'a pod in a namespace that has only a version label, which enforcement keeps',
      {
        settings: ENFORCE,
        labels: { 'pod-security.kubernetes.io/enforce-version': 'v1.33' },
        request: podRequest(hostNetworkPod()),
      },
      [`enforcement will deny these pods because they violate ${HOST_NETWORK.replace('latest', 'v1.33')}`],
    ],
    [
      'a pod although the readiness controller has set Legacy mode',
      {
        settings: ENFORCE,
        config: {
          metadata: {
            name: 'cluster',
            managedFields: [
              { manager: 'PodSecurityReadinessController', fieldsV1: { 'f:spec': { 'f:enforcementMode': {} } } },
            ],
          },
          spec: { enforcementMode: 'Legacy' },
          status: { enforcementMode: 'Legacy' },
        },
        request: podRequest(hostNetworkPod()),
      },
      [`enforcement will deny these pods because they violate ${HOST_NETWORK}`],
    ],
    [
      'a pod, without violations that an earlier warning contains',
      {
        settings: DATED,
        labels: { 'pod-security.kubernetes.io/warn': 'restricted' },
        request: podRequest(hostNetworkPod()),
      },
      [`would violate ${HOST_NETWORK}`, 'enforcement from 2027-01-31 will deny these pods'],
    ],
    [
      'a template that gets no SCC defaults in report mode',
      { settings: DATED, sccMode: 'report', request: deploymentRequest(deployment(plainPod())) },
      [
        `enforcement from 2027-01-31 will deny these pods because they violate PodSecurity "restricted:latest": ${PLAIN_DETAILS}`,
      ],
    ],
    [
      'a template that is changed',
      {
        settings: DATED,
        request: deploymentRequest(deployment(hostNetworkPod()), {
          operation: 'UPDATE',
          oldObject: deployment(compliantPod()),
        }),
      },
      [...SCC_DENIAL, `enforcement from 2027-01-31 will deny these pods because they violate ${HOST_NETWORK}`],
    ],
  ];
  for (const [name, previewCase, warnings] of CASES) {
    test(name, async () => assert.deepEqual(await previewWarnings(previewCase), warnings));
  }
});

const SYNCER = 'pod-security-admission-label-synchronization-controller';
const LEVEL = (mode: string) => `pod-security.kubernetes.io/${mode}`;
const SYNC_LABEL = 'security.openshift.io/scc.podSecurityLabelSync';

suite('an edit of labels causes a warning if a controller will revert it:', () => {
  type Labels = Readonly<Record<string, string>>;
  interface Given {
    readonly name?: string;
    readonly sccMode?: SccMode;
    readonly disabled?: readonly string[];
    readonly before: Labels;
    readonly edited: Labels;
    readonly annotations?: Readonly<Record<string, string>>;
    /** The managers of the edited labels. Default: the syncer. */
    readonly owners?: Readonly<Record<string, readonly string[]>>;
  }
  const ours = Object.fromEntries(
    ['enforce', 'audit', 'warn'].flatMap((mode) => [
      [LEVEL(mode), 'restricted'],
      [LEVEL(`${mode}-version`), 'latest'],
    ]),
  );
  const withoutEnforce = Object.fromEntries(Object.entries(ours).filter(([key]) => key !== LEVEL('enforce')));
  const weaker = { ...ours, [LEVEL('enforce')]: 'privileged', [LEVEL('warn')]: 'baseline' };
  const byUser = { kubectl: [LEVEL('enforce'), LEVEL('warn')] };
  const optIn = { [SYNC_LABEL]: 'true' };
  const warning = (values: string): string =>
    `Portcullis manages the Pod Security labels of this namespace and will set ${values}. To keep your change, also set the label ${SYNC_LABEL}=false`;
  const cases: readonly (readonly [name: string, previewCase: Given, warning: string | undefined])[] = [
    [
      'a removed label, with a warning',
      { before: ours, edited: withoutEnforce },
      warning(`${LEVEL('enforce')}=restricted`),
    ],
    [
      'changed labels in a namespace that opts in, with a warning',
      { before: { ...ours, ...optIn }, edited: { ...weaker, ...optIn }, owners: byUser },
      warning(`${LEVEL('enforce')}=restricted, ${LEVEL('warn')}=privileged`),
    ],
    [
      'changed labels that the syncer keeps, without a warning',
      { before: ours, edited: weaker, owners: byUser },
      undefined,
    ],
    [
      'a removed label and the opt-out, without a warning',
      { before: ours, edited: { ...withoutEnforce, [SYNC_LABEL]: 'false' } },
      undefined,
    ],
    ['an unrelated label, without a warning', { before: ours, edited: { ...ours, team: 'a' } }, undefined],
    [
      'a removed label in report mode, without a warning',
      { before: ours, edited: withoutEnforce, sccMode: 'report' },
      undefined,
    ],
    [
      'a removed label while the syncer is disabled, without a warning',
      { before: ours, edited: withoutEnforce, disabled: [SYNCER] },
      undefined,
    ],
    [
      'a removed label on kube-system, with a warning',
      { name: 'kube-system', before: { [LEVEL('enforce')]: 'privileged' }, edited: {} },
      warning(`${LEVEL('enforce')}=privileged`),
    ],
    [
      'a removed label in a namespace that the auto-labeler manages, with a warning',
      {
        name: 'openshift-logging',
        before: { ...ours, ...optIn },
        edited: { ...withoutEnforce, ...optIn },
        annotations: { 'olm.auto-labeler.managed': 'true' },
      },
      `${warning(`${LEVEL('enforce')}=restricted`)} and the annotation olm.auto-labeler.managed=false`,
    ],
  ];
  for (const [title, { name = 'ns', sccMode = 'enforce', disabled = [], ...previewCase }, expected] of cases) {
    test(title, async () => {
      const scc = {
        mode: sccMode,
        exemptNamespaces: ['kube-system'],
        compatibility: 'portcullis',
        preferUserNamespaces: false,
      } as const;
      const rollout = { ...DEFAULT_ROLLOUT, phase: 'Enforce' } as const;
      const settings = { rollout, scc, disabledControllers: disabled };
      const { store, decide } = createRig({}, { previewLabels: createLabelPreview(INSTALLATION, () => settings) });
      putStandardSccs(store);
      store.put('ServiceAccount', { metadata: { name: 'default', namespace: name } });
      const annotations = { 'portcullis.dev/label-sync-mode': 'Enforce' };
      store.put('ConfigMap', { metadata: { name: 'portcullis-pod-security', namespace: 'portcullis', annotations } });
      const owners = previewCase.owners ?? {};
      const owned = Object.values(owners).flat();
      const managedFields = [
        ...Object.entries(owners),
        [SYNCER, Object.keys(previewCase.edited).filter((key) => !owned.includes(key))] as const,
      ].map(([manager, labels]) => managedFieldsEntry({ manager, labels }));
      const object = (labels: Labels, fields: object[]) => ({
        apiVersion: 'v1',
        kind: 'Namespace',
        metadata: { name, labels, annotations: { ...RANGES, ...previewCase.annotations }, managedFields: fields },
      });
      const request = namespaceRequest(
        'UPDATE',
        object(previewCase.edited, managedFields),
        object(previewCase.before, []),
        {
          name,
        },
      );
      const { allowed, warnings = [] } = await decide(request);
      assert.deepEqual({ allowed, warnings }, { allowed: true, warnings: expected === undefined ? [] : [expected] });
    });
  }
});

suite('planned enforcement causes no warning for', () => {
  const violating = deploymentRequest(deployment(hostNetworkPod()));
  const CASES: readonly (readonly [name: string, previewCase: PreviewCase])[] = [
    ['a disabled rollout', { settings: { enforcementDate: '2027-01-31' }, request: violating }],
    ['the Evaluate phase', { settings: { phase: 'Evaluate' }, request: violating }],
    ['a disabled feature gate', { settings: ENFORCE, gate: 'off', request: violating }],
    [
      'Legacy mode set by a user',
      {
        settings: ENFORCE,
        config: {
          spec: { enforcementMode: 'Legacy' },
          metadata: {
            name: 'cluster',
            managedFields: [{ manager: 'kubectl', fieldsV1: { 'f:spec': { 'f:enforcementMode': {} } } }],
          },
        },
        request: violating,
      },
    ],
    ['a namespace without ranges', { settings: DATED, hasRanges: false, request: violating }],
    ['a compliant pod', { settings: DATED, request: podRequest(compliantPod()) }],
    [
      'a template that SCC defaults make compliant',
      { settings: DATED, request: deploymentRequest(deployment(plainPod())) },
    ],
    [
      'a namespace whose SCC grants require the privileged level',
      { settings: DATED, scc: 'privileged', request: violating },
    ],
    [
      'a namespace with an enforce label',
      { settings: DATED, labels: { 'pod-security.kubernetes.io/enforce': 'privileged' }, request: violating },
    ],
    ['an exempt namespace', { settings: DATED, exempt: { namespaces: ['ns'] }, request: violating }],
    ['an exempt user', { settings: DATED, exempt: { usernames: ['alice'] }, request: violating }],
    [
      'an exempt runtime class',
      {
        settings: DATED,
        exempt: { runtimeClasses: ['kata'] },
        request: podRequest(compliantPod({ hostNetwork: true, runtimeClassName: 'kata' })),
      },
    ],
    [
      'a Deployment owned by a controller',
      { settings: DATED, request: deploymentRequest(deployment(hostNetworkPod(), 1, OWNED)) },
    ],
    [
      'an unchanged template',
      {
        settings: DATED,
        request: deploymentRequest(deployment(hostNetworkPod(), 2), {
          operation: 'UPDATE',
          oldObject: deployment(hostNetworkPod(), 1),
        }),
      },
    ],
    [
      'an unchanged pod',
      { settings: DATED, request: podRequest(hostNetworkPod(), { operation: 'UPDATE', oldObject: hostNetworkPod() }) },
    ],
    [
      'a deletion',
      {
        settings: DATED,
        request: deploymentRequest(null, { operation: 'DELETE', oldObject: deployment(hostNetworkPod()) }),
      },
    ],
    [
      'a Deployment without a template',
      { settings: DATED, request: deploymentRequest({ apiVersion: 'apps/v1', kind: 'Deployment' }) },
    ],
  ];
  for (const [name, previewCase] of CASES) {
    test(name, async () => {
      const warnings = await previewWarnings(previewCase);
      assert.deepEqual(
        warnings.filter((text) => text.includes('enforcement')),
        [],
      );
    });
  }

  test('malformed objects', async () => {
    for (const object of [
      1,
      'x',
      [],
      { metadata: 1 },
      { metadata: { ownerReferences: 5 }, spec: { template: 3 } },
      { kind: 'Pod' },
    ]) {
      const warnings = await previewWarnings({ settings: DATED, request: deploymentRequest(object) });
      assert.deepEqual(
        warnings.filter((text) => text.includes('enforcement')),
        [],
      );
    }
  });

  test('a level that is already enforced', async () => {
    const request = deploymentRequest(deployment(hostNetworkPod()));
    const config = { spec: {}, status: { enforcementMode: 'Restricted' } };
    const previewCase = { settings: ENFORCE, config, publishedDefault: 'restricted', request } as const;
    assert.deepEqual(await previewWarnings(previewCase), SCC_DENIAL);
  });
});

const MODE_LABEL = 'portcullis.dev/scc';
const PLAIN = namespaceWithMode();
const INVALID = namespaceWithMode('enforced');

function namespaceWithMode(mode?: unknown): Namespace {
  const labels = (mode === undefined ? {} : { [MODE_LABEL]: mode }) as Record<string, string>;
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'ns', labels } };
}

const update = (object: unknown, oldObject: unknown, change: Partial<AdmissionRequest> = {}): AdmissionRequest =>
  namespaceRequest('UPDATE', object, oldObject, change);

interface ModeLabelCase {
  readonly name: string;
  readonly request: AdmissionRequest;
  readonly mode?: SccMode;
  readonly exemptNamespaces?: readonly string[];
  /** The mode that the warning names. Absent if there is no warning. */
  readonly warned?: string;
  /** True if the request is denied for another reason. */
  readonly denied?: true;
}

const LEVEL_LABEL = { [MODE_LABEL]: 'enforced', 'pod-security.kubernetes.io/enforce': 'high' };

const MODE_LABELS: readonly ModeLabelCase[] = [
  { name: 'creation of the namespace', request: namespaceRequest('CREATE', INVALID, null), warned: 'enforced' },
  { name: 'an added label', request: update(INVALID, PLAIN), warned: 'enforced' },
  {
    name: 'an invalid mode that replaces another one',
    request: update(namespaceWithMode('On'), INVALID),
    warned: 'On',
  },
  { name: 'an added label that is empty', request: update(namespaceWithMode(''), PLAIN), warned: '' },
  {
    name: 'an added label, with report mode by default',
    request: update(INVALID, PLAIN),
    mode: 'report',
    warned: 'enforced',
  },
  {
    name: 'creation of the namespace with an invalid mode and an invalid level',
    request: namespaceRequest('CREATE', { ...PLAIN, metadata: { name: 'ns', labels: LEVEL_LABEL } }, null),
    warned: 'enforced',
    denied: true,
  },
  { name: 'an unchanged label', request: update(INVALID, INVALID) },
  { name: 'a removed label', request: update(PLAIN, INVALID) },
  { name: 'an added label with a valid mode', request: update(namespaceWithMode('enforce'), PLAIN) },
  { name: 'an added label, with off mode in the cluster', request: update(INVALID, PLAIN), mode: 'off' },
  { name: 'an added label in an exempt namespace', request: update(INVALID, PLAIN), exemptNamespaces: ['ns'] },
  { name: 'an update of a subresource', request: update(INVALID, PLAIN, { subResource: 'status' }) },
  { name: 'a deletion of the namespace', request: namespaceRequest('DELETE', null, INVALID) },
  { name: 'a pod in the namespace', request: podRequest(plainPod()) },
  { name: 'an added label that is not a string', request: update(namespaceWithMode(7), PLAIN), denied: true },
];

suite('a namespace with an unknown SCC mode in its label causes a warning if the label is new:', () => {
  for (const { name, request, mode = 'enforce', exemptNamespaces = [], warned, denied = false } of MODE_LABELS) {
    test(`${name}: ${warned === undefined ? 'no warning' : 'a warning'}`, async () => {
      const { store, decide } = createRig({}, { scc: () => ({ mode, exemptNamespaces }) });
      store.put('Namespace', INVALID);
      const decision = await decide(request);
      assert.equal(decision.allowed, !denied);
      const warning = `label portcullis.dev/scc: unknown mode "${warned}", using "enforce"; must be one of enforce, report, off`;
      assert.deepEqual(decision.warnings, warned === undefined ? undefined : [warning]);
    });
  }
});

const CONFIG = { group: 'config.openshift.io', version: 'v1alpha1' };

async function decideOnConfig(change: Partial<AdmissionRequest>) {
  const request: AdmissionRequest = {
    uid: '1',
    kind: { ...CONFIG, kind: 'PSAEnforcementConfig' },
    resource: { ...CONFIG, resource: 'psaenforcementconfigs' },
    operation: 'UPDATE',
    userInfo: { username: 'alice' },
    ...change,
  };
  const [, webhook] = createObjectWebhooks({
    'psaenforcementconfigs.config.openshift.io': createEnforcementConfigReviewer(),
  });
  assert.ok(webhook);
  const registered = onlyRegistered(webhook, () => ({ workloadResources: [] }));
  return await registered.decide(request, { store: createStore(), now: () => 0 });
}

const VIOLATING = [{ name: 'shop', state: 'Current' }, { name: 'bank' }, { name: 'old', state: 'Previous' }];

function config(enforcementMode: unknown, violatingNamespaces: unknown = VIOLATING) {
  return { metadata: { name: 'cluster' }, spec: { enforcementMode }, status: { violatingNamespaces } };
}

const FORCED =
  'spec.enforcementMode: Restricted is enforced immediately although workloads in 2 namespaces would be denied: bank, shop';

const CONFIGS: readonly (readonly [name: string, change: Partial<AdmissionRequest>, warnings: readonly string[]])[] = [
  [
    'Restricted instead of an empty mode, with a warning',
    { object: config('Restricted'), oldObject: config('') },
    [FORCED],
  ],
  [
    'Restricted instead of Legacy, with a warning',
    { object: config('Restricted'), oldObject: config('Legacy') },
    [FORCED],
  ],
  [
    'Restricted that was set before, without a warning',
    { object: config('Restricted'), oldObject: config('Restricted') },
    [],
  ],
  ['Legacy instead of an empty mode, without a warning', { object: config('Legacy'), oldObject: config('') }, []],
  [
    'Restricted without violations, without a warning',
    { object: config('Restricted', []), oldObject: config('', []) },
    [],
  ],
  [
    'Restricted in a new object, without a warning',
    { operation: 'CREATE', object: config('Restricted', null), oldObject: null },
    [],
  ],
  [
    'a change of the status, without a warning',
    { subResource: 'status', object: config('Restricted'), oldObject: config('') },
    [],
  ],
  ['a deletion, without a warning', { operation: 'DELETE', object: null, oldObject: config('') }, []],
  [
    'a change of another resource, without a warning',
    { resource: { ...CONFIG, resource: 'featuregates' }, object: config('Restricted'), oldObject: config('') },
    [],
  ],
  ['a value that is not an object, without a warning', { object: 5, oldObject: 'x' }, []],
  [
    'malformed entries of violations, without a warning',
    { object: config('Restricted'), oldObject: config('', [1, null, { name: 2 }]) },
    [],
  ],
  [
    'a status without a list of violations, without a warning',
    { object: config('Restricted'), oldObject: { spec: 3, status: { violatingNamespaces: {} } } },
    [],
  ],
];

suite('a change to the PSAEnforcementConfig causes a warning if it forces Restricted mode:', () => {
  for (const [name, change, warnings] of CONFIGS) {
    test(name, async () =>
      assert.deepEqual(await decideOnConfig(change), warnings.length === 0 ? allow() : allow({ warnings })),
    );
  }
});

interface Exchange {
  readonly area: string;
  readonly name: string;
  readonly webhookCalls?: readonly { readonly body?: { readonly request?: AdmissionRequest } }[];
}

/** The decision on a pod with a container `c` that satisfies baseline but violates restricted. */
const WARNED: Decision = {
  allowed: true,
  auditAnnotations: { 'enforce-policy': 'baseline:latest' },
  warnings: [`would violate PodSecurity "restricted:latest": ${PLAIN_DETAILS}`],
};
const ALLOWED: Decision = { allowed: true };
const WARNED_WORKLOAD: Decision = { allowed: true, warnings: WARNED.warnings ?? [] };
const DENIED: Decision = {
  allowed: false,
  status: {
    metadata: {},
    status: 'Failure',
    message:
      'pods "hn" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true), hostPort (container "c" uses hostPort 80)',
    reason: 'Forbidden',
    details: { name: 'hn', kind: 'pods' },
    code: 403,
  },
  auditAnnotations: { 'enforce-policy': 'baseline:latest' },
};
/** Returns the same decision for a pod with a second container. */
const warnedWith = (other: string): Decision => ({
  ...WARNED,
  warnings: [
    `would violate PodSecurity "restricted:latest": ${PLAIN_DETAILS.replaceAll('container "c"', `containers "c", "${other}"`)}`,
  ],
});

/** Decisions by name of the recorded exchange. The namespace `rec` enforces baseline and warns about restricted. */
const REVIEWS: Readonly<Record<string, Decision>> = {
  'pod create: the review that a webhook receives': WARNED,
  'pod create, server dry run': WARNED,
  'pod create with generateName': WARNED,
  'pod create by a user': WARNED,
  'pod create by a service account': WARNED,
  'pod label by merge patch': ALLOWED,
  'pod image update': WARNED,
  'ephemeral container': warnedWith('dbg'),
  'pod with resources': WARNED,
  resize: ALLOWED,
  'exec: the review that a webhook receives': ALLOWED,
  attach: ALLOWED,
  'deployment create': WARNED_WORKLOAD,
  'cronjob create': WARNED_WORKLOAD,
  'namespace label': ALLOWED,
  'namespace create': ALLOWED,
  'a legal map key named __proto__ and others that JavaScript treats specially': WARNED,
  'empty lists and nulls as they arrive': WARNED,
  'host network port defaulting': DENIED,
  'seccomp annotation as it arrives': WARNED,
};

suite('the server returns the recorded responses for reviews that a kube-apiserver sent:', () => {
  const exchanges = readLines<Exchange>('apiserver/transcripts.ndjson').filter(({ area }) => area === 'review');
  const { store, decide } = createRig();
  const { metadata } = namespaceWith({ enforce: 'baseline', warn: 'restricted' });
  store.put('Namespace', { metadata: { ...metadata, name: 'rec' } });
  const names = new Set<string>();
  for (const { name, webhookCalls = [] } of exchanges) {
    for (const { body } of webhookCalls) {
      const request = body?.request;
      if (!request) continue;
      names.add(name);
      test(name, async () => assert.deepEqual(await decide(request), REVIEWS[name]));
    }
  }
  test('and these are all recorded exchanges', () => assert.deepEqual([...names].sort(), Object.keys(REVIEWS).sort()));
});
