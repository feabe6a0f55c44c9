/** Determines the namespaces whose Pod Security labels the label syncer manages. */
import { RELAXED_LABEL } from '../../api/names.ts';
import type { FieldOwner } from '../../kube/managed-fields.ts';
import type { Namespace } from '../../kube/types.ts';
import { LABEL_SYNC_LABEL } from '../../kube/well-known.ts';
import { sccMode, type SccSettings } from '../scc/index.ts';
import { getOwnership, PSA_LABELS } from './label-owners.ts';

/** Settings that determine which namespaces are managed. */
export interface ManagementSettings {
  /** Namespaces that are never managed. */
  readonly exemptNamespaces: ReadonlySet<string>;
  /**
   * The syncer skips namespaces that do not enforce SCCs. In these namespaces, the label that enables the syncer has an
   * effect only if the cluster enforces SCCs by default.
   */
  readonly scc: SccSettings;
}

/** Name suffixes of the namespaces whose labels OpenShift itself maintains. */
const PLATFORM =
  'apiserver apiserver-operator authentication authentication-operator cloud-controller-manager ' +
  'cloud-controller-manager-operator cloud-credential-operator cloud-network-config-controller cluster-csi-drivers ' +
  'cluster-machine-approver cluster-node-tuning-operator cluster-samples-operator cluster-storage-operator ' +
  'cluster-version config config-managed config-operator console console-operator console-user-settings ' +
  'controller-manager controller-manager-operator dns dns-operator etcd etcd-operator host-network image-registry ' +
  'infra ingress ingress-canary ingress-operator insights kni-infra kube-apiserver kube-apiserver-operator ' +
  'kube-controller-manager kube-controller-manager-operator kube-scheduler kube-scheduler-operator ' +
  'kube-storage-version-migrator kube-storage-version-migrator-operator machine-api machine-config-operator ' +
  'marketplace monitoring multus network-diagnostics network-operator node nutanix-infra oauth-apiserver ' +
  'openstack-infra operator-lifecycle-manager ovirt-infra sdn service-ca service-ca-operator ' +
  'user-workload-monitoring vsphere-infra';

/**
 * Namespaces that are never managed.
 * @see
 * https://github.com/openshift/cluster-policy-controller/blob/master/pkg/psalabelsyncer/nsexemptions/nsexemptions.go
 */
export const UNMANAGED_NAMESPACES: ReadonlySet<string> = new Set([
  ...['default', 'kube-node-lease', 'kube-public', 'kube-system', 'openshift'],
  ...PLATFORM.split(' ').map((name) => `openshift-${name}`),
]);

export function managementSettings(scc: ManagementSettings['scc']): ManagementSettings {
  return { exemptNamespaces: UNMANAGED_NAMESPACES, scc };
}

/**
 * Returns true if the namespace label enables the syncer. In this case, the syncer even overwrites the labels of other
 * managers.
 */
export function isOptedIn(namespace: Namespace): boolean {
  return namespace.metadata?.labels?.[LABEL_SYNC_LABEL] === 'true';
}

/** Returns true if the name is reserved for platform namespaces. */
export function isPlatformNamespace(name: string): boolean {
  return name === 'openshift' || name.startsWith('openshift-');
}

/**
 * Returns true while break-glass relaxes the enforce label. The namespace's Pod Security labels do not change until
 * that label is restored.
 */
export function isRelaxed({ metadata }: Namespace): boolean {
  return metadata?.labels?.[RELAXED_LABEL] !== undefined;
}

export function isTerminating({ metadata, status }: Namespace): boolean {
  return status?.phase === 'Terminating' || metadata?.deletionTimestamp != null;
}

/**
 * Returns true if the syncer manages the namespace's labels. It does not manage a namespace if other managers own all
 * six labels.
 * @param owners owners of the namespace's fields, or `undefined` if the managed fields cannot be parsed
 */
export function isManaged(
  namespace: Namespace,
  owners: readonly FieldOwner[] | undefined,
  { exemptNamespaces, scc }: ManagementSettings,
): boolean {
  const { name = '', labels } = namespace.metadata ?? {};
  if (exemptNamespaces.has(name)) return false;
  const isEnforced = sccMode(namespace, scc).mode === 'enforce';
  if (isOptedIn(namespace)) return isEnforced || scc.mode === 'enforce';
  if (!isEnforced || isPlatformNamespace(name) || owners === undefined) return false;
  if (PSA_LABELS.every((key) => getOwnership(key, namespace, owners) === 'foreign')) return false;
  return labels?.[LABEL_SYNC_LABEL] !== 'false';
}
