/**
 * Evaluates which workloads of a namespace enforcement would deny: all pods and pod templates, at the level that
 * would apply to the namespace.
 * @see https://github.com/openshift/cluster-kube-apiserver-operator/tree/main/pkg/operator/podsecurityreadinesscontroller
 */
import { getControllerPod, type FindServiceAccount, type PodCreator } from '../../kube/controller-pod.ts';
import { getMetadataOwners } from '../../kube/managed-fields.ts';
import { podTemplatePath } from '../../kube/pod.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { compareBytes } from '../../kube/text.ts';
import type { Namespace, Pod } from '../../kube/types.ts';
import { LABEL_SYNC_LABEL, POD_SECURITY_LABELS, SUFFICIENT_LEVEL_ANNOTATION } from '../../kube/well-known.ts';
import { decodePod, type DecodedPod, type PodFields } from '../pod/pod.ts';
import { printFieldPath } from '../pod/templates.ts';
import type { Exemptions } from '../psa/configuration.ts';
import { completeTemplate, type DefaultsSettings } from '../psa/defaults.ts';
import { isStricter } from '../psa/policy.ts';
import { checkFix, evaluateDecoded } from '../pss/evaluate.ts';
import { isLevel, type Level, type Version } from '../pss/policy.ts';
import { admitTemplate, type TemplateInput } from '../scc/assign.ts';
import type { SccMode } from '../scc/mode.ts';
import type { DefaultLevel } from './enforcement.ts';
import { getOwnFields, isPlatformNamespace, isTerminating, type LabelSyncPlan } from './label-sync.ts';

/** Why workloads of a namespace violate the level. A namespace may be in `userSCC` and `unknown` at once. */
export const CATEGORIES = ['unknown', 'openshift', 'runLevelZero', 'disabledSyncer', 'userSCC'] as const;
export type Category = (typeof CATEGORIES)[number];

/** The subject whose permissions admitted a violating pod. */
type Cause = 'user' | 'serviceAccount';

/** The result of the evaluation of a namespace. */
export interface NamespaceEvaluation {
  readonly name: string;
  readonly level: Level;
  readonly verdict: 'clean' | 'violating' | 'inconclusive';
  /** Empty unless the verdict is `violating`. */
  readonly categories: readonly Category[];
  /** Sorted by kind and name. */
  readonly workloads: readonly ViolatingWorkload[];
  /** The cause of an inconclusive verdict. */
  readonly error?: string;
}

/** A workload, or a pod without a controller, whose pods enforcement would deny. */
export interface ViolatingWorkload {
  readonly kind: string;
  readonly name: string;
  /** Number of running pods that violate the level. */
  readonly pods: number;
  readonly causes: readonly Cause[];
  readonly violations: readonly FixableViolation[];
}

/** A violation of one check and its fix. */
export interface FixableViolation {
  readonly check: string;
  readonly reason: string;
  readonly detail: string;
  /** Paths in the workload: `spec.template.spec.hostNetwork`. */
  readonly fields: readonly string[];
  /** One sentence. */
  readonly fix: string;
}

/** True if enforcement would change the level of the namespace: it has no enforce label and is not exempt. */
export function isSelected(namespace: Namespace, exemptions: Pick<Exemptions, 'namespace'>): boolean {
  const { name, labels } = namespace.metadata ?? {};
  if (labels?.[POD_SECURITY_LABELS.enforce] !== undefined) return false;
  return !isTerminating(namespace) && !exemptions.namespace(name);
}

/**
 * The level that enforcement would apply to a namespace: the level that the label syncer plans, else the level that it
 * wrote earlier, else restricted. Labels of other managers do not count. Returns `undefined` if the field owners are
 * unknown.
 */
export function predictLevel(
  namespace: Namespace,
  plan?: Pick<LabelSyncPlan, 'isManaged' | 'need'>,
): Level | undefined {
  if (plan?.isManaged === false) return 'restricted';
  if (plan?.need !== undefined) return plan.need.level;
  const owners = getMetadataOwners(namespace.metadata);
  if (owners === undefined) return undefined;
  const own = getOwnFields(owners);
  const { labels, annotations } = namespace.metadata ?? {};
  const annotation = own.annotations.has(SUFFICIENT_LEVEL_ANNOTATION) && annotations?.[SUFFICIENT_LEVEL_ANNOTATION];
  if (isLevel(annotation)) return annotation;
  return [POD_SECURITY_LABELS.warn, POD_SECURITY_LABELS.audit]
    .filter((key) => own.labels.has(key))
    .map((key) => labels?.[key])
    .filter(isLevel)
    .reduce<Level>((a, b, index) => (index === 0 || isStricter(b, a) ? b : a), 'restricted');
}

/** Starts the warning that a namespace violates the level. The next warnings name the pods. */
const VIOLATES = /^existing pods in namespace ".*" violate the new PodSecurity enforce level "/;
const PARTIAL = /^new PodSecurity enforce level only checked against the first \d+ of \d+ existing pods$/;
const UNLISTED = 'failed to list pods while checking new PodSecurity enforce level';

/**
 * The verdict of a dry run that labels a namespace, by the warnings of the API server. Without a warning the namespace is
 * clean only if all pods were checked, and only while the default is privileged: the API server does not check a namespace
 * whose level does not become stricter.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/admission/admission.go
 */
export function parseDryRunWarnings(
  warnings: readonly string[],
  currentEnforce: DefaultLevel,
): NamespaceEvaluation['verdict'] {
  if (warnings.some((warning) => VIOLATES.test(warning))) return 'violating';
  const isPartial = warnings.some((warning) => PARTIAL.test(warning) || warning === UNLISTED);
  return currentEnforce === 'restricted' || isPartial ? 'inconclusive' : 'clean';
}

const RUN_LEVEL_ZERO: ReadonlySet<string> = new Set(['default', 'kube-system', 'kube-public', 'kube-node-lease']);

/** The categories of a violating namespace: by its name and label, else by the causes of its violating workloads. */
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
export interface Owner {
  readonly kind: string;
  readonly name: string;
}

/** Kinds whose objects another kind creates under its own name with a suffix. */
const OWNER_KINDS: ReadonlyMap<string, 'Deployment' | 'CronJob'> = new Map([
  ['ReplicaSet', 'Deployment'],
  ['Job', 'CronJob'],
]);

/** Returns the outermost controller of a pod; the pod itself if it has none. */
export function podOwner(pod: Pod, exists: NamespaceInput['exists']): Owner {
  const controller = pod.metadata?.ownerReferences?.find((reference) => reference.controller === true);
  if (controller === undefined) return { kind: 'Pod', name: pod.metadata?.name ?? '' };
  const { kind, name } = controller;
  const ownerKind = OWNER_KINDS.get(kind);
  const ownerName = name.slice(0, Math.max(0, name.lastIndexOf('-')));
  const hasOwner = ownerKind !== undefined && ownerName !== '' && exists(ownerKind, ownerName);
  return hasOwner ? { kind: ownerKind, name: ownerName } : { kind, name };
}

interface ProvenanceContext {
  /** Mode of the namespace. Unless it is `enforce`, any user may have written the annotations of a pod. */
  readonly sccMode: SccMode;
  /** True if the service account may use the SCC in the namespace. */
  mayUse(serviceAccount: string, sccName: string): boolean;
}

/**
 * True if a pod was admitted only because its creator may use an SCC that its service account may not. Enforcement
 * depends on the permissions of service accounts, so the pod would not be admitted again.
 */
function isUserCaused(pod: Pod, { sccMode, mayUse }: ProvenanceContext): boolean {
  const { annotations } = pod.metadata ?? {};
  if (sccMode !== 'enforce' || annotations?.[POD_SCC_ANNOTATIONS.subjectType] !== 'user') return false;
  const scc = annotations[POD_SCC_ANNOTATIONS.scc] ?? '';
  return scc === '' || !mayUse(pod.spec?.serviceAccountName ?? 'default', scc);
}

/** Everything that the evaluation of a namespace needs. */
export interface NamespaceInput extends ProvenanceContext {
  readonly namespace: Namespace;
  /** Absent if it is unknown. */
  readonly level: Level | undefined;
  /** `latest` if absent. */
  readonly version?: Version | undefined;
  /** The emulated Kubernetes version. Without it, the newest known version applies. */
  readonly emulationVersion?: Version | undefined;
  readonly pods: readonly Pod[];
  /** Templates as admitted. They are created one by one, since each takes some time. */
  readonly templates: Iterable<TemplatePod>;
  readonly exemptions: Pick<Exemptions, 'runtimeClass'>;
  /** True if the namespace contains an object of the kind and name. */
  exists(kind: 'Deployment' | 'CronJob', name: string): boolean;
}

/** Runs an evaluation to its end without yielding. */
export function finishEvaluation<T>(steps: Iterator<undefined, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** Evaluates a namespace and pauses after each pod and each template, so that the caller can yield. */
export function* evaluateStepwise(input: NamespaceInput): Generator<undefined, NamespaceEvaluation> {
  const { namespace, level, pods } = input;
  const name = namespace.metadata?.name ?? '';
  if (level === undefined) return inconclusive(name, 'the managed fields of the namespace cannot be parsed');
  const findings = new Map<string, Finding>();
  if (level !== 'privileged') {
    for (const pod of pods) {
      addPod(findings, pod, input, level);
      yield;
    }
    for (const template of input.templates) {
      addTemplate(findings, template, input, level);
      yield;
    }
  }
  const workloads = [...findings.values()].flatMap(violatingWorkload).sort(compareOwners);
  if (workloads.length === 0) return { name, level, verdict: 'clean', categories: [], workloads };
  return { name, level, verdict: 'violating', categories: classify(namespace, workloads), workloads };
}

/** An evaluation without a verdict. */
export function inconclusive(name: string, error: string): NamespaceEvaluation {
  return { name, level: 'restricted', verdict: 'inconclusive', categories: [], workloads: [], error };
}

/** The violations of one owner. */
interface Finding {
  readonly owner: Owner;
  violatingPods: number;
  userPods: number;
  readonly causes: Set<Cause>;
  ofPods: readonly FixableViolation[];
  readonly ofTemplates: FixableViolation[];
}

/** Completed pods are skipped, since they are not restarted. */
function addPod(findings: Map<string, Finding>, pod: Pod, input: NamespaceInput, level: Level): void {
  const phase = pod.status?.phase;
  if (phase === 'Succeeded' || phase === 'Failed') return;
  const violations = findViolations(decodePod(pod), '', input, level);
  const isUsers = isUserCaused(pod, input);
  if (violations.length === 0 && !isUsers) return;
  const finding = findingFor(findings, podOwner(pod, input.exists));
  if (isUsers) finding.userPods++;
  if (violations.length === 0) return;
  finding.violatingPods++;
  finding.causes.add(isUsers ? 'user' : 'serviceAccount');
  if (finding.ofPods.length === 0) finding.ofPods = violations;
}

function addTemplate(
  findings: Map<string, Finding>,
  { kind, name, path, pod }: TemplatePod,
  input: NamespaceInput,
  level: Level,
): void {
  const violations = findViolations(pod, path === '' ? '' : `${path}.`, input, level);
  if (violations.length > 0) findingFor(findings, { kind, name }).ofTemplates.push(...violations);
}

function findingFor(findings: Map<string, Finding>, owner: Owner): Finding {
  const key = `${owner.kind}/${owner.name}`;
  const known = findings.get(key);
  if (known) return known;
  const finding = { owner, violatingPods: 0, userPods: 0, causes: new Set<Cause>(), ofPods: [], ofTemplates: [] };
  findings.set(key, finding);
  return finding;
}

/** Evaluates without fields first, since most pods satisfy the level. */
function findViolations(
  decoded: DecodedPod,
  prefix: string,
  { exemptions, version = 'latest', emulationVersion }: NamespaceInput,
  level: Level,
): readonly FixableViolation[] {
  const policy = { level, version, emulationVersion };
  if (exemptions.runtimeClass(decoded.pod?.runtimeClassName) || evaluateDecoded(decoded, policy).allowed) return [];
  return evaluateDecoded(decoded, { ...policy, fields: true }).violations.map(
    ({ check, reason, detail, fields = [] }) => ({
      check,
      reason,
      detail,
      fields: fields.map(({ path }) => prefix + path),
      fix: checkFix(check),
    }),
  );
}

/** A template is caused by users only if its pods show that they need the permissions of a user. */
function violatingWorkload(finding: Finding): readonly ViolatingWorkload[] {
  const { owner, ofTemplates, ofPods, violatingPods, userPods, causes } = finding;
  const violations = ofTemplates.length > 0 ? ofTemplates : ofPods;
  if (violations.length === 0) return [];
  if (ofTemplates.length > 0) causes.add(userPods > 0 ? 'user' : 'serviceAccount');
  return [{ ...owner, pods: violatingPods, causes: [...causes].sort(), violations }];
}

function compareOwners(a: Owner, b: Owner): number {
  return compareBytes(a.kind, b.kind) || compareBytes(a.name, b.name);
}

/** A pod that a workload would create, as admission would complete it. */
export interface TemplatePod {
  readonly kind: string;
  readonly name: string;
  /** Path of the template in the workload: `spec.template`. */
  readonly path: string;
  readonly pod: DecodedPod;
}

/** The input of the admission of the pods of a template. */
export interface TemplateContext extends TemplateInput {
  /** Mode of the namespace. Unless it is `enforce`, SCC admission does not change pods. */
  readonly sccMode: SccMode;
  /** The defaults of pods in namespaces where SCCs are not enforced; absent: none. */
  readonly defaults?: DefaultsSettings | undefined;
  readonly findAccount?: FindServiceAccount;
}

/**
 * The pod of a workload as SCC admission completes it for its service account, or as the defaults of pods do; unchanged if
 * no SCC admits it. Without the completion, nearly every template would violate the level. Returns `undefined` for an object
 * without a pod template.
 */
export function getTemplatePod(source: PodCreator, context: TemplateContext): TemplatePod | undefined {
  const { kind, object } = source;
  const path = source.template ?? podTemplatePath(RESOURCES[source.kind].group, kind);
  const created = getControllerPod(source, context.findAccount);
  if (path === undefined || created === undefined) return undefined;
  const { name = '' } = object.metadata ?? {};
  const decoded = decodePod(created.pod);
  const pod = decoded.pod ? { pod: completePod(decoded.pod, context) } : decoded;
  return { kind, name, path: printFieldPath(path), pod };
}

function completePod(pod: PodFields, context: TemplateContext): PodFields {
  const { sccMode, namespace, defaults } = context;
  if (sccMode === 'enforce') return admitTemplate(pod, context).pod;
  return defaults ? completeTemplate(pod, namespace, defaults) : pod;
}
