/** Suggests how to admit denied pods by changing fields, by copying an SCC, or by granting an SCC. */
import type { FieldError } from '../../../kube/field-error.ts';
import { findChanges } from '../../../kube/pod-changes.ts';
import { NAMESPACE_RANGE_ANNOTATIONS, POD_SCC_ANNOTATIONS } from '../../../kube/scc.ts';
import type { PodFields } from '../../pod/index.ts';
import { completePod, writePod } from '../complete.ts';
import { podAnnotation } from '../request.ts';
import type { PreparedScc } from '../scc.ts';
import { admits, type Search, type SearchResult } from '../search.ts';
import { SCC_REPAIRS } from '../strategies/index.ts';
import { type Corrections, findCorrections, correctPod } from './corrections.ts';
import { findCopy, type SccCopy } from './custom-scc.ts';
import { type DisallowedField, findAllDisallowedFields, findDisallowedFields } from './disallowed-fields.ts';
import { describePermissions } from './permissions.ts';
import { formatValues, quoteName } from './warning-text.ts';

/**
 * Suggests how a pod that no SCC admits could be admitted. If `problem` or `changing` is set, no other field is set.
 * SCCs are represented by their names.
 */
export interface Suggestion {
  /** Describes the namespace annotation that prevents the use of an SCC, and how to correct it. */
  readonly problem?: string;
  /** Changes to fields that are empty, deprecated or misspelled. */
  readonly corrections?: Corrections;
  /** The existing SCC whose name is most similar to the misspelled name in the annotation. */
  readonly requiredScc?: string;
  /**
   * The usable SCC with the fewest disallowed fields. If no SCC is usable and granting one would not help, this is the
   * closest of all SCCs.
   */
  readonly closest?: { readonly scc: string; readonly disallowedFields: readonly DisallowedField[] };
  /** A custom SCC that is less permissive than `grantable`. */
  readonly suggestedScc?: SuggestedScc;
  /** The least permissive SCC that would admit the pod if it were granted, and what it permits. */
  readonly grantable?: string;
  readonly permits?: readonly string[];
  /** True if `grantable` allows everything even though corrections or a custom SCC would suffice. */
  readonly isLastResort?: true;
  /** The first SCC that would admit the pod if it could change these fields. */
  readonly changing?: { readonly scc: string; readonly paths: readonly string[] };
}

/** A custom SCC that would admit a pod, which is a modified copy of an existing SCC. */
export interface SuggestedScc {
  readonly original: string;
  /** Verb phrases, such as `add NET_ADMIN to allowedCapabilities` or `set allowHostPID=true`. */
  readonly changes: readonly string[];
}

/**
 * Finds a way to admit a pod that no SCC admits.
 * @param original the search that produced the result, if that search was for another version of the pod
 */
export function findSuggestion(search: Search, { rejections }: SearchResult, original = search): Suggestion {
  const { pod } = search;
  const problem = findRangeProblem(search, rejections);
  if (problem !== undefined) return { problem };
  const changing = rejections.find(({ reason }) => reason === 'changes')?.scc;
  if (changing) return { changing: { scc: changing.name, paths: findChangedPaths(changing, original) } };
  const denied = deniedSccs(rejections);
  const grantable = findGrantable(search, denied);
  const usable = rejections.filter(({ errors }) => errors.length > 0);
  const isAnyUsable = denied.length < rejections.length;
  const compared = isAnyUsable || grantable ? usable : denied.map((scc) => ({ scc, ...completePod(scc, search) }));
  const closest = findClosest(pod, compared);
  const corrections = findCorrections(search, usable);
  const custom = corrections ? undefined : findCustomScc(search, denied, grantable);
  const needed = corrections ?? custom?.corrections;
  return {
    ...(needed ? { corrections: needed } : {}),
    ...(closest
      ? { closest: { scc: closest.scc.name, disallowedFields: findAllDisallowedFields(closest.scc, original) } }
      : {}),
    ...(custom
      ? { suggestedScc: { original: custom.copy.original.metadata?.name ?? '', changes: custom.copy.changes } }
      : {}),
    ...(grantable ? { grantable: grantable.name, permits: describePermissions(grantable) } : {}),
    ...((corrections ?? custom) && grantable?.fields.allowPrivilegedContainer ? { isLastResort: true } : {}),
  };
}

function deniedSccs(rejections: SearchResult['rejections']): readonly PreparedScc[] {
  return rejections.filter(({ reason }) => reason === 'denied').map(({ scc }) => scc);
}

/**
 * Returns the least permissive SCC that would admit the pod. Ignores the priority, because the grant outlasts the pod.
 */
function findGrantable(search: Search, denied: readonly PreparedScc[]): PreparedScc | undefined {
  return denied.toSorted((a, b) => a.score - b.score).find((scc) => admits(scc, search));
}

/**
 * Returns the copy of an SCC that `findSuggestion` suggests, and the corrections that the pod also needs. Returns
 * `undefined` if there is no suggestion.
 */
export function findSuggestedCopy(search: Search, { rejections }: SearchResult): SuggestedCopy | undefined {
  const denied = deniedSccs(rejections);
  return findCustomScc(search, denied, findGrantable(search, denied));
}

interface SuggestedCopy {
  readonly copy: SccCopy;
  readonly corrections: Corrections | undefined;
}

/**
 * Finds a copy with one changed field. The copy may have any number of changed fields if the pod would otherwise be
 * admitted only by an SCC that allows everything, or by none. A copy does not help a pod that requires an SCC by name.
 */
function findCustomScc(
  search: Search,
  denied: readonly PreparedScc[],
  grantable: PreparedScc | undefined,
): SuggestedCopy | undefined {
  if ((search.pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '') !== '') return undefined;
  const isLimited = grantable !== undefined && !grantable.fields.allowPrivilegedContainer;
  const isUsable = (scc: PreparedScc): boolean => !denied.includes(scc);
  const limits = { maxFields: isLimited ? 1 : Infinity, isUsable };
  const copy = findCopy(search, limits);
  if (copy) return { copy, corrections: undefined };
  // Some pods also need corrections. For example, an SCC can list sysctls only with dots as separators.
  const corrected = correctPod(search.pod);
  const correctedCopy = corrected && findCopy({ ...search, pod: corrected.pod }, limits);
  return correctedCopy && { copy: correctedCopy, corrections: corrected.corrections };
}

interface SccErrors {
  readonly scc: PreparedScc;
  readonly errors: readonly FieldError[];
}

/**
 * Returns the SCC with the fewest disallowed fields, and the first one if there are several. Ignores SCCs that have
 * none. Prefers SCCs whose disallowed fields can all be removed or set in the pod.
 */
function findClosest(
  pod: PodFields,
  compared: Iterable<SccErrors>,
): { readonly scc: PreparedScc; readonly disallowedFields: readonly DisallowedField[] } | undefined {
  let closest: (ReturnType<typeof findClosest> & { readonly isFixable?: boolean }) | undefined;
  for (const { scc, errors } of compared) {
    const fewest = closest?.isFixable ? closest.disallowedFields.length : Infinity;
    if (fewest === 1) break;
    const disallowedFields = findDisallowedFields(pod, errors, fewest);
    if (disallowedFields.length === 0 || disallowedFields.length >= fewest) continue;
    const isFixable = disallowedFields.every(isFixableField);
    if (
      isFixable ||
      closest === undefined ||
      (!closest.isFixable && disallowedFields.length < closest.disallowedFields.length)
    )
      closest = { scc, disallowedFields, isFixable };
  }
  return closest;
}

function isFixableField({ path }: DisallowedField): boolean {
  const repair = SCC_REPAIRS.find(({ field }) => field?.test(path));
  return repair !== undefined && !('choices' in repair);
}

function findChangedPaths(scc: PreparedScc, search: Search): readonly string[] {
  const changed = writePod(completePod(scc, search), { [POD_SCC_ANNOTATIONS.scc]: scc.name });
  return findChanges(search.pod.json, changed).map(({ path }) => path);
}

const { uidRange, mcs, supplementalGroups } = NAMESPACE_RANGE_ANNOTATIONS;

/** The namespace annotations with the ranges that they contain and the parts of an SCC that need these ranges. */
const RANGES = [
  { annotation: uidRange, range: 'uidRange', needs: ['uidRange'] },
  { annotation: mcs, range: 'seLinuxLevel', needs: ['seLinuxLevel'] },
  { annotation: supplementalGroups, range: 'groupRanges', needs: ['fsGroup', 'supplementalGroups'] },
] as const;

/** Describes the invalid namespace annotation that prevents the use of an SCC. Returns `undefined` if there is none. */
function findRangeProblem(
  { input, namespace: ranges }: Search,
  rejections: SearchResult['rejections'],
): string | undefined {
  for (const { annotation, range, needs } of RANGES) {
    const result = ranges[range];
    if (!('error' in result)) continue;
    const isNeeded = rejections.some(({ scc, reason }) => reason === 'errors' && needs.some((need) => scc.needs[need]));
    if (!isNeeded) continue;
    const value = podAnnotation(input.namespace, annotation);
    const cause = value === '' ? 'is empty' : `is invalid (${result.error})`;
    return `Annotation ${annotation}=${formatValues([value])} on namespace ${quoteName(ranges.name)} ${cause}. Correct it, or remove it so a value is allocated.`;
  }
  return undefined;
}
