/** Determines the levels that enforcement would apply, and previews the effect for users. */
import type { AdmissionRequest } from '../../kube/admission.ts';
import { deepEqual } from '../../kube/equality.ts';
import { getMetadataOwners } from '../../kube/managed-fields.ts';
import { getPodTemplate, podTemplatePath } from '../../kube/pod.ts';
import type { PSAEnforcementConfig } from '../../kube/psa-enforcement-config.ts';
import { quote } from '../../kube/text.ts';
import { type GroupVersionKind, isObject, type KubeObject, type Namespace } from '../../kube/types.ts';
import {
  LABEL_SYNC_LABEL,
  OLM_MANAGED_ANNOTATION,
  POD_SECURITY_LABELS,
  SUFFICIENT_LEVEL_ANNOTATION,
} from '../../kube/well-known.ts';
import {
  type DecodedObject,
  decodeObject,
  type Exemptions,
  findExemption,
  isSignificantUpdate,
  isStricter,
  NO_DEFAULTS,
  printPolicy,
  resolvePolicies,
  type DecodedWorkload,
} from '../psa/index.ts';
import { evaluateDecoded, isLevel, type Level, type Version } from '../pss/index.ts';
import { type DefaultLevel, readEnforcement } from './enforcement.ts';
import { getOwnFields } from './label-owners.ts';
import type { LabelSyncPlan } from './label-sync.ts';
import { isTerminating } from './managed-namespaces.ts';
import type { RolloutSettings } from './settings.ts';

/**
 * Returns true if a level applies to new pods in the namespace, which is the case if it is neither exempt nor
 * terminating.
 */
export function isEvaluated(namespace: Namespace, exemptions: Pick<Exemptions, 'namespace'>): boolean {
  return !isTerminating(namespace) && !exemptions.namespace(namespace.metadata?.name);
}

/**
 * Returns true if enforcement would change the namespace's level, which is the case if it is evaluated and has no
 * enforce label.
 */
export function isSelected(namespace: Namespace, exemptions: Pick<Exemptions, 'namespace'>): boolean {
  const hasLabel = namespace.metadata?.labels?.[POD_SECURITY_LABELS.enforce] !== undefined;
  return !hasLabel && isEvaluated(namespace, exemptions);
}

/**
 * Returns the level that enforcement would apply to a namespace. This is the level that the label syncer plans or,
 * failing that, the level that it wrote earlier. If there is neither, the level is restricted. Ignores the labels of
 * other managers. Returns `undefined` if the field owners are unknown.
 */
export function predictLevel(
  namespace: Namespace,
  plan?: Pick<LabelSyncPlan, 'isManaged' | 'neededLevel'>,
): Level | undefined {
  if (plan?.isManaged === false) return 'restricted';
  if (plan?.neededLevel !== undefined) return plan.neededLevel.level;
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

interface EnforcementState {
  readonly settings: Pick<RolloutSettings, 'phase' | 'enforcementDate'>;
  readonly gate: boolean;
  /** The current level for unlabeled namespaces. */
  readonly enforce: DefaultLevel;
  readonly config: PSAEnforcementConfig | undefined;
}

/**
 * Returns true while enforcement is planned. This is the case if a date is set, or if the evaluation determines the
 * mode and no user has requested Legacy mode. Legacy mode is ignored if the readiness controller proposed it.
 */
export function isEnforcementPending({ settings, gate, enforce, config }: EnforcementState): boolean {
  if (settings.phase === 'Disabled' || enforce === 'restricted') return false;
  if (settings.enforcementDate !== undefined) return true;
  const { spec, specOwner } = readEnforcement(config);
  return settings.phase === 'Enforce' && gate && !(spec === 'Legacy' && specOwner !== 'rollout');
}

/** Input for a preview. The preview calls the functions only if the result depends on them. */
interface PreviewInput {
  readonly request: AdmissionRequest;
  /** The workload object after SCC admission has defaulted its template. Absent where SCCs do not apply. */
  readonly workload?: DecodedWorkload | undefined;
  readonly exemptions: Exemptions;
  /** The emulated Kubernetes version. Defaults to the newest known version. */
  readonly emulationVersion?: Version | undefined;
  /** Returns a namespace, or `undefined` if it does not exist. */
  findNamespace(name: string): Namespace | undefined;
  /** Returns the level that enforcement would apply to the namespace, or `undefined` if it is unknown. */
  predictLevel(namespace: Namespace): Level | undefined;
}

/**
 * Evaluates a user's request as if enforcement were on. Returns the violations after a prefix such as `PodSecurity
 * "restricted:latest": `, or `undefined` if there are none. Skips objects that have a controller, and updates that do
 * not change the pod.
 */
export function previewEnforcement(input: PreviewInput): string | undefined {
  const { request, exemptions, emulationVersion } = input;
  const { operation, kind } = request;
  if ((operation !== 'CREATE' && operation !== 'UPDATE') || request.subResource) return undefined;
  if (!hasPods(kind) || findExemption(request, exemptions)) return undefined;
  const workload = expectKind(input.workload ?? decodeObject(request.object, kind), kind);
  if (workload?.pod === undefined || !hasTemplate(workload) || hasController(workload.object)) return undefined;
  if (operation === 'UPDATE' && !isChanged(workload, expectKind(decodeObject(request.oldObject, kind), kind))) {
    return undefined;
  }
  const namespace = input.findNamespace(request.namespace ?? '');
  if (namespace === undefined || !isSelected(namespace, exemptions)) return undefined;
  const level = input.predictLevel(namespace);
  if (level === undefined || level === 'privileged') return undefined;
  if (exemptions.runtimeClass(workload.pod.runtimeClassName)) return undefined;
  // Enforcement sets only the level. A version label of the namespace remains in effect.
  const labels = { ...namespace.metadata?.labels, [POD_SECURITY_LABELS.enforce]: level };
  const { enforce: policy } = resolvePolicies(labels, NO_DEFAULTS);
  const { allowed, detail } = evaluateDecoded({ pod: workload.pod }, { ...policy, emulationVersion });
  return allowed ? undefined : `PodSecurity ${quote(printPolicy(policy))}: ${detail}`;
}

/**
 * Formats the warning for the user. It does not repeat violations that are already part of another warning.
 * @param date the announced enforcement date
 */
export function formatPreviewWarning(
  violations: string,
  { date, warnings }: { readonly date: string | undefined; readonly warnings: readonly string[] },
): string {
  const denial = `enforcement${date === undefined ? '' : ` from ${date}`} will deny these pods`;
  return warnings.some((warning) => warning.endsWith(violations))
    ? denial
    : `${denial} because they violate ${violations}`;
}

/**
 * Returns a warning if a controller will revert an edit of Pod Security labels, or `undefined` otherwise.
 * @param plan returns the document that a controller applies to the edited namespace
 */
export function previewLabelRevert(
  { operation, kind, object, oldObject }: AdmissionRequest,
  plan: (edited: Namespace) => Namespace | undefined,
): string | undefined {
  if (operation !== 'UPDATE' || kind.kind !== 'Namespace' || kind.group !== '') return undefined;
  const decode = (raw: unknown) => expectKind(decodeObject(raw, kind), kind)?.object;
  const [before, edited] = [decode(oldObject)?.metadata?.labels, decode(object)];
  const labels = edited?.metadata?.labels;
  const changed = Object.values(POD_SECURITY_LABELS).filter((key) => before?.[key] !== labels?.[key]);
  if (edited === undefined || changed.length === 0) return undefined;
  const planned = plan(edited)?.metadata?.labels ?? {};
  const reverted = changed.filter((key) => planned[key] !== undefined && planned[key] !== labels?.[key]);
  if (reverted.length === 0) return undefined;
  const values = reverted.map((key) => `${key}=${planned[key] ?? ''}`).join(', ');
  // The auto-labeler would restore the label.
  const isLabeled = edited.metadata?.annotations?.[OLM_MANAGED_ANNOTATION] === 'true';
  const optOut = `the label ${LABEL_SYNC_LABEL}=false${isLabeled ? ` and the annotation ${OLM_MANAGED_ANNOTATION}=false` : ''}`;
  return `Portcullis manages the Pod Security labels of this namespace and will set ${values}. To keep your change, also set ${optOut}`;
}

/** Returns true for the Pod kind and for kinds that have a pod template. */
function hasPods({ group, kind }: GroupVersionKind): boolean {
  return (group === '' && kind === 'Pod') || podTemplatePath(group, kind) !== undefined;
}

function expectKind(decoded: DecodedWorkload, { group, kind }: GroupVersionKind): DecodedObject | undefined {
  const isExpected = decoded.outcome === 'decoded' && decoded.kind.kind === kind && decoded.kind.group === group;
  return isExpected ? decoded : undefined;
}

/** Returns false for a workload that lacks a template, because the API server rejects it. */
function hasTemplate({ object, kind: { group, kind } }: DecodedObject): boolean {
  const path = podTemplatePath(group, kind);
  return path === undefined || getPodTemplate(object, path) !== undefined;
}

function hasController({ metadata }: KubeObject): boolean {
  const owners: unknown = metadata?.ownerReferences;
  return Array.isArray(owners) && owners.some((owner: unknown) => isObject(owner) && owner['controller'] === true);
}

function isChanged({ object, pod, kind: { group, kind } }: DecodedObject, old: DecodedObject | undefined): boolean {
  if (old === undefined) return true;
  const path = podTemplatePath(group, kind);
  if (path !== undefined) return !deepEqual(getPodTemplate(object, path), getPodTemplate(old.object, path));
  return pod === undefined || old.pod === undefined || isSignificantUpdate(pod, old.pod);
}
