/** Determines which SCCs to evaluate for a request, and in what order. */
import type { SecurityContextConstraints } from '../../kube/scc.ts';
import { quote, sortedSet } from '../../kube/text.ts';
import { compareRanks, compareSccs, type PreparedScc, prepareScc } from './scc.ts';

/** A cluster's SCCs, which are prepared for decisions. Callers may reuse the set until an SCC changes. */
export interface SccSet {
  /** The SCCs in evaluation order. */
  readonly sccs: readonly PreparedScc[];
  readonly byName: ReadonlyMap<string, PreparedScc>;
  /** The objects from which the set was created. */
  readonly objects: readonly SecurityContextConstraints[];
}

/** Prepares a cluster's SCCs, and sorts them by descending priority, ascending score, and name. */
export function createSccSet(objects: readonly SecurityContextConstraints[]): SccSet {
  const sccs = objects.map(prepareScc).sort(compareSccs);
  return { sccs, byName: new Map(sccs.map((scc) => [scc.name, scc])), objects };
}

/** Returns the SCCs as a set. Prepares them first if necessary. */
export function toSccSet(sccs: readonly SecurityContextConstraints[] | SccSet): SccSet {
  return 'byName' in sccs ? sccs : createSccSet(sccs);
}

const RESOURCE = 'securitycontextconstraints.security.openshift.io';

export interface CandidatesInput {
  /** SCCs that must exist before any pod is evaluated. */
  readonly requiredSccs?: readonly string[];
  /** Name of the only candidate, or an empty string if any SCC may be used. */
  readonly requiredScc?: string;
  /** Name of the SCC to evaluate first, or an empty string to use the regular order. */
  readonly recordedScc?: string;
  /** If true, SCCs that require a user namespace come first among SCCs that have the same priority and score. */
  readonly preferUserNamespaces: boolean;
}

/** Returns the SCCs to evaluate in order, or the denial message if they cannot be determined. */
export function findCandidates(
  { sccs, byName }: SccSet,
  { requiredSccs = [], requiredScc = '', recordedScc = '', preferUserNamespaces }: CandidatesInput,
): { readonly sccs: readonly PreparedScc[] } | { readonly error: string } {
  const missing = requiredSccs.filter((name) => !byName.has(name));
  if (missing.length > 0) return { error: `${RESOURCE} cache is missing ${sortedSet(missing).join(', ')}` };
  if (requiredScc !== '') {
    const required = byName.get(requiredScc);
    if (required) return { sccs: [required] };
    const name = quote(requiredScc);
    return { error: `failed to retrieve the required SCC ${name}: ${RESOURCE} ${name} not found` };
  }
  if (sccs.length === 0) return { error: 'no SecurityContextConstraints found in cluster' };
  const ordered = preferUserNamespaces ? [...sccs].sort(compareUserNamespaces) : sccs;
  const recorded = recordedScc === '' ? undefined : byName.get(recordedScc);
  return { sccs: recorded ? [recorded, ...ordered.filter((scc) => scc !== recorded)] : ordered };
}

function compareUserNamespaces(a: PreparedScc, b: PreparedScc): number {
  return compareRanks(a, b) || Number(requiresUserNamespace(b)) - Number(requiresUserNamespace(a));
}

function requiresUserNamespace({ fields }: PreparedScc): boolean {
  return fields.userNamespaceLevel === 'RequirePodLevel';
}
