import { STANDARD_CLUSTER_ROLE_BINDINGS, STANDARD_CLUSTER_ROLES, STANDARD_SCCS } from '../../policy/scc/standard.ts';
import type { ManifestSettings } from '../settings.ts';
import { webhookConfigurations } from '../webhooks/index.ts';
import { FOLLOW, rule, type Rule } from './rule.ts';

/** What every replica does outside of its namespace, whatever is switched on. */
export const COMMON_RULES: readonly Rule[] = [
  // Reviews are decided from these.
  rule(FOLLOW, ['Namespace', 'Pod']),
  // What is served has to fit what API servers trust.
  rule(FOLLOW, ['MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration']),
  { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] },
];

/** The authorities of the serving certificate are written into our own configurations. */
export function authorityRules(settings: ManifestSettings): readonly Rule[] {
  const kinds = ['MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration'] as const;
  return kinds.flatMap((kind) => {
    const ours = webhookConfigurations(settings).filter((one) => one.kind === kind);
    return ours.length === 0 ? [] : [rule(['patch'], [kind], ours.map(nameOf))];
  });
}

export const SCC_RULES: readonly Rule[] = [
  // Who may use which SCC.
  rule(FOLLOW, ['ClusterRole', 'ClusterRoleBinding', 'Role', 'RoleBinding']),
  rule([...FOLLOW, 'create'], ['SecurityContextConstraints']),
  // Where nobody has defined SCCs yet, they are followed as soon as somebody does.
  { apiGroups: ['apiextensions.k8s.io'], resources: ['customresourcedefinitions'], verbs: FOLLOW },
  // The pod of an exec that the store has not heard of yet.
  rule(['get'], ['Pod']),
  // namespace-security-allocation-controller. A patch cannot be bound to annotations: this is all metadata of a namespace,
  // `ownerReferences` and finalizers among them.
  rule(['patch'], ['Namespace']),
  rule(['get', 'create', 'update'], ['RangeAllocation']),
  // standard-scc-controller: names cannot bound what is created. But nobody can grant what they do not have: what can be
  // passed on is the use of the standard SCCs, and what else these roles hold. One of the standard roles is for an SCC
  // that is none of them.
  rule(
    ['update'],
    ['SecurityContextConstraints'],
    STANDARD_SCCS.map(({ scc }) => nameOf(scc)),
  ),
  rule(
    ['use'],
    ['SecurityContextConstraints'],
    STANDARD_CLUSTER_ROLES.flatMap(({ rules }) => rules?.flatMap(({ resourceNames }) => resourceNames ?? []) ?? []),
  ),
  rule(['create'], ['ClusterRole', 'ClusterRoleBinding']),
  rule(['update'], ['ClusterRole'], STANDARD_CLUSTER_ROLES.map(nameOf)),
  rule(['update', 'delete'], ['ClusterRoleBinding'], STANDARD_CLUSTER_ROLE_BINDINGS.map(nameOf)),
];

export const ACCESS_REVIEW_RULES: readonly Rule[] = [
  { apiGroups: ['authorization.k8s.io'], resources: ['subjectaccessreviews'], verbs: ['create'] },
];

function nameOf({ metadata: { name = '' } = {} }: { readonly metadata?: { readonly name?: string } }): string {
  return name;
}
