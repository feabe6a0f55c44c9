import { type UserInfo, isObject, type JsonObject } from '../kube/types.ts';
import { itemsAt, textAt, textsAt } from './tables/cells.ts';
import type { ApiObject, Reader, ResourceKey } from './types.ts';

const GROUP = 'rbac.authorization.k8s.io';
const EVERYTHING: JsonObject = { verbs: ['*'], apiGroups: ['*'], resources: ['*'] };

/** What a user may do in a namespace, as `kubectl auth can-i --list` shows it. */
export interface Rules {
  readonly resourceRules: readonly JsonObject[];
  readonly nonResourceRules: readonly JsonObject[];
  readonly incomplete: boolean;
}

/** The bindings that concern the user: those of the whole cluster, then those of the namespace, if it is one. */
export function bindingsOf(reader: Reader, user: UserInfo, namespace: string): readonly ApiObject[] {
  const local = namespace === '' ? [] : reader.list(rbac('rolebindings'), namespace);
  return [...reader.list(rbac('clusterrolebindings')), ...local].filter((binding) =>
    itemsAt(binding, 'subjects').some((subject) => concerns(subject, binding, user)),
  );
}

/** Gathers the rules of every role that is bound to the user, in the whole cluster and in the namespace. */
export function rulesOf(reader: Reader, user: UserInfo, namespace: string): Rules {
  const bound = bindingsOf(reader, user, namespace).flatMap((binding) => itemsAt(roleOf(reader, binding), 'rules'));
  const masters = user.groups?.includes('system:masters') ?? false;
  const rules = masters ? [EVERYTHING, { verbs: ['*'], nonResourceURLs: ['*'] }, ...bound] : bound;
  return {
    resourceRules: rules.filter((rule) => textsAt(rule, 'resources').length > 0),
    nonResourceRules: rules.filter((rule) => textsAt(rule, 'nonResourceURLs').length > 0),
    incomplete: false,
  };
}

function concerns(subject: JsonObject, binding: ApiObject, user: UserInfo): boolean {
  const name = textAt(subject, 'name');
  if (subject['kind'] === 'User') return name === user.username;
  if (subject['kind'] === 'Group') return user.groups?.includes(name) ?? false;
  const namespace = textAt(subject, 'namespace') || textAt(binding, 'metadata', 'namespace');
  return subject['kind'] === 'ServiceAccount' && `system:serviceaccount:${namespace}:${name}` === user.username;
}

/** The role that a binding refers to. */
export function roleOf(reader: Reader, binding: ApiObject): ApiObject | undefined {
  const ref = binding['roleRef'];
  if (!isObject(ref)) return undefined;
  const name = textAt(ref, 'name');
  if (ref['kind'] === 'ClusterRole') return reader.get(rbac('clusterroles'), '', name);
  return reader.get(rbac('roles'), textAt(binding, 'metadata', 'namespace'), name);
}

function rbac(resource: string): ResourceKey {
  return { group: GROUP, resource };
}
