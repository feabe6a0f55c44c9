/** The warnings of SCC decisions: how a denied pod can be admitted, and the risks of an admitted one. */
import { NAMESPACE_RANGE_ANNOTATIONS, POD_SCC_ANNOTATIONS } from '../../../kube/scc.ts';
import { quote } from '../../../kube/text.ts';
import { isObject, type Namespace } from '../../../kube/types.ts';
import { serviceAccountSubject } from '../access.ts';
import { allowsPod } from '../complete.ts';
import { formatListWarning, formatValues, formatWarning, quoteName } from '../messages.ts';
import { resolveCompatibility } from '../mode.ts';
import { readNamespaceRanges } from '../namespace.ts';
import { getSccSet } from '../order.ts';
import type { SccPod } from '../pod.ts';
import type { SccInput } from '../request.ts';
import type { PreparedScc } from '../scc.ts';
import { admits, type Admission, type SearchInput, type SearchResult } from '../search.ts';
import { standardUseRole } from '../standard.ts';
import { findSuggestion, formatDisallowedField, type ClosestScc, type Suggestion } from './suggestion.ts';

type Warnings = readonly string[];

/** Warnings evaluate more SCCs than the decision. They are omitted for pods with more containers than a node runs. */
const MAX_CONTAINERS = 1000;

/** Returns the warnings for the creator of an admitted pod or debug container. */
export function admissionWarnings(search: SearchInput, admission: Admission): Warnings {
  const { hostUsers, containers } = search.pod;
  if (search.mutable === 'nothing' || containers.length > MAX_CONTAINERS) return [];
  const creator = admission.subjectType === 'user' ? creatorWarning(search, admission.scc) : undefined;
  const ids = hostUsers === false && search.mutable === 'everything' ? userIdWarning(search, admission) : undefined;
  return [creator, ids].filter((text) => text !== undefined);
}

/**
 * Warns about a pod that is admitted only because of its creator's permissions: a controller creates pods with the
 * permissions of their service account. A debug container may exceed the SCC that is recorded on the pod.
 */
function creatorWarning(search: SearchInput, scc: PreparedScc): string | undefined {
  const { serviceAccountName, annotations } = search.pod;
  if (serviceAccountName === '') return undefined;
  // The actual groups of the service account decide on pods of controllers, regardless of the configured identity.
  const account = serviceAccountSubject(search.namespace.name, serviceAccountName, 'accurate');
  if (search.mayUse(account, scc)) return undefined;
  const later = search.candidates.slice(search.candidates.indexOf(scc) + 1);
  const other = later.find((one) => search.mayUse(account, one) && admits(one, search));
  const cause = `Service account ${quoteName(serviceAccountName)} may not use it`;
  if (search.mutable === 'everything') {
    const effect = other ? `get SCC ${quoteName(other.name)}` : 'fail';
    return formatWarning(
      `SCC ${quoteName(scc.name)} admits the pod only because its creator may use it. ${cause}, so such pods ${effect} when a controller creates them.`,
    );
  }
  const recorded = annotations[POD_SCC_ANNOTATIONS.scc] ?? '';
  if (other || recorded === '' || recorded === scc.name) return undefined;
  return formatWarning(
    `SCC ${quoteName(scc.name)} admits the debug container only because you may use it. ${cause}. The pod now exceeds SCC ${quoteName(recorded)}, which it is annotated with.`,
  );
}

/** The highest ID in the user namespace of a pod with the defaults of the kubelet. */
const MAX_ID = 65_535;

/** Warns about a pod with a user namespace that runs as a user which does not exist in that namespace. */
function userIdWarning(search: SearchInput, { scc, completion }: Admission): string | undefined {
  const uid = completion.containerValues
    .map(({ runAsUser }) => runAsUser ?? search.pod.runAsUser)
    .find((one) => one !== undefined && one > MAX_ID);
  if (uid === undefined) return undefined;
  const better = search.candidates.find(
    (one) =>
      one.fields.userNamespaceLevel === 'RequirePodLevel' &&
      (one.fields.runAsUser.uidRangeMax ?? Infinity) <= MAX_ID &&
      search.subjectTypeOf(one) !== undefined &&
      allowsPod(one, search),
  );
  const { uidRangeMin = 1, uidRangeMax = MAX_ID } = better?.fields.runAsUser ?? {};
  const remedy = better
    ? `Set annotation ${POD_SCC_ANNOTATIONS.requiredScc}=${better.name}, or set runAsUser to a value from ${uidRangeMin} to ${uidRangeMax}.`
    : `Set runAsUser to at most ${MAX_ID}, or remove spec.hostUsers.`;
  return formatWarning(
    `A pod with spec.hostUsers=false has IDs up to ${MAX_ID}, but SCC ${quoteName(scc.name)} runs it as user ${uid}. ${remedy}`,
  );
}

/** Returns the warnings for a pod that no SCC admits: the disallowed fields, and the SCC that could be granted. */
export function refusalWarnings(input: SccInput, search: SearchInput, result: SearchResult): Warnings {
  if (search.pod.containers.length > MAX_CONTAINERS) return [];
  const rangeWarning = invalidRangeWarning(input.namespace, result);
  if (rangeWarning !== undefined) return [rangeWarning];
  // A grant for the sake of an update is needless if the pod can be created again.
  const suggested = input.operation === 'UPDATE' ? searchForNewPod(input, search) : search;
  const suggestion = findSuggestion(suggested, result);
  const { closest, changing } = suggestion;
  if (changing) return [changingWarning(input, changing)];
  const isAnyUsable = result.rejections.some(({ reason }) => reason !== 'denied');
  const isRequired = (search.pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '') !== '';
  return [
    closest && closestWarning(closest, isAnyUsable),
    admittingWarning(suggestion, { search, suggested }) ??
      (closest && !isRequired ? 'No SCC would admit the pod as it is.' : undefined),
  ].filter((text) => text !== undefined);
}

/** Returns the warnings for a pod that is denied before SCCs are evaluated. */
export function unevaluatedWarnings(input: SccInput, pod: SccPod): Warnings {
  const { sccs, byName } = getSccSet(input);
  const missing = resolveCompatibility(input.compatibility).requiredSccs.find((name) => !byName.has(name));
  if (missing !== undefined) {
    return [
      formatWarning(
        `SCC ${quoteName(missing)} does not exist, and no pod is admitted without it. Create it, or remove it from --scc-required.`,
      ),
    ];
  }
  const requiredScc = pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '';
  if (requiredScc !== '' && !byName.has(requiredScc)) {
    const head = `Annotation ${POD_SCC_ANNOTATIONS.requiredScc} requires SCC ${quoteName(requiredScc)}, which does not exist. Existing SCCs: `;
    return [formatListWarning(head, sccs.map(({ name }) => name).sort(), '.')];
  }
  return missingRangeWarnings(input.namespace);
}

const { uidRange, mcs, supplementalGroups } = NAMESPACE_RANGE_ANNOTATIONS;

function missingRangeWarnings(namespace: Namespace): Warnings {
  const { name, problem } = readNamespaceRanges(namespace);
  if (problem === undefined || !isObject(namespace)) return [];
  const ids = getAnnotation(namespace, uidRange);
  const warning =
    ids === undefined
      ? `Namespace ${quoteName(name)} has no annotation ${uidRange} yet. Retry in a few seconds. If this persists, the range allocator is not running or has no free range (event UIDRangeFull).`
      : `Namespace ${quoteName(name)} has no annotation ${mcs}. Set it, or remove ${uidRange}=${formatValues([ids])} so that both are allocated.`;
  return [formatWarning(warning)];
}

/** The annotations of namespaces with the ranges that are read from them, and the parts of an SCC that need a range. */
const RANGES = [
  { annotation: uidRange, range: 'uidRange', needs: ['uidRange'] },
  { annotation: mcs, range: 'seLinuxLevel', needs: ['seLinuxLevel'] },
  { annotation: supplementalGroups, range: 'groupRanges', needs: ['fsGroup', 'supplementalGroups'] },
] as const;

/** Returns a warning if an invalid annotation of the namespace prevents the use of an SCC. */
function invalidRangeWarning(namespace: Namespace, { rejections }: SearchResult): string | undefined {
  const ranges = readNamespaceRanges(namespace);
  for (const { annotation, range, needs } of RANGES) {
    const result = ranges[range];
    if (!('error' in result)) continue;
    const isNeeded = rejections.some(({ scc, reason }) => reason === 'errors' && needs.some((need) => scc.needs[need]));
    if (!isNeeded) continue;
    const value = getAnnotation(namespace, annotation) ?? '';
    const problem = value === '' ? 'is empty' : `is invalid (${result.error})`;
    return formatWarning(
      `Annotation ${annotation}=${formatValues([value])} of namespace ${quoteName(ranges.name)} ${problem}. Correct it, or remove it so that a value is allocated.`,
    );
  }
  return undefined;
}

function getAnnotation(namespace: Namespace, key: string): string | undefined {
  const value: unknown = namespace.metadata?.annotations?.[key];
  return typeof value === 'string' ? value : undefined;
}

function closestWarning({ scc, disallowedFields }: ClosestScc, isAnyUsable: boolean): string {
  const head = isAnyUsable ? 'The closest usable SCC is' : 'No SCC is usable. The closest one is';
  const items = disallowedFields.map(formatDisallowedField);
  return formatListWarning(`${head} ${quoteName(scc.name)}. It does not allow: `, items, '.');
}

function changingWarning(
  { operation }: SccInput,
  { scc, paths }: { readonly scc: PreparedScc; readonly paths: readonly string[] },
): string {
  const tail =
    operation === 'UPDATE'
      ? '. An update cannot change them: create the pod again.'
      : '. The pod was changed after its SCC had been assigned.';
  return formatListWarning(`SCC ${quoteName(scc.name)} would have to change `, paths, tail);
}

/** The search of the decision, and the search for which a suggestion is made. They differ for updates. */
interface Searches {
  readonly search: SearchInput;
  readonly suggested: SearchInput;
}

/** Debug containers are not created again with the pod, unless the request adds one. */
function searchForNewPod({ subResource }: SccInput, search: SearchInput): SearchInput {
  const containers = search.pod.containers.filter(({ list }) => list !== 'ephemeralContainers');
  const pod = subResource === 'ephemeralcontainers' ? search.pod : { ...search.pod, containers };
  return { ...search, pod, mutable: 'everything' };
}

const IF_CREATED_AGAIN = ' if it were created again';

/** Names the SCC that would admit the pod and what is required for it. */
function admittingWarning(
  { grantable, suggestedScc }: Suggestion,
  { search, suggested }: Searches,
): string | undefined {
  const isUpdate = search !== suggested;
  const usable =
    isUpdate &&
    suggested.candidates.find((scc) => suggested.subjectTypeOf(scc) !== undefined && allowsPod(scc, suggested));
  if (usable) return formatWarning(`SCC ${quoteName(usable.name)} would admit the pod${IF_CREATED_AGAIN}.`);
  if (!grantable) return undefined;
  const name = quoteName(grantable.name);
  const condition = isUpdate && !admits(grantable, search) ? IF_CREATED_AGAIN : '';
  const grantee = formatGrantee(search);
  if (suggestedScc) {
    const tail = `, then grant its use to ${grantee}. Of the existing SCCs, only ${name} would admit the pod${condition}.`;
    const head = `Needs a custom SCC: copy ${quoteName(suggestedScc.copyOf.name)} and `;
    return formatListWarning(head, suggestedScc.changes, tail);
  }
  const role = standardUseRole(grantable.name);
  const binding = role === undefined ? '' : `: bind ClusterRole ${quote(role)}`;
  const grant = `${condition === '' ? ' if' : `${condition} and`} ${grantee} were granted its use${binding}`;
  return formatWarning(`SCC ${name} would admit the pod${grant}.`);
}

/** A grant to the service account helps every creator of the pod. */
function formatGrantee({ pod: { serviceAccountName }, subjects }: SearchInput): string {
  return serviceAccountName === ''
    ? `user ${quoteName(subjects.user.username)}`
    : `service account ${quoteName(serviceAccountName)}`;
}
