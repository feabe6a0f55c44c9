import { reviewSelf } from '../../cluster/access.ts';
import type { AnyObject, ClusterClient } from '../../cluster/client.ts';
import { UserError } from '../../config/files.ts';
import { isFloorPolicy } from '../../kube/admission-policies.ts';
import type { JsonPatchOp } from '../../kube/json-patch.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { ApiError } from '../../kube/status.ts';
import { printCount, quote } from '../../kube/text.ts';
import type { EndpointSlice, KubeObject, Lease, Namespace } from '../../kube/types.ts';
import { caSecretReference, isPartOfPortcullis } from '../../kube/webhooks.ts';
import { COMPONENT_LABEL, PART_OF, PART_OF_LABEL, POLICY_SELECTOR, REPLICA } from '../../kube/well-known.ts';
import { isRelaxed } from '../../policy/rollout/label-sync.ts';
import { planRelaxation, planRestoration } from '../../policy/rollout/relaxation.ts';
import { clusterOptions, type DryRun, dryRunOption, dryRunSuffix, withCluster } from '../cluster.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';
import { flag, option, text, type Values } from '../options.ts';
import { DATA_AND_TABLE, outputOption, printable, printData, printTable } from '../output/print.ts';
import { readServerCertificate } from '../served-certificate.ts';
import { describeRemainingLabels, listNamespaces, relaxLabels, restoreLabels } from './break-glass-labels.ts';
import {
  breakGlassStatus,
  type BreakGlassStatus,
  findClosedBackends,
  formatNote,
  parseFloorPolicy,
  planOff,
  planOn,
  type Target,
  targetPhase,
  targetStates,
  type WebhookState,
} from './break-glass-state.ts';
import { isCurrentLease } from './replicas.ts';
import { parseWebhookConfiguration, readConfigurations } from './webhooks.ts';

const DETAILS = `
Stops all enforcement in an emergency, and restores it.

  on      adds a match condition that is always false to every webhook of Portcullis. API servers apply
          it within seconds and then send no request to Portcullis, so a server that does not respond
          delays no request. The policies of the floor get a requirement that no namespace meets.
          Annotations record the user, the time and the reason. The labels
          pod-security.kubernetes.io/enforce that the label syncer set become privileged, because the
          PodSecurity plugin of API servers denies ordinary pods by these labels while SCC admission does
          not default the pods. The label portcullis.dev/break-glass-enforce records the former level.
          The output lists what continues to deny pods, such as labels of other clients
  off     removes these conditions, requirements and annotations, and restores the labels. A label that
          another client changed meanwhile does not change. Without --force, a replica has to be ready
  status  shows the state of each webhook and policy, and the number of namespaces with a relaxed label

"on" does not require a running replica. The command changes nothing else in these objects, does not
overwrite concurrent changes, and can be interrupted and repeated. Running replicas do not change Pod Security
labels while break-glass is on. Pods that start while break-glass is on keep running: find violations with
'portcullis check' and 'portcullis scc plan'.

GitOps tools (Argo CD, Flux) may revert the change: suspend them first.

Required verbs: get, list and patch on validatingwebhookconfigurations, mutatingwebhookconfigurations and
validatingadmissionpolicies of admissionregistration.k8s.io and on namespaces, and list on
mutatingadmissionpolicies. For off, also list on endpointslices in the namespace of the installation, or on
leases if API servers call replicas by URL. For status, list is sufficient.

Examples:
  portcullis break-glass on --reason "INC-1234: pods do not start"
  portcullis break-glass status
  portcullis break-glass off --dry-run=server

Exit codes:
  0  success
  1  an object could not be changed, or a label could not be restored; for status: break-glass is on
  2  wrong usage, no replica is ready, or the cluster cannot be read
`;

const OPTIONS = {
  ...clusterOptions,
  reason: option('TEXT', text, undefined, { help: 'Reason, stored in an annotation' }),
  'keep-labels': flag({ help: 'Keep the enforce labels that Portcullis set' }),
  force: flag({ help: 'Switch webhooks on even if no replica is ready' }),
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
    if (action !== 'on' && options['keep-labels']) throw new UserError('--keep-labels requires the action "on"');
    if (action !== 'off' && options.force) throw new UserError('--force requires the action "off"');
    return await withCluster(options, io, async (client) => {
      const configurations = (await readConfigurations(client)).filter(isPartOfPortcullis);
      const problems: string[] = [];
      const { floor, remaining } = await readPolicies(client, problems);
      const namespaces = options['keep-labels'] ? undefined : await readNamespaces(client, problems);
      const targets = [...floor, ...configurations];
      if (targets.length === 0 && !namespaces?.some((one) => planRelaxation(one) ?? planRestoration(one))) {
        throw new UserError(
          [`there are no webhook configurations with the label ${PART_OF_LABEL}=${PART_OF}`, ...remaining].join('; '),
        );
      }
      for (const problem of problems) io.stderr.write(`${printable(problem)}\n`);
      const run = {
        client,
        targets,
        namespaces,
        remaining,
        options,
        stdout: io.stdout,
        text: io.text,
        stderr: io.stderr,
      };
      const code = await perform(action, run);
      return problems.length === 0 ? code : EXIT.violations;
    });
  },
});

function perform(action: Action, run: Run): Promise<number> {
  if (action === 'status') return Promise.resolve(showStatus(run));
  return action === 'on' ? switchOn(run) : switchOff(run);
}

/**
 * Reads the policies of the floor, and describes other policies of Portcullis. Without the permission, break-glass still
 * switches the webhooks off.
 */
async function readPolicies(client: ClusterClient, problems: string[]) {
  const labels = `${PART_OF_LABEL}=${PART_OF}`;
  const list = (kind: 'ValidatingAdmissionPolicy' | 'MutatingAdmissionPolicy') =>
    readOptional(() => client.list(RESOURCES[kind], { labels }), problems, 'policies');
  const validating = (await list('ValidatingAdmissionPolicy')) ?? [];
  const mutating = (await list('MutatingAdmissionPolicy')) ?? [];
  const floor = validating.filter(({ metadata: { name } }) => isFloorPolicy('ValidatingAdmissionPolicy', name));
  const installed = validating.filter(({ metadata }) => metadata.labels?.[COMPONENT_LABEL] === 'policies');
  const names = (objects: readonly AnyObject[]): string => objects.map(({ metadata }) => metadata.name).join(', ');
  return {
    floor: floor.map(parseFloorPolicy),
    remaining: [
      ...(installed.length === 0
        ? []
        : [
            `policies of an installation without a server: ${names(installed)}. To stop them: kubectl delete validatingadmissionpolicybindings -l ${POLICY_SELECTOR}`,
          ]),
      ...(mutating.length === 0
        ? []
        : [
            `policies that set defaults in pods: ${names(mutating)}. To stop them: kubectl delete mutatingadmissionpolicybindings -l ${labels}`,
          ]),
    ],
  };
}

async function readNamespaces(client: ClusterClient, problems: string[]): Promise<readonly Namespace[] | undefined> {
  return await readOptional(() => listNamespaces(client), problems, 'namespaces');
}

/** Resolves to `undefined` and adds a problem if the API server rejects the request. */
async function readOptional<T>(read: () => Promise<T>, problems: string[], title: string): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    problems.push(`${title} not read: ${error.status.message}`);
    return undefined;
  }
}

interface Run {
  readonly client: ClusterClient;
  /** The policies and webhook configurations of Portcullis. */
  readonly targets: readonly Target[];
  /** Absent if they could not be read, or labels are kept. */
  readonly namespaces: readonly Namespace[] | undefined;
  /** Descriptions of policies that break-glass does not stop. */
  readonly remaining: readonly string[];
  readonly options: Values<typeof OPTIONS>;
  readonly stdout: Io['stdout'];
  readonly text: Io['text'];
  readonly stderr: Io['stderr'];
}

type Action = 'on' | 'off' | 'status';

function parseAction([action]: readonly string[]): Action {
  if (action === 'on' || action === 'off' || action === 'status') return action;
  throw new UserError(`unknown action ${quote(action ?? '')}: must be on, off or status`);
}

function showStatus({ targets, namespaces = [], options: { output }, stdout, text }: Run): number {
  const relaxed = namespaces.filter(isRelaxed).map(({ metadata }) => metadata?.name ?? '');
  const status = breakGlassStatus(targets, relaxed);
  if (output === 'table') text.write(formatStatus(status));
  else stdout.write(printData(output, status));
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
    'Break-glass is on for some webhooks or labels only. For all: portcullis break-glass on. For none: portcullis break-glass off',
  off: 'Break-glass is off: Portcullis is enforcing.',
};

function formatStatus({ webhooks, notes, breakGlass, relaxedNamespaces }: BreakGlassStatus): string {
  const rows = webhooks.map(({ phase, configuration, webhook, failurePolicy, state }) => [
    phase,
    configuration,
    webhook,
    failurePolicy,
    STATES[state],
  ]);
  const table = printTable([['PHASE', 'CONFIGURATION', 'WEBHOOK', 'FAILURE POLICY', 'STATE'], ...rows]);
  const lines = notes.map((note) => `${printable(formatNote(note)).replace(/^s/, 'S')}\n`);
  const count = printCount(relaxedNamespaces.length, 'namespace');
  const relaxed = relaxedNamespaces.length === 0 ? '' : `The enforce labels of ${count} are relaxed.\n`;
  return `${table}\n${[...new Set(lines)].join('')}${relaxed}${SUMMARIES[breakGlass]}\n`;
}

/**
 * Changes policies and validating webhooks first: they would deny pods that the mutating webhooks no longer default, and
 * changes of labels while no replica responds.
 */
async function switchOn(run: Run): Promise<number> {
  const { client, namespaces, remaining, options, text } = run;
  const by = (await reviewSelf(client.connection, client.signal))?.username;
  const note = { since: new Date().toISOString().replace(/\.\d+Z$/, 'Z'), by, reason: options.reason };
  const webhooks = await changeAll(run, run.targets, (target) => planOn(target, note));
  const labels = namespaces ? await relaxLabels({ ...run, dryRun: options['dry-run'] }, namespaces) : UNCHANGED;
  const code = finish(run, [webhooks, labels], SWITCHED_ON);
  const list = [
    'The PodSecurity plugin of API servers, if it is enabled, continues to enforce:',
    '- the default level of its configuration, in namespaces without the label pod-security.kubernetes.io/enforce',
    ...(namespaces ? describeRemainingLabels(namespaces) : ['all labels pod-security.kubernetes.io/enforce']).map(
      (line) => (line.startsWith(' ') ? line : `- ${line}`),
    ),
    ...(remaining.length === 0 ? [] : ['API servers continue to evaluate:', ...remaining.map((line) => `- ${line}`)]),
    'To restore: portcullis break-glass off',
  ];
  text.write(`\n${list.map((line) => `${printable(line)}\n`).join('')}`);
  return code;
}

/**
 * Mutating webhooks are active before labels are restored: otherwise the PodSecurity plugin of API servers denies pods that
 * SCC admission would default. Validating webhooks, which may deny changes of labels, follow.
 */
async function switchOff(run: Run): Promise<number> {
  const { client, targets, namespaces, options } = run;
  if (!options.force) await checkReplicas(client, targets);
  const isMutating = ({ kind }: Target): boolean => kind === 'MutatingWebhookConfiguration';
  const mutating = await changeAll(run, targets.filter(isMutating), planOff);
  if (mutating.isIncomplete) {
    run.stderr.write('stopped, because pods that the mutating webhooks do not change would be denied\n');
    return EXIT.violations;
  }
  const labels = namespaces ? await restoreLabels({ ...run, dryRun: options['dry-run'] }, namespaces) : UNCHANGED;
  const others = await changeAll(run, targets.filter((target) => !isMutating(target)).toReversed(), planOff);
  return finish(run, [mutating, labels, others], SWITCHED_OFF);
}

/** @throws {UserError} unless a replica is ready to answer the webhooks that will fail closed */
async function checkReplicas(client: ClusterClient, targets: readonly Target[]): Promise<void> {
  const problem = await findReplicaProblem(client, targets);
  if (problem === undefined) return;
  throw new UserError(
    `no replica is ready: ${problem}. Webhooks that fail closed would deny pods. Start the replicas (see 'portcullis doctor'), or switch the webhooks on with --force`,
  );
}

async function findReplicaProblem(client: ClusterClient, targets: readonly Target[]): Promise<string | undefined> {
  try {
    for (const backend of findClosedBackends(targets)) {
      if ('origin' in backend) {
        const { origin, configuration } = backend;
        // This machine may not reach an address that API servers reach.
        const isReady =
          'chain' in (await readServerCertificate(origin)) || (await hasCurrentLease(client, configuration));
        if (!isReady) return `no replica responds at ${origin}, and no Lease of a replica is current`;
      } else if (!(await hasReadyEndpoint(client, backend.service))) {
        return `Service ${backend.service.namespace}/${backend.service.name} has no ready endpoint`;
      }
    }
    return undefined;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return error.message;
  }
}

async function hasReadyEndpoint(
  client: ClusterClient,
  { namespace, name }: { readonly namespace: string; readonly name: string },
): Promise<boolean> {
  const labels = `kubernetes.io/service-name=${name}`;
  const slices = (await client.list(RESOURCES.EndpointSlice, { namespace, labels })) as readonly (AnyObject &
    EndpointSlice)[];
  return slices.some(({ endpoints }) => endpoints?.some(({ conditions }) => conditions?.ready !== false));
}

/** The namespace of the Leases is that of the Secret, if it is known. */
async function hasCurrentLease(client: ClusterClient, configuration: Target): Promise<boolean> {
  const namespace = caSecretReference(configuration)?.split('/')[0];
  const labels = `${PART_OF_LABEL}=${PART_OF},${COMPONENT_LABEL}=${REPLICA}`;
  const leases: readonly Lease[] = await client.list(RESOURCES.Lease, { namespace, labels });
  return leases.some((lease) => isCurrentLease(lease, new Date()));
}

const SWITCHED_ON = {
  done: `
API servers apply the change within seconds. They then send no request to Portcullis.
GitOps tools (Argo CD, Flux) may revert the change: suspend them.
`,
  unchanged: '\nNothing changed: break-glass is on already.\n',
} as const;

const SWITCHED_OFF = {
  done: `
API servers apply the change within seconds. Portcullis then enforces again. Pods that started meanwhile keep running.
`,
  unchanged: '\nNothing changed: break-glass is off already.\n',
} as const;

interface Result {
  readonly isChanged: boolean;
  readonly isIncomplete: boolean;
}

const UNCHANGED: Result = { isChanged: false, isIncomplete: false };

/** Prints the end of the report. Returns the exit code. */
function finish(
  { options: { 'dry-run': dryRun }, text }: Run,
  results: readonly Result[],
  messages: { readonly done: string; readonly unchanged: string },
): number {
  if (results.some(({ isIncomplete }) => isIncomplete)) return EXIT.violations;
  if (!results.some(({ isChanged }) => isChanged)) text.write(messages.unchanged);
  else if (dryRun === 'none') text.write(messages.done);
  return EXIT.passed;
}

/** Computes the patch for the current state of an object. */
type Plan = (target: Target) => readonly JsonPatchOp[];

/** The result of a change. `planned`: it was not sent. `deleted`: the object was deleted meanwhile. */
type Outcome =
  | { readonly kind: 'changed' | 'planned' | 'unchanged'; readonly target: Target }
  | { readonly kind: 'deleted' }
  | { readonly kind: 'rejected'; readonly message: string };

/** Changes the objects one after another and prints each step. */
async function changeAll(
  { client, options: { 'dry-run': dryRun }, text }: Run,
  targets: readonly Target[],
  plan: Plan,
): Promise<Result> {
  let [isChanged, isIncomplete] = [false, false];
  for (const target of targets) {
    const outcome = await change(client, target, { plan, dryRun });
    const suffix = outcome.kind === 'changed' || outcome.kind === 'planned' ? dryRunSuffix(dryRun) : '';
    const title = `${targetPhase(target)} ${target.name}`;
    text.write(`${printable(`${title}: ${formatOutcome(outcome)}${suffix}`)}\n`);
    isIncomplete ||= isFailed(outcome);
    isChanged ||= outcome.kind !== 'unchanged';
  }
  return { isChanged, isIncomplete };
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

function isFailed(outcome: Outcome): boolean {
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
