import type { Operation } from './admission.ts';
import { type GroupVersionResource, isObject } from './types.ts';

/** The properties of a request that webhook rules match. */
interface RuleTarget {
  readonly operation: Operation;
  /** Empty for cluster-scoped objects. For requests on a Namespace, the name of that Namespace. */
  readonly namespace: string;
  readonly subresource: string;
}

/**
 * Returns true if a webhook rule matches a request on `resource`.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/predicates/rules/rules.go
 */
export function matchesRule(rule: unknown, target: RuleTarget, resource: GroupVersionResource): boolean {
  if (!isObject(rule)) return false;
  return (
    matchesScope(rule['scope'], target, resource) &&
    includes(rule['operations'], target.operation) &&
    includes(rule['apiGroups'], resource.group) &&
    includes(rule['apiVersions'], resource.version) &&
    texts(rule['resources']).some((pattern) => matchesResource(pattern, resource.resource, target.subresource))
  );
}

function includes(list: unknown, value: string): boolean {
  const items = texts(list);
  return items.includes('*') || items.includes(value);
}

/** Returns true if the scope matches. Requests on a Namespace are cluster-scoped although `namespace` is its name. */
function matchesScope(scope: unknown, { namespace }: RuleTarget, { group, resource }: GroupVersionResource): boolean {
  const isClusterScoped = namespace === '' || (group === '' && resource === 'namespaces');
  if (scope === 'Namespaced') return !isClusterScoped;
  if (scope === 'Cluster') return isClusterScoped;
  return scope === '*' || scope === '' || scope == null;
}

function matchesResource(pattern: string, resource: string, subresource: string): boolean {
  const [name = '', part = ''] = pattern.split('/', 2);
  return (name === '*' || name === resource) && (part === '*' || part === subresource);
}

function texts(list: unknown): readonly string[] {
  return Array.isArray(list) ? list.filter((item) => typeof item === 'string') : [];
}
