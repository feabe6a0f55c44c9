import { createMayUse, createSubjectTypeOf, subjectsOf } from './access.ts';
import { bindingError } from './bind.ts';
import { findCandidates } from './candidates.ts';
import { resolveCompatibility } from './compatibility.ts';
import type { PodFields } from './decode/pod.ts';
import { createEffort } from './effort.ts';
import { namespaceRangesOf, type NamespaceRanges } from './namespace-ranges.ts';
import type { PreparedScc } from './prepare.ts';
import type { SearchInput } from './search.ts';
import { aggregate } from './texts.ts';
import type { SccInput } from './types.ts';

/** What one of the two passes is after. */
interface Pass {
  readonly requiredScc: string;
  readonly recordedScc: string;
  readonly mutable: SearchInput['mutable'];
}

/** Gathers what the search works on, or says why no pod can be judged. */
export function prepareSearch(
  input: SccInput,
  pod: PodFields,
  { requiredScc, recordedScc, mutable }: Pass,
): SearchInput | { readonly error: string } {
  const { brokenScc, requiredSccs } = resolveCompatibility(input.compatibility);
  const userNamespaces = userNamespacesIn(input, pod);
  const candidates = findCandidates({ sccs: input.sccs, requiredSccs, requiredScc, recordedScc, userNamespaces });
  if ('error' in candidates) return candidates;
  const namespace = namespaceRangesOf(input.namespace);
  if (namespace.problem !== undefined) return { error: namespace.problem };
  if (brokenScc === 'refuse') {
    const errors = bindingErrors(candidates.sccs, namespace);
    if (errors.length > 0) return { error: aggregate([...new Set(errors)]) };
  }
  return createSearch(input, pod, { candidates: candidates.sccs, mutable });
}

/** What a user namespace of the pod means for the order of the SCCs. */
export function userNamespacesIn({ preferUserNamespaces }: SccInput, { hostUsers }: PodFields): 'prefer' | 'ignore' {
  return preferUserNamespaces && hostUsers === false ? 'prefer' : 'ignore';
}

/** The search among these SCCs, whatever speaks against judging the pod. */
export function createSearch(
  input: SccInput,
  pod: PodFields,
  { candidates, mutable }: Pick<SearchInput, 'candidates' | 'mutable'>,
): SearchInput {
  const namespace = namespaceRangesOf(input.namespace);
  const subjects = subjectsOf({
    userInfo: input.userInfo,
    serviceAccountName: pod.serviceAccountName,
    namespaceName: namespace.name,
    identity: resolveCompatibility(input.compatibility).identity,
  });
  const mayUse = createMayUse(input.canUse, namespace.name);
  return {
    candidates,
    namespace,
    pod,
    subjects,
    mayUse,
    subjectTypeOf: createSubjectTypeOf(input.canUse, namespace.name, subjects),
    mutable,
    effort: createEffort(),
  };
}

/** Why SCCs cannot work in the namespace. */
function bindingErrors(sccs: readonly PreparedScc[], namespace: NamespaceRanges): readonly string[] {
  return sccs.map((scc) => bindingError(scc, namespace)).filter((error) => error !== undefined);
}
