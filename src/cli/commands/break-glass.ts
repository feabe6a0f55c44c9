import { reviewSelf } from '../../cluster/access.ts';
import { UserError } from '../../config/files.ts';
import { isFloorPolicy } from '../../kube/admission-policies.ts';
import type { JsonPatchOp } from '../../kube/json-patch.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import { quote } from '../../kube/text.ts';
import type { KubeObject } from '../../kube/types.ts';
import { isPartOfPortcullis } from '../../kube/webhooks.ts';
import { FLOOR_SELECTOR } from '../../kube/well-known.ts';
import {
  breakGlassStatus,
  formatNote,
  planOff,
  planOn,
  parseFloorPolicy,
  targetPhase,
  targetStates,
  type BreakGlassStatus,
  type Target,
  type WebhookState,
} from '../break-glass.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';
import {
  clusterOptions,
  parseWebhookConfiguration,
  readConfigurations,
  withCluster,
  type ClusterClient,
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
          delays no request. The policies of the floor get a requirement that no namespace meets.
          Annotations record the user, the time and the reason
  off     removes these conditions, requirements and annotations
  status  shows the state of each webhook and policy

No replica of Portcullis has to run. The command changes nothing else in these objects, does not overwrite
concurrent changes, and can be repeated. Pods that start while break-glass is on keep running: find violations
with 'portcullis check' and 'portcullis scc plan'.

GitOps tools (Argo CD, Flux) may revert the change: suspend them first.

Required verbs: get, list and patch on validatingwebhookconfigurations, mutatingwebhookconfigurations and
validatingadmissionpolicies of admissionregistration.k8s.io. For status, list is sufficient.

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
      const { policies, problem } = await readPolicies(client);
      const targets = [...policies, ...configurations];
      if (targets.length === 0) {
        throw new UserError('there are no webhook configurations with the label app.kubernetes.io/part-of=portcullis');
      }
      if (problem !== undefined) io.stderr.write(`policies not read: ${printable(problem)}\n`);
      const run = { client, targets, options, stdout: io.stdout };
      const code = await perform(action, run);
      return problem === undefined ? code : EXIT.violations;
    });
  },
});

function perform(action: Action, run: Run): Promise<number> {
  if (action === 'status') return Promise.resolve(showStatus(run));
  return action === 'on' ? switchOn(run) : changeAll(run, run.targets.toReversed(), planOff);
}

/** Reads the policies of the floor. Without the permission, break-glass still switches the webhooks off. */
async function readPolicies(client: ClusterClient): Promise<{ policies: readonly Target[]; problem?: string }> {
  try {
    const objects = await client.list(RESOURCES.ValidatingAdmissionPolicy, { labels: FLOOR_SELECTOR });
    const maintained = objects.filter(({ metadata: { name } }) => isFloorPolicy('ValidatingAdmissionPolicy', name));
    return { policies: maintained.map(parseFloorPolicy) };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { policies: [], problem: error.status.message };
  }
}

interface Run {
  readonly client: ClusterClient;
  /** The policies and webhook configurations of Portcullis. */
  readonly targets: readonly Target[];
  readonly options: Values<typeof OPTIONS>;
  readonly stdout: Io['stdout'];
}

type Action = 'on' | 'off' | 'status';

function parseAction([action]: readonly string[]): Action {
  if (action === 'on' || action === 'off' || action === 'status') return action;
  throw new UserError(`unknown action ${quote(action ?? '')}: must be on, off or status`);
}

function showStatus({ targets, options: { output }, stdout }: Run): number {
  const status = breakGlassStatus(targets);
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

/** Changes policies and validating webhooks first: they would deny pods that the mutating webhooks no longer complete. */
async function switchOn(run: Run): Promise<number> {
  const { connection, signal } = run.client;
  const by = (await reviewSelf(connection, signal))?.username;
  const note = { since: new Date().toISOString().replace(/\.\d+Z$/, 'Z'), by, reason: run.options.reason };
  return await changeAll(run, run.targets, (target) => planOn(target, note));
}

const SWITCHED_ON = `
API servers apply the change within seconds. They then send no request to Portcullis.
GitOps tools (Argo CD, Flux) may revert the change: suspend them.
To restore: portcullis break-glass off
`;

const SWITCHED_OFF = `
API servers apply the change within seconds. Portcullis then enforces again. Pods that started meanwhile keep running.
`;

/** Computes the patch for the current state of an object. */
type Plan = (target: Target) => readonly JsonPatchOp[];

/** The result of a change. `planned`: it was not sent. `deleted`: the object was deleted meanwhile. */
type Outcome =
  | { readonly kind: 'changed' | 'planned' | 'unchanged'; readonly target: Target }
  | { readonly kind: 'deleted' }
  | { readonly kind: 'rejected'; readonly message: string };

/** Changes the objects one after another and prints each step. Resolves to the exit code. */
async function changeAll(
  { client, options: { 'dry-run': dryRun }, stdout }: Run,
  targets: readonly Target[],
  plan: Plan,
): Promise<number> {
  let failures = 0;
  let isChanged = false;
  for (const target of targets) {
    const outcome = await change(client, target, { plan, dryRun });
    const suffix = outcome.kind === 'changed' || outcome.kind === 'planned' ? dryRunSuffix(dryRun) : '';
    const title = `${targetPhase(target)} ${target.name}`;
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
    return `changed: ${targetStates(outcome.target)
      .map(({ name }) => name)
      .join(', ')}`;
  const states = Map.groupBy(targetStates(outcome.target), ({ state }) => state);
  const parts = [...states].map(([state, all]) => `${all.map(({ name }) => name).join(', ')} ${STATES[state]}`);
  return `${outcome.kind}: ${parts.join('; ')}`;
}

function isIncomplete(outcome: Outcome): boolean {
  if (outcome.kind === 'rejected') return true;
  return outcome.kind !== 'deleted' && targetStates(outcome.target).some(({ state }) => state === 'conflict');
}

const MAX_ATTEMPTS = 5;

/**
 * Patches an object. The patch fails if its webhooks or requirements changed after they were read; the object is then read
 * and patched again. Rejects only if the server cannot be reached.
 */
async function change(
  client: ClusterClient,
  initial: Target,
  { plan, dryRun }: { readonly plan: Plan; readonly dryRun: DryRun },
): Promise<Outcome> {
  const { kind, name } = initial;
  const resource = RESOURCES[kind];
  let target = initial;
  for (let attempt = 1; ; attempt++) {
    const operations = plan(target);
    if (operations.length === 0) return { kind: 'unchanged', target };
    if (dryRun === 'client') return { kind: 'planned', target };
    try {
      const patched = await client.patch(resource, name, { operations, dryRun: dryRun === 'server' });
      return { kind: 'changed', target: parseTarget(kind, patched) };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const { code, message } = error.status;
      const mayRetry = attempt < MAX_ATTEMPTS && (code === 422 || code === 409);
      const current = mayRetry ? await client.get(resource, name) : undefined;
      if (code === 404 || (mayRetry && !current)) return { kind: 'deleted' };
      // A patch that fails without a concurrent change would fail again.
      if (!current || current.metadata.resourceVersion === target.metadata.resourceVersion) {
        return { kind: 'rejected', message };
      }
      target = parseTarget(kind, current);
    }
  }
}

function parseTarget(kind: Target['kind'], object: KubeObject): Target {
  return kind === 'ValidatingAdmissionPolicy' ? parseFloorPolicy(object) : parseWebhookConfiguration(kind, object);
}
