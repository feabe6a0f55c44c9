import { LABEL_SYNC_LABEL } from '../../../kube/label-sync.ts';
import type { FieldOwner } from '../../../kube/managed-fields.ts';
import type { Namespace } from '../../../kube/types.ts';
import { sccModeOf, type SccSettings } from '../../scc/mode.ts';
import { PSA_LABELS } from './labels.ts';
import { isForeign } from './ownership.ts';

/** Which namespaces are managed. */
export interface ManagementSettings {
  /** Never managed, whatever they say. */
  readonly exemptNamespaces: ReadonlySet<string>;
  /** Where SCCs are not enforced, they say nothing about what runs there. */
  readonly scc: Pick<SccSettings, 'mode' | 'exemptNamespaces'>;
}

/** Namespaces of the platform, which looks after their labels itself. */
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
 * The namespaces that are exempt unless configured otherwise.
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/psalabelsyncer/nsexemptions/nsexemptions.go
 */
export const DEFAULT_UNMANAGED_NAMESPACES: readonly string[] = [
  ...['default', 'kube-node-lease', 'kube-public', 'kube-system', 'openshift'],
  ...PLATFORM.split(' ').map((name) => `openshift-${name}`),
];

/** True if the namespace asks to be managed, also where it would not be otherwise. */
export function isOptedIn(namespace: Namespace): boolean {
  return namespace.metadata?.labels?.[LABEL_SYNC_LABEL] === 'true';
}

/** True for the platform's own namespaces, by their names. */
export function isPlatformNamespace(name: string): boolean {
  return name === 'openshift' || name.startsWith('openshift-');
}

/**
 * True if the namespace's labels are managed. One that somebody labelled completely is left alone, one that somebody
 * labelled in part is not.
 * @param owners of its fields; absent if they cannot be read
 */
export function isManaged(
  namespace: Namespace,
  owners: readonly FieldOwner[] | undefined,
  { exemptNamespaces, scc }: ManagementSettings,
): boolean {
  const { name = '', labels } = namespace.metadata ?? {};
  if (exemptNamespaces.has(name)) return false;
  if (isOptedIn(namespace)) return true;
  if (isPlatformNamespace(name) || owners === undefined) return false;
  if (sccModeOf(namespace, scc).mode !== 'enforce') return false;
  if (PSA_LABELS.every((key) => isForeign(key, namespace, owners))) return false;
  return labels?.[LABEL_SYNC_LABEL] !== 'false';
}
