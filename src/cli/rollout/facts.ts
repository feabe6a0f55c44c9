import type { ConfigMap, Kind, Lease, Namespace } from '../../kube/types.ts';
import {
  INSTALLATION,
  POD_SECURITY_CONFIG_MAP,
  POD_SECURITY_LABELS,
  RAISED_AT_ANNOTATION,
} from '../../kube/well-known.ts';
import { POD_SOURCES } from '../../cluster/workloads.ts';
import { RBAC_KINDS } from '../../policy/rbac/rules.ts';
import {
  findNamespace,
  inventoryOptions,
  listNamespaces,
  readInventory,
  type Inventory,
  type InventoryNeeds,
  type selectorOption,
} from '../inventory/inventory.ts';
import { nonEmpty, option, text, type Values } from '../options.ts';
import {
  DATA_AND_TABLE,
  outputOption,
  mapNamespaces,
  printable,
  printCount,
  printTable,
  withHeader,
  type headersOption,
  type Style,
} from '../output/print.ts';
import { findSettings, sccOptions } from '../scc/options.ts';
import type { Condition, ConditionState } from '../../kube/conditions.ts';
import { formatTimestamp, parseTimestamp } from '../../kube/units.ts';
import {
  currentConditions,
  defaultInForce,
  getEvaluationResult,
  planEffect,
  RAISE_INTERVAL_MS,
  readEnforcement,
  type EvaluationResult,
  type PublishedLevel,
} from '../../policy/rollout/enforcement.ts';
import { isPastDate, type RolloutSettings } from '../../policy/rollout/settings.ts';
import type { SccMode } from '../../policy/scc/mode.ts';
import {
  finishEvaluation,
  WORKLOAD_VERDICTS,
  type FixableViolation,
  type NamespaceEvaluation,
  type ViolatingWorkload,
} from '../../policy/rollout/evaluation.ts';
import { needsFix, planNamespace, type NamespaceCounts, type PlannedNamespace } from '../../policy/rollout/plan.ts';
import { isStricter, resolvePolicies } from '../../policy/psa/policy.ts';
import type { Level, Policy, Version } from '../../policy/pss/policy.ts';
import type { Store } from '../../cluster/store.ts';
import {
  effectivePodSecurity,
  getRolloutView,
  namespacePolicies,
  publishedDefault,
  publishedGeneration,
  type RolloutScope,
  type RolloutView,
} from '../../cluster/rollout.ts';
import { type EnforcementMode, PSA_ENFORCEMENT_CONFIG } from '../../kube/psa-enforcement-config.ts';
import {
  managementSettings,
  isAwaitingLabel,
  getSyncState,
  type ManagementSettings,
  isTerminating,
} from '../../policy/rollout/label-sync.ts';
import type { PodSecurity } from '../../policy/psa/configuration.ts';
import type { PodDefaults } from '../../policy/psa/defaults.ts';
import { type Io, VERSION } from '../command.ts';
import { isReplicaLease } from '../../controllers/replica-leases.ts';
import { evaluateFromStore, type EvaluationSettings } from '../../controllers/readiness-evaluator.ts';
import type { CustomPodSource } from '../../kube/controller-pod.ts';
import { objectName } from '../../kube/resources.ts';

/** The options of all rollout commands. */
export const rolloutOptions = {
  ...inventoryOptions,
  config: option('FILE', text, undefined, {
    help: 'Configuration file of the server. Default: the file of the installation in the cluster',
  }),
  'installation-namespace': option('NAME', nonEmpty, INSTALLATION.namespace, {
    help: 'Namespace of the installation',
  }),
  'scc-mode': sccOptions['scc-mode'],
  output: outputOption([...DATA_AND_TABLE, 'wide']),
};

export type RolloutValues = Omit<Values<typeof rolloutOptions>, 'output'> & { readonly namespace?: string | undefined };

/** The kinds that these commands read from a cluster. */
export const ROLLOUT_COMMAND_KINDS: readonly Kind[] = [
  'Namespace',
  'ServiceAccount',
  ...POD_SOURCES,
  ...RBAC_KINDS,
  'SecurityContextConstraints',
  'PSAEnforcementConfig',
  'FeatureGate',
];

/** The replicas by their Leases. */
interface Replicas {
  /** The number of replicas that have renewed their Lease. */
  readonly running: number;
  /** The holder of the Lease of the leader; absent if it has not renewed the Lease. */
  readonly leader?: string | undefined;
}

/** The state of the rollout at one moment. Times are in RFC 3339. */
export interface RolloutState extends Pick<RolloutSettings, 'phase' | 'raiseSettleMs'>, RolloutView {
  /** The announced date of enforcement, unless it is over. */
  readonly enforcementDate?: string | undefined;
  readonly sccMode: SccMode;
  /** The level of namespaces without a label. */
  readonly default: Level;
  /** Absent if the Leases are unknown. */
  readonly replicas?: Replicas | undefined;
  /** The stored evaluation of the leader. */
  readonly evaluation: EvaluationResult;
  /** The earliest time of the next raise of the default, if it is in the future. */
  readonly nextRaiseTime?: string | undefined;
  /** `spec.enforcementMode`; absent if there is no PSAEnforcementConfig. */
  readonly requested?: string | undefined;
  readonly requestedBy?: 'rollout' | 'others' | undefined;
  readonly decided: EnforcementMode;
  readonly lastEvaluationTime?: string | undefined;
  /** The conditions of the current state. */
  readonly conditions: readonly ConditionState[];
  /** `status.enforcementMode` of the PSAEnforcementConfig if it has no effect any more. */
  readonly outdatedMode: EnforcementMode;
  /** Conditions of the PSAEnforcementConfig that differ from the current state. */
  readonly outdatedConditions: readonly Condition[];
  /** Managed namespaces that need a label before the default can be raised. */
  readonly unlabeled: readonly string[];
}

/** Reads the settings of the server. Options take precedence. Rejects with a UserError for invalid settings. */
async function readSettings(
  store: Store,
  values: Pick<RolloutValues, 'config' | 'installation-namespace' | 'scc-mode'>,
) {
  const { config, 'installation-namespace': namespace, 'scc-mode': sccMode } = values;
  const { settings, source, isServerless } = await findSettings({ config, store, namespace });
  const { podSecurity, rollout, scc, defaults } = settings;
  store.emulationVersion = settings.emulationVersion ?? store.emulationVersion;
  return {
    podSecurity,
    defaults,
    source,
    isServerless,
    rollout: source === undefined ? { ...rollout, phase: 'Evaluate' as const } : rollout,
    scc: { ...scc, mode: sccMode ?? scc.mode },
    assumptions: [
      ...(source !== undefined ? [] : ['spec.rollout.phase Evaluate (set --config)']),
      ...(source !== undefined || sccMode !== undefined ? [] : [`SCC mode ${scc.mode} (set --scc-mode)`]),
    ],
  };
}

/** The input of all rollout commands. */
export interface RolloutFacts {
  readonly store: Store;
  /** Pod templates of manifests of kinds that the store does not have. */
  readonly customSources: readonly CustomPodSource[];
  /** The effective configuration. */
  readonly podSecurity: PodSecurity;
  readonly management: ManagementSettings;
  readonly defaults: PodDefaults;
  readonly state: RolloutState;
  /** Assumptions, as phrases. */
  readonly assumptions: readonly string[];
  /** The source of the settings; absent for defaults. */
  readonly settingsSource: string | undefined;
  /** False for a cluster without any object of an installation. */
  readonly isInstalled: boolean;
  /** The settings of policies in the API server; absent if the cluster has none, or a server. */
  readonly serverless: PodSecurity | undefined;
}

/** Reads a cluster or manifests, and the state of the rollout. Rejects with a UserError if something cannot be read. */
export async function gatherRollout(
  values: RolloutValues,
  io: Io,
  date: Date,
  needs?: Pick<InventoryNeeds, 'kinds' | 'only'>,
): Promise<RolloutFacts> {
  return await computeRollout(await readRolloutInventory(values, io, needs), values, date);
}

/** Reads the objects of a cluster or of manifests on which the rollout depends. */
export async function readRolloutInventory(
  values: RolloutValues,
  io: Io,
  needs: Pick<InventoryNeeds, 'kinds' | 'only'> = { kinds: ROLLOUT_COMMAND_KINDS },
): Promise<Inventory> {
  const namespace = values['installation-namespace'];
  return await readInventory(values, io, {
    ...needs,
    // Namespaces have no ranges yet where SCCs are not enforced.
    ...(values['scc-mode'] === 'enforce' ? { gaps: 'fill' as const } : {}),
    optional: [
      { kind: 'ConfigMap', namespace, name: POD_SECURITY_CONFIG_MAP },
      { kind: 'Lease', namespace },
    ],
    workloadResources: async (store) =>
      (await findSettings({ config: values.config, store, namespace })).settings.workloadResources,
  });
}

/** Computes the state of the rollout from an inventory. Rejects with a UserError for invalid settings. */
export async function computeRollout(
  inventory: Pick<Inventory, 'store' | 'source' | 'customSources' | 'assumptions' | 'unread'>,
  values: Pick<RolloutValues, 'config' | 'installation-namespace' | 'scc-mode'>,
  date: Date,
): Promise<RolloutFacts> {
  const namespace = values['installation-namespace'];
  const { store, customSources } = inventory;
  const { rollout, podSecurity, scc, defaults, source, assumptions, isServerless } = await readSettings(store, values);
  const policies = isServerless ? await findSettings({ config: undefined, store }) : undefined;
  const management = managementSettings(scc);
  const scope = { store, namespace, version: VERSION };
  const podSecurityInForce = effectivePodSecurity(scope, { rollout, podSecurity });
  const areLeasesKnown = inventory.source === 'cluster' && !inventory.unread.some(({ kind }) => kind === 'Lease');
  return {
    store,
    customSources,
    podSecurity: podSecurityInForce,
    management,
    defaults,
    state: getState(scope, rollout, {
      management,
      defaultLevel: podSecurityInForce.defaults.enforce.level,
      // The age of an export is unknown: its times are not compared with the clock.
      nowMs: inventory.source === 'cluster' ? date.getTime() : undefined,
      leases: areLeasesKnown ? store.list('Lease', namespace) : undefined,
    }),
    assumptions: [...inventory.assumptions, ...assumptions],
    settingsSource: source,
    serverless: policies?.settings.podSecurity,
    isInstalled:
      source !== undefined ||
      inventory.source === 'manifests' ||
      inventory.unread.length > 0 ||
      store.list('Lease', namespace).length > 0 ||
      store.get('Deployment', INSTALLATION.name, namespace) !== undefined,
  };
}

interface StateFacts {
  readonly management: ManagementSettings;
  readonly defaultLevel: Level;
  /** Absent for manifests. */
  readonly nowMs: number | undefined;
  /** Absent if they are unknown. */
  readonly leases: readonly Lease[] | undefined;
}

function getState(scope: RolloutScope, settings: RolloutSettings, facts: StateFacts): RolloutState {
  const { store, namespace } = scope;
  const { management, nowMs } = facts;
  const isDisabled = settings.phase === 'Disabled';
  const inactive = { want: false, enforce: 'privileged' } as const;
  const view = { ...getRolloutView(scope, settings), ...(isDisabled && inactive) };
  const config = store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
  const modes = readEnforcement(config);
  const { phase, enforcementDate, raiseSettleMs } = settings;
  const storedMs = parseTimestamp(config?.status?.lastEvaluationTime);
  const evaluation = getEvaluationResult({
    status: config?.status,
    nowMs: nowMs ?? storedMs ?? 0,
    maxAgeMs: settings.maxEvaluationAgeMs,
    inconclusivePolicy: settings.inconclusivePolicy,
  });
  const live = facts.leases?.filter((lease) => isLive(lease, nowMs));
  const labels = findLabels(store, management, new Date(nowMs ?? Date.now()));
  const raisedAt = publishedConfigMap(store, namespace)?.metadata?.annotations?.[RAISED_AT_ANNOTATION];
  const published = { level: view.published, generation: view.generation };
  const replicas = live?.filter(isReplicaLease).map(publishedLevel) ?? [published];
  const currentEnforce = defaultInForce(published, replicas, raisedAt !== undefined);
  const effect = planEffect({ want: view.want, currentEnforce, isSettled: false });
  const current = currentConditions({
    ...{ ...modes, ...effect, ...labels, phase, evaluation, replicas, currentEnforce },
    ...{ gate: view.gate, want: view.want, generation: view.generation },
  }).filter(({ type }) => CURRENT_CONDITIONS.has(type));
  const conditions = isDisabled ? [] : current;
  // In phase Evaluate, no mode is in effect.
  const decided = phase === 'Evaluate' ? '' : modes.status;
  return {
    ...view,
    phase,
    enforcementDate: isAnnounced(enforcementDate, nowMs) ? enforcementDate : undefined,
    sccMode: management.scc.mode,
    default: facts.defaultLevel,
    replicas: live && { running: live.filter(isReplicaLease).length, leader: findLeader(live) },
    requested: config && modes.spec,
    requestedBy: modes.specOwner,
    decided,
    outdatedMode: decided === modes.status && !isDisabled ? '' : modes.status,
    lastEvaluationTime: config?.status?.lastEvaluationTime ?? undefined,
    evaluation,
    raiseSettleMs,
    nextRaiseTime: nextRaiseTime(parseTimestamp(raisedAt), nowMs),
    conditions,
    outdatedConditions: findOutdated(config?.status?.conditions ?? [], conditions),
    unlabeled: labels.unlabeled,
  };
}

function isAnnounced(date: string | undefined, nowMs: number | undefined): boolean {
  return date !== undefined && (nowMs === undefined || !isPastDate(date, new Date(nowMs)));
}

/** The conditions that the state determines. The others describe the evaluation of the leader. */
const CURRENT_CONDITIONS: ReadonlySet<string> = new Set(['Enforcing', 'Progressing', 'LegacyProposed', 'SpecInvalid']);

/** Finds the stored conditions that contradict the current ones. Messages may differ. */
function findOutdated(stored: readonly Condition[], current: readonly ConditionState[]): readonly Condition[] {
  return stored.filter(({ type, status, reason }) => {
    const now = current.find((one) => one.type === type);
    const isSame = now === undefined ? status === 'False' : now.status === status && now.reason === reason;
    return CURRENT_CONDITIONS.has(type) && !isSame;
  });
}

/** The longest time without a renewal that a difference of clocks may explain. */
const CLOCK_TOLERANCE_MS = 60_000;

function isLive({ spec }: Lease, nowMs = Infinity): boolean {
  const renewedMs = parseTimestamp(spec?.renewTime);
  const durationMs = (spec?.leaseDurationSeconds ?? 0) * 1000;
  return renewedMs !== undefined && nowMs - renewedMs <= durationMs + CLOCK_TOLERANCE_MS;
}

function findLeader(leases: readonly Lease[]): string | undefined {
  return leases.find((lease) => objectName(lease) === INSTALLATION.name)?.spec?.holderIdentity || undefined;
}

function publishedLevel(lease: Lease): PublishedLevel {
  return { level: publishedDefault(lease), generation: publishedGeneration(lease) };
}

function publishedConfigMap(store: Store, namespace: string): ConfigMap | undefined {
  return store.get('ConfigMap', POD_SECURITY_CONFIG_MAP, namespace);
}

function nextRaiseTime(raisedAtMs: number | undefined, nowMs: number | undefined): string | undefined {
  if (raisedAtMs === undefined || nowMs === undefined) return undefined;
  const nextMs = raisedAtMs + RAISE_INTERVAL_MS;
  return nextMs > nowMs ? formatTimestamp(nextMs) : undefined;
}

/** Finds managed namespaces without the label that they need, and those with a label of the syncer. */
function findLabels(store: Store, management: ManagementSettings, date: Date) {
  const labels = { unlabeled: [] as string[], unreleased: [] as string[] };
  for (const namespace of listNamespaces(store)) {
    const name = objectName(namespace);
    const serviceAccounts = store.list('ServiceAccount', name).map(objectName);
    const { isManaged, ownsEnforceLabel } = getSyncState(namespace, management);
    if (isAwaitingLabel({ namespace, isManaged, serviceAccounts }, date.getTime())) labels.unlabeled.push(name);
    if (ownsEnforceLabel) labels.unreleased.push(name);
  }
  return labels;
}

interface PlanScope {
  /** The only namespace. */
  readonly only?: string | undefined;
  /** The default of namespaces without a label; absent: that of the rollout. */
  readonly policy?: Policy | undefined;
  /** The level that replaces weaker labels, and with `only` any label; absent: namespaces keep their labels. */
  readonly newLabel?: Level | undefined;
}

/**
 * Computes the effect of enforcement on each namespace, or on one, except on terminating ones. Prints the progress to a
 * terminal. Rejects if the signal is aborted.
 */
export async function planNamespaces(
  facts: RolloutFacts,
  io: Io,
  { only, ...change }: PlanScope = {},
): Promise<readonly PlannedNamespace[]> {
  const namespaces = listNamespaces(facts.store, only).filter((namespace) => !isTerminating(namespace));
  return await mapNamespaces(namespaces, createNamespacePlanner(facts, { only, ...change }), {
    verb: 'Evaluating',
    io,
  });
}

/** Returns the planned namespaces that `-n` and `-l` select. */
export function selectNamespaces(
  planned: readonly PlannedNamespace[],
  store: Store,
  { namespace, selector }: Values<typeof selectorOption> & { readonly namespace: string | undefined },
): readonly PlannedNamespace[] {
  if (namespace !== undefined) findNamespace(store, namespace);
  return planned.filter(
    ({ name }) =>
      (namespace === undefined || name === namespace) && selector(store.get('Namespace', name)?.metadata?.labels),
  );
}

interface Upgrade {
  readonly from: Version;
  readonly to: Version;
}

/**
 * Computes which workloads a Kubernetes version denies and the current version admits, by the policies of the namespaces, or
 * by those that enforcement would apply. All other rules are those of `planNamespaces`.
 */
export async function planUpgrade(
  facts: RolloutFacts,
  upgrade: Upgrade,
  { io, ...scope }: PlanScope & { readonly io: Io },
): Promise<readonly PlannedNamespace[]> {
  const namespaces = await planNamespaces(facts, io, scope);
  return namespaces.map((planned) => {
    const isUnknown = planned.verdict === 'exempt' || planned.verdict === 'inconclusive';
    return isUnknown ? planned : compareVersions(planned, facts, upgrade);
  });
}

function compareVersions(planned: PlannedNamespace, facts: RolloutFacts, { from, to }: Upgrade): PlannedNamespace {
  const { store, podSecurity } = facts;
  const namespace = findNamespace(store, planned.name);
  const { enforce } = resolvePolicies(namespace.metadata?.labels, podSecurity.defaults);
  const next = { level: planned.planned ?? 'privileged', version: 'latest' } as const;
  const policy = planned.currentSource === 'label' ? enforce : next;
  const { level } = policy;
  const before = evaluatePolicy(namespace, facts, policy, from);
  const { workloads: denied, error } = evaluatePolicy(namespace, facts, policy, to);
  const workloads = denied.filter((one) => !before.workloads.some((other) => isSameWorkload(one, other)));
  const isViolating = workloads.length > 0;
  return {
    ...planned,
    planned: level,
    verdict: error === undefined ? (isViolating ? 'violating' : 'clean') : 'inconclusive',
    categories: [],
    reason: undefined,
    workloads,
    error,
    steps: isViolating ? [pinStep(planned.name, from)] : [],
  };
}

const NOTHING_IN_FORCE: Policy = { level: 'privileged', version: 'latest' };

/** Returns the workloads that a policy denies, regardless of the policy in force. */
export function evaluatePolicy(
  namespace: Namespace,
  facts: RolloutFacts,
  planned: Policy,
  emulationVersion?: Version,
): Pick<NamespaceEvaluation, 'workloads' | 'error'> {
  const settings = { ...evaluationSettings(facts), planned, current: NOTHING_IN_FORCE };
  const { workloads, ...evaluation } = finishEvaluation(
    evaluateFromStore(namespace, facts.store, { ...settings, ...(emulationVersion && { emulationVersion }) }),
  );
  return { ...evaluation, workloads: workloads.filter(({ verdict }) => verdict === 'wouldBeDenied') };
}

function evaluationSettings({ podSecurity, management, defaults, customSources }: RolloutFacts): EvaluationSettings {
  return { podSecurity: () => podSecurity, management, defaults, customSources };
}

function isSameWorkload(a: ViolatingWorkload, b: ViolatingWorkload): boolean {
  return a.kind === b.kind && a.name === b.name;
}

function pinStep(name: string, version: Version): string {
  const label = `${POD_SECURITY_LABELS.enforceVersion}=${version}`;
  return `Change the workloads before the upgrade; or keep the current version: kubectl label namespace/${name} ${label}.`;
}

function createNamespacePlanner(
  facts: RolloutFacts,
  { only, policy, newLabel }: PlanScope,
): (namespace: Namespace) => PlannedNamespace {
  const { store, podSecurity, management, serverless } = facts;
  const settings = evaluationSettings(facts);
  return (namespace) => {
    const name = objectName(namespace);
    if (podSecurity.exemptions.namespace(name)) {
      const level = { current: 'privileged', planned: 'privileged', currentSource: 'exemption' } as const;
      return { name, ...level, verdict: 'exempt', categories: [], workloads: [], steps: [] };
    }
    const computed = namespacePolicies(namespace, store, { podSecurity, management });
    const { isSelected } = computed;
    // A file plans other settings than those of the policies in the API server.
    const current = serverless
      ? resolvePolicies(namespace.metadata?.labels, serverless.defaults).enforce
      : computed.current;
    const isReplaced = newLabel !== undefined && (only !== undefined || isStricter(newLabel, current.level));
    const label = !isSelected && isReplaced ? { level: newLabel, version: current.version } : undefined;
    const planned = (isSelected ? policy : label) ?? computed.planned;
    const evaluation = finishEvaluation(
      evaluateFromStore(namespace, store, { ...settings, current, ...(planned && { planned }) }),
    );
    return planNamespace(evaluation, {
      currentSource: isSelected ? 'default' : 'label',
      planned: planned?.level,
      isNewLabel: label !== undefined,
    });
  };
}

const VERDICTS: Readonly<Record<PlannedNamespace['verdict'], string>> = {
  violating: 'violating',
  deniedNow: 'denied now',
  inconclusive: 'inconclusive',
  restart: 'to restart',
  clean: 'no violations',
  exempt: 'exempt',
};

/** The largest number of rows of a summary. */
const MAX_ROWS = 20;

interface SummaryValues extends Partial<Values<typeof headersOption>> {
  readonly output: string;
  readonly namespace?: string | undefined;
}

/**
 * The table of namespaces: those with most denied workloads, and the number of the others. `-o wide` prints all of them,
 * and with `-n` the blocks with the details.
 */
export function namespaceSections(
  namespaces: readonly PlannedNamespace[],
  values: SummaryValues,
  style: Style,
): readonly string[] {
  if (namespaces.length === 0) return [];
  if (values.output === 'wide' || values.namespace !== undefined) {
    return [printNamespaceTable(namespaces, values), ...namespaceBlocks(namespaces, style)];
  }
  const sorted = namespaces.toSorted(
    (a, b) => Number(needsFix(b)) - Number(needsFix(a)) || b.workloads.length - a.workloads.length,
  );
  const omitted = sorted.slice(MAX_ROWS);
  const unresolved = omitted.filter(needsFix).length;
  const rest = `${printCount(omitted.length, 'more namespace')}, ${unresolved} of them with denied workloads or inconclusive`;
  return [
    `${printNamespaceTable(sorted.slice(0, MAX_ROWS), values)}${omitted.length === 0 ? '' : `... ${rest}\n`}`,
    ...(sorted.some(hasDetails) ? ['Details and next steps: add -o wide.\n'] : []),
  ];
}

/** The namespaces as objects of a list. */
export function listedNamespaces(namespaces: readonly PlannedNamespace[]) {
  return namespaces.map(({ name }) => ({ kind: 'Namespace', name }));
}

/** The table of namespaces. */
function printNamespaceTable(namespaces: readonly PlannedNamespace[], values: SummaryValues): string {
  const header = ['NAMESPACE', 'CURRENT', 'PLANNED', 'VERDICT', 'DENIED', 'RESTART', 'REASON'];
  const rows = namespaces.map(({ name, current, currentSource, planned, verdict, workloads, reason, error }) => [
    name,
    `${current} (${currentSource})`,
    planned ?? 'unknown',
    VERDICTS[verdict],
    printNumber(workloads.filter((one) => one.verdict !== 'restart').length),
    printNumber(workloads.filter((one) => one.verdict === 'restart').length),
    error ?? reason ?? '',
  ]);
  return printTable(withHeader(header, rows, { 'no-headers': values['no-headers'] ?? false }));
}

function printNumber(value: number): string {
  return value === 0 ? '' : String(value);
}

function hasDetails(namespace: PlannedNamespace): boolean {
  return needsFix(namespace) || namespace.steps.length > 0;
}

/** One block for each namespace with next steps: fields, fixes and next steps. */
function namespaceBlocks(namespaces: readonly PlannedNamespace[], style: Style): readonly string[] {
  const blocks = namespaces.filter(hasDetails);
  return blocks.map((namespace) => {
    const { name, planned = 'unknown', workloads, error, steps } = namespace;
    const lines = [
      style('bold', printable(`${name} (${planned})`)),
      ...(error === undefined ? [] : [`  ${printable(error)}`]),
      ...workloads.flatMap((workload) => workloadLines(workload, style)),
      ...steps.map((step) => `  ${style('yellow', 'Next:')} ${printable(step)}`),
    ];
    return `${lines.join('\n')}\n`;
  });
}

/** A workload to restart has no fields to fix. */
function workloadLines(workload: ViolatingWorkload, style: Style): readonly string[] {
  const { kind, name, verdict, pods, causes, violations } = workload;
  const running = pods === 0 || kind === 'Pod' ? '' : ` (${pods} running ${pods === 1 ? 'pod' : 'pods'})`;
  const through = causes.includes('user') ? ", admitted only because of its creator's permissions" : '';
  const color = verdict === 'restart' ? 'yellow' : 'red';
  return [
    `  ${style(color, printable(`${kind} ${name}`))}${running}${DECISIONS[verdict]}${through}`,
    ...(verdict === 'restart' ? [] : violations).flatMap((violation) => violationLines(violation, style)),
  ];
}

const DECISIONS: Readonly<Record<ViolatingWorkload['verdict'], string>> = {
  deniedNow: ': denied now',
  wouldBeDenied: '',
  restart: ': to restart, new pods comply',
};

function violationLines({ check, reason, detail, fields, fix }: FixableViolation, style: Style): readonly string[] {
  const why = detail === '' ? reason : `${reason} (${detail})`;
  return [
    `    ${printable(check)}: ${printable(why)}`,
    ...fields.map((field) => `      ${printable(field)}`),
    `      ${style('dim', `Fix: ${printable(fix)}`)}`,
  ];
}

/** `12 namespaces: 1 violating, 11 no violations; 3 workloads (7 running pods) would be denied` */
export function printNamespaceCounts(counts: NamespaceCounts, denial = 'would be denied'): string {
  const verdicts = (Object.keys(VERDICTS) as (keyof typeof VERDICTS)[])
    .filter((verdict) => counts[verdict] > 0)
    .map((verdict) => `${counts[verdict]} ${VERDICTS[verdict]}`);
  const parts = listFindings(counts, denial);
  const isDenied = counts.workloads.deniedNow.workloads + counts.workloads.wouldBeDenied.workloads > 0;
  const findings = [...(isDenied ? [] : [`no workload ${denial}`]), ...parts].join(', ');
  const { namespaces } = counts;
  return `${printCount(namespaces, 'namespace')}${verdicts.length === 0 ? '' : `: ${verdicts.join(', ')}`}; ${findings}`;
}

/** `3 workloads (7 running pods) would be denied` */
function listFindings({ workloads }: NamespaceCounts, denial: string): readonly string[] {
  const texts = { deniedNow: 'denied now', wouldBeDenied: denial, restart: 'to restart' };
  return WORKLOAD_VERDICTS.filter((verdict) => workloads[verdict].workloads > 0).map((verdict) => {
    const { workloads: count, pods } = workloads[verdict];
    return `${printCount(count, 'workload')} (${printCount(pods, 'running pod')}) ${texts[verdict]}`;
  });
}
