/** Tests the audit of user namespaces. The cases are in `test/fixtures/user-namespaces/audit.yaml`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { SecurityContextConstraints } from '../../../src/kube/scc.ts';
import type { Namespace, Node, Pod } from '../../../src/kube/types.ts';
import type { RbacObjects } from '../../../src/policy/rbac/index.ts';
import { type AuditInput, auditUserNamespaces } from '../../../src/policy/rollout/user-namespace-audit.ts';
import {
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
} from '../../../src/policy/scc/index.ts';
import { readFixture } from '../../support/fixtures.ts';
import { laxScc } from '../../support/scc.ts';
import { pod as anyPod } from '../scc/arbitrary.ts';

type Labels = Readonly<Record<string, string>>;

/** The objects of a cluster in addition to the standard objects. */
interface Given extends Partial<Pick<AuditInput, 'sources' | 'include' | 'target' | 'emulationVersion'>> {
  readonly pods?: readonly {
    readonly name?: string;
    readonly namespace?: string;
    readonly annotations?: Labels;
    readonly spec: unknown;
    readonly phase?: string;
  }[];
  readonly namespaces?: readonly Labels[];
  /** The kubelet version of the only node, or `null` before the node has registered. */
  readonly kubelet?: string | null;
  readonly rbac?: Partial<RbacObjects>;
  /** The SCCs that replace the standard SCCs. `extends` is the standard SCC from which all other fields are taken. */
  readonly sccs?: readonly (SecurityContextConstraints & { readonly name: string; readonly extends?: string })[];
}

const STANDARD = STANDARD_SCCS.map(({ scc }) => scc);

/** The expected findings, one line each. */
function audit({
  pods = [],
  namespaces = [],
  kubelet,
  rbac = {},
  sccs,
  sources = [],
  include = [],
  target,
  emulationVersion,
}: Given) {
  const node = { metadata: { name: 'n1' }, status: { nodeInfo: { kubeletVersion: kubelet } } } as unknown as Node;
  const findings = auditUserNamespaces({
    sources,
    include,
    target,
    emulationVersion,
    sccs: sccs?.map(sccWith) ?? STANDARD,
    namespaces: namespaces.map(namespaceWith),
    pods: pods.map(
      ({ name = 'p', namespace = 'demo', annotations = {}, spec, phase }) =>
        ({ metadata: { name, namespace, annotations }, spec, status: { phase } }) as Pod,
    ),
    nodes: kubelet === undefined ? [] : [node],
    rbac: {
      roles: rbac.roles ?? [],
      roleBindings: rbac.roleBindings ?? [],
      clusterRoles: [...STANDARD_CLUSTER_ROLES, ...(rbac.clusterRoles ?? [])],
      clusterRoleBindings: [...STANDARD_CLUSTER_ROLE_BINDINGS, ...(rbac.clusterRoleBindings ?? [])],
    },
  });
  return findings.map(
    ({ code, severity, kind, namespace = '-', name, message }) =>
      `${code} ${severity} ${kind} ${namespace}/${name}: ${message}`,
  );
}

function sccWith({ name, extends: base, ...fields }: NonNullable<Given['sccs']>[number]): SecurityContextConstraints {
  const standard = STANDARD.find(({ metadata }) => metadata?.name === base);
  return standard ? { ...standard, ...fields, metadata: { name } } : laxScc({ name, ...fields });
}

function namespaceWith(labels: Labels): Namespace {
  const annotations = { 'openshift.io/sa.scc.uid-range': '1000/10', 'openshift.io/sa.scc.mcs': 's0:c1,c0' };
  const prefixed = Object.entries(labels).map(([key, value]) => [`pod-security.kubernetes.io/${key}`, value] as const);
  return { metadata: { name: 'demo', annotations, labels: Object.fromEntries(prefixed) } };
}

for (const { name, expected, ...given } of readFixture<readonly (Given & { name: string; expected: string[] })[]>(
  'user-namespaces/audit.yaml',
)) {
  test(`auditUserNamespaces returns the findings: ${name}`, () => assert.deepEqual(audit(given), expected));
}

test('random pods cause no errors, and pods without a user namespace cause findings only because of their SCC', () => {
  fc.assert(
    fc.property(anyPod, fc.constantFrom('nested-container', 'restricted-v3', ''), ({ spec }, scc) => {
      const pods = [{ annotations: { 'openshift.io/scc': scc }, spec }];
      const lines = audit({ pods, namespaces: [{ enforce: 'restricted' }] });
      const { hostUsers } = spec as { readonly hostUsers?: boolean };
      if (hostUsers !== false) assert.deepEqual(lines.length, scc === 'nested-container' ? 1 : 0);
    }),
    { numRuns: 300 },
  );
});
