import { deepEqual } from '../kube/equality.ts';
import { type JsonPatchOp, escapeKey } from '../kube/json-patch.ts';
import { type Configuration, type Webhook, phaseOf } from './installation.ts';
import { printColumns, printable } from './output/print.ts';
import type { Outcome } from './commands/break-glass.ts';

// * Break-glass: a match condition that is never true keeps API servers from asking a webhook. The rest of its
// configuration stays as it is, so that taking the condition away restores all of it.

/** Never true: no request is sent to the webhook. */
export const BREAK_GLASS = { name: 'break-glass', expression: 'false' } as const;

const ANNOTATIONS = {
  since: 'portcullis.dev/break-glass-since',
  by: 'portcullis.dev/break-glass-by',
  reason: 'portcullis.dev/break-glass-reason',
} as const;

/** Who broke the glass, when, and why. */
interface Note {
  /** RFC 3339. */
  readonly since?: string | undefined;
  readonly by?: string | undefined;
  readonly reason?: string | undefined;
}

/**
 * `asked`: as if there were no glass. `off`: no request is sent. `advisory`: only warns and never fails a request, so
 * that it is left alone. `obstructed`: a condition of somebody else has the name of ours.
 */
type WebhookState = 'asked' | 'off' | 'advisory' | 'obstructed';

/** It only adds warnings, and API servers go on without it. */
const ADVISORY = 'advise.psa.portcullis.dev';

export function stateOf({ name, matchConditions }: Webhook): WebhookState {
  const found = (matchConditions ?? []).find((condition) => condition.name === BREAK_GLASS.name);
  if (found) return found.expression === BREAK_GLASS.expression ? 'off' : 'obstructed';
  return name === ADVISORY ? 'advisory' : 'asked';
}

/** What was noted when the glass was broken. */
export function noteOf({ metadata }: Configuration): Note {
  const annotations = metadata.annotations ?? {};
  return {
    since: annotations[ANNOTATIONS.since],
    by: annotations[ANNOTATIONS.by],
    reason: annotations[ANNOTATIONS.reason],
  };
}

/** The operations that keep a configuration's webhooks from being asked; none if that is so already. */
export function planOn(configuration: Configuration, note: Note): JsonPatchOp[] {
  const ops = configuration.webhooks.flatMap((webhook, index) =>
    stateOf(webhook) === 'asked' ? addCondition(webhook, index) : [],
  );
  return ops.length === 0 ? [] : [...ops, ...annotate(configuration, note)];
}

/** The operations that take back what `planOn` did; none if there is nothing to take back. */
export function planOff(configuration: Configuration): JsonPatchOp[] {
  const ops = configuration.webhooks.flatMap((webhook, index) =>
    stateOf(webhook) === 'off' ? removeCondition(webhook, index) : [],
  );
  return [...ops, ...unannotate(configuration)];
}

// Every change is bound to what it was decided from: a webhook that was moved or changed meanwhile refuses the patch.

function addCondition(webhook: Webhook, index: number): JsonPatchOp[] {
  const path = `/webhooks/${index}/matchConditions`;
  const { matchConditions = null } = webhook;
  return [
    ...testsOf(webhook, index),
    matchConditions === null
      ? { op: 'add', path, value: [BREAK_GLASS] }
      : { op: 'add', path: `${path}/-`, value: BREAK_GLASS },
  ];
}

function removeCondition(webhook: Webhook, index: number): JsonPatchOp[] {
  const path = `/webhooks/${index}/matchConditions`;
  const conditions = webhook.matchConditions ?? [];
  const place = conditions.findIndex((condition) => deepEqual(condition, BREAK_GLASS));
  return [...testsOf(webhook, index), { op: 'remove', path: conditions.length === 1 ? path : `${path}/${place}` }];
}

function testsOf({ name, matchConditions }: Webhook, index: number): JsonPatchOp[] {
  return [
    { op: 'test', path: `/webhooks/${index}/name`, value: name },
    { op: 'test', path: `/webhooks/${index}/matchConditions`, value: matchConditions ?? null },
  ];
}

function annotate({ metadata }: Configuration, note: Note): JsonPatchOp[] {
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
  return entries.map(([key, value]) => ({ op: 'add', path: pathOf(key), value }));
}

function unannotate({ metadata }: Configuration): JsonPatchOp[] {
  const annotations = metadata.annotations ?? {};
  return Object.values(ANNOTATIONS)
    .filter((key) => Object.hasOwn(annotations, key))
    .map((key) => ({ op: 'remove', path: pathOf(key) }));
}

function pathOf(annotation: string): string {
  return `/metadata/annotations/${escapeKey(annotation)}`;
}

/** A webhook and whether it is asked, for people and programs. */
interface WebhookStatus {
  readonly configuration: string;
  readonly phase: string;
  readonly webhook: string;
  readonly state: WebhookState;
  readonly failurePolicy: string;
}

/** The state of an installation: `on` if the glass is broken everywhere, `partly` if some webhooks are asked. */
export interface Status {
  readonly breakGlass: 'on' | 'partly' | 'off';
  readonly notes: readonly (Note & { readonly configuration: string })[];
  readonly webhooks: readonly WebhookStatus[];
}

export function statusOf(configurations: readonly Configuration[]): Status {
  const webhooks = configurations.flatMap((configuration) =>
    configuration.webhooks.map((webhook) => ({
      configuration: configuration.name,
      phase: phaseOf(configuration),
      webhook: webhook.name,
      state: stateOf(webhook),
      failurePolicy: webhook.failurePolicy ?? 'Fail',
    })),
  );
  const isOff = webhooks.some(({ state }) => state === 'off');
  const isAsked = webhooks.some(({ state }) => state === 'asked' || state === 'obstructed');
  return {
    breakGlass: isOff ? (isAsked ? 'partly' : 'on') : 'off',
    notes: configurations
      .map((configuration) => ({ configuration: configuration.name, ...noteOf(configuration) }))
      .filter(({ since }) => since !== undefined),
    webhooks,
  };
}

const STATES: Readonly<Record<WebhookState, string>> = {
  asked: 'asked',
  off: 'not asked',
  advisory: 'asked, warns only',
  obstructed: 'unknown: it has another match condition called "break-glass"',
};

const SUMMARIES: Readonly<Record<Status['breakGlass'], string>> = {
  on: 'The glass is broken: Portcullis refuses and changes nothing. Back: portcullis break-glass off',
  partly:
    'The glass is broken for some webhooks only. All: portcullis break-glass on. None: portcullis break-glass off',
  off: 'The glass is whole: Portcullis enforces.',
};

export function printStatus(status: Status): string {
  const rows = status.webhooks.map((one) => [
    one.phase,
    one.configuration,
    one.webhook,
    one.failurePolicy,
    STATES[one.state],
  ]);
  const table = printColumns(['PHASE', 'CONFIGURATION', 'WEBHOOK', 'FAILURE POLICY', 'STATE'], rows);
  const notes = [...new Set(status.notes.map(printNote))].map((note) => `${note}\n`);
  return `${table}\n${notes.join('')}${SUMMARIES[status.breakGlass]}\n`;
}

function printNote({ since = '', by, reason }: Note): string {
  const who = by === undefined ? '' : ` by ${by}`;
  return printable(`Since ${since}${who}${reason === undefined ? '' : `: ${reason}`}`);
}

/** One line on what became of a configuration; `suffix` says of a dry run that it is one. */
export function printStep(read: Configuration, outcome: Outcome, suffix: string): string {
  const title = `${phaseOf(read)} ${read.name}`;
  return printable(`${title}: ${describe(outcome)}${outcome.kind === 'changed' ? suffix : ''}`);
}

function describe(outcome: Outcome): string {
  if (outcome.kind === 'gone') return 'gone, somebody has removed it';
  if (outcome.kind === 'refused') return `not changed: ${outcome.message}`;
  const states = Map.groupBy(outcome.configuration.webhooks, stateOf);
  const parts = [...states].map(
    ([state, webhooks]) => `${webhooks.map(({ name }) => name).join(', ')} ${STATES[state]}`,
  );
  return `${outcome.kind}: ${parts.join('; ')}`;
}
