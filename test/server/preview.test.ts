/** What authors of workloads are told while enforcement is still to come. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createStore, type WritableStore } from '../../src/cluster/store.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import type { PSAEnforcementConfig } from '../../src/kube/psa-enforcement-config.ts';
import { DEFAULT_CONFIGURATION } from '../../src/policy/psa/configuration.ts';
import { createPodSecurity } from '../../src/policy/psa/configuration.ts';
import { DEFAULT_ROLLOUT, type RolloutSettings } from '../../src/policy/rollout/settings.ts';
import type { SccMode } from '../../src/policy/scc/mode.ts';
import {
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
} from '../../src/policy/scc/standard.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { createPsaWebhook } from '../../src/server/webhooks/psa.ts';
import { createWaitingRoom } from '../../src/server/waiting-room.ts';
import {
  compliantPod,
  deploymentRequest,
  hostNetworkPod,
  plainPod,
  PLAIN_DETAILS,
  podRequest,
} from '../support/pod-security.ts';
import { RANGES } from '../support/scc-cluster.ts';

interface Given {
  readonly settings?: Partial<RolloutSettings>;
  readonly config?: PSAEnforcementConfig;
  /** Of the namespace `ns`. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly sccMode?: SccMode;
  /** What is published for namespaces without a label. */
  readonly published?: 'restricted';
  readonly exempt?: Partial<(typeof DEFAULT_CONFIGURATION)['exemptions']>;
  /** An SCC that the service account `default` of the namespace may use. */
  readonly scc?: string;
  /** The namespace has no ranges yet. */
  readonly ranges?: 'none';
  readonly request: AdmissionRequest;
}

const DATED: Partial<RolloutSettings> = { phase: 'Evaluate', enforcementDate: '2027-01-31' };
const ENFORCE: Partial<RolloutSettings> = { phase: 'Enforce' };

function warningsOf(given: Given): readonly string[] {
  const store = createStore();
  fill(store, given);
  const settings = { ...DEFAULT_ROLLOUT, ...given.settings };
  const scc = { mode: given.sccMode ?? 'enforce', exemptNamespaces: [] } as const;
  const exemptions = { ...DEFAULT_CONFIGURATION.exemptions, ...given.exempt };
  const podSecurity = createPodSecurity({ ...DEFAULT_CONFIGURATION, exemptions });
  const webhook = createPsaWebhook({
    podSecurity: () => podSecurity,
    metrics: createMetrics({ version: '0.0.0' }).podSecurity,
    waitingRoom: createWaitingRoom(),
    rollout: {
      place: { namespace: 'portcullis', version: '0.0.0' },
      settings: () => settings,
      management: { exemptNamespaces: new Set(), scc },
    },
  });
  const decision = webhook.decide(given.request, { store, now: () => 0 }) as Decision;
  assert.equal(decision.allowed, true);
  return decision.warnings ?? [];
}

function fill(store: WritableStore, { labels = {}, config, published, scc, ranges }: Given): void {
  store.put('Namespace', { metadata: { name: 'ns', labels, annotations: ranges === 'none' ? {} : RANGES } });
  store.put('ServiceAccount', { metadata: { name: 'default', namespace: 'ns' } });
  for (const one of STANDARD_SCCS) store.put('SecurityContextConstraints', one.scc);
  for (const role of STANDARD_CLUSTER_ROLES) store.put('ClusterRole', role);
  for (const binding of STANDARD_CLUSTER_ROLE_BINDINGS) store.put('ClusterRoleBinding', binding);
  if (config) store.put('PSAEnforcementConfig', { metadata: { name: 'cluster' }, ...config });
  if (published) {
    const annotations = { 'portcullis.dev/pod-security-default': published };
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
const OWNED = { ownerReferences: [{ apiVersion: 'v1', kind: 'X', name: 'x', uid: '1', controller: true }] };

suite('who is told', () => {
  const CASES: readonly (readonly [name: string, given: Given, warnings: readonly string[]])[] = [
    [
      'of a Deployment, by the day',
      { settings: DATED, request: deploymentRequest(deployment(hostNetworkPod())) },
      [`enforcement from 2027-01-31 will refuse these pods: they violate ${HOST_NETWORK}`],
    ],
    [
      'of a pod, in the phase that enforces',
      { settings: ENFORCE, request: podRequest(hostNetworkPod()) },
      [`enforcement will refuse these pods: they violate ${HOST_NETWORK}`],
    ],
    [
      'a proposal of the program asks for nothing',
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
      [`enforcement will refuse these pods: they violate ${HOST_NETWORK}`],
    ],
    [
      'what was told already is not repeated',
      {
        settings: DATED,
        labels: { 'pod-security.kubernetes.io/warn': 'restricted' },
        request: podRequest(hostNetworkPod()),
      },
      [`would violate ${HOST_NETWORK}`, 'enforcement from 2027-01-31 will refuse these pods'],
    ],
    [
      'of a pod template as it is, where SCCs do not complete it',
      { settings: DATED, sccMode: 'report', request: deploymentRequest(deployment(plainPod())) },
      [
        `enforcement from 2027-01-31 will refuse these pods: they violate PodSecurity "restricted:latest": ${PLAIN_DETAILS}`,
      ],
    ],
    [
      'a change of the template',
      {
        settings: DATED,
        request: deploymentRequest(deployment(hostNetworkPod()), {
          operation: 'UPDATE',
          oldObject: deployment(compliantPod()),
        }),
      },
      [`enforcement from 2027-01-31 will refuse these pods: they violate ${HOST_NETWORK}`],
    ],
  ];
  for (const [name, given, warnings] of CASES) test(name, () => assert.deepEqual(warningsOf(given), warnings));
});

suite('who is not', () => {
  const violating = deploymentRequest(deployment(hostNetworkPod()));
  const CASES: readonly (readonly [name: string, given: Given])[] = [
    ['the rollout is disabled', { settings: { enforcementDate: '2027-01-31' }, request: violating }],
    ['nothing is to come', { settings: { phase: 'Evaluate' }, request: violating }],
    [
      'the feature is off',
      {
        settings: { ...ENFORCE, featureGates: new Map([['OpenShiftPodSecurityAdmission', false]]) },
        request: violating,
      },
    ],
    [
      'somebody asked not to enforce',
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
    ['the namespace has no ranges yet', { settings: DATED, ranges: 'none', request: violating }],
    ['nothing is wrong', { settings: DATED, request: podRequest(compliantPod()) }],
    ['SCCs complete the template', { settings: DATED, request: deploymentRequest(deployment(plainPod())) }],
    ['its SCC makes the namespace privileged', { settings: DATED, scc: 'privileged', request: violating }],
    [
      'the namespace has a level of its own',
      { settings: DATED, labels: { 'pod-security.kubernetes.io/enforce': 'privileged' }, request: violating },
    ],
    ['the namespace is exempt', { settings: DATED, exempt: { namespaces: ['ns'] }, request: violating }],
    ['the user is exempt', { settings: DATED, exempt: { usernames: ['alice'] }, request: violating }],
    [
      'the runtime class is exempt',
      {
        settings: DATED,
        exempt: { runtimeClasses: ['kata'] },
        request: podRequest(compliantPod({ hostNetwork: true, runtimeClassName: 'kata' })),
      },
    ],
    ['a controller makes it', { settings: DATED, request: deploymentRequest(deployment(hostNetworkPod(), 1, OWNED)) }],
    [
      'the template stays as it was',
      {
        settings: DATED,
        request: deploymentRequest(deployment(hostNetworkPod(), 2), {
          operation: 'UPDATE',
          oldObject: deployment(hostNetworkPod(), 1),
        }),
      },
    ],
    [
      'the pod stays as it was',
      { settings: DATED, request: podRequest(hostNetworkPod(), { operation: 'UPDATE', oldObject: hostNetworkPod() }) },
    ],
    [
      'it is deleted',
      {
        settings: DATED,
        request: deploymentRequest(null, { operation: 'DELETE', oldObject: deployment(hostNetworkPod()) }),
      },
    ],
    [
      'it has no template',
      { settings: DATED, request: deploymentRequest({ apiVersion: 'apps/v1', kind: 'Deployment' }) },
    ],
  ];
  for (const [name, given] of CASES) {
    test(name, () =>
      assert.deepEqual(
        warningsOf(given).filter((text) => text.includes('enforcement')),
        [],
      ),
    );
  }

  test('what is odd says nothing, and nothing breaks', () => {
    for (const object of [
      1,
      'x',
      [],
      { metadata: 1 },
      { metadata: { ownerReferences: 5 }, spec: { template: 3 } },
      { kind: 'Pod' },
    ]) {
      const warnings = warningsOf({ settings: DATED, request: deploymentRequest(object) });
      assert.deepEqual(
        warnings.filter((text) => text.includes('enforcement')),
        [],
      );
    }
  });

  test('the level is in force', () => {
    const request = deploymentRequest(deployment(hostNetworkPod()));
    const config = { spec: {}, status: { enforcementMode: 'Restricted' } };
    assert.deepEqual(warningsOf({ settings: ENFORCE, config, published: 'restricted', request }), []);
  });
});
