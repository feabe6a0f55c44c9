/** Compares user namespaces and minimum kubelet versions with the recorded results of OpenShift. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createStore } from '../../src/cluster/store.ts';
import { decodeSettings } from '../../src/config/portcullis-configuration.ts';
import { createObservable } from '../../src/config/settings.ts';
import { readDocuments } from '../../src/config/yaml.ts';
import { kubeletMinimum } from '../../src/controllers/kubelet-minimum.ts';
import type { DevCluster } from '../../src/dev-cluster/index.ts';
import { controlPlaneFiles } from '../../src/install/control-plane.ts';
import type { Decision, Denied } from '../../src/kube/admission.ts';
import type { FieldError } from '../../src/kube/field-error.ts';
import type { SecurityContextConstraints } from '../../src/kube/scc.ts';
import type { JsonObject, Node, Pod } from '../../src/kube/types.ts';
import {
  accessReviewStatus,
  authorizeKubelet,
  type AuthorizerDecision,
  type AuthorizerMode,
  compareNodes,
  type MinimumVersion,
  type NodeState,
  parseKubeletVersion,
  parseMinimum,
  parseSemanticVersion,
  planMinimum,
  type ResourceAttributes,
  reviewNodesConfig,
} from '../../src/policy/kubelet/index.ts';
import { psaLevel } from '../../src/policy/psa/index.ts';
import { evaluatePod, type Version } from '../../src/policy/pss/index.ts';
import { auditUserNamespaces, findSkew } from '../../src/policy/rollout/index.ts';
import {
  createSccSet,
  findCandidates,
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
} from '../../src/policy/scc/index.ts';
import { createDisclosure } from '../../src/server/disclosure.ts';
import { onlyRegistered } from '../../src/server/webhooks/index.ts';
import { createNodesConfigReviewer } from '../../src/server/webhooks/objects/nodes-config.ts';
import { type Area, area, type Case, readCases, testAreas } from '../support/conformance/cases.ts';
import { createController, createTestSettings, installCrds, runController } from '../support/controllers.ts';
import { startEmptyCluster } from '../support/dev-cluster.ts';
import { createPodContext, laxScc, namespaceWith, podErrors } from '../support/scc.ts';

const NODES_CONFIG_PATH = '/apis/config.openshift.io/v1/nodes';
const SCCS_PATH = '/apis/security.openshift.io/v1/securitycontextconstraints';

const STANDARD = new Map(STANDARD_SCCS.map(({ scc }) => [scc.metadata?.name, scc]));

/** The variant of the `nested-container` SCC that the recorded cases use. */
const DESIGN: SecurityContextConstraints = {
  ...STANDARD.get('restricted-v2'),
  metadata: { name: 'nested-container-design' },
  seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { type: 'container_engine_t' } },
  runAsUser: { type: 'RunAsAny' },
  requiredDropCapabilities: null,
  userNamespaceLevel: 'RequirePodLevel',
};

const NAMESPACE = namespaceWith({
  'openshift.io/sa.scc.uid-range': '1000660000/10000',
  'openshift.io/sa.scc.mcs': 's0:c26,c5',
});

function buildPod({ annotations = {}, ...spec }: JsonObject): Pod {
  return { metadata: { name: 'p', namespace: 'demo', annotations }, spec } as unknown as Pod;
}

interface VersionInput {
  readonly version?: string;
  readonly kubeletVersion?: string;
}

interface LevelInput {
  readonly userNamespaceLevel: string | null;
  readonly hostUsers: boolean | null;
}

interface OrderInput {
  readonly sccs: readonly string[];
  readonly preferUserNamespaceProfiles?: boolean;
  readonly hostUsers?: boolean | null;
}

interface OrderExpect {
  readonly order: readonly string[];
  readonly scores?: Readonly<Record<string, number>>;
}

interface CheckInput {
  readonly check: string;
  readonly version: Version;
  readonly pod: JsonObject;
}

interface ReportedNode {
  readonly name: string;
  readonly kubeletVersion: string;
}

/** Nodes with running kubelets. */
function nodeStates(nodes: readonly ReportedNode[]): readonly NodeState[] {
  return nodes.map((node) => ({ ...node, hasReadyCondition: true, isExempt: false }));
}

function readMinimum(text: string): MinimumVersion | undefined {
  const parsed = parseMinimum(text);
  assert.ok('value' in parsed);
  return parsed.value;
}

interface AuthorizerInput {
  readonly modes: readonly AuthorizerMode[];
  readonly minimum: string;
  readonly cacheSynced: boolean;
  readonly nodes: readonly ReportedNode[];
  readonly request: {
    readonly user: { readonly name: string; readonly groups: readonly string[] } | null;
    readonly resource?: ResourceAttributes;
  };
}

interface AuthorizerResult {
  readonly decision: AuthorizerDecision['decision'];
  readonly reason: string;
  readonly error: string;
}

function authorize(input: AuthorizerInput, mode: AuthorizerMode): AuthorizerResult {
  const { user, resource } = input.request;
  const nodes = nodeStates(input.nodes);
  const findNode = (name: string): NodeState | undefined => nodes.find((node) => node.name === name);
  const decision = authorizeKubelet(
    { username: user?.name ?? '', groups: user?.groups ?? [], resource },
    { minimum: readMinimum(input.minimum), mode, findNode: input.cacheSynced ? findNode : undefined },
  );
  const { reason = '', error = '' } = decision.decision === 'Deny' ? decision : {};
  return { decision: decision.decision, reason, error };
}

/** Returns the first error for a list of versions, as upstream compares them. */
function firstVersionError(minimum: string, versions: readonly string[]): string | null {
  const parsed = parseMinimum(minimum);
  if ('error' in parsed) return parsed.error;
  const nodes = nodeStates(versions.map((kubeletVersion, index) => ({ name: String(index), kubeletVersion })));
  const violations = parsed.value ? compareNodes(nodes, parsed.value, true).violations : [];
  return violations[0]?.problem.message ?? null;
}

interface FieldResult {
  readonly allowed: boolean;
  readonly field?: string;
  readonly detail?: string;
}

function changeProfile(from: string, to: string): FieldResult {
  const state = { name: 'cluster', minimumKubeletVersion: '' };
  const { errors } = reviewNodesConfig({
    config: { ...state, workerLatencyProfile: to },
    old: { ...state, workerLatencyProfile: from },
    nodes: [],
    ratchet: false,
    strictNodes: true,
  });
  const [error] = errors;
  return error ? { allowed: false, field: error.path, detail: error.detail } : { allowed: true };
}

interface TransitionInput {
  readonly spec: string;
  readonly status: string;
  readonly kubeletVersions: readonly string[];
  readonly poolsRolledOut: readonly boolean[];
}

function toBaseline(_isUpdated: boolean, index: number) {
  return { name: `pool${index}`, members: ['old'] };
}

interface ConfigInput {
  readonly operation: 'CREATE' | 'UPDATE';
  readonly objectName?: string;
  readonly version: string;
  readonly oldVersion: string | null;
  readonly subresource: string;
  readonly featureEnabled: boolean;
  readonly cacheReady: boolean;
  readonly ratchet: boolean;
  readonly nodes: readonly ReportedNode[];
}

interface ConfigExpect {
  readonly allowed: boolean;
  readonly code?: number;
  readonly reason?: string;
  readonly message?: string;
  readonly field?: string;
  readonly type?: string;
  readonly detailContains?: string;
}

const OPTIONS = { controllers: [], namespace: 'portcullis' };

/** Reviews the node configuration with the webhook. A server that has not synced does not call the webhook. */
async function reviewConfig(input: ConfigInput): Promise<Decision> {
  const { objectName: name = 'cluster', ratchet } = input;
  const kubelet = input.featureEnabled ? { compatibility: ratchet ? 'portcullis' : 'openshift' } : undefined;
  const decoded = decodeSettings({ spec: { kubelet } }, OPTIONS);
  assert.ok('settings' in decoded);
  const store = createStore();
  for (const { name: node, kubeletVersion } of input.nodes) {
    store.put('Node', { metadata: { name: node }, status: { nodeInfo: { kubeletVersion } } } as Node);
  }
  const scope = { store, settings: () => decoded.settings.kubelet, hasSettingsObject: true };
  const object = (minimumKubeletVersion: string | null) => ({ metadata: { name }, spec: { minimumKubeletVersion } });
  const reviewer = createNodesConfigReviewer(scope, createDisclosure(true));
  const webhook = onlyRegistered({ path: '/validate/objects', decide: reviewer.validate }, () => ({
    workloadResources: [],
  }));
  const decision = await webhook.decide(
    {
      uid: 'u',
      kind: { group: 'config.openshift.io', version: 'v1', kind: 'Node' },
      resource: { group: 'config.openshift.io', version: 'v1', resource: 'nodes' },
      subResource: input.subresource,
      operation: input.operation,
      userInfo: {},
      object: object(input.version),
      oldObject: input.operation === 'UPDATE' ? object(input.oldVersion) : null,
    },
    { store, now: () => 0 },
  );
  assert.ok(!(decision instanceof Promise) && 'allowed' in decision);
  return decision;
}

/** Returns the first error of a review before the nodes are known. */
function findUnsyncedError({ version }: ConfigInput): FieldError | undefined {
  const config = { name: 'cluster', minimumKubeletVersion: version, workerLatencyProfile: '' };
  return reviewNodesConfig({ config, nodes: undefined, ratchet: false, strictNodes: true }).errors[0];
}

function assertDenied({ status }: Denied, expected: ConfigExpect): void {
  const { code = 422, reason = 'Invalid', message = status.message, field, type = '', detailContains = '' } = expected;
  assert.deepEqual([status.code, status.reason, status.message], [code, reason, message]);
  const [cause, ...others] = status.details?.causes ?? [];
  assert.deepEqual(others, []);
  assert.deepEqual([cause?.field, cause?.reason], [field, `FieldValue${type}`]);
  assert.ok(cause?.message?.includes(detailContains), cause?.message);
}

/** Returns the errors of an SCC without the name of the SCC. */
function levelErrors({ userNamespaceLevel, hostUsers }: LevelInput): readonly string[] {
  const errors = podErrors(createPodContext(laxScc({ userNamespaceLevel }), { spec: { hostUsers } }));
  return errors.map((error) => error.replace(/^\./, ''));
}

interface ModesExpect {
  readonly config: { readonly apiServerArguments: { readonly 'authorization-mode': readonly string[] } };
}

/**
 * Returns the authorizers that `install --profile=control-plane` configures, without the webhook if it has no opinion
 * on an old node. OpenShift's operator writes its list of modes in the same order. The other fields of its
 * configuration are not compared, because Portcullis never writes the configuration of OpenShift's API servers, which
 * the operator would restore.
 */
function effectiveAuthorizers(hasMinimum: boolean): readonly string[] {
  const { text = '' } = controlPlaneFiles('image').find(({ path }) => path === 'authz/authorization.yaml') ?? {};
  const [document] = readDocuments(text, 'authorization.yaml').documents;
  const { authorizers } = document?.value as { readonly authorizers: readonly { readonly type: string }[] };
  const old = { name: 'old', kubeletVersion: '1.29.0' };
  const { decision } = authorize(
    {
      modes: [],
      minimum: hasMinimum ? '1.30.0' : '',
      cacheSynced: true,
      nodes: [old],
      request: { user: { name: 'system:node:old', groups: ['system:nodes'] } },
    },
    'strict',
  );
  const types = authorizers.map(({ type }) => (type === 'Webhook' ? 'MinimumKubeletVersion' : type));
  return types.filter((type) => type !== 'MinimumKubeletVersion' || decision === 'Deny');
}

const AREAS: Readonly<Record<string, Area>> = {
  authorizer: area<AuthorizerInput, Omit<AuthorizerResult, 'error'> & { readonly errorContains: string }>(
    (input, { decision, reason, errorContains }) => {
      for (const mode of input.modes) {
        const result = authorize(input, mode);
        assert.deepEqual([result.decision, result.reason], [decision, reason], mode);
        if (errorContains === '') assert.equal(result.error, '', mode);
        else assert.ok(result.error.includes(errorContains), `${mode}: ${result.error}`);
      }
    },
  ),
  'access-review-reply': area<AuthorizerResult, { readonly http: number; readonly status: unknown }>(
    ({ decision, reason, error }, expected) => {
      const cause = error.includes('not synced') ? 'not-synced' : 'node-not-found';
      const status = accessReviewStatus(
        decision === 'NoOpinion'
          ? { decision, cause: 'sufficient' }
          : { decision, cause, ...(error === '' ? { reason } : { error }) },
      );
      assert.deepEqual({ http: status ? 200 : 503, status: status ?? null }, expected);
    },
  ),
  'version-list': area<{ readonly minimum: string; readonly kubeletVersions: readonly string[] }, unknown>(
    ({ minimum, kubeletVersions }, expected) => {
      assert.deepEqual({ error: firstVersionError(minimum, kubeletVersions) }, expected);
    },
  ),
  'nodes-config': area<ConfigInput, ConfigExpect>(async (input, expected) => {
    if (!input.cacheReady) {
      const error = findUnsyncedError(input);
      assert.deepEqual([error?.path, error?.type], [expected.field, `${expected.type}Error`]);
      assert.equal(error?.detail, expected.detailContains);
      return;
    }
    const decision = await reviewConfig(input);
    assert.equal(decision.allowed, expected.allowed);
    if (!decision.allowed) assertDenied(decision, expected);
  }),
  'product-schema': area<{ readonly minimumKubeletVersion: string }, { readonly valid: boolean }>(
    ({ minimumKubeletVersion: minimumVersion }, { valid }) => {
      assert.equal('settings' in decodeSettings({ spec: { kubelet: { minimumVersion } } }, OPTIONS), valid);
    },
  ),
  'latency-profile': area<{ readonly from: string; readonly to: string }, unknown>(({ from, to }, expected) => {
    assert.deepEqual(changeProfile(from, to), expected);
  }),
  'scc-user-namespace': area<LevelInput, { readonly error?: string }>((input, { error }) => {
    assert.deepEqual(levelErrors(input), error === undefined ? [] : [error]);
  }),
  'scc-order': area<OrderInput, OrderExpect>((input, { order, scores }) => {
    const sccs = createSccSet(input.sccs.flatMap((name) => STANDARD.get(name) ?? []));
    const preferUserNamespaces = input.preferUserNamespaceProfiles === true && input.hostUsers === false;
    const candidates = findCandidates(sccs, { preferUserNamespaces });
    const ordered = 'error' in candidates ? [] : candidates.sccs;
    const names = ordered.map(({ name }) => name);
    assert.deepEqual(names, order);
    if (scores) assert.deepEqual(Object.fromEntries(ordered.map(({ name, score }) => [name, score])), scores);
  }),
  'version-parse': area<VersionInput, unknown>((input, expected) => {
    const parsed =
      input.version === undefined
        ? parseKubeletVersion(input.kubeletVersion ?? '')
        : parseSemanticVersion(input.version);
    assert.deepEqual('value' in parsed ? { normalised: parsed.value.join('.') } : parsed, expected);
  }),
  transition: area<TransitionInput, unknown>(({ spec, status, kubeletVersions, poolsRolledOut }, expected) => {
    const plan = planMinimum({
      requested: spec,
      state: { inForce: status, rendered: spec, baseline: poolsRolledOut.map(toBaseline) },
      nodes: nodeStates(kubeletVersions.map((kubeletVersion, index) => ({ name: String(index), kubeletVersion }))),
      strictNodes: false,
      pools: poolsRolledOut.map((isUpdated, index) => ({
        name: `pool${index}`,
        members: [{ id: isUpdated ? 'new' : 'old', isReady: true }],
      })),
    });
    const { inForce: newStatus, rendered } = plan.state;
    const reason = plan.blocking.length > 0 ? { reason: 'NodesBelowMinimum' } : {};
    assert.deepEqual({ rendered, newStatus, ...reason }, expected);
  }),
  'scc-to-pss': area<{ readonly scc: string }, unknown>(({ scc: name }, expected) => {
    const scc = name === 'nested-container-design' ? DESIGN : STANDARD.get(name);
    assert.ok(scc);
    const getLevel = (userNamespaces: 'ignore' | 'aware') =>
      psaLevel(scc, NAMESPACE, { profile: 'upstream', userNamespaces }).level;
    assert.deepEqual({ today: getLevel('ignore'), userNamespaceAware: getLevel('aware') }, expected);
  }),
  'pss-user-namespace': area<CheckInput, unknown>(({ check, version, pod }, expected) => {
    const { violations } = evaluatePod(buildPod(pod), { level: 'restricted', version });
    // Since v1.35, the restricted check replaces the baseline check, so both levels are evaluated.
    const { violations: baseline } = evaluatePod(buildPod(pod), { level: 'baseline', version });
    const found = [...baseline, ...violations].find((violation) => violation.check === check);
    const { reason = '', detail = '' } = found ?? {};
    assert.deepEqual({ allowed: found === undefined, reason, detail }, expected);
  }),
  skew: area<{ readonly kubelet: string; readonly apiServer: string }, unknown>(({ kubelet, apiServer }, expected) => {
    const { skew, isSafe = null } = findSkew(kubelet, apiServer);
    assert.deepEqual({ cell: skew, relaxationSafe: isSafe }, expected);
  }),
  'authorization-modes': area<{ readonly featureOn: boolean }, ModesExpect>(({ featureOn }, { config }) => {
    const modes = config.apiServerArguments['authorization-mode'];
    const isShared = (mode: string): boolean => mode === 'MinimumKubeletVersion' || mode === 'Node';
    assert.deepEqual(effectiveAuthorizers(featureOn).filter(isShared), modes.filter(isShared));
    // The system:masters group and scopes are not authorizers in a plain API server.
    const others = ['MinimumKubeletVersion', 'Scope', 'SystemMasters'];
    const required = modes.filter((mode) => !others.includes(mode));
    assert.deepEqual(new Set(required).difference(new Set(effectiveAuthorizers(featureOn))), new Set());
  }),
  'downgrade-audit': area<{ readonly pod: JsonObject }, unknown>(({ pod }, expected) => {
    const one = buildPod(pod);
    const findings = auditUserNamespaces({
      sccs: [...STANDARD.values()],
      namespaces: [NAMESPACE],
      pods: [one],
      sources: [{ kind: 'Pod', object: one }],
      nodes: [],
      rbac: {
        roles: [],
        roleBindings: [],
        clusterRoles: STANDARD_CLUSTER_ROLES,
        clusterRoleBindings: STANDARD_CLUSTER_ROLE_BINDINGS,
      },
      include: [],
    });
    assert.deepEqual({ codes: findings.map(({ code }) => code).sort() }, expected);
  }),
};

const cases = readCases<readonly Case[]>('kubelet/cases.json');

/** Areas to compare with the controllers and schemas of a development cluster. */
const CLUSTER_AREAS = ['scc-user-namespace-default', 'crd-schema', 'config-observer'] as const;
const isClusterArea = (area: string): boolean => CLUSTER_AREAS.some((one) => one === area);

interface ObserverInput {
  readonly existing: { readonly minimumKubeletVersion?: string } | null;
  readonly specMinimum: string;
  readonly featureOn: boolean;
}

const BY_TEST = { fieldManager: 'test' };

/** Requests a minimum in `nodes.config.openshift.io/cluster`. Returns the minimum that the controller enforces. */
async function observeMinimum(cluster: DevCluster, { existing, specMinimum, featureOn }: ObserverInput) {
  const { value: defaults } = createTestSettings({});
  const settings = createObservable({ ...defaults, kubelet: { ...defaults.kubelet, isOn: featureOn } });
  const { minimumKubeletVersion: minimumVersion } = existing ?? {};
  const metadata = { name: 'cluster' };
  await cluster.create('PortcullisConfiguration', { metadata, spec: {} }, BY_TEST);
  const status = { kubelet: minimumVersion === undefined ? {} : { minimumVersion } };
  await cluster.applyStatus('PortcullisConfiguration', { metadata, status }, { fieldManager: kubeletMinimum.name });
  await cluster.create('NodesConfig', { metadata, spec: { minimumKubeletVersion: specMinimum } }, BY_TEST);
  const running = runController(createController(kubeletMinimum, { settings }), cluster);
  await running.idle();
  await running.stop();
  assert.deepEqual(running.errors(), []);
  return cluster.store.get('PortcullisConfiguration', 'cluster')?.status?.kubelet?.minimumVersion;
}

suite('minimum kubelet versions and user namespaces agree with upstream', () => {
  testAreas(
    cases.filter(({ area }) => !isClusterArea(area)),
    AREAS,
  );
  const casesOf = <I, E>(name: (typeof CLUSTER_AREAS)[number]) =>
    cases.filter(({ area }) => area === name) as readonly (Case & { readonly input: I; readonly expect: E })[];

  const defaults = casesOf<LevelInput, unknown>('scc-user-namespace-default');
  test(`scc-user-namespace-default: the SCC CRD sets the recorded default in ${defaults.length} cases`, async (t) => {
    const { cluster, admin, stop } = await startEmptyCluster();
    t.after(stop);
    await installCrds(cluster);
    for (const [index, { name, input, expect }] of defaults.entries()) {
      await t.test(name, async () => {
        const { userNamespaceLevel, ...fields } = { ...STANDARD.get('restricted-v2'), ...input };
        const level = userNamespaceLevel === null ? {} : { userNamespaceLevel };
        const scc = { ...fields, ...level, metadata: { name: `scc-${index}` } };
        const { status, body } = await admin.send('POST', SCCS_PATH, scc);
        assert.equal(status, 201);
        const stored = (body as SecurityContextConstraints).userNamespaceLevel;
        assert.deepEqual({ stored }, expect);
      });
    }
  });

  const schemas = casesOf<{ minimumKubeletVersion: string | null }, { valid: boolean; messageContains?: string }>(
    'crd-schema',
  );
  test(`crd-schema: the CRD of --nodes-config has the recorded result in ${schemas.length} cases`, async (t) => {
    const { cluster, admin, stop } = await startEmptyCluster();
    t.after(stop);
    await installCrds(cluster);
    for (const { name, input, expect } of schemas) {
      await t.test(name, async () => {
        const { minimumKubeletVersion } = input;
        const spec = minimumKubeletVersion === null ? {} : { minimumKubeletVersion };
        const answer = await admin.send('POST', `${NODES_CONFIG_PATH}?dryRun=All`, {
          metadata: { name: 'cluster' },
          spec,
        });
        assert.equal(answer.status, expect.valid ? 201 : 422, answer.text);
        assert.ok(answer.text.includes(expect.messageContains ?? ''), answer.text);
      });
    }
  });

  const observed = casesOf<ObserverInput, { readonly observed: { readonly minimumKubeletVersion?: string } }>(
    'config-observer',
  );
  test(`config-observer: kubelet-minimum-controller renders the recorded minimum in ${observed.length} cases`, async (t) => {
    const { cluster, stop } = await startEmptyCluster();
    t.after(stop);
    await installCrds(cluster);
    for (const { name, input, expect } of observed) {
      await t.test(name, async () => {
        assert.equal(await observeMinimum(cluster, input), expect.observed.minimumKubeletVersion);
        for (const kind of ['PortcullisConfiguration', 'NodesConfig'] as const) await cluster.remove(kind, 'cluster');
      });
    }
  });
});
