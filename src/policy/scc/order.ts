import { compareBytes } from '../../kube/text.ts';
import { prepareScc, type PreparedScc } from './prepare.ts';
import { explainScores } from './score.ts';

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
