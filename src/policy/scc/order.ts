import { compareBytes } from '../../kube/order.ts';
import { prepareScc, type PreparedScc } from './prepare.ts';
import { explainScores } from './score.ts';

interface Ordered {
  /** What the list held then. */
  readonly from: readonly unknown[];
  readonly sccs: readonly PreparedScc[];
}

const ordered = new WeakMap<readonly unknown[], Ordered>();

/** The SCCs in the order in which they are tried: higher priority, lower score, name. Remembered per list. */
export function orderSccs(sccs: readonly unknown[]): readonly PreparedScc[] {
  const known = ordered.get(sccs);
  if (known && known.from.length === sccs.length && known.from.every((scc, index) => scc === sccs[index])) {
    return known.sccs;
  }
  const result = sccs.map(prepareScc).sort(compareSccs);
  ordered.set(sccs, { from: [...sccs], sccs: result });
  return result;
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
