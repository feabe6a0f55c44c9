import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../kube/scc.ts';
import type { Namespace, Pod } from '../../kube/types.ts';
import { createMayUse, subjectsOf } from './access.ts';
import { decodePod, type PodFields } from './decode/pod.ts';
import { namespaceRangesOf } from './namespace-ranges.ts';
import { openPod } from './open-pod.ts';
import { explainOrder, orderSccs, type OrderedSccs } from './order.ts';
import { prepareScc, type PreparedScc } from './prepare.ts';
import { fitsScc } from './search.ts';
import type { CanUse } from './types.ts';

/** An SCC that is written, among those that there are, and the pods that live under them. */
export interface WinsInput {
  readonly scc: SecurityContextConstraints;
  /** As it was before; absent if it is new. */
  readonly oldScc?: SecurityContextConstraints | undefined;
  /** All that there are; one of the same name does not count. */
  readonly sccs: readonly SecurityContextConstraints[];
  readonly pods: readonly Pod[];
  /** `undefined` for namespaces in which SCCs do not count. */
  findNamespace(name: string): Namespace | undefined;
  readonly canUse: CanUse;
  /** How many pods are tried at most; those of one controller are alike and count as one. */
  readonly maxPods: number;
  /** True once the time is used up; asked after each pod. */
  isOver(): boolean;
}

/** The pods that an SCC would take over from another when they are created again. */
export interface Win {
  /** The SCC that admitted them. */
  readonly from: string;
  /** Why the SCC is tried before that one. */
  readonly reason: string;
  readonly namespaces: readonly string[];
  readonly pods: number;
}

export interface Wins {
  /** The most pods first. */
  readonly wins: readonly Win[];
  /** How many pods were tried, and how many there were to try. */
  readonly tried: number;
  readonly total: number;
}

/** Pods of one controller, which are alike; or a pod of its own. */
interface Group {
  readonly pod: Pod;
  readonly admittedBy: PreparedScc;
  size: number;
}

/**
 * Finds the pods that an SCC would win from others: those that were admitted by an SCC behind it, that fit it, and whose
 * service account may use it.
 */
export function winsOf(input: WinsInput): Wins {
  const scc = prepareScc(input.scc);
  const others = input.sccs.filter((other) => other.metadata?.name !== scc.name);
  const ordered = orderSccs([...others, input.scc]);
  const groups = groupPods(input.pods, behind(ordered, scc));
  const before = input.oldScc && {
    scc: prepareScc(input.oldScc),
    behind: behind(orderSccs([...others, input.oldScc]), prepareScc(input.oldScc)),
  };
  const won: Group[] = [];
  let tried = 0;
  for (const group of groups) {
    if (tried === input.maxPods || (tried > 0 && input.isOver())) break;
    tried++;
    const wins = createTrial(group, scc, input);
    if (wins?.(scc) && !(before?.behind.has(group.admittedBy.name) && wins(before.scc))) won.push(group);
  }
  return { wins: summarize(won, scc), tried, total: groups.length };
}

type Sccs = ReadonlyMap<string, PreparedScc>;

/** The SCCs that are tried after it. */
function behind({ sccs }: OrderedSccs, scc: PreparedScc): Sccs {
  return new Map(sccs.slice(sccs.indexOf(scc) + 1).map((other) => [other.name, other]));
}

/** Pods that name the SCC that they want are nobody's to win. */
function groupPods(pods: readonly Pod[], losers: Sccs): readonly Group[] {
  const groups = new Map<unknown, Group>();
  for (const pod of pods) {
    const { annotations = {}, ownerReferences, namespace = '' } = pod.metadata ?? {};
    const admittedBy = losers.get(annotations[POD_SCC_ANNOTATIONS.scc] ?? '');
    if (admittedBy === undefined || (annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '') !== '') continue;
    const owner = ownerReferences?.find(({ controller }) => controller === true);
    const key = owner ? `${namespace} ${owner.uid} ${admittedBy.name}` : pod;
    const group = groups.get(key);
    if (group) group.size++;
    else groups.set(key, { pod, admittedBy, size: 1 });
  }
  return [...groups.values()];
}

/** Says whether versions of an SCC would win a pod; `undefined` for a pod that is not judged, or where it is not granted. */
function createTrial(
  { pod, admittedBy }: Group,
  scc: PreparedScc,
  input: WinsInput,
): ((scc: PreparedScc) => boolean) | undefined {
  const namespaceName = pod.metadata?.namespace ?? '';
  const namespace = input.findNamespace(namespaceName);
  const decoded = decodePod(pod);
  if (!namespace || 'error' in decoded) return undefined;
  const ranges = namespaceRangesOf(namespace);
  if (ranges.problem !== undefined) return undefined;
  const mayUse = createMayUse(input.canUse, namespaceName);
  const subject = creatorOf(decoded.pod, namespaceName);
  // Asked first: it costs the least, and most SCCs are granted to few.
  if (!mayUse(subject, scc)) return undefined;
  const search = { namespace: ranges, pod: openPod(decoded.pod, admittedBy, ranges) };
  return (one) => mayUse(subject, one) && fitsScc(one, search);
}

/** Whoever creates the pod is authenticated; of its service account that is known, too. */
function creatorOf({ serviceAccountName }: PodFields, namespaceName: string) {
  const userInfo = { username: '', groups: ['system:authenticated'] };
  const { serviceAccount, user } = subjectsOf({ userInfo, serviceAccountName, namespaceName, identity: 'accurate' });
  return serviceAccount ?? user;
}

function summarize(won: readonly Group[], scc: PreparedScc): readonly Win[] {
  const wins = [...Map.groupBy(won, ({ admittedBy }) => admittedBy)].map(([from, groups]) => ({
    from: from.name,
    reason: explainOrder(scc, from),
    namespaces: [...new Set(groups.map(({ pod }) => pod.metadata?.namespace ?? ''))].sort(),
    pods: groups.reduce((sum, { size }) => sum + size, 0),
  }));
  return wins.sort((a, b) => b.pods - a.pods);
}
