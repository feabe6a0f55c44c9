/** Determines the owners of a namespace's Pod Security labels, and builds the documents that change the labels. */
import { defined } from '../../kube/defined.ts';
import { type FieldOwner, getMetadataOwners } from '../../kube/managed-fields.ts';
import { getApiVersion } from '../../kube/resources.ts';
import type { Namespace } from '../../kube/types.ts';
import {
  PREVIOUS_LABEL_SYNC_MANAGER,
  LABEL_SYNC_MANAGER,
  POD_SECURITY_LABELS,
  LABEL_SYNC_LABEL,
  RUN_LEVEL_ZERO_MANAGER,
} from '../../kube/well-known.ts';

const { enforce, enforceVersion, audit, auditVersion, warn, warnVersion } = POD_SECURITY_LABELS;
export const PSA_LABELS: readonly string[] = [enforce, enforceVersion, audit, auditVersion, warn, warnVersion];

export const LEVEL_LABELS: readonly string[] = [enforce, audit, warn];

export const ENFORCE_LABELS: readonly string[] = [enforce, enforceVersion];

/**
 * Manager of fields that existed before the first server-side apply. The actual owner of these fields is unknown.
 * @see https://kubernetes.io/docs/reference/using-api/server-side-apply/
 */
const UNKNOWN_MANAGER = 'before-first-apply';

/**
 * Classifies a field owner. `previous` means that an early release of the syncer wrote the fields with plain updates.
 */
export function classifyOwner({
  manager,
  operation,
  subresource,
}: FieldOwner): 'syncer' | 'previous' | 'unknown' | 'other' {
  if (manager === UNKNOWN_MANAGER) return 'unknown';
  if (manager === PREVIOUS_LABEL_SYNC_MANAGER) return 'previous';
  if (manager !== LABEL_SYNC_MANAGER) return 'other';
  return operation === 'Apply' && subresource === '' ? 'syncer' : 'previous';
}

const NO_FIELDS: Pick<FieldOwner, 'labels' | 'annotations'> = { labels: new Set(), annotations: new Set() };

/** Returns the fields that the syncer has applied. If the next apply omits one of these fields, it is removed. */
export function getOwnFields(owners: readonly FieldOwner[]): Pick<FieldOwner, 'labels' | 'annotations'> {
  return owners.find((owner) => classifyOwner(owner) === 'syncer') ?? NO_FIELDS;
}

/**
 * `foreign` means that another manager owns or co-owns the label. `unowned` means that its owner is unknown, for
 * example after restoring a backup.
 */
type Ownership = 'absent' | 'foreign' | 'previous' | 'own' | 'unowned';

export function getOwnership(key: string, namespace: Namespace, owners: readonly FieldOwner[]): Ownership {
  if (namespace.metadata?.labels?.[key] === undefined) return 'absent';
  const classes = owners.filter(({ labels }) => labels.has(key)).map(classifyOwner);
  if (classes.includes('other')) return 'foreign';
  if (classes.includes('previous')) return 'previous';
  return classes.includes('syncer') ? 'own' : 'unowned';
}

/**
 * Returns a document for an apply that fails if the namespace has changed since it was read. The UID prevents the apply
 * from recreating a deleted namespace, and the resource version prevents it from overwriting a concurrent change.
 */
export function namespaceDocument({ metadata }: Namespace, fields: Namespace['metadata']): Namespace {
  const { name = '', uid, resourceVersion } = metadata ?? {};
  const identity = {
    name,
    ...defined({ uid, resourceVersion }),
  };
  return { apiVersion: getApiVersion('Namespace'), kind: 'Namespace', metadata: { ...identity, ...fields } };
}

// Namespaces that SCC admission skips

/**
 * Namespaces that SCC admission skips because their pods may need all permissions. SCC admission applies to `default`,
 * unlike on OpenShift.
 */
export const RUN_LEVEL_ZERO_NAMESPACES = ['kube-system', 'kube-public'] as const;

/**
 * Returns the document to apply as `RUN_LEVEL_ZERO_MANAGER`, which sets the level of one of these namespaces to
 * privileged in every mode. Returns `undefined` for other namespaces, and if nothing changes. Unlike OpenShift, it
 * keeps labels that another manager set. It also keeps version labels.
 * @see
 * https://github.com/openshift/cluster-policy-controller/blob/master/pkg/psalabelsyncer/privileged_namespaces_controller.go
 */
export function planRunLevelZero(namespace: Namespace): Namespace | undefined {
  const { name, labels } = namespace.metadata ?? {};
  const owners = getMetadataOwners(namespace.metadata);
  const isRunLevelZero = RUN_LEVEL_ZERO_NAMESPACES.some((other) => other === name);
  if (!isRunLevelZero || owners === undefined || labels?.[LABEL_SYNC_LABEL] === 'false') return undefined;
  const free = LEVEL_LABELS.filter((key) => {
    if (labels?.[key] === undefined) return true;
    const managers = owners.filter((owner) => owner.labels.has(key)).map(({ manager }) => manager);
    return managers.length > 0 && managers.every((manager) => manager === RUN_LEVEL_ZERO_MANAGER);
  });
  if (free.every((key) => labels?.[key] === 'privileged')) return undefined;
  return namespaceDocument(namespace, { labels: Object.fromEntries(free.map((key) => [key, 'privileged'])) });
}
