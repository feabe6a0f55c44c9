import { setTimeout as pause } from 'node:timers/promises';
import { isFloorPolicy } from '../../api/admission-policies.ts';
import { COMPONENT_LABEL, PART_OF, PART_OF_LABEL, POLICY_SELECTOR, REPLICA } from '../../api/names.ts';
import { caSecretReference, isPartOfPortcullis } from '../../api/webhooks.ts';
import { reviewSelf } from '../../cluster/access-reviews.ts';
import type { AnyObject, ClusterClient } from '../../cluster/client.ts';
import { isCurrentLease, REPLICA_RENEW_MS } from '../../controllers/replica-leases.ts';
import {
  type BreakGlassNote,
  type BreakGlassStatus,
  breakGlassStatus,
  formatNote,
  isOff,
  parseFloorPolicy,
  parseTarget,
  planSwitch,
  readConfigurations,
  type Target,
  targetPhase,
} from '../../install/index.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import { printCount, quote } from '../../kube/text.ts';
import type { EndpointSlice, KubeObject, Lease } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import { isRelaxed, planRelaxation, planRestoration } from '../../policy/rollout/index.ts';
import { clusterOptions, dryRunOption, dryRunSuffix, withCluster } from '../cluster.ts';
import { defineCommand, EXIT, type Io, printPage, PROGRAM } from '../command.ts';
import { readServerCertificate } from '../installation/served-certificate.ts';
import { flag, option, text, type Values } from '../options.ts';
import { DATA_AND_TABLE, outputOption, printable, printData, printTable } from '../output/print.ts';
import { getClusterFlags, kubectl, printCommand } from '../output/shell.ts';
import {
  type BreakGlassRun,
  changeObject,
  type ChangeResult,
  describeRemainingLabels,
  relaxLabels,
  restoreLabels,
  openRecord,
} from './break-glass-labels.ts';

const DETAILS = `
Stops all enforcement in an emergency, and restores it afterwards.

  on      stops API servers from calling the Portcullis webhooks and from evaluating the floor policies, within
          seconds. Relaxes the pod-security.kubernetes.io/enforce labels that the label syncer set, because the
          PodSecurity plugin denies pods by these labels. The output lists other causes of denials
  off     restores the webhooks, policies and labels, except labels that another client has changed. Without
          --force, this machine must reach the URL of the webhooks, or a replica must renew its Lease within 30 s
  status  shows the state of each webhook and policy, and the number of namespaces with a relaxed label

"on" does not require a running replica. You can interrupt and repeat the command. Pods that start while
break-glass is on keep running. Find violations with 'portcullis check' and 'portcullis scc plan'.

GitOps tools (Argo CD, Flux) may revert the change, so suspend them first. For the required permissions, see
${printPage('how-to/break-glass.md')}.

Examples:
  portcullis break-glass on --reason "INC-1234: pods do not start"
  portcullis break-glass status
  portcullis break-glass off --dry-run=server

Exit codes:
  0  success
  1  an object could not be changed, a label could not be restored, or a restored level is lower or its
     version is older than before. For status: break-glass is on
  2  usage error, no replica is ready, or the cluster cannot be read
`;

const OPTIONS = {
  ...clusterOptions,
  reason: option('TEXT', text, undefined, { help: 'Reason to record in an annotation' }),
  'keep-labels': flag({ help: 'Keep the enforce labels that Portcullis set' }),
  force: flag({ help: 'Enable webhooks even if no replica is ready' }),
  ...dryRunOption,
  output: { ...outputOption(DATA_AND_TABLE), help: 'Output format of status (table, json or yaml)' },
};

export const command = defineCommand({
  operands: '<on|off|status>',
  details: DETAILS,
  options: OPTIONS,
  async run(options, [action = ''], io) {
    const perform = Object.hasOwn(ACTIONS, action) ? ACTIONS[action] : undefined;
    if (!perform) throw new UserError(`unknown action ${quote(action)}: must be on, off or status`);
    if (action !== 'on' && options.reason !== undefined) throw new UserError('--reason requires the action "on"');
    if (action !== 'on' && options['keep-labels']) throw new UserError('--keep-labels requires the action "on"');
    if (action !== 'off' && options.force) throw new UserError('--force requires the action "off"');
    return await withCluster(options, io, async (client) => {
      const problems: string[] = [];
      const clusterFlags = getClusterFlags(options);
      const objects = await readObjects({ client, clusterFlags }, options['keep-labels'], problems);
      for (const problem of problems) io.stderr.write(`${printable(problem)}\n`);
      const code = await perform({ ...io, client, clusterFlags, dryRun: options['dry-run'], options, ...objects });
      return problems.length === 0 ? code : EXIT.violations;
    });
  },
});

interface Run
  extends Io, Awaited<ReturnType<typeof readObjects>>, Pick<BreakGlassRun, 'client' | 'clusterFlags' | 'dryRun'> {
  readonly options: Values<typeof OPTIONS>;
}

const ACTIONS: Readonly<Record<string, (run: Run) => number | Promise<number>>> = {
  on: switchOn,
  off: switchOff,
  status: showStatus,
};

const OWN = `${PART_OF_LABEL}=${PART_OF}`;

/** Reads the objects. If the user may not read policies or namespaces, break-glass still switches off the webhooks. */
async function readObjects(
  { client, clusterFlags }: Pick<BreakGlassRun, 'client' | 'clusterFlags'>,
  keepsLabels: boolean,
  problems: string[],
) {
  const readOptional = async (
    title: string,
    kind: 'Namespace' | 'ValidatingAdmissionPolicy' | 'MutatingAdmissionPolicy',
    labels?: string,
  ): Promise<readonly AnyObject[] | undefined> => {
    try {
      return await client.list(RESOURCES[kind], labels === undefined ? {} : { labels });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      problems.push(`${title} not read: ${error.status.message}`);
      return undefined;
    }
  };
  const configurations = (await readConfigurations(client)).filter(isPartOfPortcullis);
  const validating = (await readOptional('policies', 'ValidatingAdmissionPolicy', OWN)) ?? [];
  const mutating = (await readOptional('policies', 'MutatingAdmissionPolicy', OWN)) ?? [];
  const namespaces = keepsLabels ? undefined : await readOptional('namespaces', 'Namespace');
  const floor = validating.filter(({ metadata: { name } }) => isFloorPolicy('ValidatingAdmissionPolicy', name));
  const targets: readonly Target[] = [...floor.map(parseFloorPolicy), ...configurations];
  // Policies that break-glass does not stop.
  const remaining = describePolicies(validating, mutating, clusterFlags);
  if (
    targets.length === 0 &&
    !namespaces?.some((namespace) => planRelaxation(namespace) ?? planRestoration(namespace, undefined))
  ) {
    throw new UserError([`there are no webhook configurations with the label ${OWN}`, ...remaining].join('; '));
  }
  return { targets, namespaces, remaining };
}

/** Describes the policies that break-glass does not stop. */
function describePolicies(
  validating: readonly AnyObject[],
  mutating: readonly AnyObject[],
  clusterFlags: readonly string[],
): readonly string[] {
  const describe = (title: string, policies: readonly AnyObject[], resource: string, labels: string) => {
    const names = policies.map(({ metadata }) => metadata.name).join(', ');
    const command = printCommand(kubectl('delete', resource, '-l', labels), clusterFlags);
    return names === '' ? [] : [`${title}: ${names}. To stop them: ${command}`];
  };
  const installed = validating.filter(({ metadata }) => metadata.labels?.[COMPONENT_LABEL] === 'policies');
  return [
    ...describe(
      'policies of an installation without a server',
      installed,
      'validatingadmissionpolicybindings',
      POLICY_SELECTOR,
    ),
    ...describe('policies that set defaults in pods', mutating, 'mutatingadmissionpolicybindings', OWN),
  ];
}

/** Returns the command that turns break-glass on or off in the same cluster. */
function switchCommand(action: 'on' | 'off', clusterFlags: readonly string[]): string {
  return printCommand({ program: PROGRAM, args: ['break-glass', action] }, clusterFlags);
}

function showStatus({ targets, namespaces = [], options: { output }, clusterFlags, stdout, text }: Run): number {
  const relaxed = namespaces.filter(isRelaxed).map(({ metadata }) => metadata?.name ?? '');
  const status = breakGlassStatus(targets, relaxed);
  if (output === 'table') text.write(formatStatus(status, clusterFlags));
  else stdout.write(printData(output, status));
  return status.breakGlass === 'off' ? EXIT.passed : EXIT.violations;
}

const SUMMARIES: Readonly<Record<BreakGlassStatus['breakGlass'], (on: string, off: string) => string>> = {
  on: (_on, off) => `Break-glass is on: API servers do not call Portcullis. To restore: ${off}`,
  partly: (on, off) =>
    `Break-glass is on for only some webhooks or labels. To turn it on for all: ${on}. To turn it off: ${off}`,
  off: () => 'Break-glass is off: API servers call Portcullis.',
};

function formatStatus(
  { webhooks, notes, breakGlass, relaxedNamespaces }: BreakGlassStatus,
  clusterFlags: readonly string[],
): string {
  const rows = webhooks.map(({ phase, configuration, webhook, failurePolicy, state }) => [
    phase,
    configuration,
    webhook,
    failurePolicy,
    state,
  ]);
  const table = printTable([['PHASE', 'CONFIGURATION', 'WEBHOOK', 'FAILURE POLICY', 'STATE'], ...rows]);
  const configurations = Map.groupBy(notes, formatNote);
  const lines = [...configurations].map(([note, group]) =>
    // Without a common note, each line names the configurations to which it applies.
    configurations.size === 1
      ? `${printable(note).replace(/^s/, 'S')}\n`
      : `${printable(`${group.map(({ configuration }) => configuration).join(', ')}: ${note}`)}\n`,
  );
  const count = printCount(relaxedNamespaces.length, 'namespace');
  const relaxed = relaxedNamespaces.length === 0 ? '' : `The enforce labels of ${count} are relaxed.\n`;
  const summary = SUMMARIES[breakGlass](switchCommand('on', clusterFlags), switchCommand('off', clusterFlags));
  return `${table}\n${lines.join('')}${relaxed}${printable(summary)}\n`;
}

const UNCHANGED: ChangeResult = { isChanged: false, isIncomplete: false };

/**
 * Turns break-glass on and returns the exit code. Changes policies and validating webhooks first. Otherwise, they would
 * deny pods that the mutating webhooks no longer default, and would deny label changes while no replica responds.
 */
async function switchOn(run: Run): Promise<number> {
  const { client, clusterFlags, targets, namespaces, remaining, options, text } = run;
  const by = (await reviewSelf(client.connection, client.signal))?.username;
  const note = { since: new Date().toISOString().replace(/\.\d+Z$/, 'Z'), by, reason: options.reason };
  const webhooks = await switchAll(run, targets, note);
  const labels = namespaces ? await relaxLabels(run, namespaces, openRecord(run, targets)) : UNCHANGED;
  const code = finish(run, [webhooks, labels], {
    done: 'API servers apply the change within seconds, and then send no requests to Portcullis.\nGitOps tools (Argo CD, Flux) may revert the change, so suspend them.',
    unchanged: 'Nothing changed, because break-glass is already on.',
  });
  const list = [
    'If the PodSecurity plugin of the API servers is enabled, it continues to enforce:',
    '- the default level of its configuration, in namespaces without the label pod-security.kubernetes.io/enforce',
    ...(namespaces
      ? describeRemainingLabels(namespaces, clusterFlags)
      : ['all pod-security.kubernetes.io/enforce labels']
    ).map((line) => (line.startsWith(' ') ? line : `- ${line}`)),
    ...(remaining.length === 0 ? [] : ['API servers continue to evaluate:', ...remaining.map((line) => `- ${line}`)]),
    `To restore: ${switchCommand('off', clusterFlags)}`,
  ];
  text.write(`\n${list.map((line) => `${printable(line)}\n`).join('')}`);
  return code;
}

/**
 * Turns break-glass off and returns the exit code. Activates mutating webhooks before it restores labels, because
 * otherwise the API servers' PodSecurity plugin denies pods that SCC admission would default. Activates validating
 * webhooks last, because they may deny label changes.
 */
async function switchOff(run: Run): Promise<number> {
  const { client, targets, namespaces, options } = run;
  const problem = options.force ? undefined : await findReplicaProblem(client, targets);
  if (problem !== undefined) {
    throw new UserError(
      `no replica is ready: ${problem}. Webhooks that fail closed would deny pods. Start the replicas (see 'portcullis doctor'), or enable the webhooks with --force`,
    );
  }
  const isMutating = ({ kind }: Target): boolean => kind === 'MutatingWebhookConfiguration';
  const mutating = await switchAll(run, targets.filter(isMutating), undefined);
  if (mutating.isIncomplete) {
    run.stderr.write('stopped, because pods that the mutating webhooks do not change would be denied\n');
    return EXIT.violations;
  }
  const record = openRecord(run, targets);
  const labels = namespaces ? await restoreLabels(run, namespaces, record.levels) : { ...UNCHANGED, isRejected: true };
  const others = await switchAll(run, targets.filter((target) => !isMutating(target)).toReversed(), undefined);
  if (!labels.isRejected) await record.remove();
  return finish(run, [mutating, labels, others], {
    done: 'API servers apply the change within seconds, and Portcullis then enforces again. Pods that started while break-glass was on keep running.',
    unchanged: 'Nothing changed, because break-glass is already off.',
  });
}

/** Returns the reason why this machine cannot connect to a replica, or `undefined` if it can. */
async function probeServer(url: string): Promise<string | undefined> {
  const result = await readServerCertificate(new URL(url).origin);
  return 'chain' in result ? undefined : result.unknown;
}

/** Time in which a running replica renews its Lease at least once, which is two renewal intervals. */
const RENEWAL_MS = 2 * REPLICA_RENEW_MS;
/** Time since the expiry of a Lease after which its replica has certainly stopped, even with clock skew. */
const CLOCK_TOLERANCE_MS = 60_000;

/**
 * Waits until a replica renews its Lease, and resolves to false if none does in time. A recent renewal is not
 * sufficient, because the Lease of a replica that was killed remains.
 */
async function awaitRenewal(client: ClusterClient, namespace: string | undefined): Promise<boolean> {
  const labels = `${OWN},${COMPONENT_LABEL}=${REPLICA}`;
  const read = (): Promise<readonly Lease[]> => client.list(RESOURCES.Lease, { namespace, labels });
  const before = await read();
  if (!before.some((lease) => isCurrentLease(lease, new Date(), CLOCK_TOLERANCE_MS))) return false;
  const known = new Set(before.map(renewal));
  for (const deadline = Date.now() + RENEWAL_MS; Date.now() < deadline;) {
    await pause(250, undefined, { signal: client.signal });
    if ((await read()).some((lease) => !known.has(renewal(lease)))) return true;
  }
  return false;
}

/** Returns a key that changes with each renewal of a Lease. */
function renewal({ metadata, spec }: Lease): string {
  return `${metadata?.uid} ${spec?.renewTime}`;
}

/** Returns the reason why no replica can respond to fail-closed webhooks, or `undefined` if one is ready. */
async function findReplicaProblem(client: ClusterClient, targets: readonly Target[]): Promise<string | undefined> {
  const closed = targets.flatMap((target) => {
    const webhooks = target.kind === 'ValidatingAdmissionPolicy' ? [] : target.webhooks;
    return webhooks
      .filter((webhook) => isOff(webhook) && webhook.failurePolicy !== 'Ignore')
      .map(({ clientConfig: { service, url } }) => ({ service, url, secret: caSecretReference(target) }));
  });
  // One webhook is sufficient, because all webhooks of an installation use the same replicas.
  const [webhook] = closed;
  if (!webhook) return undefined;
  const { service, url, secret } = webhook;
  try {
    if (service) {
      const { namespace, name } = service;
      const labels = `kubernetes.io/service-name=${name}`;
      const slices = await client.list(RESOURCES.EndpointSlice, { namespace, labels });
      const endpoints = slices.flatMap((slice) => (slice as EndpointSlice).endpoints ?? []);
      const isReady = endpoints.some(({ conditions }) => conditions?.ready !== false);
      if (!isReady) return `Service ${namespace}/${name} has no ready endpoint`;
    }
    const unreachable = url == null ? undefined : await probeServer(url);
    if (url != null && unreachable === undefined) return undefined;
    // The Leases are in the namespace of the Secret, if it is known.
    const isRenewed = await awaitRenewal(client, service?.namespace ?? secret?.split('/')[0]);
    const silence = `no replica has renewed its Lease within ${RENEWAL_MS / 1000} s`;
    return isRenewed ? undefined : [...(unreachable === undefined ? [] : [unreachable]), silence].join(', and ');
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return error.message;
  }
}

/** Prints the last line of the output, unless some changes failed, and returns the exit code. */
function finish(
  { dryRun, text }: Run,
  results: readonly ChangeResult[],
  messages: { readonly done: string; readonly unchanged: string },
): number {
  if (results.some(({ isIncomplete }) => isIncomplete)) return EXIT.violations;
  if (!results.some(({ isChanged }) => isChanged)) text.write(`\n${messages.unchanged}\n`);
  else if (dryRun === 'none') text.write(`\n${messages.done}\n`);
  return EXIT.passed;
}

/** Switches the objects off one at a time if a note is given, and back on otherwise. Prints each step. */
async function switchAll(
  run: Run,
  targets: readonly Target[],
  note: BreakGlassNote | undefined,
): Promise<ChangeResult> {
  let [isChanged, isIncomplete] = [false, false];
  for (const target of targets) {
    const { kind, name } = target;
    const plan = (object: KubeObject) => planSwitch(parseTarget(kind, object), note);
    const { before, error } = await changeObject<KubeObject>(run, RESOURCES[kind], target, { plan });
    const state = note ? 'off' : 'active';
    const result = before ? `${state}${dryRunSuffix(run.dryRun)}` : `${state} already`;
    run.text.write(
      `${printable(`${targetPhase(target)} ${name}: ${error === undefined ? result : `not changed: ${error}`}`)}\n`,
    );
    isIncomplete ||= error !== undefined;
    isChanged ||= before !== undefined;
  }
  return { isChanged, isIncomplete };
}
