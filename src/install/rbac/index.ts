import type { V1ClusterRole, V1ServiceAccount } from '@kubernetes/client-node';
import { INSTALLATION } from '../../kube/installation.ts';
import { LABELS, metadataIn } from '../metadata.ts';
import type { ManifestSettings } from '../settings.ts';
import type { Manifest, ManifestOf } from '../types.ts';
import { ACCESS_REVIEW_RULES, authorityRules, COMMON_RULES, SCC_RULES } from './cluster-rules.ts';
import { LEASE_RULES, SECRET_RULES } from './namespace-rules.ts';
import { clusterRole, role } from './roles.ts';
import { rolloutRoles } from './rollout.ts';
import { rule, type Rule } from './rule.ts';

const { name } = INSTALLATION;
const READ = ['get', 'list', 'watch'] as const;

/** Who the replicas are, and what they may do: for each thing that can be left out a role of its own. */
export function rbacObjects(settings: ManifestSettings): readonly Manifest[] {
  const { namespace, sccMode, certificates, authorization } = settings;
  const certificate = `${name}-serving-certificate`;
  return [
    serviceAccount(namespace),
    ...role(name, LEASE_RULES, namespace),
    ...clusterRole(name, COMMON_RULES, namespace),
    ...(certificates === 'self-managed'
      ? [
          ...role(certificate, SECRET_RULES, namespace),
          ...clusterRole(certificate, authorityRules(settings), namespace),
        ]
      : []),
    ...(sccMode === 'off' ? [] : [...clusterRole(`${name}-scc`, SCC_RULES, namespace), VIEW_SCCS]),
    ...rolloutRoles(settings),
    VIEW_ENFORCEMENT,
    ...(authorization === 'sar' ? clusterRole(`${name}-access-reviews`, ACCESS_REVIEW_RULES, namespace) : []),
  ];
}

/** Its token is mounted where a pod asks for it, as the replicas do. */
function serviceAccount(namespace: string): ManifestOf<V1ServiceAccount> {
  return {
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: metadataIn(namespace, name),
    automountServiceAccountToken: false,
  };
}

/**
 * Who may view a cluster may view its SCCs. To write them is to grant any right to anybody: no role aggregates that.
 */
const VIEW_SCCS = viewRole(`${name}-view`, rule(READ, ['SecurityContextConstraints']));

/** The same for what says whether the cluster enforces: who writes it lowers the guard of all namespaces. */
const VIEW_ENFORCEMENT = viewRole(`${name}-view-enforcement`, rule(READ, ['PSAEnforcementConfig']));

/** What whoever may view, edit or administer a namespace may read, too. */
function viewRole(name: string, ...rules: readonly Rule[]): ManifestOf<V1ClusterRole> {
  return {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name, labels: { ...LABELS, 'rbac.authorization.k8s.io/aggregate-to-view': 'true' } },
    rules,
  };
}
