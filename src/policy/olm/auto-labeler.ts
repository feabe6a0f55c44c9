/** Decides which operator namespaces get the label that enables the label syncer. */
import type { ClusterServiceVersion, JsonObject, KubeObject, Namespace } from '../../kube/types.ts';
import { LABEL_SYNC_LABEL, OLM_MANAGED_ANNOTATION } from '../../kube/well-known.ts';

/**
 * The behavior of the auto-labeler. `managed` follows the decision table. `shipped` behaves like OpenShift's labeler,
 * which only adds labels. `seed` follows the design document of OpenShift's labeler, which reacts only to events. `off`
 * disables writes.
 */
export type LabelerMode = 'managed' | 'shipped' | 'seed' | 'off';

/** The Deployment that contains OpenShift's labeler. */
export const OPENSHIFT_OLM = { namespace: 'openshift-operator-lifecycle-manager', name: 'olm-operator' } as const;

/** Returns the configured mode. By default, the auto-labeler is off in clusters that run OpenShift's labeler. */
export function labelerMode(mode: LabelerMode | undefined, hasOpenShiftLabeler: boolean): LabelerMode {
  return mode ?? (hasOpenShiftLabeler ? 'off' : 'managed');
}

/**
 * Label on a copied ClusterServiceVersion (CSV) with the namespace of the original. Every CSV with this label is a
 * copy, regardless of the value.
 */
const COPIED_FROM_LABEL = 'olm.copiedFrom';
/** Annotation on a ClusterServiceVersion with the namespace of its operator. A copy is in a different namespace. */
const OPERATOR_NAMESPACE_ANNOTATION = 'olm.operatorNamespace';
/** Prefix of the only namespaces in which the label syncer requires the label. */
const PREFIX = 'openshift-';

export function hasLabelerPrefix(namespace: string): boolean {
  return namespace.startsWith(PREFIX);
}

/**
 * Returns true for a copied ClusterServiceVersion. OLM copies the ClusterServiceVersions of global operators to every
 * namespace.
 */
export function isCopied(csv: ClusterServiceVersion): boolean {
  const { metadata, status } = csv;
  const operatorNamespace = metadata?.annotations?.[OPERATOR_NAMESPACE_ANNOTATION];
  return (
    hasCopiedLabel(csv) ||
    (operatorNamespace !== undefined && operatorNamespace !== metadata?.namespace) ||
    status?.reason === 'Copied'
  );
}

function hasCopiedLabel({ metadata }: KubeObject): boolean {
  return metadata?.labels?.[COPIED_FROM_LABEL] !== undefined;
}

export type LabelerTrigger = 'csv-created' | 'csv-updated' | 'csv-deleted' | 'namespace' | 'startup' | 'resync';

export interface LabelerInput {
  readonly namespace: Namespace;
  /** All known ClusterServiceVersions in the namespace, including copies. */
  readonly csvs: readonly ClusterServiceVersion[];
  /** Events since the last decision for the namespace. */
  readonly triggers: ReadonlySet<LabelerTrigger>;
  readonly mode: LabelerMode;
  /** Namespaces that are never labeled. */
  readonly exemptNamespaces: ReadonlySet<string>;
}

export interface LabelerDecision {
  /** `label` sets the label. `manage` sets the label and the annotation. `release` removes both. */
  readonly action: 'none' | 'label' | 'manage' | 'release';
  /** In `managed` mode, the row of the decision table. In other modes, the name of the mode. */
  readonly row: string;
  /** A clause that explains the decision. Log lines and `olm status` contain it. */
  readonly reason: string;
}

export function decideLabeling(input: LabelerInput): LabelerDecision {
  switch (input.mode) {
    case 'managed':
      return decideManaged(input);
    case 'shipped':
      return decideShipped(input);
    case 'seed':
      return decideSeed(input);
    case 'off':
      return { action: 'none', row: 'off', reason: 'the auto-labeler is off' };
  }
}

/**
 * Returns the JSON merge patch for a decision, or `undefined` if nothing changes. The patch fails if the namespace has
 * changed concurrently.
 */
export function labelingPatch({ metadata }: Namespace, { action }: LabelerDecision): JsonObject | undefined {
  if (action === 'none') return undefined;
  const value = action === 'release' ? null : 'true';
  return {
    metadata: {
      ...(metadata?.resourceVersion === undefined ? {} : { resourceVersion: metadata.resourceVersion }),
      labels: { [LABEL_SYNC_LABEL]: value },
      ...(action === 'label' ? {} : { annotations: { [OLM_MANAGED_ANNOTATION]: value } }),
    },
  };
}

function readState({ namespace: { metadata }, csvs }: LabelerInput) {
  return {
    name: metadata?.name ?? '',
    isTerminating: metadata?.deletionTimestamp != null,
    label: metadata?.labels?.[LABEL_SYNC_LABEL],
    annotation: metadata?.annotations?.[OLM_MANAGED_ANNOTATION],
    hasOwnCsv: csvs.some((csv) => !isCopied(csv)),
  };
}

/** Returns the reason why a namespace is never labeled, or `undefined` if it can be labeled. */
function ineligibility({ namespace: { metadata }, exemptNamespaces }: LabelerInput): string | undefined {
  const name = metadata?.name ?? '';
  if (!hasLabelerPrefix(name)) return `the name does not start with ${PREFIX}`;
  return exemptNamespaces.has(name) ? 'the namespace is exempt' : undefined;
}

/**
 * Returns the decision in `managed` mode, which follows the decision table. Row 5 takes precedence over rows 3, 4 and
 * 6.
 */
function decideManaged(input: LabelerInput): LabelerDecision {
  const { isTerminating, label, annotation, hasOwnCsv } = readState(input);
  const { triggers } = input;
  const canRelease = triggers.has('csv-deleted') || triggers.has('startup');
  const ineligible = isTerminating ? 'the namespace is being deleted' : ineligibility(input);
  if (ineligible !== undefined) return row(1, 'none', ineligible);
  if (annotation === 'false') return row(2, 'none', `opted out by the ${OLM_MANAGED_ANNOTATION} annotation`);
  if (annotation === 'true') {
    if (!hasOwnCsv && canRelease) return row(5, 'release', 'managed, but the last operator was removed');
    if (label !== 'true') return row(4, 'label', 'managed, but the label was changed or removed');
    return hasOwnCsv ? row(3, 'none', 'managed') : row(6, 'none', 'managed, but no operator is installed');
  }
  if (label !== undefined) return row(7, 'none', 'not managed because the label has another owner');
  return hasOwnCsv ? row(9, 'manage', 'an operator is installed') : row(8, 'none', 'no operator is installed');
}

function row(number: number, action: LabelerDecision['action'], reason: string): LabelerDecision {
  return { action, row: String(number), reason };
}

/**
 * Returns the decision in `shipped` mode, which also labels terminating namespaces. For triggers other than CSV events,
 * a copy is recognized only by its label.
 */
function decideShipped(input: LabelerInput): LabelerDecision {
  const { label, hasOwnCsv } = readState(input);
  const { triggers, csvs } = input;
  const isCsvEvent = triggers.has('csv-created') || triggers.has('csv-updated');
  const isOther = [...triggers].some((trigger) => !trigger.startsWith('csv-'));
  const isInstalled = isOther ? csvs.some((csv) => !hasCopiedLabel(csv)) : isCsvEvent && hasOwnCsv;
  const none = (reason: string): LabelerDecision => ({ action: 'none', row: 'shipped', reason });
  const ineligible = ineligibility(input);
  if (ineligible !== undefined) return none(ineligible);
  if (label !== undefined) return none('the label is present');
  if (!isInstalled) return none('no operator is installed');
  return { action: 'label', row: 'shipped', reason: 'an operator is installed' };
}

/**
 * Returns the decision in `seed` mode, which reacts only to events and also labels exempt and terminating namespaces. A
 * copy is recognized only by its label.
 */
function decideSeed(input: LabelerInput): LabelerDecision {
  const { name, label, annotation } = readState(input);
  const isInstalled = input.csvs.some((csv) => !hasCopiedLabel(csv));
  // On startup, every object is treated as newly created.
  const hasEvent = (event: LabelerTrigger): boolean => input.triggers.has(event) || input.triggers.has('startup');
  const decision = (action: LabelerDecision['action'], reason: string) => ({ action, row: 'seed', reason });
  if (!hasLabelerPrefix(name)) return decision('none', `the name does not start with ${PREFIX}`);
  if (input.triggers.has('csv-deleted') && annotation === 'true' && !isInstalled)
    return decision('release', 'managed, but the last operator was removed');
  if (hasEvent('csv-created') && isInstalled && label === undefined && annotation !== 'false')
    return decision('manage', 'an operator was installed');
  if (hasEvent('namespace') && annotation === 'true' && label !== 'true')
    return decision('label', 'managed, but the label was changed or removed');
  return decision('none', 'no event requires a change');
}
