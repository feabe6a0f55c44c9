import { sortedSet, quote } from '../../kube/text.ts';
import { orderSccs, preferUserNamespaces } from './order.ts';
import type { PreparedScc } from './prepare.ts';

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

export type Candidates = { readonly sccs: readonly PreparedScc[] } | { readonly error: string };

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
