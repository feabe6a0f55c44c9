import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { serviceAccountSubject } from './access.ts';
import type { PreparedScc } from './prepare.ts';
import { admits, fitsScc, type Chosen, type SearchInput } from './search.ts';
import { fit, named } from './sentence.ts';

/** Warnings try other SCCs; of pods that nobody runs that would only cost time. */
const MAX_CONTAINERS = 1000;

/** What whoever creates a pod, or adds containers to debug it, should know although it is admitted. */
export function admissionWarnings(search: SearchInput, chosen: Chosen): readonly string[] {
  const { subjectType } = chosen;
  const { hostUsers, containers } = search.pod;
  // Nearly all pods end here.
  if (subjectType !== 'user' && hostUsers !== false) return [];
  if (search.mutable === 'nothing' || containers.length > MAX_CONTAINERS) return [];
  const ofCreator = subjectType === 'user' ? creatorWarning(search, chosen.scc) : undefined;
  const ofIds = hostUsers === false && search.mutable === 'everything' ? idsWarning(search, chosen) : undefined;
  return [ofCreator, ofIds].filter((text) => text !== undefined);
}

/**
 * Of a pod that has an SCC which only its creator may use: what becomes of such pods when they are created by a controller,
 * that is by their service account. Of containers to debug: that the pod is more now than its annotation says.
 */
function creatorWarning(search: SearchInput, scc: PreparedScc): string | undefined {
  const { serviceAccountName, annotations } = search.pod;
  if (serviceAccountName === '') return undefined;
  // Controllers meet what the account may really do, whatever identity is configured.
  const account = serviceAccountSubject(search.namespace.name, serviceAccountName, 'accurate');
  if (search.mayUse(account, scc)) return undefined;
  const rest = search.candidates.slice(search.candidates.indexOf(scc) + 1);
  const other = rest.find((one) => search.mayUse(account, one) && admits(one, search));
  const lack = `service account ${named(serviceAccountName)} may not`;
  if (search.mutable === 'everything') {
    const fate = other ? `get SCC ${named(other.name)}` : 'fail';
    return fit(
      `SCC ${named(scc.name)} admits the pod because its creator may use it; ${lack}: such pods ${fate} when a controller creates them.`,
    );
  }
  const recorded = annotations[POD_SCC_ANNOTATIONS.scc] ?? '';
  if (other || recorded === '' || recorded === scc.name) return undefined;
  return fit(
    `SCC ${named(scc.name)} admits the debug container because you may use it; ${lack}: the pod now does more than SCC ${named(recorded)}, which it is annotated with, allows.`,
  );
}

/** The highest id that a pod has in a user namespace, unless kubelets are told otherwise. */
const MAX_ID = 65_535;

/** Of a pod with a user namespace that is to run as a user whom it does not have there. */
function idsWarning(search: SearchInput, { scc, attempt }: Chosen): string | undefined {
  const uid = attempt.containerValues
    .map(({ runAsUser }) => runAsUser ?? search.pod.runAsUser)
    .find((one) => one !== undefined && one > MAX_ID);
  if (uid === undefined) return undefined;
  const better = search.candidates.find(
    (one) =>
      one.fields.userNamespaceLevel === 'RequirePodLevel' &&
      (one.fields.runAsUser.uidRangeMax ?? Infinity) <= MAX_ID &&
      search.subjectTypeOf(one) !== undefined &&
      fitsScc(one, search),
  );
  const { uidRangeMin = 1, uidRangeMax = MAX_ID } = better?.fields.runAsUser ?? {};
  const remedy = better
    ? `annotate it with ${POD_SCC_ANNOTATIONS.requiredScc}=${better.name}, or set runAsUser from ${uidRangeMin} to ${uidRangeMax}.`
    : `set runAsUser to at most ${MAX_ID}, or remove spec.hostUsers.`;
  return fit(
    `With spec.hostUsers=false a pod has ids up to ${MAX_ID}, but SCC ${named(scc.name)} lets it run as ${uid}: ${remedy}`,
  );
}
