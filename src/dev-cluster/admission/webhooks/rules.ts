import type { GroupVersionResource, JsonObject } from '../../../kube/types.ts';
import { textAt, textsAt } from '../../objects/read.ts';
import type { Attributes } from '../../types.ts';

type Target = Pick<Attributes, 'namespace' | 'operation' | 'subresource'>;

/**
 * True if a rule of a webhook is about that request, were it made of `resource`.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/predicates/rules/rules.go
 */
export function matchesRule(rule: JsonObject, attributes: Target, resource: GroupVersionResource): boolean {
  return (
    matchesScope(textAt(rule, 'scope'), attributes, resource) &&
    includes(textsAt(rule, 'operations'), attributes.operation) &&
    includes(textsAt(rule, 'apiGroups'), resource.group) &&
    includes(textsAt(rule, 'apiVersions'), resource.version) &&
    textsAt(rule, 'resources').some((pattern) => matchesResource(pattern, resource.resource, attributes.subresource))
  );
}

function includes(items: readonly string[], wanted: string): boolean {
  return items.includes('*') || items.includes(wanted);
}

/** Requests of a Namespace bear its name as their namespace, and yet count as cluster-wide. */
function matchesScope(scope: string, attributes: Target, resource: GroupVersionResource): boolean {
  const isClusterWide = attributes.namespace === '' || (resource.group === '' && resource.resource === 'namespaces');
  if (scope === 'Namespaced') return !isClusterWide;
  if (scope === 'Cluster') return isClusterWide;
  return scope === '*' || scope === '';
}

function matchesResource(pattern: string, resource: string, subresource: string): boolean {
  const slash = pattern.indexOf('/');
  const wanted = slash < 0 ? pattern : pattern.slice(0, slash);
  const wantedSub = slash < 0 ? '' : pattern.slice(slash + 1);
  return (wanted === '*' || wanted === resource) && (wantedSub === '*' || wantedSub === subresource);
}
