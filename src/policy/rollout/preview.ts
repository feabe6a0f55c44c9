import type { AdmissionRequest } from '../../kube/admission.ts';
import { deepEqual } from '../../kube/equality.ts';
import { getPodTemplate, podTemplatePath } from '../../kube/pod.ts';
import type { PSAEnforcementConfig } from '../../kube/psa-enforcement-config.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import { quote } from '../../kube/text.ts';
import { isObject, type GroupVersionKind, type Kind, type KubeObject, type PodLike } from '../../kube/types.ts';
import { decodePod } from '../pod/pod.ts';
import { findExemption, type Exemptions } from '../psa/configuration.ts';
import { decodeObject, isSignificantUpdate } from '../psa/decode.ts';
import { printPolicy } from '../psa/policy.ts';
import { evaluatePod } from '../pss/evaluate.ts';
import type { Level } from '../pss/policy.ts';
import { getSccSet } from '../scc/order.ts';
import { readEnforcement, type DefaultLevel } from './enforcement.ts';
import { getTemplatePod, isSelected, type TemplateContext } from './evaluation.ts';
import type { RolloutSettings } from './settings.ts';

interface EnforcementState {
  readonly settings: Pick<RolloutSettings, 'phase' | 'enforcementDate'>;
  readonly gate: boolean;
  /** The level that applies to namespaces without a label now. */
  readonly enforce: DefaultLevel;
  readonly config: PSAEnforcementConfig | undefined;
}

/**
 * True while enforcement is planned: a date is set, or the evaluation decides and no user has requested mode Legacy. A mode
 * Legacy that the readiness controller proposed does not count.
 */
export function isEnforcementPending({ settings, gate, enforce, config }: EnforcementState): boolean {
  if (settings.phase === 'Disabled' || enforce === 'restricted') return false;
  if (settings.enforcementDate !== undefined) return true;
  const { spec, specOwner } = readEnforcement(config);
  return settings.phase === 'Enforce' && gate && !(spec === 'Legacy' && specOwner !== 'rollout');
}

/** The input of a preview. The functions are called only if the result depends on them. */
interface PreviewInput {
  readonly request: AdmissionRequest;
  readonly exemptions: Exemptions;
  /** Returns `undefined` if the namespace does not exist. */
  templateContext(namespace: string): TemplateContext | undefined;
  /** The level that enforcement would apply to the namespace; `undefined` if it is unknown. */
  predictLevel(context: TemplateContext): Level | undefined;
}

/**
 * Previews how enforcement would evaluate a request of a user. Returns `PodSecurity "restricted:latest": ` and the
 * violations, or `undefined` if there are none. Objects with a controller and updates that do not change the pod are skipped.
 */
export function previewEnforcement(input: PreviewInput): string | undefined {
  const { request, exemptions } = input;
  const { operation, kind } = request;
  if ((operation !== 'CREATE' && operation !== 'UPDATE') || request.subResource) return undefined;
  const podKind = findPodKind(kind);
  if (podKind === undefined || findExemption(request, exemptions)) return undefined;
  const object = decode(request.object, kind);
  if (object === undefined || hasController(object)) return undefined;
  if (operation === 'UPDATE' && !isChanged(object, decode(request.oldObject, kind), kind)) return undefined;
  const context = input.templateContext(request.namespace ?? '');
  if (context === undefined || !isSelected(context.namespace, exemptions)) return undefined;
  const level = input.predictLevel(context);
  if (level === undefined || level === 'privileged') return undefined;
  const pod = getAdmittedPod(podKind, object, context);
  if (pod === undefined || exemptions.runtimeClass(pod.spec?.runtimeClassName)) return undefined;
  const policy = { level, version: 'latest' } as const;
  const { allowed, detail } = evaluatePod(pod, policy);
  return allowed ? undefined : `PodSecurity ${quote(printPolicy(policy))}: ${detail}`;
}

/**
 * The warning for the user. Violations that one of the other warnings contains are not repeated.
 * @param date the announced date of enforcement
 */
export function formatPreviewWarning(
  violations: string,
  { date, warnings }: { readonly date: string | undefined; readonly warnings: readonly string[] },
): string {
  const refusal = `enforcement${date === undefined ? '' : ` from ${date}`} will refuse these pods`;
  return warnings.some((warning) => warning.endsWith(violations)) ? refusal : `${refusal}: they violate ${violations}`;
}

/** The kind, if it is Pod or a kind with a pod template. */
function findPodKind({ group, kind }: GroupVersionKind): Kind | undefined {
  const hasPods = (group === '' && kind === 'Pod') || podTemplatePath(group, kind) !== undefined;
  return hasPods && Object.hasOwn(RESOURCES, kind) ? (kind as Kind) : undefined;
}

function decode(raw: unknown, requested: GroupVersionKind): KubeObject | undefined {
  const { group, kind } = requested;
  const result = decodeObject(raw, requested);
  const isRequested = result.outcome === 'decoded' && result.kind.kind === kind && result.kind.group === group;
  return isRequested ? result.object : undefined;
}

function hasController({ metadata }: KubeObject): boolean {
  const owners: unknown = metadata?.ownerReferences;
  return Array.isArray(owners) && owners.some((owner: unknown) => isObject(owner) && owner['controller'] === true);
}

function isChanged(object: KubeObject, old: KubeObject | undefined, { group, kind }: GroupVersionKind): boolean {
  if (old === undefined) return true;
  const path = podTemplatePath(group, kind);
  if (path !== undefined) return !deepEqual(getPodTemplate(object, path), getPodTemplate(old, path));
  const [{ pod }, { pod: oldPod }] = [decodePod(object), decodePod(old)];
  return pod === undefined || oldPod === undefined || isSignificantUpdate(pod, oldPod);
}

/** SCCs have completed a Pod already, but not a template. Returns `undefined` until SCCs can complete templates. */
function getAdmittedPod(kind: Kind, object: KubeObject, context: TemplateContext): PodLike | undefined {
  if (kind === 'Pod') return object;
  const { namespace, sccMode, sccs } = context;
  const range = namespace.metadata?.annotations?.[NAMESPACE_RANGE_ANNOTATIONS.uidRange] ?? '';
  const canComplete = sccMode !== 'enforce' || (range !== '' && getSccSet(sccs).sccs.length > 0);
  return canComplete ? getTemplatePod(kind, object, context)?.pod : undefined;
}
