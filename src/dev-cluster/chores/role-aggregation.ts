import { deepEqual } from '../../kube/equality.ts';
import { matchesLabelSelector } from '../../kube/webhooks.ts';
import { objectAt, objectsAt } from '../objects/read.ts';
import { metadataOf, type ApiObject, type ResourceKey } from '../types.ts';
import { isOf, type Chore, type Tools } from './chore.ts';

const CLUSTER_ROLES: ResourceKey = { group: 'rbac.authorization.k8s.io', resource: 'clusterroles' };
const ALL = '';

/**
 * Fills cluster roles that gather the rules of others.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles
 */
export function createRoleAggregation({ reader, writer }: Tools): Chore {
  return {
    name: 'role-aggregation',
    keyOf: (change) => (isOf(change, CLUSTER_ROLES) ? ALL : undefined),
    async run() {
      // Gathered roles may be gathered themselves, so a change may take several rounds: each write starts another.
      for (const role of reader.list(CLUSTER_ROLES)) {
        const rules = gather(role, reader.list(CLUSTER_ROLES));
        if (rules && !deepEqual(rules, objectsAt(role, 'rules')))
          await writer.update(CLUSTER_ROLES, { ...role, rules });
      }
    },
  };
}

/** The rules of all roles that a role gathers, by their names, each rule once; `undefined` if it gathers none. */
function gather(role: ApiObject, roles: readonly ApiObject[]): unknown[] | undefined {
  const selectors = objectsAt(objectAt(role, 'aggregationRule'), 'clusterRoleSelectors');
  if (selectors.length === 0) return undefined;
  const rules: unknown[] = [];
  for (const selector of selectors) {
    for (const other of roles) {
      if (metadataOf(other).name === metadataOf(role).name) continue;
      if (!matchesLabelSelector(selector, metadataOf(other).labels)) continue;
      const added = objectsAt(other, 'rules').filter((rule) => !rules.some((known) => deepEqual(known, rule)));
      rules.push(...added);
    }
  }
  return rules;
}
