/** Finds pods that a changed SCC would take over from the SCC that admitted them. */
import { deepEqual } from '../../../kube/equality.ts';
import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../../kube/scc.ts';
import type { Namespace, Pod } from '../../../kube/types.ts';
import { decodeMutablePod, type PodFields } from '../../pod/index.ts';
import { type SccAccess, createMayUse, podSubjects } from '../access.ts';
import { allowsPod, completePod, ownContainerValues, ownPodValues } from '../complete.ts';
import { type NamespaceRanges, readNamespaceRanges } from '../namespace.ts';
import { createSccSet } from '../order.ts';
import { explainOrder, type PreparedScc, prepareScc } from '../scc.ts';

/** Evaluates pods in steps. The caller passes false to `next` if there is no time left for another step. */
export type StepwiseEvaluation<T> = Generator<void, T, boolean>;

/** A created or updated SCC, the existing SCCs, and the pods that these admitted. */
export interface SccWarningsInput {
  readonly scc: SecurityContextConstraints;
  /** The SCC before an update. Absent for a new SCC. */
  readonly oldScc?: SecurityContextConstraints | undefined;
  /** All existing SCCs. The SCC that has the same name as `scc` is ignored. */
  readonly sccs: readonly SecurityContextConstraints[];
  readonly pods: readonly Pod[];
  /** Returns a namespace, or `undefined` if SCC admission skips it. */
  findNamespace(name: string): Namespace | undefined;
  readonly access: SccAccess;
  /** If false, warnings contain only the number of namespaces. */
  readonly showsNamespaces: boolean;
  /** Maximum number of pods to evaluate. The pods of one controller are usually identical, so they count as one pod. */
  readonly maxPods: number;
  /** True if a controller reverts changes to the standard SCCs. */
  readonly reconcilesStandardSccs: boolean;
}

/** Pods that one SCC admitted and that another SCC would admit if they were recreated. */
export interface TakenOverPods {
  /** The SCC that admitted the pods. */
  readonly from: string;
  /** The reason why the other SCC is ordered first. */
  readonly reason: string;
  readonly namespaces: readonly string[];
  readonly pods: number;
}

interface Comparison {
  readonly takenOver: readonly TakenOverPods[];
  /** Number of evaluated pod groups. */
  readonly tried: number;
  readonly total: number;
}

/** The pods of a controller that the same SCC admitted, or a single pod. */
interface PodGroup {
  readonly pod: Pod;
  readonly admittedBy: PreparedScc;
  size: number;
}

/**
 * Finds the pods that an SCC would take over from the SCC that admitted them. This requires that the SCC precedes the
 * other one in evaluation order, that it allows the pod, and that the service account of the pod may use it.
 */
export function* compareAdmission(scc: PreparedScc, input: SccWarningsInput): StepwiseEvaluation<Comparison> {
  const others = input.sccs.filter((other) => other.metadata?.name !== scc.name);
  const groups = yield* groupPods(input.pods, listBehind([...others, input.scc], scc.name));
  if (groups === undefined) return { takenOver: [], tried: 0, total: input.pods.length };
  const oldScc = input.oldScc && prepareScc(input.oldScc);
  const behindOld = oldScc && listBehind([...others, input.oldScc], oldScc.name);
  const found: PodGroup[] = [];
  let tried = 0;
  for (const group of groups) {
    if (tried === input.maxPods || !(yield)) break;
    const admits = createAdmitter(group, scc, input);
    // A stored pod that is too large cannot be evaluated.
    if (admits === 'unknown') continue;
    tried++;
    if (admits?.(scc) && !(oldScc && behindOld?.has(group.admittedBy.name) && admits(oldScc))) found.push(group);
  }
  return { takenOver: summarize(found, scc), tried, total: groups.length };
}

/** Returns the SCCs that are evaluated after the named SCC. */
function listBehind(objects: readonly SecurityContextConstraints[], sccName: string): ReadonlyMap<string, PreparedScc> {
  const { sccs } = createSccSet(objects);
  const index = sccs.findIndex(({ name }) => name === sccName);
  return new Map(sccs.slice(index + 1).map((other) => [other.name, other]));
}

/**
 * Groups the pods by controller and SCC. Skips pods whose annotation requires an SCC, because no other SCC admits them.
 * Returns `undefined` if there is no time left.
 */
function* groupPods(
  pods: readonly Pod[],
  sccsBehind: ReadonlyMap<string, PreparedScc>,
): StepwiseEvaluation<readonly PodGroup[] | undefined> {
  const groups = new Map<unknown, PodGroup>();
  for (const pod of pods) {
    if (!(yield)) return undefined;
    const { annotations = {}, ownerReferences, namespace = '' } = pod.metadata ?? {};
    const admittedBy = sccsBehind.get(annotations[POD_SCC_ANNOTATIONS.scc] ?? '');
    if (admittedBy === undefined || (annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '') !== '') continue;
    // A node owns the mirror pods of all its static pods, which have nothing in common.
    const owner = ownerReferences?.find(({ controller, kind }) => controller === true && kind !== 'Node');
    const key = owner ? `${namespace} ${owner.uid} ${admittedBy.name}` : pod;
    const group = groups.get(key);
    if (group) group.size++;
    else groups.set(key, { pod, admittedBy, size: 1 });
  }
  return [...groups.values()];
}

/**
 * Creates a function that returns true if a version of the SCC would admit the pod. Returns `undefined` if SCCs do not
 * apply or the pod's subject may not use the SCC, and `unknown` if the pod cannot be decoded.
 */
function createAdmitter(
  { pod, admittedBy }: PodGroup,
  scc: PreparedScc,
  input: SccWarningsInput,
): ((scc: PreparedScc) => boolean) | 'unknown' | undefined {
  const namespaceName = pod.metadata?.namespace ?? '';
  const namespace = input.findNamespace(namespaceName);
  const decoded = decodeMutablePod(pod);
  if ('error' in decoded) return 'unknown';
  if (!namespace) return undefined;
  const ranges = readNamespaceRanges(namespace);
  if (ranges.problem !== undefined) return undefined;
  const mayUse = createMayUse(input.access, namespaceName);
  const subject = findCreator(decoded.pod, namespaceName);
  if (!mayUse(subject, scc)) return undefined;
  const search = { namespace: ranges, pod: mostPermissivePod(decoded.pod, admittedBy, ranges) };
  return (candidate) => mayUse(subject, candidate) && allowsPod(candidate, search);
}

/**
 * Returns the subject to evaluate. Pods do not record their creator, so this is the service account or, if there is
 * none, any authenticated user.
 */
function findCreator({ serviceAccountName }: PodFields, namespaceName: string) {
  const userInfo = { username: '', groups: ['system:authenticated'] };
  const { serviceAccount, user } = podSubjects({ userInfo, serviceAccountName, namespaceName });
  return serviceAccount ?? user;
}

/**
 * Returns the pod without the values that its SCC would generate. If the creator set some of these values explicitly,
 * more SCCs allow the result than the original pod.
 */
function mostPermissivePod(pod: PodFields, scc: PreparedScc, namespace: NamespaceRanges): PodFields {
  const bare = {
    ...pod,
    ...unset(ownPodValues(pod)),
    seccompAnnotation: '',
    containers: pod.containers.map((container) => ({ ...container, ...unset(ownContainerValues(container)) })),
  };
  const { podValues, containerValues } = completePod(scc, { namespace, pod: bare });
  const containers = pod.containers.map((container, index) => {
    const generated = containerValues[index];
    return generated ? { ...container, ...unset(ownContainerValues(container), generated) } : container;
  });
  const seccompAnnotation = pod.seccompAnnotation === podValues.seccompAnnotation ? '' : pod.seccompAnnotation;
  return { ...pod, ...unset(ownPodValues(pod), podValues), seccompAnnotation, containers };
}

/** Unsets the values that are equal to the generated values. Unsets all values if no generated values are given. */
function unset<Values extends object>(values: Values, generated: Values = values): Values {
  const rest = { ...values };
  for (const key in rest) {
    if (deepEqual(values[key], generated[key])) Reflect.set(rest, key, undefined);
  }
  return rest;
}

/** Groups the pods by the SCC that admitted them, in descending order of the number of pods. */
function summarize(groups: readonly PodGroup[], scc: PreparedScc): readonly TakenOverPods[] {
  const takenOver = Array.from(
    Map.groupBy(groups, ({ admittedBy }) => admittedBy),
    ([from, ofScc]) => ({
      from: from.name,
      reason: explainOrder(scc, from),
      namespaces: [...new Set(ofScc.map(({ pod }) => pod.metadata?.namespace ?? ''))].sort(),
      pods: ofScc.reduce((sum, { size }) => sum + size, 0),
    }),
  );
  return takenOver.sort((a, b) => b.pods - a.pods);
}
