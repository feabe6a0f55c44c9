import { compareBytes, sortedSet, quote } from '../../kube/text.ts';
import { prepareScc, type PreparedScc, explainScores } from './scc.ts';

/** SCCs in the order in which they are tried. */
export interface OrderedSccs {
  readonly sccs: readonly PreparedScc[];
  readonly byName: ReadonlyMap<string, PreparedScc>;
}

interface Remembered extends OrderedSccs {
  /** What the list held then. */
  readonly from: readonly unknown[];
}

const remembered = new WeakMap<readonly unknown[], Remembered>();

/** Sorts SCCs: higher priority, lower score, name. Remembered per list. */
export function orderSccs(sccs: readonly unknown[]): OrderedSccs {
  const known = remembered.get(sccs);
  if (known && isSameList(known.from, sccs)) return known;
  const sorted = sccs.map(prepareScc).sort(compareSccs);
  const ordered = { from: [...sccs], sccs: sorted, byName: new Map(sorted.map((scc) => [scc.name, scc])) };
  remembered.set(sccs, ordered);
  return ordered;
}

function isSameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a.length !== b.length) return false;
  for (let index = 0; index < a.length; index++) if (a[index] !== b[index]) return false;
  return true;
}

/** The same order for a pod with a user namespace: of equal priority and score, SCCs that require one come first. */
export function preferUserNamespaces(sccs: readonly PreparedScc[]): readonly PreparedScc[] {
  return [...sccs].sort(
    (a, b) => compareRanks(a, b) || Number(requiresUserNamespace(b)) - Number(requiresUserNamespace(a)),
  );
}

/** Why the first of two SCCs is tried before the second. */
export function explainOrder(first: PreparedScc, second: PreparedScc): string {
  if (first.fields.priority !== second.fields.priority) {
    return first.fields.priority > second.fields.priority ? 'has higher priority' : 'has lower priority';
  }
  if (first.score === second.score) return 'ordered by name';
  return explainScores(Math.min(first.score, second.score), Math.max(first.score, second.score));
}

function compareSccs(a: PreparedScc, b: PreparedScc): number {
  return compareRanks(a, b) || compareBytes(a.name, b.name);
}

function compareRanks(a: PreparedScc, b: PreparedScc): number {
  return b.fields.priority - a.fields.priority || a.score - b.score;
}

function requiresUserNamespace({ fields }: PreparedScc): boolean {
  return fields.userNamespaceLevel === 'RequirePodLevel';
}

const RESOURCE = 'securitycontextconstraints.security.openshift.io';

interface CandidatesInput {
  readonly sccs: readonly unknown[];
  /** SCCs that must exist before any pod is judged. */
  readonly requiredSccs: readonly string[];
  /** The only SCC that the pod accepts; empty: any. */
  readonly requiredScc: string;
  /** The SCC to try first; empty: none. */
  readonly recordedScc: string;
  readonly userNamespaces: 'prefer' | 'ignore';
}

type Candidates = { readonly sccs: readonly PreparedScc[] } | { readonly error: string };

/** The SCCs to try, in order, or why there are none. */
export function findCandidates(input: CandidatesInput): Candidates {
  const ordered = orderSccs(input.sccs);
  const missing = input.requiredSccs.filter((name) => !ordered.byName.has(name));
  if (missing.length > 0) return { error: `${RESOURCE} cache is missing ${sortedSet(missing).join(', ')}` };
  if (input.requiredScc !== '') return findRequired(ordered.byName.get(input.requiredScc), input.requiredScc);
  if (ordered.sccs.length === 0) return { error: 'no SecurityContextConstraints found in cluster' };
  const sccs = input.userNamespaces === 'prefer' ? preferUserNamespaces(ordered.sccs) : ordered.sccs;
  return { sccs: moveToFront(sccs, input.recordedScc) };
}

function findRequired(required: PreparedScc | undefined, name: string): Candidates {
  if (required) return { sccs: [required] };
  const cause = `${RESOURCE} ${quote(name)} not found`;
  return { error: `failed to retrieve the required SCC ${quote(name)}: ${cause}` };
}

function moveToFront(sccs: readonly PreparedScc[], name: string): readonly PreparedScc[] {
  const found = name === '' ? undefined : sccs.find((scc) => scc.name === name);
  return found ? [found, ...sccs.filter((scc) => scc !== found)] : sccs;
}
