/** User namespaces and versions of kubelets, compared with the platform. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { SecurityContextConstraints } from '../../src/kube/scc.ts';
import type { JsonObject, Pod } from '../../src/kube/types.ts';
import { parseKubeletVersion, parseVersion } from '../../src/policy/kubelet/version.ts';
import { psaLevel } from '../../src/policy/rollout/scc-level.ts';
import { auditUserNamespaces } from '../../src/policy/rollout/user-namespace-audit.ts';
import { createSccSet, findCandidates } from '../../src/policy/scc/order.ts';
import { evaluatePod, type Version } from '../../src/policy/pss/index.ts';
import {
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
} from '../../src/policy/scc/standard.ts';
import { installCrds } from '../support/controllers.ts';
import { startEmptyCluster } from '../support/dev-cluster.ts';
import { area, readCases, skip, testAreas, type Area, type Case } from '../support/conformance/cases.ts';
import { createPodContext, laxScc, namespaceWith, podErrors } from '../support/scc.ts';

/** Areas out of scope: Portcullis does not restrict the versions of kubelets. */
const OUT_OF_SCOPE: readonly string[] = [
  'access-review-reply',
  'authorization-modes',
  'authorizer',
  'config-observer',
  'crd-schema',
  'feature-gates',
  'latency-profile',
  'nodes-config',
  'product-schema',
  'skew',
  'transition',
  'version-list',
];

const STORED_AREA = 'scc-user-namespace-default';
const SCCS_PATH = '/apis/security.openshift.io/v1/securitycontextconstraints';

const STANDARD = new Map(STANDARD_SCCS.map(({ scc }) => [scc.metadata?.name, scc]));

/** The variant of `nested-container` that the design describes. */
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

/** A pod from its annotations and the fields of its spec. */
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

/** The errors of an SCC without its name. */
function levelErrors({ userNamespaceLevel, hostUsers }: LevelInput): readonly string[] {
  const errors = podErrors(createPodContext(laxScc({ userNamespaceLevel }), { spec: { hostUsers } }));
  return errors.map((error) => error.replace(/^\./, ''));
}

const AREAS: Readonly<Record<string, Area>> = {
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
      input.version === undefined ? parseKubeletVersion(input.kubeletVersion ?? '') : parseVersion(input.version);
    assert.deepEqual('value' in parsed ? { normalised: parsed.value.join('.') } : parsed, expected);
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
    // From v1.35 the restricted check replaces the baseline check, so both levels are evaluated.
    const { violations: baseline } = evaluatePod(buildPod(pod), { level: 'baseline', version });
    const found = [...baseline, ...violations].find((violation) => violation.check === check);
    const { reason = '', detail = '' } = found ?? {};
    assert.deepEqual({ allowed: found === undefined, reason, detail }, expected);
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

const cases = readCases<readonly Case[]>('kubelet/cases.json', []);

suite('kubelets and user namespaces', { skip }, () => {
  testAreas(
    cases.filter((one) => one.area !== STORED_AREA && !OUT_OF_SCOPE.includes(one.area)),
    AREAS,
  );

  const defaults = cases.filter((one) => one.area === STORED_AREA);
  test(`${STORED_AREA}: ${defaults.length} cases, compared with the CRD of SCCs`, async (t) => {
    const { cluster, admin, stop } = await startEmptyCluster();
    t.after(stop);
    await installCrds(cluster);
    for (const [index, { name, input, expect }] of defaults.entries()) {
      await t.test(name, async () => {
        const { userNamespaceLevel, ...fields } = { ...STANDARD.get('restricted-v2'), ...(input as LevelInput) };
        const level = userNamespaceLevel === null ? {} : { userNamespaceLevel };
        const scc = { ...fields, ...level, metadata: { name: `scc-${index}` } };
        const { status, body } = await admin.send('POST', SCCS_PATH, scc);
        assert.equal(status, 201);
        const stored = (body as SecurityContextConstraints).userNamespaceLevel;
        assert.deepEqual({ stored }, expect);
      });
    }
  });
});
