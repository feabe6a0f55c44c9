/** Proposes Pod Security labels for Operator Lifecycle Manager (OLM) namespaces. It never lowers a level. */
import { getMetadataOwners } from '../../kube/managed-fields.ts';
import { sortedSet } from '../../kube/text.ts';
import type { CatalogSource, Namespace } from '../../kube/types.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { catalogMode, hasCatalogPods } from './catalog-source.ts';
import { MARKETPLACE_NAMESPACE, OLM_NAMESPACES } from './recognition.ts';

const LEVELS: readonly string[] = ['privileged', 'baseline', 'restricted'];
const RESTRICTED = 2;

/** Namespaces of global operators, which are `operators` upstream and `openshift-operators` on OpenShift. */
const OPERATOR_NAMESPACES = ['operators', 'openshift-operators'] as const;

/** Namespaces to evaluate. There is never a proposal for `openshift-operators`. */
const PROPOSED_NAMESPACES: readonly string[] = [...OLM_NAMESPACES, MARKETPLACE_NAMESPACE, ...OPERATOR_NAMESPACES];

/** Field manager of the proposed labels. */
export const HARDENING_MANAGER = 'portcullis-olm-harden';

export interface NamespaceProposal {
  readonly namespace: string;
  /** Labels to set. Empty if no change is needed. */
  readonly labels: Readonly<Record<string, string>>;
  /** Reasons why labels are kept, and the requirements for a stricter level. */
  readonly notes: readonly string[];
}

interface NamespaceInput {
  readonly namespace: Namespace;
  readonly catalogs: readonly CatalogSource[];
  /** If true, labels that other field managers own are replaced. */
  readonly isForced: boolean;
}

/** Returns the labels to set on an OLM namespace, or `undefined` for any other namespace. */
export function proposeLabels({ namespace, catalogs, isForced }: NamespaceInput): NamespaceProposal | undefined {
  const { name = '', labels = {} } = namespace.metadata ?? {};
  if (!PROPOSED_NAMESPACES.includes(name)) return undefined;
  const target = targetLevel(name, labels, catalogs);
  if ('note' in target) return { namespace: name, labels: {}, notes: [target.note] };
  const owners = getMetadataOwners(namespace.metadata);
  const accepted: Record<string, string> = {};
  const notes: string[] = [];
  for (const [key, value] of Object.entries(targetLabels(name, target.level))) {
    if (labels[key] === value) continue;
    const obstacle = findObstacle({ key, value, current: labels[key], isForced, owners });
    if (obstacle === undefined) accepted[key] = value;
    else notes.push(obstacle);
  }
  return { namespace: name, labels: accepted, notes: [...notes, ...target.notes] };
}

type Target = { readonly note: string } | { readonly level: string; readonly notes: readonly string[] };

function targetLevel(
  name: string,
  labels: Readonly<Record<string, string>>,
  catalogs: readonly CatalogSource[],
): Target {
  if (name === 'openshift-operators')
    return { note: 'no label is proposed because the level depends on the installed operators' };
  if (name === 'operators') return { level: 'baseline', notes: [] };
  if (name !== MARKETPLACE_NAMESPACE) return { level: 'restricted', notes: [] };
  const withPods = catalogs.filter(hasCatalogPods);
  const legacy = withPods.filter((catalog) => catalogMode(catalog, labels).mode === 'legacy');
  if (withPods.length > 0 && legacy.length === 0) return { level: 'restricted', notes: [] };
  const names = legacy.map(({ metadata }) => metadata?.name ?? '');
  const note = `restricted requires securityContextConfig "restricted" in CatalogSources ${names.join(', ')}`;
  return { level: 'baseline', notes: names.length === 0 ? [] : [note] };
}

/** Returns the labels for a level. Only the marketplace namespace also gets audit and warn labels. */
function targetLabels(name: string, level: string): Readonly<Record<string, string>> {
  const { enforce, enforceVersion, audit, auditVersion, warn, warnVersion } = POD_SECURITY_LABELS;
  const enforced = { [enforce]: level, [enforceVersion]: 'latest' };
  if (name !== MARKETPLACE_NAMESPACE) return enforced;
  return { ...enforced, [audit]: level, [auditVersion]: 'latest', [warn]: level, [warnVersion]: 'latest' };
}

interface LabelChange {
  readonly key: string;
  readonly value: string;
  readonly current: string | undefined;
  readonly isForced: boolean;
  readonly owners: ReturnType<typeof getMetadataOwners>;
}

/**
 * Returns the reason why a label is not changed, or `undefined` if it can be. Invalid levels are enforced as `restricted`.
 */
function findObstacle({ key, value, current, isForced, owners }: LabelChange): string | undefined {
  if (current === undefined) return undefined;
  const index = LEVELS.indexOf(current);
  const isLevel = LEVELS.includes(value);
  if (isLevel && index === -1 && value !== 'restricted')
    return `${key}=${current} is kept because it is invalid and enforced as restricted. Set a valid level`;
  if (isLevel && (index === -1 ? RESTRICTED : index) > LEVELS.indexOf(value))
    return `${key}=${current} is kept because it is stricter than ${value}`;
  if (isForced) return undefined;
  const managers = sortedSet(
    (owners ?? []).filter(({ labels }) => labels.has(key)).map(({ manager }) => manager),
  ).filter((manager) => manager !== HARDENING_MANAGER);
  if (owners !== undefined && managers.length === 0) return undefined;
  const manager = owners === undefined ? 'an unknown field manager' : `field manager ${managers.join(', ')}`;
  return `${key}=${current} is kept because ${manager} owns it. Use --force to replace it`;
}
