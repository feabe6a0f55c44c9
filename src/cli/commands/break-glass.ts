import { reviewSelf } from '../../cluster/access.ts';
import { UserError } from '../../config/files.ts';
import type { JsonPatchOp } from '../../kube/json-patch.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import { quote } from '../../kube/text.ts';
import { isPartOfPortcullis } from '../../kube/webhooks.ts';
import {
  breakGlassStatus,
  formatNote,
  planOff,
  planOn,
  webhookPhase,
  webhookState,
  type BreakGlassStatus,
  type WebhookState,
} from '../break-glass.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';
import {
  clusterOptions,
  parseWebhookConfiguration,
  readConfigurations,
  withCluster,
  type ClusterClient,
  type Configuration,
  dryRunOption,
  dryRunSuffix,
  type DryRun,
} from '../installation.ts';
import { option, text, type Values } from '../options.ts';
import { DATA_AND_TABLE, outputOption, printData, printTable, printable } from '../output/print.ts';

const DETAILS = `
Stops all enforcement in an emergency, and restores it.

  on      adds a match condition that is always false to every webhook of Portcullis. API servers apply
          it within seconds and then send no request to Portcullis, so that a server that does not respond
          delays no request. Annotations record the user, the time and the reason
  off     removes these conditions and annotations
  status  shows the state of each webhook

No replica of Portcullis has to run. The command changes nothing else in the webhook configurations, does
not overwrite concurrent changes, and can be repeated. Pods that start while break-glass is on keep
running: find violations with 'portcullis check' and 'portcullis scc plan'.

GitOps tools (Argo CD, Flux) may revert the change: suspend them first.

Required verbs: get, list and patch on validatingwebhookconfigurations and mutatingwebhookconfigurations
of admissionregistration.k8s.io. For status, list is sufficient.

Examples:
  portcullis break-glass on --reason "INC-1234: pods do not start"
  portcullis break-glass status
  portcullis break-glass off --dry-run=server

Exit codes:
  0  success
  1  a configuration could not be changed; for status: some webhooks are off
  2  wrong usage, or the cluster cannot be read
`;

const OPTIONS = {
  ...clusterOptions,
  reason: option('TEXT', text, undefined, { help: 'Reason, stored in an annotation' }),
  ...dryRunOption,
  output: { ...outputOption(DATA_AND_TABLE), help: 'Output format of status: table, json or yaml' },
};

export const command = defineCommand({
  operands: '<on|off|status>',
  details: DETAILS,
  options: OPTIONS,
  async run(options, operands, io) {
    const action = parseAction(operands);
    if (action !== 'on' && options.reason !== undefined) throw new UserError('--reason requires the action "on"');
    return await withCluster(options, io, async (client) => {
      const configurations = (await readConfigurations(client)).filter(isPartOfPortcullis);
      if (configurations.length === 0) {
        throw new UserError('there are no webhook configurations with the label app.kubernetes.io/part-of=portcullis');
      }
      const run = { client, configurations, options, stdout: io.stdout };
      if (action === 'status') return showStatus(run);
      return action === 'on' ? await switchOn(run) : await changeAll(run, configurations.toReversed(), planOff);
    });
  },
});

interface Run {
  readonly client: ClusterClient;
  /** The webhook configurations of Portcullis. */
  readonly configurations: readonly Configuration[];
  readonly options: Values<typeof OPTIONS>;
  readonly stdout: Io['stdout'];
}

function parseAction([action]: readonly string[]): 'on' | 'off' | 'status' {
  if (action === 'on' || action === 'off' || action === 'status') return action;
  throw new UserError(`unknown action ${quote(action ?? '')}: must be on, off or status`);
}

function showStatus({ configurations, options: { output }, stdout }: Run): number {
  const status = breakGlassStatus(configurations);
  stdout.write(output === 'table' ? formatStatus(status) : printData(output, status));
  return status.breakGlass === 'off' ? EXIT.passed : EXIT.violations;
}

const STATES: Readonly<Record<WebhookState, string>> = {
  active: 'active',
  off: 'off',
  conflict: 'unknown: another match condition has the name "break-glass"',
};

const SUMMARIES: Readonly<Record<BreakGlassStatus['breakGlass'], string>> = {
  on: 'Break-glass is on: API servers do not call Portcullis. To restore: portcullis break-glass off',
  partly:
    'Break-glass is on for some webhooks only. For all: portcullis break-glass on. For none: portcullis break-glass off',
  off: 'Break-glass is off: Portcullis is enforcing.',
};

function formatStatus({ webhooks, notes, breakGlass }: BreakGlassStatus): string {
  const rows = webhooks.map(({ phase, configuration, webhook, failurePolicy, state }) => [
    phase,
    configuration,
    webhook,
    failurePolicy,
    STATES[state],
  ]);
  const table = printTable([['PHASE', 'CONFIGURATION', 'WEBHOOK', 'FAILURE POLICY', 'STATE'], ...rows]);
  const lines = notes.map((note) => `${printable(formatNote(note)).replace(/^s/, 'S')}\n`);
  return `${table}\n${[...new Set(lines)].join('')}${SUMMARIES[breakGlass]}\n`;
}

/** Changes validating webhooks first: they would deny pods that the mutating webhooks no longer complete. */
async function switchOn(run: Run): Promise<number> {
  const { connection, signal } = run.client;
  const by = (await reviewSelf(connection, signal))?.username;
  const note = { since: new Date().toISOString().replace(/\.\d+Z$/, 'Z'), by, reason: run.options.reason };
  return await changeAll(run, run.configurations, (configuration) => planOn(configuration, note));
}

const SWITCHED_ON = `
API servers apply the change within seconds. They then send no request to Portcullis.
GitOps tools (Argo CD, Flux) may revert the change: suspend them.
To restore: portcullis break-glass off
`;

const SWITCHED_OFF = `
API servers apply the change within seconds. Portcullis then enforces again. Pods that started meanwhile keep running.
`;

/** Computes the patch for the current state of a configuration. */
type Plan = (configuration: Configuration) => readonly JsonPatchOp[];

/** The result of a change. `planned`: it was not sent. `deleted`: the configuration was deleted meanwhile. */
type Outcome =
  | { readonly kind: 'changed' | 'planned' | 'unchanged'; readonly configuration: Configuration }
  | { readonly kind: 'deleted' }
  | { readonly kind: 'rejected'; readonly message: string };

/** Changes the configurations one after another and prints each step. Resolves to the exit code. */
async function changeAll(
  { client, options: { 'dry-run': dryRun }, stdout }: Run,
  configurations: readonly Configuration[],
  plan: Plan,
): Promise<number> {
  let failures = 0;
  let isChanged = false;
  for (const configuration of configurations) {
    const outcome = await change(client, configuration, { plan, dryRun });
    const suffix = outcome.kind === 'changed' || outcome.kind === 'planned' ? dryRunSuffix(dryRun) : '';
    const title = `${webhookPhase(configuration)} ${configuration.name}`;
    stdout.write(`${printable(`${title}: ${formatOutcome(outcome)}${suffix}`)}\n`);
    if (isIncomplete(outcome)) failures++;
    isChanged ||= outcome.kind !== 'unchanged';
  }
  if (failures > 0) return EXIT.violations;
  if (!isChanged) stdout.write(`\nNothing changed: break-glass is ${plan === planOff ? 'off' : 'on'} already.\n`);
  else if (dryRun === 'none') stdout.write(plan === planOff ? SWITCHED_OFF : SWITCHED_ON);
  return EXIT.passed;
}

function formatOutcome(outcome: Outcome): string {
  if (outcome.kind === 'deleted') return 'was deleted meanwhile';
  if (outcome.kind === 'rejected') return `not changed: ${outcome.message}`;
  if (outcome.kind === 'planned')
    return `changed: ${outcome.configuration.webhooks.map(({ name }) => name).join(', ')}`;
  const states = Map.groupBy(outcome.configuration.webhooks, webhookState);
  const parts = [...states].map(([state, all]) => `${all.map(({ name }) => name).join(', ')} ${STATES[state]}`);
  return `${outcome.kind}: ${parts.join('; ')}`;
}

function isIncomplete(outcome: Outcome): boolean {
  if (outcome.kind === 'rejected') return true;
  return outcome.kind !== 'deleted' && outcome.configuration.webhooks.some((one) => webhookState(one) === 'conflict');
}

const MAX_ATTEMPTS = 5;

/**
 * Patches a configuration. The patch fails if the webhooks changed after they were read; the configuration is then read
 * and patched again. Rejects only if the server cannot be reached.
 */
async function change(
  client: ClusterClient,
  initial: Configuration,
  { plan, dryRun }: { readonly plan: Plan; readonly dryRun: DryRun },
): Promise<Outcome> {
  const { kind, name } = initial;
  const resource = RESOURCES[kind];
  let configuration = initial;
  for (let attempt = 1; ; attempt++) {
    const operations = plan(configuration);
    if (operations.length === 0) return { kind: 'unchanged', configuration };
    if (dryRun === 'client') return { kind: 'planned', configuration };
    try {
      const patched = await client.patch(resource, name, { operations, dryRun: dryRun === 'server' });
      return { kind: 'changed', configuration: parseWebhookConfiguration(kind, patched) };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const { code, message } = error.status;
      const mayRetry = attempt < MAX_ATTEMPTS && (code === 422 || code === 409);
      const current = mayRetry ? await client.get(resource, name) : undefined;
      if (code === 404 || (mayRetry && !current)) return { kind: 'deleted' };
      // A patch that fails without a concurrent change would fail again.
      if (!current || current.metadata.resourceVersion === configuration.metadata.resourceVersion) {
        return { kind: 'rejected', message };
      }
      configuration = parseWebhookConfiguration(kind, current);
    }
  }
}
