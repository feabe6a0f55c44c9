/**
 * Plans the changes of break-glass. A match condition that is always false stops API servers from calling a webhook,
 * and a requirement that no namespace meets stops them from evaluating a floor policy. Nothing else in the object
 * changes, so removing the condition or requirement restores the object.
 */
import type { V1LabelSelectorRequirement } from '@kubernetes/client-node';
import { BREAK_GLASS_ANNOTATION, INSTALLATION } from '../api/names.ts';
import { deepEqual } from '../kube/equality.ts';
import type { Kinds } from '../kube/kinds.ts';
import type { KubeObject, ObjectMeta, Wire } from '../kube/types.ts';
import { NAMESPACE_NAME_LABEL } from '../kube/well-known.ts';
import type { ObjectWrite } from '../policy/rollout/index.ts';
import { type Configuration, parseWebhookConfiguration, type LiveWebhook } from './live-webhooks.ts';

/** Match condition that is always false, so API servers do not call the webhook. */
const BREAK_GLASS = { name: 'break-glass', expression: 'false' } as const;

/**
 * Requirement that no namespace meets, because the API server sets this label on every namespace. A match condition
 * would not be sufficient, because a policy whose parameter CRD is missing denies requests in all namespaces that it
 * selects.
 */
const NO_NAMESPACE = { key: NAMESPACE_NAME_LABEL, operator: 'DoesNotExist' } as const;

type FloorPolicy = Pick<Kinds['ValidatingAdmissionPolicy'], 'spec'> & {
  readonly kind: 'ValidatingAdmissionPolicy';
  readonly name: string;
  readonly metadata: ObjectMeta;
};

/** An object that break-glass changes. */
export type Target = Configuration | FloorPolicy;

export function parseFloorPolicy({ metadata = {}, spec }: Kinds['ValidatingAdmissionPolicy']): FloorPolicy {
  return { kind: 'ValidatingAdmissionPolicy', name: metadata.name ?? '', metadata, ...(spec ? { spec } : {}) };
}

type Requirement = Wire<V1LabelSelectorRequirement>;

function namespaceRequirements({ spec }: Pick<FloorPolicy, 'spec'>): readonly Requirement[] {
  return spec?.matchConstraints?.namespaceSelector?.matchExpressions ?? [];
}

/** Returns a policy's namespace requirements without the break-glass requirement. */
export function otherRequirements(policy: Pick<FloorPolicy, 'spec'>): readonly Requirement[] {
  return namespaceRequirements(policy).filter((requirement) => !deepEqual(requirement, NO_NAMESPACE));
}

export function parseTarget(kind: Target['kind'], object: KubeObject): Target {
  return kind === 'ValidatingAdmissionPolicy' ? parseFloorPolicy(object) : parseWebhookConfiguration(kind, object);
}

const ANNOTATIONS = {
  since: BREAK_GLASS_ANNOTATION,
  by: 'portcullis.dev/break-glass-by',
  reason: 'portcullis.dev/break-glass-reason',
} as const;

/** Content of the annotations that record that break-glass is on. */
export interface BreakGlassNote {
  /** Time in RFC 3339 format. */
  readonly since?: string | undefined;
  /** Name of the user. */
  readonly by?: string | undefined;
  readonly reason?: string | undefined;
}

/** Returns true if break-glass stops API servers from calling a webhook. */
export function isOff({ matchConditions }: LiveWebhook): boolean {
  return (matchConditions ?? []).some((condition) => deepEqual(condition, BREAK_GLASS));
}

/** Returns the match conditions without the break-glass condition. */
export function otherConditions({ matchConditions }: LiveWebhook) {
  return (matchConditions ?? []).filter(({ name }) => name !== BREAK_GLASS.name);
}

function breakGlassNote({ metadata: { annotations = {} } }: Target): BreakGlassNote {
  const { since, by, reason } = ANNOTATIONS;
  return { since: annotations[since], by: annotations[by], reason: annotations[reason] };
}

/** Formats the annotations, for example as `since 2026-01-15T11:00:00Z by jo: INC-1`. */
export function formatNote({ since = '', by, reason }: BreakGlassNote): string {
  return `since ${since}${by === undefined ? '' : ` by ${by}`}${reason === undefined ? '' : `: ${reason}`}`;
}

/**
 * Returns the write that turns a target off (with a note) or on again (without a note). Returns `undefined` if nothing
 * changes.
 */
export function planSwitch(target: Target, note: BreakGlassNote | undefined): ObjectWrite | undefined {
  const isOn = note !== undefined;
  const isMarked = breakGlassNote(target).since !== undefined;
  if (isMarked === isOn && targetStates(target).every(({ state }) => (state === 'off') === isOn)) return undefined;
  const annotations = Object.fromEntries(
    (['since', 'by', 'reason'] as const).map((key) => [ANNOTATIONS[key], note?.[key] ?? null]),
  );
  const { resourceVersion } = target.metadata;
  const document = { metadata: { resourceVersion, annotations }, ...switchedFields(target, isOn) };
  return { type: 'merge-patch', fieldManager: INSTALLATION.name, document };
}

/** Returns the fields to replace. They contain whole lists, because a merge patch does not merge lists. */
function switchedFields(target: Target, isOn: boolean): object {
  if (target.kind === 'ValidatingAdmissionPolicy') {
    const matchExpressions = [...otherRequirements(target), ...(isOn ? [NO_NAMESPACE] : [])];
    return { spec: { matchConstraints: { namespaceSelector: { matchExpressions } } } };
  }
  const webhooks = target.webhooks.map((webhook) => {
    const fields = Object.fromEntries(Object.entries(webhook).filter(([name]) => name !== 'matchConditions'));
    const matchConditions = [...otherConditions(webhook), ...(isOn ? [BREAK_GLASS] : [])];
    return matchConditions.length === 0 ? fields : { ...fields, matchConditions };
  });
  return { webhooks };
}

/** State of a webhook or policy, as reported by `break-glass status`. */
interface WebhookStatus {
  readonly configuration: string;
  readonly phase: 'policy' | 'validating' | 'mutating';
  readonly webhook: string;
  /** `active` means that API servers call the webhook. `off` means that break-glass has disabled it. */
  readonly state: 'active' | 'off';
  readonly failurePolicy: string;
}

/** Returns the states of the webhooks in a configuration, or of a policy. */
function targetStates(target: Target): readonly WebhookStatus[] {
  const { name: configuration } = target;
  const phase = targetPhase(target);
  if (target.kind === 'ValidatingAdmissionPolicy') {
    const state = namespaceRequirements(target).some((requirement) => deepEqual(requirement, NO_NAMESPACE))
      ? 'off'
      : 'active';
    return [{ configuration, phase, webhook: configuration, state, failurePolicy: 'Fail' }];
  }
  return target.webhooks.map((webhook) => {
    const { name, failurePolicy = 'Fail' } = webhook;
    return { configuration, phase, webhook: name, state: isOff(webhook) ? 'off' : 'active', failurePolicy };
  });
}

export function targetPhase({ kind }: Pick<Target, 'kind'>): WebhookStatus['phase'] {
  if (kind === 'ValidatingAdmissionPolicy') return 'policy';
  return kind === 'ValidatingWebhookConfiguration' ? 'validating' : 'mutating';
}

/**
 * Break-glass state of an installation. `partly` means that only some of the webhooks are off, or that only enforce
 * labels are relaxed.
 */
export interface BreakGlassStatus {
  readonly breakGlass: 'on' | 'partly' | 'off';
  readonly notes: readonly (BreakGlassNote & { readonly configuration: string })[];
  readonly webhooks: readonly WebhookStatus[];
  /** Names of the namespaces whose enforce label is relaxed. */
  readonly relaxedNamespaces: readonly string[];
}

export function breakGlassStatus(
  targets: readonly Target[],
  relaxedNamespaces: readonly string[] = [],
): BreakGlassStatus {
  const webhooks = targets.flatMap(targetStates);
  const isSomeOff = webhooks.some(({ state }) => state === 'off') || relaxedNamespaces.length > 0;
  const whileOn = webhooks.every(({ state }) => state === 'off') ? 'on' : 'partly';
  const notes = targets.map((target) => ({ configuration: target.name, ...breakGlassNote(target) }));
  return {
    breakGlass: isSomeOff ? whileOn : 'off',
    notes: notes.filter(({ since }) => since !== undefined),
    webhooks,
    relaxedNamespaces,
  };
}
