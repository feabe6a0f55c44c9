/**
 * Break-glass: a match condition that is always false stops API servers from calling a webhook, and a requirement that no
 * namespace meets stops them from evaluating a policy of the floor. The rest of the object does not change, so the
 * removal of the condition or requirement restores it.
 */
import type { V1LabelSelectorRequirement } from '@kubernetes/client-node';
import { deepEqual } from '../../kube/equality.ts';
import { escapeKey, type JsonPatchOp } from '../../kube/json-patch.ts';
import type { Kinds } from '../../kube/kinds.ts';
import type { ObjectMeta, Wire } from '../../kube/types.ts';
import { BREAK_GLASS_ANNOTATION, NAMESPACE_NAME_LABEL } from '../../kube/well-known.ts';
import type { Configuration, Webhook } from './webhooks.ts';

/** The match condition that is always false. */
const BREAK_GLASS = { name: 'break-glass', expression: 'false' } as const;

/**
 * The requirement that no namespace meets: the API server sets this label. A match condition would not be sufficient: without
 * the definition of its parameters, a policy denies the requests of all namespaces that it selects.
 */
const NO_NAMESPACE = { key: NAMESPACE_NAME_LABEL, operator: 'DoesNotExist' } as const;

/** A policy of the floor. */
export interface FloorPolicy {
  readonly kind: 'ValidatingAdmissionPolicy';
  readonly name: string;
  readonly metadata: ObjectMeta;
  /** The requirements for namespaces. */
  readonly namespaces: readonly Wire<V1LabelSelectorRequirement>[];
}

export function parseFloorPolicy({ metadata = {}, spec }: Kinds['ValidatingAdmissionPolicy']): FloorPolicy {
  const { matchExpressions = [] } = spec?.matchConstraints?.namespaceSelector ?? {};
  return { kind: 'ValidatingAdmissionPolicy', name: metadata.name ?? '', metadata, namespaces: matchExpressions };
}

/** An object that break-glass changes. */
export type Target = Configuration | FloorPolicy;

const ANNOTATIONS = {
  since: BREAK_GLASS_ANNOTATION,
  by: 'portcullis.dev/break-glass-by',
  reason: 'portcullis.dev/break-glass-reason',
} as const;

/** The annotations that record the use of break-glass. */
interface Note {
  /** Time in RFC 3339. */
  readonly since?: string | undefined;
  /** User name. */
  readonly by?: string | undefined;
  readonly reason?: string | undefined;
}

/**
 * `active`: API servers call the webhook. `off`: break-glass is on. `conflict`: another match condition uses the name of
 * break-glass.
 */
export type WebhookState = 'active' | 'off' | 'conflict';

export function webhookState({ matchConditions }: Webhook): WebhookState {
  const condition = (matchConditions ?? []).find((candidate) => candidate.name === BREAK_GLASS.name);
  if (!condition) return 'active';
  return condition.expression === BREAK_GLASS.expression ? 'off' : 'conflict';
}

function policyState({ namespaces }: FloorPolicy): WebhookState {
  return namespaces.some((one) => deepEqual(one, NO_NAMESPACE)) ? 'off' : 'active';
}

/** The names of the webhooks of a configuration, or of a policy, with their states. */
export function targetStates(target: Target): readonly { readonly name: string; readonly state: WebhookState }[] {
  return isConfiguration(target)
    ? target.webhooks.map((webhook) => ({ name: webhook.name, state: webhookState(webhook) }))
    : [{ name: target.name, state: policyState(target) }];
}

function isConfiguration(target: Target): target is Configuration {
  return target.kind !== 'ValidatingAdmissionPolicy';
}

/** Where API servers find the replicas: a Service, or the origin of a URL with the configuration that contains it. */
type Backend =
  | { readonly service: { readonly namespace: string; readonly name: string } }
  | { readonly origin: string; readonly configuration: Configuration };

/** The backends of the webhooks that are off, and fail closed when break-glass ends. */
export function findClosedBackends(targets: readonly Target[]): readonly Backend[] {
  const backends = targets.filter(isConfiguration).flatMap((configuration) =>
    configuration.webhooks
      .filter((webhook) => isOff(webhook) && webhook.failurePolicy !== 'Ignore')
      .map(({ clientConfig: { service, url = '' } }): [string, Backend] => {
        if (service) return [`${service.namespace}/${service.name}`, { service }];
        const origin = URL.canParse(url) ? new URL(url).origin : url;
        return [origin, { origin, configuration }];
      }),
  );
  return [...new Map(backends).values()];
}

function breakGlassNote({ metadata }: Target): Note {
  const annotations = metadata.annotations ?? {};
  return {
    since: annotations[ANNOTATIONS.since],
    by: annotations[ANNOTATIONS.by],
    reason: annotations[ANNOTATIONS.reason],
  };
}

/** `since 2026-01-15T11:00:00Z by jo: INC-1` */
export function formatNote({ since = '', by, reason }: Note): string {
  return `since ${since}${by === undefined ? '' : ` by ${by}`}${reason === undefined ? '' : `: ${reason}`}`;
}

/** The patch that switches all webhooks of a configuration, or a policy, off; empty if they are off, as the annotations record. */
export function planOn(target: Target, note: Note): JsonPatchOp[] {
  const operations = isConfiguration(target)
    ? target.webhooks.flatMap((webhook, index) =>
        webhookState(webhook) === 'active'
          ? setConditions(webhook, index, [...(webhook.matchConditions ?? []), BREAK_GLASS])
          : [],
      )
    : policyState(target) === 'active'
      ? setNamespaces(target, [...target.namespaces, NO_NAMESPACE])
      : [];
  const isUnmarked =
    breakGlassNote(target).since === undefined && targetStates(target).some(({ state }) => state === 'off');
  return operations.length === 0 && !isUnmarked ? [] : [...operations, ...addNote(target, note)];
}

/** The patch that reverts `planOn`; empty if there is nothing to revert. */
export function planOff(target: Target): JsonPatchOp[] {
  const operations = isConfiguration(target)
    ? target.webhooks.flatMap((webhook, index) =>
        isOff(webhook) ? setConditions(webhook, index, otherConditions(webhook)) : [],
      )
    : policyState(target) === 'off'
      ? setNamespaces(
          target,
          target.namespaces.filter((one) => !deepEqual(one, NO_NAMESPACE)),
        )
      : [];
  return [...operations, ...removeNote(target)];
}

/** Operations that set the requirements for namespaces. They reject the patch if these changed after they were read. */
function setNamespaces({ namespaces }: FloorPolicy, value: FloorPolicy['namespaces']): JsonPatchOp[] {
  const path = '/spec/matchConstraints/namespaceSelector/matchExpressions';
  return [
    { op: 'test', path, value: namespaces },
    { op: 'add', path, value },
  ];
}

function isOff(webhook: Webhook): boolean {
  return webhookState(webhook) === 'off';
}

/** The match conditions without that of break-glass. */
export function otherConditions({ matchConditions }: Webhook) {
  return (matchConditions ?? []).filter((condition) => !deepEqual(condition, BREAK_GLASS));
}

/** Operations that set the match conditions. They reject the patch if the webhook was moved or changed after it was read. */
function setConditions(webhook: Webhook, index: number, conditions: readonly object[]): JsonPatchOp[] {
  const path = `/webhooks/${index}/matchConditions`;
  return [
    { op: 'test', path: `/webhooks/${index}/name`, value: webhook.name },
    { op: 'test', path, value: webhook.matchConditions ?? null },
    conditions.length === 0 ? { op: 'remove', path } : { op: 'add', path, value: conditions },
  ];
}

function addNote({ metadata }: Target, note: Note): JsonPatchOp[] {
  const entries = (['since', 'by', 'reason'] as const).flatMap((key): [string, string][] => {
    const value = note[key];
    return value === undefined ? [] : [[ANNOTATIONS[key], value]];
  });
  if (metadata.annotations == null) {
    return [
      { op: 'test', path: '/metadata/annotations', value: null },
      { op: 'add', path: '/metadata/annotations', value: Object.fromEntries(entries) },
    ];
  }
  return entries.map(([key, value]) => ({ op: 'add', path: `/metadata/annotations/${escapeKey(key)}`, value }));
}

function removeNote({ metadata }: Target): JsonPatchOp[] {
  const annotations = metadata.annotations ?? {};
  return Object.values(ANNOTATIONS)
    .filter((key) => Object.hasOwn(annotations, key))
    .map((key) => ({ op: 'remove', path: `/metadata/annotations/${escapeKey(key)}` }));
}

/** A webhook or policy with its state, as `break-glass status` reports it. */
interface WebhookStatus {
  readonly configuration: string;
  readonly phase: 'policy' | 'validating' | 'mutating';
  readonly webhook: string;
  readonly state: WebhookState;
  readonly failurePolicy: string;
}

/** The state of an installation. `partly`: some webhooks are off, others are active, or only enforce labels are relaxed. */
export interface BreakGlassStatus {
  readonly breakGlass: 'on' | 'partly' | 'off';
  readonly notes: readonly (Note & { readonly configuration: string })[];
  readonly webhooks: readonly WebhookStatus[];
  /** The names of the namespaces with a relaxed enforce label. */
  readonly relaxedNamespaces: readonly string[];
}

export function breakGlassStatus(
  targets: readonly Target[],
  relaxedNamespaces: readonly string[] = [],
): BreakGlassStatus {
  const webhooks = targets.flatMap((target) =>
    targetStates(target).map(({ name, state }, index) => ({
      configuration: target.name,
      phase: targetPhase(target),
      webhook: name,
      state,
      failurePolicy: (isConfiguration(target) ? target.webhooks[index]?.failurePolicy : undefined) ?? 'Fail',
    })),
  );
  const isSomeOff = webhooks.some(({ state }) => state === 'off') || relaxedNamespaces.length > 0;
  const isAllOff = webhooks.every(({ state }) => state === 'off');
  return {
    breakGlass: isSomeOff ? (isAllOff ? 'on' : 'partly') : 'off',
    notes: targets
      .map((target) => ({ configuration: target.name, ...breakGlassNote(target) }))
      .filter(({ since }) => since !== undefined),
    webhooks,
    relaxedNamespaces,
  };
}

export function targetPhase({ kind }: Pick<Target, 'kind'>): WebhookStatus['phase'] {
  if (kind === 'ValidatingAdmissionPolicy') return 'policy';
  return kind === 'ValidatingWebhookConfiguration' ? 'validating' : 'mutating';
}
