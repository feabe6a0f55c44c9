/**
 * Tests that the bindings in a plan admit their workloads, and that the plan lists all other workloads that the
 * bindings affect.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { planInput } from '../../src/cli/inventory/scc-input.ts';
import { hasUseRole } from '../../src/cli/scc/plan.ts';
import { createStore, type WritableStore } from '../../src/cluster/store.ts';
import type { Kinds } from '../../src/kube/kinds.ts';
import type { JsonObject, PodLike } from '../../src/kube/types.ts';
import {
  grantableScc,
  grantObjects,
  planAdmission,
  planGrants,
  type PlannedWorkload,
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
} from '../../src/policy/scc/index.ts';
import { pod, scc } from '../policy/scc/arbitrary.ts';
import { DEMO_NAMESPACE } from '../policy/scc/requests.ts';

const settings = { mode: 'report', exemptNamespaces: [], preferUserNamespaces: false } as const;

interface Workload {
  readonly kind: 'Deployment' | 'StatefulSet' | 'Pod';
  readonly pod: JsonObject;
  readonly requiredScc: string | undefined;
}

const workload: fc.Arbitrary<Workload> = fc.record({
  kind: fc.constantFrom('Deployment', 'StatefulSet', 'Pod'),
  pod,
  requiredScc: fc.constantFrom(undefined, undefined, undefined, 'privileged', 'anyuid', 'gone'),
});

function getObject({ kind, pod, requiredScc }: Workload, index: number): Kinds[Workload['kind']] {
  const metadata = { name: `w${index}`, namespace: 'demo' };
  const annotations = requiredScc === undefined ? {} : { 'openshift.io/required-scc': requiredScc };
  const { spec } = pod;
  const object =
    kind === 'Pod'
      ? { metadata: { ...metadata, annotations }, spec }
      : { metadata, spec: { template: { metadata: { annotations }, spec } } };
  return object as unknown as Kinds[Workload['kind']];
}

const cluster = fc.record({
  workloads: fc.array(workload, { minLength: 1, maxLength: 8 }),
  sccs: fc.uniqueArray(scc, { maxLength: 4, selector: ({ metadata }) => metadata?.name }),
  compatibility: fc.constantFrom('portcullis' as const, 'openshift' as const),
});

type Cluster = typeof cluster extends fc.Arbitrary<infer T> ? T : never;

function getStore({ workloads, sccs }: Cluster): WritableStore {
  const store = createStore();
  store.put('Namespace', DEMO_NAMESPACE);
  for (const one of [...STANDARD_SCCS.map((standard) => standard.scc), ...sccs]) {
    store.put('SecurityContextConstraints', one);
  }
  for (const role of STANDARD_CLUSTER_ROLES) store.put('ClusterRole', role);
  for (const binding of STANDARD_CLUSTER_ROLE_BINDINGS) store.put('ClusterRoleBinding', binding);
  for (const [index, one] of workloads.entries()) store.put(one.kind, getObject(one, index));
  return store;
}

/**
 * Returns true if SCC admission admits a workload with a container that is privileged or adds CAP_SYS_ADMIN without
 * privilege escalation. API servers reject the workload, so a plan contains no grant for it.
 */
function isContradictory(workload: Workload | undefined, result: PlannedWorkload['result'] | undefined): boolean {
  if (result?.outcome !== 'admitted') return false;
  const spec = workload?.pod['spec'] as PodLike['spec'];
  return (['initContainers', 'containers', 'ephemeralContainers'] as const).some((list) =>
    spec?.[list]?.some(({ securityContext = {} }, index) => {
      const path = `spec.${list}[${index}].securityContext.`;
      const changes = result.changes.filter((change) => change.path.startsWith(path));
      const { privileged, capabilities } = securityContext;
      const escalation = changes.find((change) => change.path === `${path}allowPrivilegeEscalation`);
      const isPrivileged = privileged === true || JSON.stringify([capabilities, changes]).includes('CAP_SYS_ADMIN');
      return isPrivileged && (escalation?.after ?? securityContext.allowPrivilegeEscalation) === false;
    }),
  );
}

test('after the bindings of scc plan are applied, their workloads and all previously admitted workloads are admitted', () => {
  let granted = 0;
  fc.assert(
    fc.property(cluster, (given) => {
      const store = getStore(given);
      const effective = { ...settings, compatibility: given.compatibility };
      const readInput = () => planInput(DEMO_NAMESPACE, { store, customSources: [] }, effective);
      const before = planAdmission(readInput());
      const grants = planGrants(before, readInput());
      for (const object of grantObjects(grants, { hasRole: (name) => hasUseRole(store, name) })) {
        store.put(object.kind as 'ClusterRole' | 'RoleBinding', object);
      }
      const after = planAdmission(readInput());
      assert.deepEqual(planGrants(after, readInput()), []);
      const moved = new Map(grants.flatMap(({ scc, moves }) => moves.map(({ name }) => [name, scc])));
      for (const [index, one] of before.workloads.entries()) {
        const isGranted = grantableScc(one) !== undefined;
        if (isGranted) granted++;
        const { result } = one;
        const now: PlannedWorkload['result'] | undefined = after.workloads[index]?.result;
        // A grant for another workload with the same service account may also admit it.
        if (
          result.outcome === 'denied' &&
          (result.isLastResort || isContradictory(given.workloads[Number(one.name.slice(1))], now))
        )
          continue;
        const expected = isGranted ? 'admitted' : result.outcome;
        assert.equal(now?.outcome, expected, one.name);
        if (result.outcome !== 'admitted' || now?.outcome !== 'admitted') continue;
        assert.equal(now.scc, moved.get(one.name) ?? result.scc, `${one.name} moves to another SCC without notice`);
      }
    }),
    { numRuns: 200 },
  );
  assert.ok(granted > 50, `${granted} grants`);
});
