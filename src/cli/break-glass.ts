/**
 * Break-glass: a match condition that is always false stops API servers from calling a webhook. The rest of the webhook
 * configuration does not change, so that the removal of the condition restores it.
 */
import { deepEqual } from '../kube/equality.ts';
import { escapeKey, type JsonPatchOp } from '../kube/json-patch.ts';
import { BREAK_GLASS_ANNOTATION } from '../kube/well-known.ts';
import type { Configuration, Webhook } from './installation.ts';

/** The match condition that is always false. */
const BREAK_GLASS = { name: 'break-glass', expression: 'false' } as const;

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

function breakGlassNote({ metadata }: Configuration): Note {
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

/** The patch that switches all webhooks of a configuration off; empty if they are off, as the annotations record. */
export function planOn(configuration: Configuration, note: Note): JsonPatchOp[] {
  const operations = configuration.webhooks.flatMap((webhook, index) =>
    webhookState(webhook) === 'active'
      ? setConditions(webhook, index, [...(webhook.matchConditions ?? []), BREAK_GLASS])
      : [],
  );
  const isUnmarked = breakGlassNote(configuration).since === undefined && configuration.webhooks.some(isOff);
  return operations.length === 0 && !isUnmarked ? [] : [...operations, ...addNote(configuration, note)];
}

/** The patch that reverts `planOn`; empty if there is nothing to revert. */
export function planOff(configuration: Configuration): JsonPatchOp[] {
  const operations = configuration.webhooks.flatMap((webhook, index) =>
    isOff(webhook) ? setConditions(webhook, index, otherConditions(webhook)) : [],
  );
  return [...operations, ...removeNote(configuration)];
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

function addNote({ metadata }: Configuration, note: Note): JsonPatchOp[] {
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

function removeNote({ metadata }: Configuration): JsonPatchOp[] {
  const annotations = metadata.annotations ?? {};
  return Object.values(ANNOTATIONS)
    .filter((key) => Object.hasOwn(annotations, key))
    .map((key) => ({ op: 'remove', path: `/metadata/annotations/${escapeKey(key)}` }));
}

/** A webhook with its state, as `break-glass status` reports it. */
interface WebhookStatus {
  readonly configuration: string;
  readonly phase: 'validating' | 'mutating';
  readonly webhook: string;
  readonly state: WebhookState;
  readonly failurePolicy: string;
}

/** The state of an installation. `partly`: some webhooks are off, others are active. */
export interface BreakGlassStatus {
  readonly breakGlass: 'on' | 'partly' | 'off';
  readonly notes: readonly (Note & { readonly configuration: string })[];
  readonly webhooks: readonly WebhookStatus[];
}

export function breakGlassStatus(configurations: readonly Configuration[]): BreakGlassStatus {
  const webhooks = configurations.flatMap((configuration) =>
    configuration.webhooks.map((webhook) => ({
      configuration: configuration.name,
      phase: webhookPhase(configuration),
      webhook: webhook.name,
      state: webhookState(webhook),
      failurePolicy: webhook.failurePolicy ?? 'Fail',
    })),
  );
  const isSomeOff = webhooks.some(({ state }) => state === 'off');
  const isAllOff = webhooks.every(({ state }) => state === 'off');
  return {
    breakGlass: isSomeOff ? (isAllOff ? 'on' : 'partly') : 'off',
    notes: configurations
      .map((configuration) => ({ configuration: configuration.name, ...breakGlassNote(configuration) }))
      .filter(({ since }) => since !== undefined),
    webhooks,
  };
}

export function webhookPhase({ kind }: Pick<Configuration, 'kind'>): WebhookStatus['phase'] {
  return kind === 'ValidatingWebhookConfiguration' ? 'validating' : 'mutating';
}
