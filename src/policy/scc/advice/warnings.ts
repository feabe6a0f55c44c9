/** Returns warnings for SCC decisions, which explain how to admit a denied pod and the risks of an admitted pod. */
import { NAMESPACE_RANGE_ANNOTATIONS, POD_SCC_ANNOTATIONS } from '../../../kube/scc.ts';
import { findSimilar, quote } from '../../../kube/text.ts';
import { isObject, type Namespace } from '../../../kube/types.ts';
import { findSubjectType, serviceAccountSubject } from '../access.ts';
import { toSccSet } from '../order.ts';
import { podAnnotation, type SccInput } from '../request.ts';
import type { PreparedScc } from '../scc.ts';
import { type SccAdmission, admits, type Search, type SearchResult } from '../search.ts';
import { standardUseRole } from '../standard.ts';
import { formatDisallowedField } from './disallowed-fields.ts';
import { findSuggestion, type Suggestion } from './suggestion.ts';
import { formatListWarning, formatValues, formatWarning, quoteName } from './warning-text.ts';

type Warnings = readonly string[];

/** Returns the warnings for the creator of an admitted pod or debug container. */
export function admissionWarnings(search: Search, admission: SccAdmission): Warnings {
  const { hostUsers } = search.pod;
  if (search.mutable === 'nothing') return [];
  const creator = admission.subjectType === 'user' ? creatorWarnings(search, admission.scc) : [];
  const ids = hostUsers === false && search.mutable === 'everything' ? userIdWarning(search, admission) : undefined;
  return ids === undefined ? creator : [...creator, ids];
}

/**
 * Warns about a pod that is admitted only because of its creator's permissions. If a controller creates such a pod,
 * only the permissions of its service account apply. A debug container may exceed the SCC that is recorded on the pod.
 */
function creatorWarnings(search: Search, scc: PreparedScc): Warnings {
  const { serviceAccountName, annotations } = search.pod;
  if (serviceAccountName === '') return [];
  // For pods that controllers create, all groups of the service account apply, even in OpenShift compatibility mode.
  const account = serviceAccountSubject(search.namespace.name, serviceAccountName);
  if (search.mayUse(account, scc)) return [];
  const later = search.candidates.slice(search.candidates.indexOf(scc) + 1);
  const other = later.find((scc) => search.mayUse(account, scc) && admits(scc, search));
  const cause = `Service account ${quoteName(serviceAccountName)} may not use it`;
  if (search.mutable === 'everything') {
    const effect = other ? `get SCC ${quoteName(other.name)}` : 'fail';
    const [verb, result] = search.input.isReported ? [`would admit`, `would ${effect}`] : ['admits', effect];
    const warning = formatWarning(
      `SCC ${quoteName(scc.name)} ${verb} the pod only because the pod's creator may use the SCC. ${cause}, so such pods ${result} when a controller creates them.`,
    );
    if (!other || search.input.isReported === true) return [warning];
    const annotation = `${POD_SCC_ANNOTATIONS.requiredScc}=${other.name}`;
    return [warning, formatWarning(`If Pod Security denies the pod, annotate it with ${annotation}.`)];
  }
  const recorded = annotations[POD_SCC_ANNOTATIONS.scc] ?? '';
  if (other || recorded === '' || recorded === scc.name) return [];
  return [
    formatWarning(
      `SCC ${quoteName(scc.name)} admits the debug container only because you may use the SCC. ${cause}. The pod now has permissions that SCC ${quoteName(recorded)} in its annotation does not allow.`,
    ),
  ];
}

/** Highest ID in a pod's user namespace with the kubelet's default settings. */
const MAX_ID = 65_535;

/** Warns about a pod that runs as a user that does not exist in its user namespace. */
function userIdWarning(search: Search, { scc, completion }: SccAdmission): string | undefined {
  const uid = completion.containerValues
    .map(({ runAsUser }) => runAsUser ?? search.pod.runAsUser)
    .find((id) => id !== undefined && id > MAX_ID);
  if (uid === undefined) return undefined;
  const better = search.candidates.find(
    (scc) =>
      scc.fields.userNamespaceLevel === 'RequirePodLevel' &&
      (scc.fields.runAsUser.uidRangeMax ?? Infinity) <= MAX_ID &&
      findSubjectType(scc, search) !== undefined &&
      admits(scc, search),
  );
  const { uidRangeMin = 1, uidRangeMax = MAX_ID } = better?.fields.runAsUser ?? {};
  const remedy = better
    ? `Set annotation ${POD_SCC_ANNOTATIONS.requiredScc}=${better.name}, or set runAsUser to a value from ${uidRangeMin} to ${uidRangeMax}.`
    : `Set runAsUser to at most ${MAX_ID}, or remove spec.hostUsers.`;
  const effect = search.input.isReported ? 'would run, with SCC enforcement,' : 'runs';
  return formatWarning(
    `A pod with spec.hostUsers=false has IDs up to ${MAX_ID}, but SCC ${quoteName(scc.name)} ${effect} it as user ${uid}. ${remedy}`,
  );
}

/**
 * Returns the warnings for a pod that no SCC admits. They contain the disallowed fields and the SCC that could be
 * granted.
 */
export function denialWarnings(search: Search, result: SearchResult): Warnings {
  const { input, pod } = search;
  // An update needs no grant if the pod would be admitted when recreated.
  const suggested = input.operation === 'UPDATE' ? searchForNewPod(search) : search;
  const suggestion = findSuggestion(suggested, result, search);
  const { problem, corrections, closest, changing } = suggestion;
  if (problem !== undefined) return [formatWarning(problem)];
  if (changing) return [changingWarning(input, changing)];
  if (corrections?.scc !== undefined) {
    return [
      formatListWarning(
        'Correct the pod: ',
        corrections.changes,
        `. SCC ${quoteName(corrections.scc)} then admits it.`,
      ),
    ];
  }
  const isAnyUsable = result.rejections.some(({ reason }) => reason !== 'denied');
  const isRequired = (pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '') !== '';
  return [
    closest && closestWarning(closest, isAnyUsable),
    admittingWarning(suggestion, search, suggested) ??
      (closest && !isRequired ? 'No SCC would admit the pod as it is.' : undefined),
  ].filter((text) => text !== undefined);
}

/** Returns the warnings for a pod that is denied before SCCs are evaluated. */
export function earlyDenialWarnings({ input, pod, namespace }: Search): Warnings {
  const { sccs, byName } = toSccSet(input.sccs);
  const requiredScc = pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '';
  if (requiredScc !== '' && !byName.has(requiredScc)) {
    const similar = findSimilar(
      requiredScc,
      sccs.map(({ name }) => name),
    );
    const problem = `Annotation ${POD_SCC_ANNOTATIONS.requiredScc} requires SCC ${quoteName(requiredScc)}, which does not exist.`;
    if (similar !== undefined) return [formatWarning(`${problem} Write ${quoteName(similar)}.`)];
    const head = `${problem} Existing SCCs: `;
    return [formatListWarning(head, sccs.map(({ name }) => name).sort(), '.')];
  }
  if (namespace.problem === undefined || !isObject(input.namespace)) return [];
  return [formatWarning(missingRangeWarning(input.namespace, quoteName(namespace.name)))];
}

const { uidRange, mcs } = NAMESPACE_RANGE_ANNOTATIONS;

function missingRangeWarning(namespace: Namespace, name: string): string {
  const ids = getAnnotation(namespace, uidRange);
  return ids === undefined
    ? `Namespace ${name} has no ${uidRange} annotation yet. Retry in a few seconds. If this persists, the range allocator is not running or has no free range (event UIDRangeFull).`
    : `Namespace ${name} has no ${mcs} annotation. Set it, or remove ${uidRange}=${formatValues([ids])} so both are allocated.`;
}

function getAnnotation(namespace: Namespace, key: string): string | undefined {
  const value: unknown = namespace.metadata?.annotations?.[key];
  return typeof value === 'string' ? value : undefined;
}

function closestWarning({ scc, disallowedFields }: NonNullable<Suggestion['closest']>, isAnyUsable: boolean): string {
  const head = isAnyUsable ? 'The closest usable SCC is' : 'No SCC is usable. The closest one is';
  const items = disallowedFields.map(formatDisallowedField);
  return formatListWarning(`${head} ${quoteName(scc)}. It does not allow: `, items, '.');
}

function changingWarning({ operation, object }: SccInput, { scc, paths }: NonNullable<Suggestion['changing']>): string {
  const tail =
    operation === 'UPDATE'
      ? '. An update cannot change them, so recreate the pod.'
      : podAnnotation(object, POD_SCC_ANNOTATIONS.scc) === ''
        ? '. The API server did not call the webhook that assigns SCCs. Retry in a few seconds. If this persists, run portcullis doctor.'
        : '. The pod was changed after its SCC was assigned.';
  return formatListWarning(`SCC ${quoteName(scc)} would have to change `, paths, tail);
}

/**
 * Returns the search for the recreated pod. Omits debug containers unless the request adds one, because they are not
 * recreated with the pod.
 */
function searchForNewPod(search: Search): Search {
  const containers = search.pod.containers.filter(({ list }) => list !== 'ephemeralContainers');
  const pod = search.input.subResource === 'ephemeralcontainers' ? search.pod : { ...search.pod, containers };
  return { ...search, pod, mutable: 'everything' };
}

const IF_CREATED_AGAIN = ' if it were recreated';

/**
 * Describes the SCC that would admit the pod, and the necessary grant or copy. For updates, `suggested` differs from
 * `search`.
 */
function admittingWarning(
  { grantable, suggestedScc, corrections, isLastResort }: Suggestion,
  search: Search,
  suggested: Search,
): string | undefined {
  const isUpdate = search !== suggested;
  const usable =
    isUpdate &&
    suggested.candidates.find((scc) => findSubjectType(scc, suggested) !== undefined && admits(scc, suggested));
  if (usable) return formatWarning(`SCC ${quoteName(usable.name)} would admit the pod${IF_CREATED_AGAIN}.`);
  const needsCreation =
    isUpdate &&
    grantable !== undefined &&
    !search.candidates.some((scc) => scc.name === grantable && admits(scc, search));
  const condition = needsCreation ? IF_CREATED_AGAIN : '';
  const grantee = formatGrantee(search);
  if (suggestedScc && (isLastResort || grantable === undefined)) {
    const only =
      grantable === undefined
        ? ''
        : ` Of the existing SCCs, only ${quoteName(grantable)} would admit the pod${condition}.`;
    const head = `To admit the pod, copy SCC ${quoteName(suggestedScc.original)} and `;
    const changes = [...suggestedScc.changes, ...(corrections?.changes ?? [])];
    return formatListWarning(head, changes, `, then allow ${grantee} to use the copy.${only}`);
  }
  if (grantable === undefined) return undefined;
  const name = quoteName(grantable);
  const role = standardUseRole(grantable);
  const binding = role === undefined ? '' : `. Bind ClusterRole ${quote(role)}`;
  const grant = `${needsCreation ? `${condition} and` : ' if'} ${grantee} were allowed to use it${binding}`;
  return formatWarning(`SCC ${name} would admit the pod${grant}.`);
}

/**
 * Formats the subject of the suggested grant. Prefers the service account, because a grant to it applies regardless of
 * who creates the pod.
 */
function formatGrantee({ pod: { serviceAccountName }, subjects }: Search): string {
  return serviceAccountName === ''
    ? `user ${quoteName(subjects.user.username)}`
    : `service account ${quoteName(serviceAccountName)}`;
}
