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

/** What the commands about the rollout have in common. */
export const rolloutOptions = {
  ...inventoryOptions,
  config: option('FILE', text, undefined, {
    help: 'Configuration file of the server; absent, the one that the installation in the cluster runs with',
  }),
  'installation-namespace': option('NAME', objectName, INSTALLATION.namespace, {
    help: 'Namespace of the installation',
  }),
  'scc-mode': sccOptions['scc-mode'],
  'scc-exempt-namespaces': sccOptions['scc-exempt-namespaces'],
  output: outputOption(DATA_AND_TABLE),
};

type RolloutValues = Values<typeof rolloutOptions> & { readonly namespace?: string | undefined };

/** What these commands read; of manifests everything is read. */
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
 * What would become of a namespace. `clean`: nothing in it would be refused. `violating`: something would. `inconclusive`:
 * there is no telling. `labelled`: it has a level of its own, which stays in force. `exempt`: it is held to nothing.
 */
type Verdict = 'clean' | 'violating' | 'inconclusive' | 'labelled' | 'exempt';

/** A namespace on its way. */
export interface PlannedNamespace {
  readonly name: string;
  /** What pods are held to now, and by what. */
  readonly today: Level;
  readonly todayBy: 'label' | 'default' | 'exemption';
  /** What they would be held to; absent where nobody can tell. */
  readonly toCome?: Level;
  readonly verdict: Verdict;
  readonly categories: readonly Category[];
  /** As in the status of the PSAEnforcementConfig. */
  readonly reason?: string;
  /** What would be refused, sorted by kind and name. */
  readonly workloads: readonly ViolatingWorkload[];
  /** Why there is no verdict. */
  readonly error?: string;
  /** What to do, each step in one sentence. */
  readonly steps: readonly string[];
}

/** How many namespaces there are of each kind, and what would be refused in them. */
export type NamespaceCounts = Readonly<Record<Verdict | 'namespaces' | 'workloads' | 'pods', number>>;

/** Where the rollout stands. */
export interface RolloutState {
  readonly phase: RolloutPhase;
  readonly enforcementDate?: string;
  readonly gate: boolean;
  /** `spec.enforcementMode`; absent if there is no PSAEnforcementConfig. */
  readonly requested?: string;
  readonly requestedBy?: 'rollout' | 'others';
  readonly decided: string;
  readonly lastEvaluationTime?: string;
  /** What namespaces without a label are held to. */
  readonly enforce: DefaultLevel;
  readonly published: DefaultLevel;
  /** 0: nothing has been published yet. */
  readonly generation: number;
  readonly syncer: SyncerMode;
  readonly raiseSettleMs: number;
  readonly conditions: readonly Condition[];
  /** Managed namespaces that need a label before the default can be raised. */
  readonly unlabelled: readonly string[];
}

/** How the server runs, as far as that can be told. */
interface InstallationSettings {
  readonly configuration: Pick<Configuration, 'rollout' | 'podSecurity'>;
  readonly scc: { readonly mode: SccMode; readonly exemptNamespaces: readonly string[] };
  /** What could not be told, each in a few words without a full stop. */
  readonly assumptions: readonly string[];
}

/** What is published by the installation, and what it runs with. */
function installationObjects(store: Store, namespace: string): readonly ObjectName[] {
  const mounted = deploymentFile(deploymentIn(store, namespace), 'config');
  const names = [POD_SECURITY_CONFIG_MAP, ...(mounted?.kind === 'ConfigMap' ? [mounted.name] : [])];
  return names.map((name) => ({ kind: 'ConfigMap', namespace, name }));
}

/** Reads how the server runs: what was typed counts, then what the installation says. Rejects with a UserError for a wrong file. */
async function readInstallation(store: Store, values: RolloutValues): Promise<InstallationSettings> {
  const { config, 'installation-namespace': namespace } = values;
  const source = config === undefined ? mountedSource(store, namespace) : await readPodSecuritySource(config);
  const parsed = source && parseConfiguration(source, Object.keys(serveOptions));
  const said = values['scc-mode'] ?? sccModeIn(store, namespace, parsed);
  const assumptions = [
    ...(parsed ? [] : ['rollout.phase Evaluate (--config names the configuration file)']),
    ...(said === undefined ? [`mode ${DEFAULT_SCC_MODE} of SCCs (--scc-mode names another)`] : []),
  ];
  return {
    configuration: parsed ?? {
      ...parseConfiguration({ file: '', text: '' }, []),
      rollout: { ...DEFAULT_ROLLOUT, phase: 'Evaluate' },
    },
    scc: { mode: said ?? DEFAULT_SCC_MODE, exemptNamespaces: values['scc-exempt-namespaces'] },
    assumptions,
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

/** On the command line of the replicas, else in their file; where neither says anything but there are replicas, the default. */
function sccModeIn(store: Store, namespace: string, parsed: Configuration | undefined): SccMode | undefined {
  const deployment = deploymentIn(store, namespace);
  const said = deploymentArgument(deployment, 'scc-mode') ?? parsed?.options.get('scc-mode')?.at(-1);
  return SCC_MODES.find((mode) => mode === said) ?? (deployment && DEFAULT_SCC_MODE);
}

/** All that the commands about the rollout decide from. */
export interface RolloutFacts {
  readonly store: Store;
  readonly settings: RolloutSettings;
  readonly podSecurity: PodSecurity;
  readonly management: ManagementSettings;
  readonly state: RolloutState;
  /** What was not there, each in a few words without a full stop. */
  readonly assumptions: readonly string[];
}

/** Reads a cluster, or manifests, and how the rollout stands there. Rejects with a UserError for what cannot be read. */
export async function gatherRollout(values: RolloutValues, io: Io, date: Date): Promise<RolloutFacts> {
  const namespace = values['installation-namespace'];
  const inventory = await readInventory(values, io, {
    kinds: ROLLOUT_COMMAND_KINDS,
    also: (store) => installationObjects(store, namespace),
  });
  const { store } = inventory;
  const { configuration, scc, assumptions } = await readInstallation(store, values);
  const management = { exemptNamespaces: new Set(DEFAULT_UNMANAGED_NAMESPACES), scc };
  const { rollout: settings, podSecurity } = configuration;
  const place = { store, namespace, version: VERSION };
  return {
    store,
    settings,
    podSecurity,
    management,
    state: stateOf(place, settings, unlabelledIn(store, management, date)),
    assumptions: [...inventory.assumptions, ...assumptions],
  };
}

function stateOf(place: RolloutScope, settings: RolloutSettings, unlabelled: readonly string[]): RolloutState {
  const { gate, enforce, published, generation, syncer } = getRolloutView(place, settings);
  const config = place.store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
  const { spec, status, specOwner } = readEnforcement(config);
  const time = config?.status?.lastEvaluationTime;
  return {
    phase: settings.phase,
    ...(settings.enforcementDate === undefined ? {} : { enforcementDate: settings.enforcementDate }),
    gate,
    ...(config === undefined ? {} : { requested: spec }),
    ...(specOwner === undefined ? {} : { requestedBy: specOwner }),
    decided: status,
    ...(time == null ? {} : { lastEvaluationTime: time }),
    enforce,
    published,
    generation,
    syncer,
    raiseSettleMs: settings.raiseSettleMs,
    conditions: config?.status?.conditions ?? [],
    unlabelled,
  };
}

function unlabelledIn(store: Store, management: ManagementSettings, date: Date): readonly string[] {
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
