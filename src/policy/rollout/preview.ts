import type { AdmissionRequest } from '../../kube/admission.ts';
import { deepEqual } from '../../kube/equality.ts';
import { getPodTemplate, podTemplatePath } from '../../kube/pod.ts';
import type { PSAEnforcementConfig } from '../../kube/psa-enforcement-config.ts';
import { quote } from '../../kube/text.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import { isObject, type GroupVersionKind, type Kind, type KubeObject, type PodLike } from '../../kube/types.ts';
import { decodePod } from '../pod/pod.ts';
import { evaluatePod } from '../pss/evaluate.ts';
import type { Level } from '../pss/policy.ts';
import { decodeObject, isSignificantUpdate } from '../psa/decode.ts';
import { readEnforcement, type DefaultLevel } from './enforcement.ts';
import { findExemption, type Exemptions } from '../psa/configuration.ts';
import { printPolicy } from '../psa/policy.ts';
import { isSelected, getTemplatePod, type TemplateContext } from './evaluation.ts';
import type { RolloutSettings } from './settings.ts';

/** The state that decides whether enforcement is planned. */
export interface PreviewState {
  readonly settings: Pick<RolloutSettings, 'phase' | 'enforcementDate'>;
  readonly gate: boolean;
  /** What namespaces without a label are held to now. */
  readonly enforce: DefaultLevel;
  readonly config: PSAEnforcementConfig | undefined;
}

/**
 * True while enforcement is planned: a date is set, or the installation decides about it and no mode Legacy is
 * requested. A Legacy that the program itself proposed does not count.
 */
export function isEnforcementPending({ settings, gate, enforce, config }: PreviewState): boolean {
  if (settings.phase === 'Disabled' || enforce === 'restricted') return false;
  if (settings.enforcementDate !== undefined) return true;
  const { spec, specOwner } = readEnforcement(config);
  return settings.phase === 'Enforce' && gate && !(spec === 'Legacy' && specOwner !== 'rollout');
}

/** The input of a preview. The functions are called only if the result depends on them. */
export interface PreviewInput {
  readonly request: AdmissionRequest;
  readonly exemptions: Exemptions;
  /** `undefined` if there is no such namespace. */
  surroundingsOf(namespace: string): TemplateContext | undefined;
  /** The level that enforcement would hold the namespace to; `undefined` if it is unknown. */
  levelOf(surroundings: TemplateContext): Level | undefined;
}

/**
 * Previews how enforcement would evaluate a request of a user: `PodSecurity "restricted:latest": ` and the violations;
 * `undefined` if there are none. Objects with a controller and updates that change nothing relevant are skipped.
 */
export function previewEnforcement(input: PreviewInput): string | undefined {
  const { request, exemptions } = input;
  const { operation, kind } = request;
  if ((operation !== 'CREATE' && operation !== 'UPDATE') || request.subResource) return undefined;
  const subject = kindOfPods(kind);
  if (subject === undefined || findExemption(request, exemptions)) return undefined;
  const object = decoded(request.object, kind);
  if (object === undefined || hasController(object)) return undefined;
  if (operation === 'UPDATE' && !isChanged(object, decoded(request.oldObject, kind), kind)) return undefined;
  const surroundings = input.surroundingsOf(request.namespace ?? '');
  if (surroundings === undefined || !isSelected(surroundings.namespace, exemptions)) return undefined;
  const level = input.levelOf(surroundings);
  if (level === undefined || level === 'privileged') return undefined;
  const pod = podOf(subject, object, surroundings);
  if (pod === undefined || exemptions.runtimeClass(pod.spec?.runtimeClassName)) return undefined;
  const policy = { level, version: 'latest' } as const;
  const evaluation = evaluatePod(pod, policy);
  return evaluation.allowed ? undefined : `PodSecurity ${quote(printPolicy(policy))}: ${evaluation.detail}`;
}

/**
 * The warning for the user. Violations that another warning already names are not repeated.
 * @param date as configured; absent: not known yet
 */
export function formatPreviewWarning(
  found: string,
  { date, told }: { readonly date: string | undefined; readonly told: readonly string[] },
): string {
  const what = `enforcement${date === undefined ? '' : ` from ${date}`} will refuse these pods`;
  return told.some((warning) => warning.endsWith(found)) ? what : `${what}: they violate ${found}`;
}

function kindOfPods({ group, kind }: GroupVersionKind): Kind | undefined {
  const isOfPods = (group === '' && kind === 'Pod') || podTemplatePath(group, kind) !== undefined;
  return isOfPods && Object.hasOwn(RESOURCES, kind) ? (kind as Kind) : undefined;
}

function decoded(raw: unknown, kind: GroupVersionKind): KubeObject | undefined {
  const found = decodeObject(raw, kind);
  const isAsked = found.outcome === 'decoded' && found.kind.kind === kind.kind && found.kind.group === kind.group;
  return isAsked ? found.object : undefined;
}

/** The owners of an object have no type that anything has checked. */
function hasController({ metadata }: KubeObject): boolean {
  const owners: unknown = metadata?.ownerReferences;
  return Array.isArray(owners) && owners.some((owner: unknown) => isObject(owner) && owner['controller'] === true);
}

function isChanged(object: KubeObject, old: KubeObject | undefined, { group, kind }: GroupVersionKind): boolean {
  const path = podTemplatePath(group, kind);
  if (old === undefined) return true;
  if (path === undefined) return isSignificantPodUpdate(object, old);
  return !deepEqual(getPodTemplate(object, path), getPodTemplate(old, path));
}

function isSignificantPodUpdate(object: KubeObject, old: KubeObject): boolean {
  const { pod } = decodePod(object);
  const { pod: oldPod } = decodePod(old);
  return pod === undefined || oldPod === undefined || isSignificantUpdate(pod, oldPod);
}

/** Pods come as SCCs have completed them; templates do not, and until SCCs can do so there is no telling. */
function podOf(kind: Kind, object: KubeObject, surroundings: TemplateContext): PodLike | undefined {
  if (kind !== 'Pod' && !canComplete(surroundings)) return undefined;
  return kind === 'Pod' ? object : getTemplatePod(kind, object, surroundings)?.pod;
}

function canComplete({ namespace, sccMode, sccs }: TemplateContext): boolean {
  const range = namespace.metadata?.annotations?.[NAMESPACE_RANGE_ANNOTATIONS.uidRange] ?? '';
  return sccMode !== 'enforce' || (range !== '' && sccs.length > 0);
}
