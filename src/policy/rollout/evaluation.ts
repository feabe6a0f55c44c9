/**
 * Evaluates all pods and pod templates in a namespace against the current policy and the planned policy. Determines
 * which workloads are denied now, which would be denied under enforcement, and which only need a restart.
 * @see
 * https://github.com/openshift/cluster-kube-apiserver-operator/tree/main/pkg/operator/podsecurityreadinesscontroller
 */
import { isTokenVolume } from '../../kube/controller-pod.ts';
import type { LimitName } from '../../kube/limits.ts';
import { dnsSubdomainErrors } from '../../kube/names.ts';
import { hasFinished, withoutEphemeralContainers } from '../../kube/pod.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { sortedSet, truncate } from '../../kube/text.ts';
import type { Namespace, Pod } from '../../kube/types.ts';
import { formatTimestamp } from '../../kube/units.ts';
import { LABEL_SYNC_LABEL } from '../../kube/well-known.ts';
import { type DecodedPod, decodePod, type PodFields } from '../pod/index.ts';
import { type Exemptions, isSamePolicy, isStricter } from '../psa/index.ts';
import {
  checkFix,
  evaluateDecoded,
  evaluateExcepted,
  type ExceptionIndex,
  type Level,
  NO_EXCEPTIONS,
  type Policy,
  type Version,
} from '../pss/index.ts';
import type { SccMode } from '../scc/index.ts';
import { isPlatformNamespace } from './managed-namespaces.ts';
import type { TemplatePod } from './template-pod.ts';

/**
 * Category of the reasons why workloads in a namespace violate the level. A namespace can be in both `userSCC` and
 * `unknown`.
 */
export type Category = 'unknown' | 'openshift' | 'runLevelZero' | 'disabledSyncer' | 'userSCC';

/** The subject whose permissions allowed a violating pod. */
type Cause = 'user' | 'serviceAccount';

/**
 * The verdict for a workload. `deniedNow` means that the current policy denies its pods, and `wouldBeDenied` means that
 * only the planned policy denies them. `restart` means that a policy denies its running pods but admits their
 * replacements.
 */
export const WORKLOAD_VERDICTS = ['deniedNow', 'wouldBeDenied', 'restart'] as const;
export type WorkloadVerdict = (typeof WORKLOAD_VERDICTS)[number];

/**
 * The verdict for a namespace. It is `violating` if enforcement would deny workloads. Otherwise, it is the most severe
 * verdict of its workloads.
 */
export const NAMESPACE_VERDICTS = ['clean', 'restart', 'deniedNow', 'violating', 'inconclusive'] as const;
export type NamespaceVerdict = (typeof NAMESPACE_VERDICTS)[number];

/** The result of evaluating a namespace. */
export interface NamespaceEvaluation {
  readonly name: string;
  /** The current level and its version. */
  readonly current: Level;
  readonly currentVersion: Version;
  /** The planned level and its version. */
  readonly level: Level;
  readonly version: Version;
  readonly verdict: NamespaceVerdict;
  /** True if enforcement changes the namespace's level, so the decision to enforce depends on the namespace. */
  readonly isSelected: boolean;
  /** Reasons why the planned level denies workloads. Empty if it denies none or if the namespace is not selected. */
  readonly categories: readonly Category[];
  /** Violating workloads, sorted by kind and name. */
  readonly workloads: readonly ViolatingWorkload[];
  /** Workloads whose new pods are admitted only because of exceptions, sorted by kind and name. */
  readonly excepted: readonly ExceptedWorkload[];
  /** The reason why the verdict is inconclusive. */
  readonly error?: string;
  /** The limit beyond which the evaluation omits details. */
  readonly limit?: LimitName;
}

/** A workload, or a pod that has no controller, whose pods or templates violate a policy. */
export interface ViolatingWorkload {
  readonly kind: string;
  readonly name: string;
  readonly verdict: WorkloadVerdict;
  /** The violated level and its version. The level is the stricter of the current level and the planned level. */
  readonly level: Level;
  readonly version: Version;
  /** Number of running pods that violate the level. */
  readonly pods: number;
  readonly causes: readonly Cause[];
  readonly violations: readonly FixableViolation[];
}

/** A workload that violates a policy, but is allowed by exceptions. */
export interface ExceptedWorkload extends Pick<
  ViolatingWorkload,
  'kind' | 'name' | 'level' | 'version' | 'violations'
> {
  readonly exceptions: readonly AppliedException[];
}

interface AppliedException {
  readonly name: string;
  /** Expiry time in RFC 3339 format. */
  readonly expiresAt: string;
}

/** A violation of one check with its fix. */
export interface FixableViolation {
  readonly check: string;
  readonly reason: string;
  readonly detail: string;
  /** Paths in the workload, such as `spec.template.spec.hostNetwork`. */
  readonly fields: readonly string[];
  /** One sentence that explains how to fix the violation. */
  readonly fix: string;
}

const RUN_LEVEL_ZERO: ReadonlySet<string> = new Set(['default', 'kube-system', 'kube-public', 'kube-node-lease']);

/**
 * Returns the categories of a violating namespace. They depend on its name and its label-sync label. If these do not
 * determine a category, they depend on the causes of its violating workloads.
 */
export function classify(
  namespace: Namespace,
  violators: readonly { readonly causes: readonly Cause[] }[],
): readonly Category[] {
  const { name = '', labels } = namespace.metadata ?? {};
  if (RUN_LEVEL_ZERO.has(name)) return ['runLevelZero'];
  if (isPlatformNamespace(name)) return ['openshift'];
  if (labels?.[LABEL_SYNC_LABEL] === 'false') return ['disabledSyncer'];
  const causes = new Set(violators.flatMap((violator) => violator.causes));
  return [
    ...(causes.has('user') ? (['userSCC'] as const) : []),
    ...(causes.has('serviceAccount') ? (['unknown'] as const) : []),
  ];
}

/** The outermost known controller of a pod. */
interface Owner {
  readonly kind: string;
  readonly name: string;
}

/**
 * Kinds whose objects may be created by a parent of another kind. The name of such an object is the parent's name
 * followed by a suffix.
 */
const OWNER_KINDS: ReadonlyMap<string, 'Deployment' | 'CronJob'> = new Map([
  ['ReplicaSet', 'Deployment'],
  ['Job', 'CronJob'],
]);

/** Matches kinds that are valid in API servers. */
const KIND = /^[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?$/i;

/**
 * Returns the outermost controller of a pod, or the pod itself if it has none. A node owns the mirror pods of all its
 * static pods, which have nothing in common, so it does not count as a controller. API servers accept any text as the
 * kind and name of an owner, so invalid references are ignored. Otherwise, pod authors could inject commands into
 * events, or texts that are too long for events and reports.
 */
export function podOwner(pod: Pod, exists: NamespaceInput['exists']): Owner {
  const controller = pod.metadata?.ownerReferences?.find((reference) => reference.controller === true);
  const isValid =
    controller &&
    controller.kind !== 'Node' &&
    KIND.test(controller.kind) &&
    dnsSubdomainErrors(controller.name).length === 0;
  if (!isValid) return { kind: 'Pod', name: pod.metadata?.name ?? '' };
  const { kind, name } = controller;
  const ownerKind = OWNER_KINDS.get(kind);
  const ownerName = name.slice(0, Math.max(0, name.lastIndexOf('-')));
  const hasOwner = ownerKind !== undefined && ownerName !== '' && exists(ownerKind, ownerName);
  return hasOwner ? { kind: ownerKind, name: ownerName } : { kind, name };
}

interface ProvenanceContext {
  /**
   * SCC mode of the namespace. In any mode other than `enforce`, users may have written the pod annotations themselves.
   */
  readonly sccMode: SccMode;
  /** Returns true if the service account may use the SCC in the namespace. */
  mayUse(serviceAccount: string, sccName: string): boolean;
}

/**
 * Returns true if a pod was admitted only because its creator may use an SCC that its service account may not use.
 * Enforcement depends on service account permissions, so the pod would not be admitted again.
 */
function isUserCaused(pod: Pod, { sccMode, mayUse }: ProvenanceContext): boolean {
  const { annotations } = pod.metadata ?? {};
  if (sccMode !== 'enforce' || annotations?.[POD_SCC_ANNOTATIONS.subjectType] !== 'user') return false;
  const scc = annotations[POD_SCC_ANNOTATIONS.scc] ?? '';
  return scc === '' || !mayUse(pod.spec?.serviceAccountName ?? 'default', scc);
}

/** Input for evaluating a namespace. */
export interface NamespaceInput extends ProvenanceContext {
  readonly namespace: Namespace;
  readonly isSelected: boolean;
  /** The current policy. */
  readonly current: Policy;
  /** The planned policy. Absent if it is unknown. */
  readonly planned: Policy | undefined;
  /** The emulated Kubernetes version. Defaults to the newest known version. */
  readonly emulationVersion?: Version | undefined;
  readonly pods: readonly Pod[];
  /** Templates that admission has defaulted. They are produced lazily, because defaulting is slow. */
  readonly templates: Iterable<TemplatePod>;
  readonly exemptions: Pick<Exemptions, 'runtimeClass'>;
  /** Exceptions that apply to new pods. */
  readonly exceptions?: ExceptionIndex | undefined;
  /**
   * Maximum number of characters in details and fields, for callers that keep the evaluation in memory. The violations
   * of workloads beyond the maximum have neither details nor fields. If absent, there is no limit.
   */
  readonly detailCharacters?: number | undefined;
  /** Returns the pod that admission would produce if this pod were recreated. */
  complete(pod: PodFields): PodFields;
  /** Returns true if the namespace contains an object with this kind and name. */
  exists(kind: 'Deployment' | 'CronJob', name: string): boolean;
}

/**
 * Evaluates the templates and the pods of a namespace, and then determines the verdict of each workload. Yields after
 * each of them, so the caller can yield to the event loop.
 */
export function* evaluateStepwise(input: NamespaceInput): Generator<undefined, NamespaceEvaluation> {
  const { namespace, current, planned, isSelected } = input;
  const base = {
    name: namespace.metadata?.name ?? '',
    current: current.level,
    currentVersion: current.version,
    isSelected,
  } as const;
  if (planned === undefined) return inconclusive(base, 'the managed fields of the namespace cannot be parsed');
  const policies = orderPolicies(current, planned);
  const byOwner = new Map<string, WorkloadDenials>();
  if (policies.length > 0) {
    for (const template of input.templates) {
      addTemplate(byOwner, template, input, policies);
      yield;
    }
    for (const pod of input.pods) {
      addPod(byOwner, pod, input, policies);
      yield;
    }
  }
  const blocking: ViolatingWorkload[] = [];
  const workloads: ViolatingWorkload[] = [];
  const excepted: ExceptedWorkload[] = [];
  const limit = createDetailLimit(input);
  yield;
  // Kinds and names are ASCII, and a space sorts before all of their characters.
  for (const [, denials] of [...byOwner].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const workload = violatingWorkload(denials, limit);
    if (workload) workloads.push(workload);
    if (workload && denials.ofNewPods?.isPlanned === true) blocking.push(workload);
    const allowed = exceptedWorkload(denials, input, limit);
    if (allowed) excepted.push(allowed);
    yield;
  }
  return {
    ...base,
    level: planned.level,
    version: planned.version,
    verdict: namespaceVerdict(workloads),
    categories: isSelected && blocking.length > 0 ? classify(namespace, blocking) : [],
    workloads,
    excepted,
    ...(limit.isExceeded() ? { limit: 'evaluationCharacters' as const } : {}),
  };
}

/** Returns an inconclusive evaluation. */
export function inconclusive(
  base: Pick<NamespaceEvaluation, 'name' | 'current' | 'currentVersion' | 'isSelected'>,
  error: string,
): NamespaceEvaluation {
  return {
    ...base,
    level: 'restricted',
    version: 'latest',
    verdict: 'inconclusive',
    categories: [],
    workloads: [],
    excepted: [],
    error,
  };
}

/** A policy, and whether it is the current policy, the planned policy, or both. */
interface EvaluatedPolicy extends Policy {
  readonly isCurrent: boolean;
  readonly isPlanned: boolean;
}

/** Returns the policies that can deny pods, strictest first. */
function orderPolicies(current: Policy, planned: Policy): readonly EvaluatedPolicy[] {
  const isSame = isSamePolicy(current, planned);
  return [
    { ...current, isCurrent: true, isPlanned: isSame },
    ...(isSame ? [] : [{ ...planned, isCurrent: false, isPlanned: true }]),
  ]
    .filter(({ level }) => level !== 'privileged')
    .sort((a, b) => Number(isStricter(b.level, a.level)) - Number(isStricter(a.level, b.level)));
}

/** The denials of a workload's templates and pods, or of a pod that has no controller. */
interface WorkloadDenials {
  readonly owner: Owner;
  readonly templates: PodFields[];
  hasDeniedTemplate: boolean;
  /** Number of running pods that violate a policy. */
  violatingPods: number;
  /** Number of running pods that were admitted because of their creator's permissions. */
  userPods: number;
  readonly causes: Set<Cause>;
  ofNewPods?: Denial;
  /** The denial of running pods if their replacements would be admitted. */
  ofRunningPods?: Denial;
  /** The denial that would occur without exceptions. */
  prevented?: Denial;
}

function getDenials(byOwner: Map<string, WorkloadDenials>, owner: Owner): WorkloadDenials {
  const key = `${owner.kind} ${owner.name}`;
  const existing = byOwner.get(key);
  if (existing) return existing;
  const denials = {
    owner,
    templates: [],
    hasDeniedTemplate: false,
    violatingPods: 0,
    userPods: 0,
    causes: new Set<Cause>(),
  };
  byOwner.set(key, denials);
  return denials;
}

function addTemplate(
  byOwner: Map<string, WorkloadDenials>,
  { kind, name, path, pod, sourceField = (field) => (path === '' ? field : `${path}.${field}`) }: TemplatePod,
  input: NamespaceInput,
  policies: readonly EvaluatedPolicy[],
): void {
  const denials = getDenials(byOwner, { kind, name });
  if (pod.pod) denials.templates.push(pod.pod);
  const denial = findDenial(pod, sourceField, input, policies);
  if (denial === undefined) return;
  if (denial.exceptions.length > 0) {
    denials.prevented = mergeDenials(denials.prevented, denial, true);
    return;
  }
  denials.ofNewPods = mergeDenials(denials.ofNewPods, denial, true);
  denials.hasDeniedTemplate = true;
}

function addPod(
  byOwner: Map<string, WorkloadDenials>,
  pod: Pod,
  input: NamespaceInput,
  policies: readonly EvaluatedPolicy[],
): void {
  if (hasFinished(pod)) return;
  const denial = findDenial(decodePod(pod), podField, input, policies);
  const isByUser = isUserCaused(pod, input);
  if (denial === undefined && !isByUser) return;
  const denials = getDenials(byOwner, podOwner(pod, input.exists));
  if (isByUser) denials.userPods++;
  if (denial === undefined) return;
  if (denial.exceptions.length > 0) {
    denials.prevented = mergeDenials(denials.prevented, denial, false);
    return;
  }
  denials.violatingPods++;
  denials.causes.add(isByUser ? 'user' : 'serviceAccount');
  const isRestart = !isByUser && isReplaceable(pod, denials, input, policies);
  if (!isRestart) denials.ofNewPods = mergeDenials(denials.ofNewPods, denial, false);
  // If the template is denied, its denial applies to replacements of the pod.
  else if (!denials.hasDeniedTemplate) denials.ofRunningPods = mergeDenials(denials.ofRunningPods, denial, false);
}

/** Returns the field of a pod unchanged, because a pod is not part of another object. */
const podField = (field: string): string => field;

/**
 * Describes which policies deny a pod, or would deny it without exceptions, and its violations of the strictest of
 * them.
 */
interface Denial extends EvaluatedPolicy {
  /** Names of the exceptions that allow the pod. Empty if it is denied. */
  readonly exceptions: readonly string[];
  readonly violations: readonly FixableViolation[];
}

/** Returns the denial of a pod. Evaluates the pod without `fields` first, because most pods satisfy the level. */
function findDenial(
  decoded: DecodedPod,
  sourceField: (podField: string) => string,
  { exemptions, emulationVersion, exceptions = NO_EXCEPTIONS, detailCharacters }: NamespaceInput,
  policies: readonly EvaluatedPolicy[],
): Denial | undefined {
  if (exemptions.runtimeClass(decoded.pod?.runtimeClassName)) return undefined;
  const violated = policies.filter(
    ({ level, version }) => !evaluateDecoded(decoded, { level, version, emulationVersion }).allowed,
  );
  const results = violated.map(({ isCurrent, isPlanned, ...policy }) => {
    const options = { ...policy, emulationVersion, fields: true };
    const result = decoded.pod && exceptions.rules.length > 0 && evaluateExcepted(decoded.pod, options, exceptions);
    return {
      ...(result || { evaluation: evaluateDecoded(decoded, options), exceptions: [] }),
      isCurrent,
      isPlanned,
      options,
    };
  });
  const denied = results.filter(({ evaluation }) => !evaluation.allowed);
  const strictest = denied[0] ?? results[0];
  if (strictest === undefined) return undefined;
  // For an excepted pod, the violations are those that it would have without exceptions.
  const { evaluation, options } = strictest;
  const { violations } = evaluation.allowed ? evaluateDecoded(decoded, options) : evaluation;
  const isLimited = detailCharacters !== undefined;
  return {
    level: options.level,
    version: options.version,
    isCurrent: denied.some((result) => result.isCurrent),
    isPlanned: denied.some((result) => result.isPlanned),
    exceptions: denied.length > 0 ? [] : sortedSet(results.flatMap((result) => result.exceptions)),
    violations: violations.map(({ check, reason, detail, fields = [] }) => ({
      check,
      reason,
      detail: isLimited ? truncate(detail, MAX_DETAIL) : detail,
      fields: (isLimited ? fields.slice(0, MAX_FIELDS) : fields).map(({ path }) => sourceField(path)),
      fix: checkFix(check),
    })),
  };
}

/** Maximum length of a detail and maximum number of fields in the reports and events of controllers. */
const MAX_DETAIL = 1024;
const MAX_FIELDS = 20;

/** Merges two denials. The result lists the violations of all templates, but of only one pod. */
function mergeDenials(before: Denial | undefined, denial: Denial, isTemplate: boolean): Denial {
  if (before === undefined) return denial;
  return {
    ...before,
    isCurrent: before.isCurrent || denial.isCurrent,
    isPlanned: before.isPlanned || denial.isPlanned,
    exceptions: sortedSet([...before.exceptions, ...denial.exceptions]),
    violations: isTemplate ? [...before.violations, ...denial.violations] : before.violations,
  };
}

/**
 * Returns true if a replacement for the pod would be admitted. This is the case if the policies admit the pod after
 * defaulting and without ephemeral containers. For example, the pod may predate SCC enforcement, or it may have been
 * debugged. It is also the case if the template has all of the pod's containers and volumes, because the pod then comes
 * from an older template. If the template lacks some of them, a webhook added them, and would also add them to new
 * pods.
 */
function isReplaceable(
  running: Pod,
  { templates }: WorkloadDenials,
  input: NamespaceInput,
  policies: readonly EvaluatedPolicy[],
): boolean {
  const { pod } = decodePod(withoutEphemeralContainers(running));
  if (pod === undefined) return false;
  const denial = findDenial({ pod: input.complete(pod) }, podField, input, policies);
  if (denial === undefined || denial.exceptions.length > 0) return true;
  const parts = new Set(templates.flatMap(listParts));
  return templates.length > 0 && listParts(pod).every((part) => parts.has(part));
}

/** Lists the containers and volumes of a pod. Omits the token volume, because its name is generated. */
function listParts({ containers, volumes }: PodFields): readonly string[] {
  return [
    ...containers.map(({ name }) => `container ${name}`),
    ...volumes.filter(({ name }) => !isTokenVolume(name)).map(({ name }) => `volume ${name}`),
  ];
}

type DetailLimit = ReturnType<typeof createDetailLimit>;

/** Creates a limit that removes details and fields once the details and fields of earlier workloads reach it. */
function createDetailLimit({ detailCharacters: left = Infinity }: NamespaceInput) {
  return {
    isExceeded: (): boolean => left < 0,
    apply(violations: readonly FixableViolation[]): readonly FixableViolation[] {
      for (const { detail, fields } of violations) {
        left -= detail.length + fields.reduce((sum, path) => sum + path.length, 0);
      }
      return left >= 0 ? violations : violations.map((violation) => ({ ...violation, detail: '', fields: [] }));
    },
  };
}

/**
 * Returns a workload whose pods are denied, with its verdict. Attributes a template's violation to users only if
 * running pods were admitted because of a user's permissions.
 */
function violatingWorkload(denials: WorkloadDenials, limit: DetailLimit): ViolatingWorkload | undefined {
  const { owner, ofNewPods, ofRunningPods, violatingPods, userPods, hasDeniedTemplate } = denials;
  const denial = ofNewPods ?? ofRunningPods;
  if (denial === undefined) return undefined;
  const { level, version, isCurrent } = denial;
  const templateCauses = hasDeniedTemplate ? [userPods > 0 ? ('user' as const) : ('serviceAccount' as const)] : [];
  const causes = [...new Set([...denials.causes, ...templateCauses])].sort();
  const verdict = ofNewPods === undefined ? 'restart' : isCurrent ? 'deniedNow' : 'wouldBeDenied';
  const violations = limit.apply(denial.violations);
  return { ...owner, verdict, level, version, pods: violatingPods, causes, violations };
}

/**
 * Returns a workload that is allowed only because of exceptions. A workload that also has denied pods is violating
 * rather than excepted.
 */
function exceptedWorkload(
  { owner, ofNewPods, prevented }: WorkloadDenials,
  { exceptions = NO_EXCEPTIONS }: NamespaceInput,
  limit: DetailLimit,
): ExceptedWorkload | undefined {
  if (ofNewPods !== undefined || prevented === undefined) return undefined;
  const { level, version, violations } = prevented;
  const applied = exceptions.rules
    .filter(({ name }) => prevented.exceptions.includes(name))
    .map(({ name, expiresAtMs }) => ({ name, expiresAt: formatTimestamp(expiresAtMs) }));
  return { ...owner, level, version, exceptions: applied, violations: limit.apply(violations) };
}

function namespaceVerdict(workloads: readonly ViolatingWorkload[]): NamespaceVerdict {
  const verdicts = new Set(workloads.map(({ verdict }) => verdict));
  if (verdicts.has('wouldBeDenied')) return 'violating';
  if (verdicts.has('deniedNow')) return 'deniedNow';
  return verdicts.has('restart') ? 'restart' : 'clean';
}
