import type { Kind, Kinds } from '../../kube/types.ts';
import { INSTALLATION, POD_SECURITY_CONFIG_MAP } from '../../kube/well-known.ts';
import { POD_SOURCES } from '../../cluster/workloads.ts';
import { RBAC_KINDS } from '../../policy/rbac/rules.ts';
import { inventoryOptions, type ObjectName, readInventory } from '../inventory/inventory.ts';
import { objectName, option, text, type Values } from '../options.ts';
import { DATA_AND_TABLE, outputOption } from '../output/print.ts';
import { sccOptions, DEFAULT_SCC_MODE } from '../scc-options.ts';
import type { Condition } from '../../kube/conditions.ts';
import { type DefaultLevel, type SyncerMode, readEnforcement } from '../../policy/rollout/enforcement.ts';
import { type RolloutPhase, DEFAULT_ROLLOUT, type RolloutSettings } from '../../policy/rollout/settings.ts';
import type { Category, ViolatingWorkload } from '../../policy/rollout/evaluation.ts';
import type { Level } from '../../policy/pss/policy.ts';
import type { Store } from '../../cluster/store.ts';
import { parseConfiguration, type Configuration, readPodSecuritySource } from '../../config/configuration.ts';
import type { Source } from '../../config/files.ts';
import { SCC_MODES, type SccMode } from '../../policy/scc/mode.ts';
import { deploymentArgument, deploymentFile } from '../installation.ts';
import { serveOptions } from '../serve/options.ts';
import { getRolloutView, type RolloutScope } from '../../cluster/rollout.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../../kube/psa-enforcement-config.ts';
import {
  DEFAULT_UNMANAGED_NAMESPACES,
  isAwaitingLabel,
  getSyncState,
  type ManagementSettings,
} from '../../policy/rollout/label-sync.ts';
import type { PodSecurity } from '../../policy/psa/configuration.ts';
import { type Io, VERSION } from '../command.ts';

/** The options of all rollout commands. */
export const rolloutOptions = {
  ...inventoryOptions,
  config: option('FILE', text, undefined, {
    help: 'Configuration file of the server. Default: the file of the installation in the cluster',
  }),
  'installation-namespace': option('NAME', objectName, INSTALLATION.namespace, {
    help: 'Namespace of the installation',
  }),
  'scc-mode': sccOptions['scc-mode'],
  'scc-exempt-namespaces': sccOptions['scc-exempt-namespaces'],
  output: outputOption(DATA_AND_TABLE),
};

type RolloutValues = Values<typeof rolloutOptions> & { readonly namespace?: string | undefined };

/** The kinds that these commands read from a cluster. */
const ROLLOUT_COMMAND_KINDS: readonly Kind[] = [
  'Namespace',
  'ServiceAccount',
  ...POD_SOURCES,
  ...RBAC_KINDS,
  'SecurityContextConstraints',
  'PSAEnforcementConfig',
  'FeatureGate',
];

/**
 * The effect of enforcement on a namespace. `clean`: all workloads are admitted. `violating`: some workloads would
 * be denied. `inconclusive`: the evaluation failed. `labeled`: the namespace keeps its own label. `exempt`: the
 * namespace is exempt.
 */
type Verdict = 'clean' | 'violating' | 'inconclusive' | 'labeled' | 'exempt';

/** A namespace with its current and its planned level. */
export interface PlannedNamespace {
  readonly name: string;
  /** The enforced level and its source. */
  readonly current: Level;
  readonly currentSource: 'label' | 'default' | 'exemption';
  /** The level with enforcement; absent if it cannot be computed. */
  readonly planned?: Level | undefined;
  readonly verdict: Verdict;
  readonly categories: readonly Category[];
  /** Reason in the status of the PSAEnforcementConfig. */
  readonly reason?: string | undefined;
  /** Workloads that would be refused, by kind and name. */
  readonly workloads: readonly ViolatingWorkload[];
  /** Error of an inconclusive evaluation. */
  readonly error?: string | undefined;
  /** Next steps, one sentence each. */
  readonly steps: readonly string[];
}

/** Numbers of namespaces by verdict, and of workloads and running pods that would be refused. */
export type NamespaceCounts = Readonly<Record<Verdict | 'namespaces' | 'workloads' | 'pods', number>>;

/** The state of the rollout. */
export interface RolloutState {
  readonly phase: RolloutPhase;
  readonly enforcementDate?: string | undefined;
  readonly gate: boolean;
  /** `spec.enforcementMode`; absent if there is no PSAEnforcementConfig. */
  readonly requested?: string | undefined;
  readonly requestedBy?: 'rollout' | 'others' | undefined;
  readonly decided: string;
  readonly lastEvaluationTime?: string | undefined;
  /** The default level of namespaces without a label. */
  readonly enforce: DefaultLevel;
  readonly published: DefaultLevel;
  /** Generation of the published default; 0 before the first. */
  readonly generation: number;
  readonly syncer: SyncerMode;
  readonly raiseSettleMs: number;
  readonly conditions: readonly Condition[];
  /** Managed namespaces that need a label before the default can be raised. */
  readonly unlabeled: readonly string[];
}

/** The ConfigMaps with the published default and with the configuration. */
function installationObjects(store: Store, namespace: string): readonly ObjectName[] {
  const mounted = deploymentFile(deploymentIn(store, namespace), 'config');
  const names = [POD_SECURITY_CONFIG_MAP, ...(mounted?.kind === 'ConfigMap' ? [mounted.name] : [])];
  return names.map((name) => ({ kind: 'ConfigMap', namespace, name }));
}

/** Reads the settings of the server. Options take precedence. Rejects with a UserError for an invalid file. */
async function readSettings(store: Store, values: RolloutValues) {
  const { config, 'installation-namespace': namespace } = values;
  const source = config === undefined ? mountedSource(store, namespace) : await readPodSecuritySource(config);
  const parsed = parseConfiguration(source ?? { file: '', text: '' }, source ? Object.keys(serveOptions) : []);
  const mode = values['scc-mode'] ?? sccModeIn(store, namespace, parsed);
  const { podSecurity, rollout } = parsed;
  return {
    podSecurity,
    rollout: source ? rollout : { ...DEFAULT_ROLLOUT, phase: 'Evaluate' as const },
    scc: { mode: mode ?? DEFAULT_SCC_MODE, exemptNamespaces: values['scc-exempt-namespaces'] },
    assumptions: [
      ...(source ? [] : ['rollout.phase Evaluate (set --config)']),
      ...(mode === undefined ? [`SCC mode ${DEFAULT_SCC_MODE} (set --scc-mode)`] : []),
    ],
  };
}

function deploymentIn(store: Store, namespace: string): Kinds['Deployment'] | undefined {
  return store.get('Deployment', INSTALLATION.name, namespace);
}

function mountedSource(store: Store, namespace: string): Source | undefined {
  const mounted = deploymentFile(deploymentIn(store, namespace), 'config');
  const data = mounted && store.get('ConfigMap', mounted.name, namespace)?.data;
  if (!mounted || !data || !Object.hasOwn(data, mounted.key)) return undefined;
  return { file: `configmaps/${mounted.name} ${mounted.key}`, text: data[mounted.key] ?? '' };
}

/** The SCC mode on the command line of the replicas or in their file; the default if only a Deployment exists. */
function sccModeIn(store: Store, namespace: string, { options }: Configuration): SccMode | undefined {
  const deployment = deploymentIn(store, namespace);
  const configured = deploymentArgument(deployment, 'scc-mode') ?? options.get('scc-mode')?.at(-1);
  return SCC_MODES.find((mode) => mode === configured) ?? (deployment && DEFAULT_SCC_MODE);
}

/** The input of all rollout commands. */
export interface RolloutFacts {
  readonly store: Store;
  readonly podSecurity: PodSecurity;
  readonly management: ManagementSettings;
  readonly state: RolloutState;
  /** Assumptions, as phrases. */
  readonly assumptions: readonly string[];
}

/** Reads a cluster or manifests, and the state of the rollout. Rejects with a UserError if something cannot be read. */
export async function gatherRollout(values: RolloutValues, io: Io, date: Date): Promise<RolloutFacts> {
  const namespace = values['installation-namespace'];
  const inventory = await readInventory(values, io, {
    kinds: ROLLOUT_COMMAND_KINDS,
    also: (store) => installationObjects(store, namespace),
  });
  const { store } = inventory;
  const { rollout, podSecurity, scc, assumptions } = await readSettings(store, values);
  const management = { exemptNamespaces: new Set(DEFAULT_UNMANAGED_NAMESPACES), scc };
  const unlabeled = findUnlabeled(store, management, date);
  return {
    store,
    podSecurity,
    management,
    state: getState({ store, namespace, version: VERSION }, rollout, unlabeled),
    assumptions: [...inventory.assumptions, ...assumptions],
  };
}

function getState(scope: RolloutScope, settings: RolloutSettings, unlabeled: readonly string[]): RolloutState {
  const { gate, enforce, published, generation, syncer } = getRolloutView(scope, settings);
  const config = scope.store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
  const { spec, status, specOwner } = readEnforcement(config);
  return {
    phase: settings.phase,
    enforcementDate: settings.enforcementDate,
    gate,
    requested: config && spec,
    requestedBy: specOwner,
    decided: status,
    lastEvaluationTime: config?.status?.lastEvaluationTime ?? undefined,
    enforce,
    published,
    generation,
    syncer,
    raiseSettleMs: settings.raiseSettleMs,
    conditions: config?.status?.conditions ?? [],
    unlabeled,
  };
}

function findUnlabeled(store: Store, management: ManagementSettings, date: Date): readonly string[] {
  return store
    .list('Namespace')
    .filter((namespace) => {
      const accounts = store.list('ServiceAccount', namespace.metadata?.name ?? '');
      const serviceAccounts = accounts.flatMap(({ metadata }) => metadata?.name ?? []);
      const { isManaged } = getSyncState(namespace, management);
      return isAwaitingLabel({ namespace, isManaged, serviceAccounts }, date.getTime());
    })
    .map(({ metadata }) => metadata?.name ?? '')
    .sort();
}
