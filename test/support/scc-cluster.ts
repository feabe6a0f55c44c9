import assert from 'node:assert/strict';
import {
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
} from '../../src/policy/scc/standard.ts';
import { installCrds } from './controllers.ts';
import type { TestCluster } from './dev-cluster.ts';

/** Annotations of a namespace with allocated ranges. */
export const RANGES = {
  'openshift.io/sa.scc.uid-range': '1000000000/10000',
  'openshift.io/sa.scc.supplemental-groups': '1000000000/10000',
  'openshift.io/sa.scc.mcs': 's0:c1,c0',
};

/** Creates the standard SCCs and their grants in a cluster. */
export async function installSccs({ cluster, admin }: TestCluster): Promise<void> {
  await installCrds(cluster);
  await cluster.idle();
  const create = async (path: string, object: object): Promise<void> => {
    const { status, text } = await admin.send('POST', path, object);
    assert.equal(status, 201, text);
  };
  const rbac = '/apis/rbac.authorization.k8s.io/v1';
  for (const { scc } of STANDARD_SCCS) await create('/apis/security.openshift.io/v1/securitycontextconstraints', scc);
  for (const role of STANDARD_CLUSTER_ROLES) await create(`${rbac}/clusterroles`, role);
  for (const binding of STANDARD_CLUSTER_ROLE_BINDINGS) await create(`${rbac}/clusterrolebindings`, binding);
}
