/**
 * Finding out what enforcement would refuse, without asking the API server: every pod and every pod template at the level
 * that its namespace would be held to.
 * @see https://github.com/openshift/cluster-kube-apiserver-operator/tree/main/pkg/operator/podsecurityreadinesscontroller
 */
import { LABEL_SYNC_LABEL } from '../../kube/well-known.ts';
import { type Namespace, type Pod, type PodLike, isObject, type Kind, type KubeObject } from '../../kube/types.ts';
import { isPlatformNamespace } from './label-sync.ts';
import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../kube/scc.ts';
import type { SccMode } from '../scc/mode.ts';
import { compareBytes } from '../../kube/text.ts';
import { evaluatePod, checkFix } from '../pss/evaluate.ts';
import type { Level, Version } from '../pss/policy.ts';
import type { Exemptions } from '../psa/configuration.ts';
import { getControllerPod, type FindServiceAccount } from '../../kube/controller-pod.ts';
import { podTemplatePath } from '../../kube/pod.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { serviceAccountSubject } from '../scc/access.ts';
import { assignScc } from '../scc/assign.ts';
import type { CanUse } from '../scc/access.ts';
import type { SccSet } from '../scc/order.ts';

/** Where nothing but the cluster itself runs. */
const RUN_LEVEL_ZERO: ReadonlySet<string> = new Set(['default', 'kube-system', 'kube-public', 'kube-node-lease']);

/**
 * Why a namespace violates its level to come: for what it is, else for who let its workloads in. Empty if nothing in it
 * violates anything.
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

/** What makes the pods: the outermost object that is known. */
interface Owner {
  readonly kind: string;
  readonly name: string;
}

/** Tells whether there is an object of that kind and name in the namespace. */
type Exists = (kind: 'Deployment' | 'CronJob', name: string) => boolean;

/** Kinds whose objects another kind makes, under its own name with a suffix. */
const MAKERS: ReadonlyMap<string, 'Deployment' | 'CronJob'> = new Map([
  ['ReplicaSet', 'Deployment'],
  ['Job', 'CronJob'],
]);

/** The maker of a pod; the pod itself where there is none. */
function ownerOf(pod: Pod, exists: Exists): Owner {
  const controller = pod.metadata?.ownerReferences?.find((reference) => reference.controller === true);
  if (controller === undefined) return { kind: 'Pod', name: pod.metadata?.name ?? '' };
  const { kind, name } = controller;
  const maker = MAKERS.get(kind);
  const base = name.slice(0, Math.max(0, name.lastIndexOf('-')));
  return maker !== undefined && base !== '' && exists(maker, base) ? { kind: maker, name: base } : { kind, name };
}

/** A key by which owners of one namespace can be told apart. */
function ownerKey({ kind, name }: Owner): string {
  return `${kind}/${name}`;
}

/** What tells whether a record on a pod is right. */
interface ProvenanceContext {
  /** Of the namespace: unless SCCs are enforced there, anybody may have written the record. */
  readonly sccMode: SccMode;
  /** True if the service account may use the SCC of that name in the namespace. */
  mayUse(serviceAccount: string, sccName: string): boolean;
}

/**
 * True if a pod is only there since its creator may use an SCC that its service account may not: once enforcement goes by
 * service accounts, it is not let in again. A record that names an SCC which the account may use counts for the account.
 */
export function isUserCaused(pod: Pod, { sccMode, mayUse }: ProvenanceContext): boolean {
  const { annotations } = pod.metadata ?? {};
  if (sccMode !== 'enforce' || annotations?.[POD_SCC_ANNOTATIONS.subjectType] !== 'user') return false;
  const scc = annotations[POD_SCC_ANNOTATIONS.scc] ?? '';
  return scc === '' || !mayUse(pod.spec?.serviceAccountName ?? 'default', scc);
}

/** All that the evaluation of a namespace needs. */
export interface NamespaceInput extends ProvenanceContext {
  readonly namespace: Namespace;
  /** What it would be held to; absent if nobody can tell. */
  readonly level: Level | undefined;
  /** All of them; absent if they cannot be told. */
  readonly pods: readonly Pod[] | undefined;
  /** As admitted; made one after the other, for each takes some time. */
  readonly templates: Iterable<TemplatePod>;
  /** Hears that the template that was made last keeps the level. */
  readonly onKept?: () => void;
  readonly exemptions: Pick<Exemptions, 'runtimeClass'>;
  readonly exists: Exists;
  readonly emulationVersion?: Version;
}

/** Evaluates a namespace in one go. */
export function evaluateNamespace(input: NamespaceInput): NamespaceEvaluation {
  const steps = evaluateStepwise(input);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** Evaluates a namespace and pauses after each pod and each template, so that something else can go on meanwhile. */
export function* evaluateStepwise(input: NamespaceInput): Generator<undefined, NamespaceEvaluation> {
  const { namespace, level, pods } = input;
  const name = namespace.metadata?.name ?? '';
  if (level === undefined)
    return inconclusive(name, 'restricted', 'the managed fields of the namespace cannot be read');
  if (pods === undefined) return inconclusive(name, level, 'the pods of the namespace cannot be listed');
  const found = new Map<string, Found>();
  if (level !== 'privileged') {
    for (const pod of pods) {
      notePod(found, pod, input, level);
      yield;
    }
    for (const template of input.templates) {
      noteTemplate(found, template, input, level);
      yield;
    }
  }
  const workloads = [...found.values()].flatMap(workloadOf).sort(compareWorkloads);
  if (workloads.length === 0) return { name, level, verdict: 'clean', categories: [], workloads };
  return { name, level, verdict: 'violating', categories: classify(namespace, workloads), workloads };
}

/** What is known of one owner. */
interface Found {
  readonly owner: Owner;
  violatingPods: number;
  userPods: number;
  readonly causes: Set<Cause>;
  ofPods: readonly FixableViolation[];
  ofTemplate: readonly FixableViolation[];
}

function inconclusive(name: string, level: Level, error: string): NamespaceEvaluation {
  return { name, level, verdict: 'inconclusive', categories: [], workloads: [], error };
}

/** Pods that have ended are not started again. */
function notePod(found: Map<string, Found>, pod: Pod, input: NamespaceInput, level: Level): void {
  const phase = pod.status?.phase;
  if (phase === 'Succeeded' || phase === 'Failed') return;
  const violations = violationsOf(pod, '', input, level);
  const isOfUser = isUserCaused(pod, input);
  if (violations.length === 0 && !isOfUser) return;
  const entry = entryFor(found, ownerOf(pod, input.exists));
  if (isOfUser) entry.userPods++;
  if (violations.length === 0) return;
  entry.violatingPods++;
  entry.causes.add(isOfUser ? 'user' : 'serviceAccount');
  if (entry.ofPods.length === 0) entry.ofPods = violations;
}

function noteTemplate(found: Map<string, Found>, template: TemplatePod, input: NamespaceInput, level: Level): void {
  const violations = violationsOf(template.pod, `${template.path}.`, input, level);
  if (violations.length > 0) entryFor(found, template).ofTemplate = violations;
  else input.onKept?.();
}

function entryFor(found: Map<string, Found>, { kind, name }: Owner): Found {
  const key = ownerKey({ kind, name });
  const known = found.get(key);
  if (known) return known;
  const owner = { kind, name };
  const entry = { owner, violatingPods: 0, userPods: 0, causes: new Set<Cause>(), ofPods: [], ofTemplate: [] };
  found.set(key, entry);
  return entry;
}

/** Fields are looked for only where something is wrong. */
function violationsOf(pod: PodLike, prefix: string, input: NamespaceInput, level: Level): readonly FixableViolation[] {
  const { emulationVersion } = input;
  const options = {
    level,
    version: 'latest',
    ...(emulationVersion === undefined ? {} : { emulationVersion }),
  } as const;
  if (input.exemptions.runtimeClass(pod.spec?.runtimeClassName) || evaluatePod(pod, options).allowed) return [];
  return evaluatePod(pod, { ...options, fields: true }).violations.map(({ check, reason, detail, fields = [] }) => ({
    check,
    reason,
    detail,
    fields: fields.map(({ path }) => prefix + path),
    fix: checkFix(check),
  }));
}

/** A template counts for users only where pods show that they have to let them in. */
function workloadOf({
  owner,
  ofTemplate,
  ofPods,
  violatingPods,
  userPods,
  causes,
}: Found): readonly ViolatingWorkload[] {
  const violations = ofTemplate.length > 0 ? ofTemplate : ofPods;
  if (violations.length === 0) return [];
  if (ofTemplate.length > 0) causes.add(userPods > 0 ? 'user' : 'serviceAccount');
  return [{ ...owner, pods: violatingPods, causes: [...causes].sort(), violations }];
}

function compareWorkloads(a: Owner, b: Owner): number {
  return compareBytes(a.kind, b.kind) || compareBytes(a.name, b.name);
}

/** A pod that a workload would make, as it would be admitted. */
export interface TemplatePod {
  readonly kind: string;
  readonly name: string;
  /** Where the workload keeps the template: `spec.template`. */
  readonly path: string;
  readonly pod: PodLike;
}

/** What the pods of a workload meet on their way in. */
export interface TemplateContext {
  readonly namespace: Namespace;
  /** Of the namespace: unless SCCs are enforced there, pods stay as their template is. */
  readonly sccMode: SccMode;
  readonly sccs: readonly SecurityContextConstraints[];
  readonly sccSet?: SccSet | undefined;
  readonly canUse: CanUse;
  readonly findAccount?: FindServiceAccount;
}

/**
 * The pod of a workload as SCCs complete it for its service account, since without that nearly every template seems to
 * violate something; as it stands where no SCC admits it. `undefined` for what has no template.
 */
export function getTemplatePod(kind: Kind, object: KubeObject, surroundings: TemplateContext): TemplatePod | undefined {
  const path = podTemplatePath(RESOURCES[kind].group, kind);
  const made = getControllerPod(object, kind, surroundings.findAccount);
  if (path === undefined || made === undefined) return undefined;
  const { name = '' } = object.metadata ?? {};
  return { kind, name, path: path.join('.'), pod: admitted(made.pod, surroundings) };
}

function admitted(pod: PodLike, { namespace, sccMode, sccs, sccSet, canUse }: TemplateContext): PodLike {
  if (sccMode !== 'enforce') return pod;
  const account = pod.spec?.serviceAccountName ?? 'default';
  const userInfo = serviceAccountSubject(namespace.metadata?.name ?? '', account, 'accurate');
  const decision = assignScc({ operation: 'CREATE', object: pod, namespace, userInfo, sccs, sccSet, canUse });
  return decision.allowed && isObject(decision.object) ? decision.object : pod;
}

/** Why workloads of a namespace violate its level to come; a namespace may be in `userSCC` and `unknown` at once. */
export const CATEGORIES = ['unknown', 'openshift', 'runLevelZero', 'disabledSyncer', 'userSCC'] as const;
export type Category = (typeof CATEGORIES)[number];

type Cause = 'user' | 'serviceAccount';

/** What was found in a namespace. */
export interface NamespaceEvaluation {
  readonly name: string;
  readonly level: Level;
  readonly verdict: 'clean' | 'violating' | 'inconclusive';
  /** In no order; empty unless the verdict is `violating`. */
  readonly categories: readonly Category[];
  /** Sorted by kind and name. */
  readonly workloads: readonly ViolatingWorkload[];
  /** Why there is no verdict. */
  readonly error?: string;
}

/** Something whose pods enforcement would refuse: what makes the pods, or a pod that nothing makes. */
export interface ViolatingWorkload {
  readonly kind: string;
  readonly name: string;
  /** Pods that violate and run today. */
  readonly pods: number;
  /** Whose rights let in what violates: somebody's own, those of the service account, or some of both. */
  readonly causes: readonly Cause[];
  readonly violations: readonly FixableViolation[];
}

/** What one check holds against a workload, and what to do about it. */
export interface FixableViolation {
  readonly check: string;
  readonly reason: string;
  readonly detail: string;
  /** Paths in the object of the workload: `spec.template.spec.hostNetwork`. */
  readonly fields: readonly string[];
  /** One sentence. */
  readonly fix: string;
}
