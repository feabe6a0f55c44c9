import { setImmediate } from 'node:timers/promises';
import { writeFile } from 'node:fs/promises';
import {
  type NeededScc,
  type PlannedGrant,
  type WorkloadName,
  printChanges,
  printNextStep,
  printPlanSummary,
  summarizePlan,
  type Plan,
  type PlannedNamespace,
  type PlannedWorkload,
  type Outcome,
  isGrantable,
  neededSccsOf,
  exitCodeOfPlan,
} from '../scc-plan.ts';
import { quote, compareBytes } from '../../kube/text.ts';
import { type PlannedRefusal, planPod } from '../../policy/scc/advice/explain.ts';
import { useRoleNameOf, grantObjects } from '../../policy/scc/standard.ts';
import { printObstacle } from '../../policy/scc/advice/warnings.ts';
import { assumptionBlocks } from '../output/print.ts';
import { serviceAccountError } from '../inventory/assumptions.ts';
import {
  type Style,
  printable,
  createProgress,
  DATA_AND_TABLE,
  outputOption,
  printData,
  styleOf,
} from '../output/print.ts';
import { canUseScc } from '../../cluster/access.ts';
import type { Store } from '../../cluster/store.ts';
import { type PodSource, listPodSources, POD_SOURCES } from '../../cluster/workloads.ts';
import { completePod, getControllerPod, isMirrorPod, nodeUser, type ControllerPod } from '../../kube/controller-pod.ts';
import { withoutEphemeralContainers } from '../../kube/pod.ts';
import type { Kinds, Namespace, Kind } from '../../kube/types.ts';
import type { CanUse } from '../../policy/scc/request.ts';
import { type ExpectedSettings, expectedMode, expectedSettings, sccOptions } from '../scc-options.ts';
import { createAuthorizer } from '../../policy/rbac/index.ts';
import { type Io, defineCommand } from '../command.ts';
import {
  findNamespace,
  type Inventory,
  readInventory,
  inventoryOptions,
  selectedNamespace,
  selectionOptions,
} from '../inventory/inventory.ts';
import { printYaml } from '../../config/yaml.ts';
import { failureReason, UserError } from '../../config/files.ts';
import { RBAC_KINDS } from '../../policy/rbac/rules.ts';
import { option, text } from '../options.ts';

// What there is to know of the bindings of a plan, in sentences.

const SHOWN = 5;

/** Of a binding: for what it is, and what else it does. */
export function remarksOn({ serviceAccount, scc, workloads, moves }: PlannedGrant): readonly string[] {
  const byScc = Map.groupBy(moves, ({ from }) => from);
  return [
    `for ${enumerate(workloads)}`,
    ...Array.from(byScc, ([from, moved]) => `moves ${enumerate(moved)} from ${from} to ${scc}`),
    ...(serviceAccount === 'default'
      ? ['all pods without an account of their own get it: better give these workloads one']
      : []),
  ];
}

/** What is granted to nobody, since it would be too much. */
export function remarkOnNeeded({ namespace, workload, instead, scc }: NeededScc): string {
  const { like, fields } = scc;
  return `${namespace}: ${workload.kind} ${workload.name} needs an SCC of its own, like ${like} with ${fields.join(', ')}: of those that there are only ${instead} would admit it, which allows everything`;
}

function enumerate(workloads: readonly WorkloadName[]): string {
  const shown = workloads.slice(0, SHOWN).map(({ kind, name }) => `${kind} ${name}`);
  const rest = workloads.length - SHOWN;
  return `${shown.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

interface TableOptions {
  readonly style: Style;
  /** Where the bindings were written, if they were. */
  readonly bindingsFile: string | undefined;
}

/** For people: of each workload what becomes of its pods and why; at the end the bindings, the summary, the next step. */
export function printPlan(plan: Plan, { style, bindingsFile }: TableOptions): string {
  const blocks = [
    // What the plan is for, if it is not for what is there.
    ...assumptionBlocks(plan.assumptions),
    ...plan.namespaces.map((namespace) => printNamespace(namespace, style)),
    ...printBindings(plan, style),
    `${style('bold', printPlanSummary(plan))}\n${printable(printNextStep(plan, bindingsFile))}\n`,
  ];
  return blocks.join('\n');
}

function printNamespace({ name, mode, modeFrom, problem, workloads }: PlannedNamespace, style: Style): string {
  const title = style('bold', printable(`${name} (${mode}${modeFrom === undefined ? '' : ', assumed'})`));
  const [first] = workloads;
  if (first?.result.outcome === 'off') {
    return `${title}\n  ${workloads.length} ${workloads.length === 1 ? 'workload' : 'workloads'}, not judged\n`;
  }
  const width = workloads.reduce((longest, workload) => Math.max(longest, titleOf(workload).length), 0);
  const rows = workloads.flatMap((workload) => printWorkload(workload, width, style));
  const remarks = problem === undefined ? [] : [`  ${style('yellow', printable(problem))}`];
  return `${[title, ...remarks, ...rows].join('\n')}\n`;
}

function printWorkload(workload: PlannedWorkload, width: number, style: Style): readonly string[] {
  const { verdict, details } = tell(workload);
  const emphasis = workload.result.outcome === 'refused' ? style('red', verdict) : verdict;
  const lines = [...details, ...(workload.refusal === undefined ? [] : [workload.refusal])].map(
    (line) => `    ${style('dim', printable(line))}`,
  );
  return [`  ${titleOf(workload).padEnd(width)}  ${emphasis}`, ...lines];
}

function titleOf({ kind, name }: PlannedWorkload): string {
  return printable(`${kind} ${name}`);
}

interface Told {
  readonly verdict: string;
  readonly details: readonly string[];
}

function tell(workload: PlannedWorkload): Told {
  const { result, serviceAccount } = workload;
  switch (result.outcome) {
    case 'off':
      return { verdict: 'not judged', details: [] };
    case 'ignored':
      return { verdict: 'ignored: pods of Windows, or no template', details: [] };
    case 'admitted':
      return { verdict: result.scc, details: printChanges(result.changes) };
    case 'refused':
      return tellRefusal(result, serviceAccount);
  }
}

function tellRefusal(
  { nearest, grantable, ownScc, message }: PlannedRefusal,
  serviceAccount: string | undefined,
): Told {
  const obstacles = nearest?.obstacles.map(printObstacle).join(', ');
  const subject = serviceAccount === undefined ? 'its node' : `service account ${quote(serviceAccount)}`;
  const details = [
    ...(nearest ? [`nearest is ${nearest.scc}; in its way: ${obstacles}`] : []),
    ...(ownScc ? [`an SCC of its own would admit it, like ${ownScc.like} with ${ownScc.fields.join(', ')}`] : []),
    ...(grantable === undefined
      ? []
      : [`${grantable} would admit it, if ${subject} might use it${ownScc ? ', but allows everything' : ''}`]),
  ];
  return {
    verdict: grantable === undefined ? 'refused, and no binding would help' : 'refused',
    details: details.length === 0 ? [message] : details,
  };
}

function printBindings(plan: Plan, style: Style): readonly string[] {
  if (plan.grants.length === 0) return [];
  const { refused, grantable } = summarizePlan(plan);
  const title = style('bold', `Bindings that admit ${grantable} of the ${refused} refused`);
  return [`${[title, ...plan.grants.flatMap((grant) => printGrant(grant, style))].join('\n')}\n`];
}

function printGrant(grant: PlannedGrant, style: Style): readonly string[] {
  const { namespace, serviceAccount, scc } = grant;
  const binding = `${namespace}: service account ${quote(serviceAccount)} to ClusterRole ${quote(useRoleNameOf(scc))}`;
  return [`  ${printable(binding)}`, ...remarksOn(grant).map((remark) => `    ${style('dim', printable(remark))}`)];
}

interface PlanInput {
  readonly store: Store;
  readonly settings: ExpectedSettings;
  /** Absent: what is granted in the store. */
  readonly canUse?: CanUse;
}

/** What becomes of the pods of one object, judged as its controller would create them. */
function planWorkload(
  { kind, object }: PodSource,
  namespace: Namespace,
  { store, settings, canUse = canUseScc(store) }: PlanInput,
): PlannedWorkload {
  const name = object.metadata?.name ?? '';
  const made = podOf({ kind, object }, store);
  if (made === undefined) return { kind, name, result: { outcome: 'ignored' } };
  const { compatibility, preferUserNamespaces } = settings;
  const result = planPod({
    object: made.pod,
    namespace,
    userInfo: made.requester,
    sccs: store.list('SecurityContextConstraints'),
    canUse,
    compatibility,
    preferUserNamespaces,
  });
  const place = object.metadata?.namespace ?? '';
  const refusal = serviceAccountError(made.pod, place, (account) => store.get('ServiceAccount', account, place));
  return { kind, name, ...accountOf(made), ...(refusal === undefined ? {} : { refusal }), result };
}

/** An object of a namespace where SCCs do not count. */
function passWorkload({ kind, object }: PodSource): PlannedWorkload {
  const result: Outcome = { outcome: 'off' };
  return { kind, name: object.metadata?.name ?? '', result };
}

/** Who creates pods that no controller makes is not known: only their service account counts. */
function podOf({ kind, object }: PodSource, store: Store): ControllerPod | undefined {
  const findAccount = (account: string) => store.get('ServiceAccount', account, object.metadata?.namespace);
  if (kind !== 'Pod') return getControllerPod(object, kind, findAccount);
  const pod = withoutEphemeralContainers(object as Kinds['Pod']);
  const requester = isMirrorPod(pod) ? nodeUser(pod.spec?.nodeName ?? '') : {};
  return { pod: completePod(pod, findAccount), requester };
}

function accountOf({ pod }: ControllerPod): Pick<PlannedWorkload, 'serviceAccount'> {
  const name: unknown = pod.spec?.serviceAccountName;
  return typeof name === 'string' && name !== '' ? { serviceAccount: name } : {};
}

/**
 * What to grant for the pods that are refused, and what becomes of others that share their service account; sorted by
 * namespace, service account and SCC.
 */
export function grantsFor(namespaces: readonly PlannedNamespace[], input: PlanInput): readonly PlannedGrant[] {
  return namespaces.flatMap((namespace) => {
    const grants = neededIn(namespace);
    return grants.length === 0 ? [] : withMoves(grants, namespace, input);
  });
}

interface Needed extends Omit<PlannedGrant, 'moves'> {
  readonly workloads: WorkloadName[];
}

function neededIn({ name: namespace, workloads }: PlannedNamespace): readonly Needed[] {
  const needed = new Map<string, Needed>();
  for (const workload of workloads) {
    const { kind, name, serviceAccount, result } = workload;
    if (!isGrantable(workload) || result.outcome !== 'refused') continue;
    const { grantable: scc } = result;
    if (serviceAccount === undefined || scc === undefined) continue;
    const key = `${serviceAccount}/${scc}`;
    const grant = needed.get(key) ?? { namespace, serviceAccount, scc, workloads: [] };
    grant.workloads.push({ kind, name });
    needed.set(key, grant);
  }
  return [...needed.values()].sort(
    (a, b) => compareBytes(a.serviceAccount, b.serviceAccount) || compareBytes(a.scc, b.scc),
  );
}

/** Only what was admitted under another SCC, and shares the account, can move. */
function withMoves(
  grants: readonly Needed[],
  { name, workloads }: PlannedNamespace,
  input: PlanInput,
): readonly PlannedGrant[] {
  const namespace = input.store.get('Namespace', name);
  const accounts = new Set(grants.map(({ serviceAccount }) => serviceAccount));
  const canUse = withGrants(input.store, grants);
  const sources = listPodSources(input.store, name);
  const moves = workloads.flatMap(({ kind, name: workload, serviceAccount = '', result }, index) => {
    if (namespace === undefined || result.outcome !== 'admitted' || !accounts.has(serviceAccount)) return [];
    const source = sources[index];
    const after = source && planWorkload(source, namespace, { ...input, canUse }).result;
    if (after?.outcome !== 'admitted' || after.scc === result.scc) return [];
    return [{ serviceAccount, to: after.scc, move: { kind, name: workload, from: result.scc } }];
  });
  return grants.map((grant) => ({
    ...grant,
    moves: moves
      .filter(({ serviceAccount, to }) => serviceAccount === grant.serviceAccount && to === grant.scc)
      .map(({ move }) => move),
  }));
}

/** Who may use which SCC once these are granted. */
function withGrants(store: Store, grants: readonly Needed[]): CanUse {
  const before = canUseScc(store);
  const granted = new Set(
    grants.map(({ namespace, serviceAccount, scc }) =>
      keyOf(`system:serviceaccount:${namespace}:${serviceAccount}`, scc, namespace),
    ),
  );
  return (subject, scc, namespace) =>
    granted.has(keyOf(subject.username, scc, namespace)) || before(subject, scc, namespace);
}

function keyOf(username: string, scc: string, namespace: string): string {
  return JSON.stringify([username, scc, namespace]);
}

/** Says what becomes of all that runs in a namespace; `undefined` where nothing does. */
export function planNamespace(namespace: Namespace, input: PlanInput): PlannedNamespace | undefined {
  const name = namespace.metadata?.name ?? '';
  const sources = listPodSources(input.store, name);
  if (sources.length === 0) return undefined;
  const mode = expectedMode(namespace, input.settings);
  const workloads = sources.map((source) =>
    mode.mode === 'off' ? passWorkload(source) : planWorkload(source, namespace, input),
  );
  return { name, ...mode, workloads };
}

/** The namespaces to plan, sorted by name. */
function namespacesOf(store: Store, only: string | undefined): readonly Namespace[] {
  const nameOf = ({ metadata }: Namespace): string => metadata?.name ?? '';
  return store
    .list('Namespace')
    .filter((namespace) => only === undefined || nameOf(namespace) === only)
    .toSorted((a, b) => compareBytes(nameOf(a), nameOf(b)));
}

/** What grants are as objects to apply. */
export function bindingsOf(grants: readonly PlannedGrant[], store: Store): Plan['bindings'] {
  return grantObjects(grants, { hasRole: (scc) => hasRole(store, scc) });
}

/** True if the role for the use of an SCC is there and does what its name says. */
function hasRole(store: Store, scc: string): boolean {
  const role = store.get('ClusterRole', useRoleNameOf(scc));
  if (role === undefined) return false;
  const user = { username: 'anybody' };
  const binding = {
    roleRef: { kind: 'ClusterRole', name: useRoleNameOf(scc) },
    subjects: [{ kind: 'User', name: user.username }],
  };
  const authorize = createAuthorizer({
    roles: [],
    clusterRoles: [role],
    roleBindings: [],
    clusterRoleBindings: [binding],
  });
  return authorize(user, {
    verb: 'use',
    apiGroup: 'security.openshift.io',
    resource: 'securitycontextconstraints',
    name: scc,
  });
}

interface MakeOptions {
  readonly settings: ExpectedSettings;
  /** The only namespace to plan; absent: all. */
  readonly namespace: string | undefined;
}

/**
 * Plans namespace by namespace; shows how far it is on a terminal, and ends when the process is asked to.
 * @throws {UserError} for a namespace that does not exist
 */
async function makePlan(inventory: Inventory, { settings, namespace }: MakeOptions, io: Io): Promise<Plan> {
  const { store, assumptions } = inventory;
  if (namespace !== undefined) findNamespace(store, namespace);
  const namespaces = namespacesOf(store, namespace);
  const progress = createProgress(io.stderr);
  const planned: PlannedNamespace[] = [];
  try {
    for (const [index, one] of namespaces.entries()) {
      progress.show(`Planning ${printable(one.metadata?.name ?? '')} (${index + 1} of ${namespaces.length})`);
      const found = planNamespace(one, { store, settings });
      if (found) planned.push(found);
      // Planning is work without pause: let signals in.
      await setImmediate(undefined, { signal: io.signal });
    }
  } finally {
    progress.clear();
  }
  const grants = grantsFor(planned, { store, settings });
  return { namespaces: planned, grants, bindings: bindingsOf(grants, store), assumptions };
}

/** For programs: everything that is known. */
function dataOfPlan(plan: Plan): unknown {
  return {
    summary: summarizePlan(plan),
    assumptions: plan.assumptions,
    namespaces: plan.namespaces.map(({ name, mode, modeFrom, problem }) => ({
      name,
      mode,
      ...(modeFrom === undefined ? {} : { modeFrom }),
      ...(problem === undefined ? {} : { problem }),
    })),
    workloads: plan.namespaces.flatMap(({ name: namespace, mode, workloads }) =>
      workloads.map(({ kind, name, serviceAccount, refusal, result }) => ({
        namespace,
        mode,
        kind,
        name,
        ...(serviceAccount === undefined ? {} : { serviceAccount }),
        ...(refusal === undefined ? {} : { refusal }),
        ...result,
      })),
    ),
    grants: plan.grants,
    bindings: plan.bindings,
  };
}

/** The bindings of a plan as manifests, each with what there is to know of it; a comment if there are none. */
function printBindingManifests(plan: Plan): string {
  const needed = neededSccsOf(plan).map((one) => comment(`${remarkOnNeeded(one)}.`));
  const manifests = plan.bindings.map((binding) => {
    const grant = plan.grants.find((one) => isBindingOf(binding, one));
    const remarks = grant === undefined ? [] : remarksOn(grant);
    return `${remarks.map(comment).join('')}${printYaml([binding])}`;
  });
  if (manifests.length === 0 && needed.length === 0) return '# Nothing has to be granted.\n';
  return `${needed.join('')}${manifests.join('---\n')}`;
}

function isBindingOf({ kind, metadata, ...binding }: Plan['bindings'][number], grant: PlannedGrant): boolean {
  if (kind !== 'RoleBinding' || metadata?.namespace !== grant.namespace || !('roleRef' in binding)) return false;
  return binding.roleRef.name === useRoleNameOf(grant.scc) && binding.subjects?.[0]?.name === grant.serviceAccount;
}

/** Names in it may hold anything. */
function comment(text: string): string {
  return `# ${printable(text)}\n`;
}

/** Writes them into a file. Rejects with a UserError if that fails. */
async function writeBindings(file: string, plan: Plan): Promise<void> {
  try {
    await writeFile(file, printBindingManifests(plan));
  } catch (error) {
    throw new UserError(
      `cannot write ${file}: ${isFolderMissing(error) ? 'there is no such folder' : failureReason(error)}`,
      {
        cause: error,
      },
    );
  }
}

/** A file that is not there is made. */
function isFolderMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

const DETAILS = `
Says of every workload, and of every pod that no workload made, which SecurityContextConstraints
(SCC) its pods would get and what would change in them, or why none admits them. Pods are judged as
their controller would create them; a pod that nobody made, by its service account alone.

For workloads that are refused, --bindings writes what would admit them: the least permissive SCC
that they fit, granted to their service account in their namespace. Review it before you apply it.
What only privileged would admit, though no container is privileged, needs an SCC of its own.

Exit codes:
  0  everything is admitted, where SCCs count
  1  something is refused
  2  wrong usage, or what cannot be read

Examples:
  portcullis scc plan
  portcullis scc plan -n shop --bindings bindings.yaml
  helm template shop ./chart | portcullis scc plan -f - -n shop
  portcullis scc plan -f deploy/ -o json
`;

const KINDS: readonly Kind[] = [
  'Namespace',
  'ServiceAccount',
  ...POD_SOURCES,
  ...RBAC_KINDS,
  'SecurityContextConstraints',
];

/** Says what security context constraints would do to a cluster, before they are enforced. */
export const command = defineCommand({
  details: DETAILS,
  options: {
    ...inventoryOptions,
    ...selectionOptions,
    bindings: option('FILE', text, undefined, {
      help: 'Write the bindings that would help to this file; - writes them instead of the plan',
    }),
    output: outputOption(DATA_AND_TABLE),
    ...sccOptions,
  },
  async run(options, _operands, io) {
    const namespace = selectedNamespace(options);
    const { bindings: file, output } = options;
    if (file === '-' && output !== 'table') {
      throw new UserError(
        `--bindings=- writes the bindings instead of the plan: leave out --output=${output}, or name a file`,
      );
    }
    const inventory = await readInventory(options, io, { kinds: KINDS, only: namespace, gaps: 'fill' });
    const plan = await makePlan(inventory, { settings: expectedSettings(options), namespace }, io);
    if (file === '-') writeBindingsOnly(plan, io);
    else {
      if (file !== undefined) await writeBindings(file, plan);
      if (output === 'table') io.stdout.write(printPlan(plan, { style: styleOf(io), bindingsFile: file }));
      else io.stdout.write(printData(output, dataOfPlan(plan)));
    }
    return exitCodeOfPlan(plan);
  },
});

/** The summary goes where it does not get among the manifests. */
function writeBindingsOnly(plan: Plan, { stdout, stderr }: Io): void {
  stdout.write(printBindingManifests(plan));
  stderr.write(`${printPlanSummary(plan)}\n${printNextStep(plan, '-')}\n`);
}
