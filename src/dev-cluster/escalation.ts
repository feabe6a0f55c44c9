import { semanticEqual } from '../kube/equality.ts';
import { ApiError, forbidden, notFound } from '../kube/status.ts';
import { quote } from '../kube/text.ts';
import type { UserInfo } from '../kube/types.ts';
import { missingRights, printTexts } from '../policy/rbac/rules.ts';
import type { Call, Core } from './core.ts';
import { bindingsOf, roleOf } from './rules-review.ts';
import { itemsAt, textAt } from './tables/cells.ts';
import { metadataOf, type ApiObject } from './types.ts';

const GROUP = 'rbac.authorization.k8s.io';
const ROLES = new Set(['roles', 'clusterroles']);
const BINDINGS = new Set(['rolebindings', 'clusterrolebindings']);
const RESOURCES: Readonly<Record<string, string>> = { Role: 'roles', ClusterRole: 'clusterroles' };

/**
 * Lets nobody grant what they do not hold themselves, unless they may `escalate` the role or `bind` the one that a binding
 * refers to. Throws ApiError 403, worded as the API server does.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
 */
export function refuseEscalation(core: Core, call: Call, object: ApiObject, old?: ApiObject): void {
  const { info, user } = call;
  if (info.group !== GROUP || user.groups?.includes('system:masters')) return;
  if (old && changesNoRights(object, old)) return;
  if (ROLES.has(info.resource)) refuseRole(core, call, object, old);
  if (BINDINGS.has(info.resource)) refuseBinding(core, call, object);
}

function refuseRole(core: Core, call: Call, role: ApiObject, old: ApiObject | undefined): void {
  const { info, user, name, namespace } = call;
  const action = { verb: 'escalate', apiGroup: GROUP, resource: info.resource, name, namespace };
  if (core.access(user, action)) return;
  confirmHeld(core, call, role, itemsAt(role, 'rules'));
  const isAggregated = [role, old].some((one) => itemsAt(one, 'aggregationRule', 'clusterRoleSelectors').length > 0);
  if (!isAggregated || missingRights(heldBy(core, user, namespace).rules, EVERYTHING).length === 0) return;
  throw refusal(call, role, 'must have cluster-admin privileges to use the aggregationRule');
}

const EVERYTHING = [
  { verbs: ['*'], apiGroups: ['*'], resources: ['*'] },
  { verbs: ['*'], nonResourceURLs: ['*'] },
];

function refuseBinding(core: Core, call: Call, binding: ApiObject): void {
  const { user, namespace } = call;
  const [kind, name] = [textAt(binding, 'roleRef', 'kind'), textAt(binding, 'roleRef', 'name')];
  const resource = Object.hasOwn(RESOURCES, kind) ? RESOURCES[kind] : undefined;
  // What is no role is found out, and told, when the object is checked.
  if (resource === undefined) return;
  const apiGroup = textAt(binding, 'roleRef', 'apiGroup');
  if (core.access(user, { verb: 'bind', apiGroup, resource, name, namespace })) return;
  const role = roleOf(core.storage, binding);
  if (!role) throw new ApiError(notFound({ group: GROUP, resource }, name));
  confirmHeld(core, call, binding, itemsAt(role, 'rules'));
}

function confirmHeld(core: Core, call: Call, object: ApiObject, rules: readonly unknown[]): void {
  const { username = '', groups = [] } = call.user;
  const held = heldBy(core, call.user, call.namespace);
  const missing = missingRights(held.rules, rules);
  if (missing.length === 0) return;
  const who = `user ${quote(username)} (groups=${printTexts(groups)})`;
  const cause = `${who} is attempting to grant RBAC permissions not currently held:\n${missing.join('\n')}`;
  throw refusal(call, object, held.errors === '' ? cause : `${cause}; resolution errors: ${held.errors}`);
}

/** The rules of the user, and which roles could not be found, as the API server prints that. */
function heldBy({ storage }: Core, user: UserInfo, namespace: string): { rules: readonly unknown[]; errors: string } {
  const rules: unknown[] = [];
  const errors = new Set<string>();
  for (const binding of bindingsOf(storage, user, namespace)) {
    const role = roleOf(storage, binding);
    if (role) rules.push(...itemsAt(role, 'rules'));
    else {
      const resource = textAt(binding, 'roleRef', 'kind') === 'Role' ? 'roles' : 'clusterroles';
      errors.add(notFound({ group: GROUP, resource }, textAt(binding, 'roleRef', 'name')).message);
    }
  }
  const texts = [...errors].join(', ');
  return { rules, errors: errors.size > 1 ? `[[${texts}]]` : errors.size === 1 ? `[${texts}]` : '' };
}

function refusal({ info }: Call, object: ApiObject, cause: string): ApiError {
  return new ApiError(forbidden(info, metadataOf(object).name ?? '', cause));
}

const KEPT = ['ownerReferences', 'finalizers', 'managedFields', 'selfLink'];

/** What garbage collection changes grants nothing. */
function changesNoRights(object: ApiObject, old: ApiObject): boolean {
  const kept = Object.fromEntries(KEPT.map((name) => [name, old.metadata?.[name]]));
  return semanticEqual({ ...object, metadata: { ...object.metadata, ...kept } }, old);
}
