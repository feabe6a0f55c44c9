import { printColumns } from '../report/columns.ts';
import { printable } from '../report/text.ts';
import { phaseOf, type Configuration } from '../installation/own-webhooks.ts';
import { noteOf, stateOf, type Note, type WebhookState } from './plan.ts';
import type { Outcome } from './switch.ts';

/** A webhook and whether it is asked, for people and programs. */
export interface WebhookStatus {
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
