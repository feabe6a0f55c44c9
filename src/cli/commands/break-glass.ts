import type { Connection } from '../../cluster/connection.ts';
import { resourcePath } from '../../kube/resources.ts';
import type { JsonPatchOp } from '../../kube/json-patch.ts';
import { ApiError } from '../../kube/status.ts';
import {
  FIELD_MANAGER,
  ifThere,
  configurationOf,
  type Configuration,
  withCluster,
  clusterOptions,
  isOurs,
  readConfigurations,
} from '../installation.ts';
import { reviewSelf } from '../../cluster/access.ts';
import { UserError } from '../../config/files.ts';
import { quote } from '../../kube/text.ts';
import { planOff, planOn, stateOf, printStatus, printStep, statusOf } from '../break-glass.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';
import { flag, option, text, type Values } from '../options.ts';
import { DATA_AND_TABLE, outputOption, printData } from '../output/print.ts';

/** Decides what to change in a configuration as it is now. */
type Plan = (configuration: Configuration) => readonly JsonPatchOp[];

/** What became of a configuration; `gone` if somebody removed it meanwhile. */
export type Outcome =
  | { readonly kind: 'changed' | 'unchanged'; readonly configuration: Configuration }
  | { readonly kind: 'gone' }
  | { readonly kind: 'refused'; readonly message: string };

/** How often a configuration is looked at again because somebody else changes it all the time. */
const MAX_TRIES = 5;

/**
 * Changes a configuration by a patch that fails if the webhooks have changed since they were read; then it is read again.
 * Rejects only if the server cannot be reached.
 */
async function change(
  connection: Connection,
  read: Configuration,
  plan: Plan,
  options: { readonly dryRun: boolean; readonly signal: AbortSignal },
): Promise<Outcome> {
  let configuration = read;
  for (let tries = 1; ; tries++) {
    const ops = plan(configuration);
    if (ops.length === 0) return { kind: 'unchanged', configuration };
    try {
      return { kind: 'changed', configuration: await patch(connection, configuration, ops, options) };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const { code, message } = error.status;
      if (code === 404) return { kind: 'gone' };
      const again = tries < MAX_TRIES && (code === 422 || code === 409);
      const current = again ? await readAgain(connection, configuration, options.signal) : configuration;
      if (!current) return { kind: 'gone' };
      // What the server refuses although nobody has changed anything, it would refuse again.
      if (!again || current.metadata.resourceVersion === configuration.metadata.resourceVersion) {
        return { kind: 'refused', message };
      }
      configuration = current;
    }
  }
}

async function patch(
  connection: Connection,
  { kind, name }: Configuration,
  ops: readonly JsonPatchOp[],
  { dryRun, signal }: { readonly dryRun: boolean; readonly signal: AbortSignal },
): Promise<Configuration> {
  const answer = await connection.request({
    method: 'PATCH',
    path: pathTo(kind, name),
    query: { fieldManager: FIELD_MANAGER, ...(dryRun ? { dryRun: 'All' } : {}) },
    contentType: 'application/json-patch+json',
    body: ops,
    signal,
  });
  return configurationOf(kind, answer);
}

async function readAgain(
  connection: Connection,
  { kind, name }: Configuration,
  signal: AbortSignal,
): Promise<Configuration | undefined> {
  const object = await ifThere(() => connection.request({ method: 'GET', path: pathTo(kind, name), signal }));
  return object && configurationOf(kind, object);
}

function pathTo(kind: Configuration['kind'], name: string): string {
  return `${resourcePath(kind, undefined)}/${encodeURIComponent(name)}`;
}

const DETAILS = `
Stops all enforcement in one step, for the day when Portcullis is in the way, and undoes that again.

  on      adds a match condition that is never true to every webhook of Portcullis that can refuse or
          change something; API servers follow within seconds. Notes who did it, when and why
  off     takes exactly these conditions and notes away again
  status  tells which webhooks are asked; exit code 1 while some are not

No replica of Portcullis has to run for it. Nothing else of the configurations is touched, and a change
that somebody makes at the same time is not lost. Done twice, it changes nothing the second time. What
started meanwhile goes on running afterwards: see what violates with 'portcullis check' and 'scc plan'.

A tool that keeps manifests (Argo CD, Flux) may take the conditions away: pause it first.

It needs the verbs get, list and patch on validatingwebhookconfigurations and
mutatingwebhookconfigurations of admissionregistration.k8s.io; status only list.

Examples:
  portcullis break-glass on --reason "INC-1234: nothing starts"
  portcullis break-glass status
  portcullis break-glass off --dry-run

Exit codes:
  0  done, or was so already
  1  not everything could be changed, or status: some webhooks are not asked
  2  wrong usage, or the cluster cannot be read
`;

const OPTIONS = {
  ...clusterOptions,
  reason: option('TEXT', text, undefined, { help: 'Why the glass is broken; kept in an annotation' }),
  'dry-run': flag({ help: 'Let the API server say what it would do, and change nothing' }),
  output: { ...outputOption(DATA_AND_TABLE), help: 'Of status: one of table, json, yaml' },
};

type BreakGlassValues = Values<typeof OPTIONS>;

/** Takes enforcement away and brings it back, without any replica. */
export const command = defineCommand({
  operands: '<on|off|status>',
  details: DETAILS,
  options: OPTIONS,
  async run(options, operands, io) {
    const action = actionOf(operands);
    if (action !== 'on' && options.reason !== undefined)
      throw new UserError(`--reason goes with on, not with ${action}`);
    return await withCluster(options, io, async (connection) => {
      const configurations = (await readConfigurations(connection, io.signal)).filter(isOurs);
      if (configurations.length === 0) {
        throw new UserError('there are no webhook configurations labelled app.kubernetes.io/part-of=portcullis');
      }
      if (action === 'status') return showStatus(configurations, options, io);
      return action === 'on'
        ? await switchOn(connection, configurations, options, io)
        : await switchOff(connection, configurations, options, io);
    });
  },
});

function actionOf([action]: readonly string[]): 'on' | 'off' | 'status' {
  if (action === 'on' || action === 'off' || action === 'status') return action;
  throw new UserError(`unknown action ${quote(action ?? '')}: must be on, off or status`);
}

function showStatus(configurations: readonly Configuration[], { output }: BreakGlassValues, { stdout }: Io): number {
  const status = statusOf(configurations);
  if (output === 'table') stdout.write(printStatus(status));
  else stdout.write(printData(output, status));
  return status.breakGlass === 'off' ? EXIT.passed : EXIT.violations;
}

/** Validating webhooks first: they would refuse what the mutating ones no longer complete. */
async function switchOn(
  connection: Connection,
  configurations: readonly Configuration[],
  options: BreakGlassValues,
  io: Io,
): Promise<number> {
  const by = (await reviewSelf(connection, io.signal))?.username;
  const note = { since: new Date().toISOString().replace(/\.\d+Z$/, 'Z'), by, reason: options.reason };
  const failures = await changeAll(connection, configurations, (one) => planOn(one, note), options, io);
  io.stdout.write(failures === 0 && !options['dry-run'] ? WHEN_ON : '');
  return failures === 0 ? EXIT.passed : EXIT.violations;
}

const WHEN_ON = `
API servers follow within seconds; then Portcullis refuses and changes nothing.
A tool that keeps manifests (Argo CD, Flux) may undo this: pause it.
Back: portcullis break-glass off
`;

async function switchOff(
  connection: Connection,
  configurations: readonly Configuration[],
  options: BreakGlassValues,
  io: Io,
): Promise<number> {
  const failures = await changeAll(connection, configurations.toReversed(), planOff, options, io);
  io.stdout.write(failures === 0 && !options['dry-run'] ? WHEN_OFF : '');
  return failures === 0 ? EXIT.passed : EXIT.violations;
}

const WHEN_OFF = `
API servers follow within seconds; then Portcullis enforces again. What started meanwhile goes on running.
`;

/** Tells each step; resolves to how many failed. */
async function changeAll(
  connection: Connection,
  configurations: readonly Configuration[],
  plan: Plan,
  options: BreakGlassValues,
  { stdout, signal }: Io,
): Promise<number> {
  const dryRun = options['dry-run'];
  let failures = 0;
  for (const configuration of configurations) {
    const outcome = await change(connection, configuration, plan, { dryRun, signal });
    stdout.write(`${printStep(configuration, outcome, dryRun ? ' (server dry run)' : '')}\n`);
    if (isIncomplete(outcome)) failures++;
  }
  return failures;
}

function isIncomplete(outcome: Outcome): boolean {
  if (outcome.kind === 'refused') return true;
  return outcome.kind !== 'gone' && outcome.configuration.webhooks.some((one) => stateOf(one) === 'obstructed');
}
