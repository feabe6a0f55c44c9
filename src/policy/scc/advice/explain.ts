import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../../kube/scc.ts';
import { type JsonObject, isObject, type Namespace, type Pod } from '../../../kube/types.ts';
import { subjectTypesFor, type SubjectType } from '../access.ts';
import { adviceOn, obstaclesOf, type Obstacle, changesOf, type Change } from './suggestion.ts';
import { assignScc, mutableIn } from '../assign.ts';
import { bindingError } from '../namespace.ts';
import { findCandidates } from '../order.ts';
import type { PodFields } from '../decode/pod.ts';
import {
  createSearch,
  prepareSearch,
  userNamespacesIn,
  attemptScc,
  isAllowed,
  searchScc,
  type SearchInput,
} from '../search.ts';
import type { PreparedScc } from '../scc.ts';
import { readRequest, type SccDecision, type SccInput } from '../request.ts';
import { distinctTexts } from '../messages.ts';
import { writePod } from '../attempt.ts';
import { printObstacle } from './warnings.ts';

/** What one SCC means for a pod. */
export interface ExplainedScc {
  readonly name: string;
  readonly priority: number;
  /** The higher, the laxer. */
  readonly score: number;
  /** False where the pod requires another SCC by its annotation. */
  readonly isCandidate: boolean;
  /** Both identities are judged, the service account first. */
  readonly usableBy: readonly SubjectType[];
  readonly fits: boolean;
  /** Why it does not fit, as in refusals. */
  readonly errors: readonly string[];
  /** The fields of the pod behind the errors. */
  readonly obstacles: readonly Obstacle[];
  /** Why it can work for no pod of the namespace. */
  readonly broken?: string;
  /** The pod as it would become, if it fits. */
  readonly object?: JsonObject;
}

/** Everything that SCCs say of a request. */
export interface SccExplanation {
  /** What `assignScc` decides. */
  readonly decision: SccDecision;
  /** All of them in the order in which they are tried; none where the request is decided before SCCs are looked at. */
  readonly sccs: readonly ExplainedScc[];
  /** Absent for a request that is refused, or that SCCs have nothing to do with. */
  readonly chosen?: string;
  /** The next one that is usable and fits. */
  readonly next?: string;
  /** Why the chosen one comes before the next. */
  readonly reason?: string;
  /** Of a pod that is refused: the usable SCC that the fewest fields stand in the way of; if none is usable, of all. */
  readonly nearest?: string;
  /** Of a pod that is refused: the least permissive SCC that would admit it, if its use were granted. */
  readonly grantable?: string;
  /** Where that one allows everything, though no container is privileged: a better one, which would have to be written. */
  readonly ownScc?: ProposedScc;
}

/** An SCC like another but for some fields: `allowedCapabilities=NET_ADMIN`. */
export interface ProposedScc {
  readonly like: string;
  readonly fields: readonly string[];
}

const MAY_NOT_CHANGE = 'the SCC would change the pod, which an update may not';

/** Says for every SCC what it means for a pod, whether it may be used or not, and what is decided in the end. */
export function explainScc(input: SccInput): SccExplanation {
  const decision = assignScc(input);
  const read = readRequest(input);
  if (read.verdict !== 'judge') return { decision, sccs: [] };
  const { pod } = read.request;
  const search = createSearch(input, pod, { candidates: allInOrder(input, pod), mutable: mutableIn(input) });
  const sccs = search.candidates.map((scc) => explain(scc, search));
  return { decision, sccs, ...(decision.allowed ? choiceOf(decision, sccs) : adviceFor(input, pod)) };
}

function allInOrder(input: SccInput, pod: PodFields): readonly PreparedScc[] {
  const userNamespaces = userNamespacesIn(input, pod);
  const found = findCandidates({
    sccs: input.sccs,
    requiredSccs: [],
    requiredScc: '',
    recordedScc: '',
    userNamespaces,
  });
  return 'error' in found ? [] : found.sccs;
}

function explain(scc: PreparedScc, search: SearchInput): ExplainedScc {
  const requiredScc = requiredSccOf(search.pod);
  const { name, score, fields } = scc;
  const attempt = attemptScc(scc, search);
  const { errors } = attempt;
  const fits = errors.length === 0 && isAllowed(attempt, search.mutable);
  const broken = bindingError(scc, search.namespace);
  const usableBy = subjectTypesFor(scc, search.subjects, search.mayUse);
  const [subjectType] = usableBy;
  const annotations = {
    [POD_SCC_ANNOTATIONS.scc]: name,
    ...(subjectType === undefined ? {} : { [POD_SCC_ANNOTATIONS.subjectType]: subjectType }),
  };
  const texts = distinctTexts([{ scc, because: 'errors', errors }]);
  return {
    name,
    priority: fields.priority,
    score,
    isCandidate: requiredScc === '' || requiredScc === name,
    usableBy,
    fits,
    errors: fits || texts.length > 0 ? texts : [MAY_NOT_CHANGE],
    obstacles: obstaclesOf(search.pod, errors),
    ...(broken === undefined ? {} : { broken }),
    ...(fits ? { object: writePod(attempt, annotations) } : {}),
  };
}

type Choice = Pick<SccExplanation, 'chosen' | 'next' | 'reason'>;

function choiceOf({ facts, auditAnnotations }: SccDecision, sccs: readonly ExplainedScc[]): Choice {
  const place = sccs.findIndex(({ name }) => name === facts?.scc);
  // An update of a pod that no SCC was ever asked about stays without one.
  if (facts === undefined || place < 0) return {};
  const next = sccs
    .slice(place + 1)
    .find(({ isCandidate, usableBy, fits }) => isCandidate && usableBy.length > 0 && fits);
  const reason = auditAnnotations['reason'];
  return { chosen: facts.scc, ...(next ? { next: next.name } : {}), ...(reason === undefined ? {} : { reason }) };
}

/** None where the request was refused for another reason than the SCCs. */
function adviceFor(input: SccInput, pod: PodFields): Pick<SccExplanation, 'nearest' | 'grantable' | 'ownScc'> {
  const requiredScc = requiredSccOf(pod);
  const search = prepareSearch(input, pod, { requiredScc, recordedScc: '', mutable: mutableIn(input) });
  if ('error' in search) return {};
  const { nearest, grantable, ownScc } = adviceOn(search, searchScc(search));
  return {
    ...(nearest ? { nearest: nearest.scc.name } : {}),
    ...(grantable ? { grantable: grantable.name } : {}),
    ...(ownScc ? { ownScc: { like: ownScc.like.name, fields: ownScc.fields } } : {}),
  };
}

function requiredSccOf({ annotations }: PodFields): string {
  return annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '';
}

/** A pod that an SCC admits. */
interface PlannedAdmission {
  readonly outcome: 'admitted';
  readonly scc: string;
  /** Who was allowed to use the SCC: `serviceaccount` or `user`. */
  readonly subjectType: string;
  /** What the SCC changes. */
  readonly changes: readonly Change[];
}

/** A pod that SCCs have nothing to do with. */
interface PlannedPass {
  readonly outcome: 'ignored';
}

/** A pod that is refused. */
export interface PlannedRefusal {
  readonly outcome: 'refused';
  /** The text of the refusal. */
  readonly message: string;
  /** The SCC that the fewest fields stand in the way of; none where no SCC was tried. */
  readonly nearest?: { readonly scc: string; readonly obstacles: readonly Obstacle[] };
  /** The least permissive SCC that would admit the pod, if its use were granted; none: no SCC ever could. */
  readonly grantable?: string;
  /** Where that one allows everything, though no container is privileged: a better one, which would have to be written. */
  readonly ownScc?: ProposedScc;
}

export type PlannedPod = PlannedAdmission | PlannedPass | PlannedRefusal;

/** What would become of a pod that is created. */
export function planPod(input: Omit<SccInput, 'operation' | 'subResource' | 'oldObject'>): PlannedPod {
  const request: SccInput = { ...input, operation: 'CREATE' };
  const decision = assignScc(request);
  if (!decision.allowed) return refusalOf(request, decision.status.message);
  const scc = annotationOf(decision.object, POD_SCC_ANNOTATIONS.scc);
  if (scc === undefined || decision.object === input.object) return { outcome: 'ignored' };
  const subjectType = annotationOf(decision.object, POD_SCC_ANNOTATIONS.subjectType) ?? '';
  return { outcome: 'admitted', scc, subjectType, changes: changesOf(input.object, decision.object) };
}

/** Only refusals are worth the attempt of every SCC. */
function refusalOf(request: SccInput, message: string): PlannedRefusal {
  const { sccs, nearest, grantable, ownScc } = explainScc(request);
  const found = sccs.find(({ name }) => name === nearest);
  return {
    outcome: 'refused',
    message,
    ...(found ? { nearest: { scc: found.name, obstacles: found.obstacles } } : {}),
    ...(grantable === undefined ? {} : { grantable }),
    ...(ownScc === undefined ? {} : { ownScc }),
  };
}

function annotationOf(pod: unknown, key: string): string | undefined {
  const metadata = isObject(pod) ? pod['metadata'] : undefined;
  const annotations = isObject(metadata) ? metadata['annotations'] : undefined;
  const value = isObject(annotations) ? annotations[key] : undefined;
  return typeof value === 'string' ? value : undefined;
}

/**
 * The fields of a pod, each with its value, for which an SCC would not admit it if it were created now; none if it would.
 */
export function misfitsOf(pod: Pod, scc: SecurityContextConstraints, namespace: Namespace): readonly string[] {
  const input = { operation: 'CREATE', object: pod, namespace, userInfo: {}, sccs: [scc], canUse: () => true } as const;
  return explainScc(input).sccs.flatMap(({ obstacles }) => obstacles.map(printObstacle));
}
