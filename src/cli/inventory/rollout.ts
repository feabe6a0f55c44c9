import { CONFIGURATION_NAME, INSTALLATION, POD_SECURITY_CONFIG_MAP, RAISED_AT_ANNOTATION } from '../../api/names.ts';
import type { Store } from '../../cluster/store.ts';
import type { Settings } from '../../config/settings.ts';
import { isReplicaLease, isCurrentLease } from '../../controllers/replica-leases.ts';
import type { Kind } from '../../kube/kinds.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../../kube/psa-enforcement-config.ts';
import { objectName } from '../../kube/resources.ts';
import { summarizeNames } from '../../kube/text.ts';
import type { Lease } from '../../kube/types.ts';
import { RBAC_KINDS } from '../../policy/rbac/index.ts';
import {
  computeState,
  getSyncState,
  isAwaitingLabel,
  type ManagementSettings,
  managementSettings,
} from '../../policy/rollout/index.ts';
import { activeExceptions } from '../../views/exceptions.ts';
import { effectivePodSecurity, getRolloutView, publishedDefault, publishedGeneration } from '../../views/rollout.ts';
import { POD_SOURCES } from '../../views/workloads.ts';
import { type Io, VERSION } from '../command.ts';
import { nonEmpty, option, type Values } from '../options.ts';
import { DATA_AND_TABLE, outputOption } from '../output/print.ts';
import { listExceptions, proposedExceptions } from './exceptions.ts';
import { type Inventory, type InventoryNeeds, inventoryOptions, listNamespaces, readInventory } from './inventory.ts';
import { expectedSettings, findSettings, sccOptions } from './settings.ts';

export const rolloutOptions = {
  ...inventoryOptions,
  config: sccOptions.config,
  'installation-namespace': option('NAME', nonEmpty, INSTALLATION.namespace, { help: 'Installation namespace' }),
  'scc-mode': sccOptions['scc-mode'],
  output: outputOption([...DATA_AND_TABLE, 'wide']),
};

export type RolloutValues = Omit<Values<typeof rolloutOptions>, 'output'> & {
  readonly namespace?: string | undefined;
  /** Time at which exceptions are evaluated. Defaults to the current time. */
  readonly at?: Date | undefined;
};

/** Kinds that the rollout commands read from a cluster. */
export const ROLLOUT_COMMAND_KINDS: readonly Kind[] = [
  'Namespace',
  'ServiceAccount',
  ...POD_SOURCES,
  ...RBAC_KINDS,
  'SecurityContextConstraints',
  'PSAEnforcementConfig',
  'FeatureGate',
];

export const APPROVED_EXCEPTIONS = 'approvals of the exceptions in the manifests';

/** The input of all rollout commands. */
export type RolloutFacts = Awaited<ReturnType<typeof computeRollout>>;

/**
 * Reads a cluster or manifests, and computes the state of the rollout. Rejects with a UserError if an object cannot be
 * read.
 */
export async function gatherRollout(
  values: RolloutValues,
  io: Io,
  date: Date,
  needs?: Pick<InventoryNeeds, 'kinds' | 'only'>,
): Promise<RolloutFacts> {
  return await computeRollout(await readRolloutInventory(values, io, needs), values, date);
}

/** Reads the objects on which the rollout depends from a cluster or from manifests. */
export async function readRolloutInventory(
  values: RolloutValues,
  io: Io,
  needs: Pick<InventoryNeeds, 'kinds' | 'only' | 'workloadResources'> = { kinds: ROLLOUT_COMMAND_KINDS },
): Promise<Inventory> {
  const namespace = values['installation-namespace'];
  return await readInventory(values, io, {
    areSccsOptional: values['scc-mode'] === undefined && values.config === undefined,
    // Ranges are assumed because namespaces have none while SCCs are not enforced.
    ...(values['scc-mode'] === 'enforce' ? { gaps: 'fill' as const } : {}),
    optional: [
      { kind: 'ConfigMap', namespace, name: POD_SECURITY_CONFIG_MAP },
      { kind: 'Lease', namespace },
      { kind: 'PodSecurityException' },
    ],
    workloadResources: async (store) =>
      (await findSettings({ config: values.config, store, namespace })).settings.workloadResources,
    ...needs,
  });
}

/** Computes the state of the rollout from an inventory. Rejects with a UserError for invalid settings. */
export async function computeRollout(
  inventory: Pick<Inventory, 'store' | 'source' | 'customSources' | 'assumptions' | 'unread'>,
  values: Pick<RolloutValues, 'config' | 'installation-namespace' | 'scc-mode' | 'at'>,
  date: Date,
) {
  const { config, 'installation-namespace': namespace, 'scc-mode': mode } = values;
  const { store, customSources, source: origin } = inventory;
  const { settings, source, spec, isWithoutServer } = await findSettings({ config, store, namespace });
  store.emulationVersion = settings.emulationVersion ?? store.emulationVersion;
  const isDefault = source === undefined;
  const unread = [...new Set(inventory.unread.map(({ kind }) => kind))];
  const rollout = isDefault ? { ...settings.rollout, phase: 'Evaluate' as const } : settings.rollout;
  const scc = expectedSettings({ settings, source }, mode);
  const management = managementSettings(scc);
  const policies = isWithoutServer ? await findSettings({ config: undefined, store }) : undefined;
  const scope = { store, namespace, version: VERSION };
  const podSecurity = effectivePodSecurity(scope, { rollout, podSecurity: settings.podSecurity });
  const areLeasesKnown = origin === 'cluster' && !inventory.unread.some(({ kind }) => kind === 'Lease');
  const nowMs = origin === 'cluster' ? date.getTime() : undefined;
  const configMap = store.get('ConfigMap', POD_SECURITY_CONFIG_MAP, namespace);
  return {
    store,
    clusterName: settings.clusterName,
    /** Spec of the settings. Absent if it was not read. */
    spec: config === undefined && unread.includes('PortcullisConfiguration') ? undefined : spec,
    /** Optional kinds that the user may not read. */
    unread,
    /** Pod templates in manifests whose kinds the store does not contain. */
    customSources,
    podSecurity,
    management,
    defaults: settings.defaults,
    ...findExceptions(store, settings.exceptions, origin, (values.at ?? date).getTime()),
    state: computeState({
      settings: rollout,
      view: getRolloutView(scope, rollout),
      config: store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG),
      sccMode: management.scc.mode,
      isBreakGlassOn: reportsBreakGlass(store),
      default: podSecurity.defaults.enforce.level,
      nowMs,
      live: areLeasesKnown ? findReplicas(store.list('Lease', namespace), date) : undefined,
      raisedAt: configMap?.metadata?.annotations?.[RAISED_AT_ANNOTATION],
      labels: findLabels(store, management, nowMs ?? Date.now()),
    }),
    assumptions: [
      ...inventory.assumptions,
      ...(origin === 'manifests' && store.list('PodSecurityException').length > 0 ? [APPROVED_EXCEPTIONS] : []),
      ...(isDefault ? ['spec.rollout.phase Evaluate (set --config)'] : []),
      ...scc.assumptions,
      ...describeCustomSources(customSources),
    ],
    /** The source of the settings. Absent for defaults. */
    settingsSource: source,
    /** Settings of the policies in the API server. Absent if there is a server or there are no policies. */
    policies: policies?.settings.podSecurity,
    /** False if the cluster contains no objects of an installation. */
    isInstalled:
      !isDefault ||
      origin === 'manifests' ||
      inventory.unread.length > 0 ||
      store.list('Lease', namespace).length > 0 ||
      store.get('Deployment', INSTALLATION.name, namespace) !== undefined,
  };
}

/** Returns true if the leader reports that break-glass is on, and `undefined` otherwise. */
function reportsBreakGlass(store: Store): true | undefined {
  const conditions = store.get('PortcullisConfiguration', CONFIGURATION_NAME)?.status?.conditions ?? [];
  return conditions.some(({ type, reason }) => type === 'Ready' && reason === 'BreakGlass') || undefined;
}

/** Describes the custom resources that commands evaluate but the leader does not. */
function describeCustomSources(sources: Inventory['customSources']): readonly string[] {
  if (sources.length === 0) return [];
  const names = sources.map(({ kind, object: { metadata } }) => `${kind} ${metadata?.namespace}/${metadata?.name}`);
  return [
    `custom resources that replicas may not read, so the leader evaluates only their existing pods: ${summarizeNames(names, MAX_SHOWN)}`,
  ];
}

/** Maximum number of names in a description. */
const MAX_SHOWN = 5;

/** Returns the functions that look up exceptions. Exceptions in manifests are assumed to be approved. */
export function findExceptions(
  store: Store,
  settings: Settings['exceptions'],
  source: Inventory['source'],
  nowMs: number,
) {
  const isCluster = source === 'cluster';
  return {
    areExceptionsOn: settings.mode !== 'off' || (!isCluster && store.list('PodSecurityException').length > 0),
    /** Returns the exceptions that apply in a namespace. */
    exceptions: (namespace: string) =>
      isCluster ? activeExceptions(store, settings, namespace, nowMs) : proposedExceptions(store, namespace, nowMs),
    /** Lists the exceptions in one namespace or in all namespaces. */
    listExceptions: (namespace?: string) =>
      listExceptions(store, isCluster ? settings : { ...settings, mode: 'approved' }, nowMs, namespace),
  };
}

/** Returns the leader, and the levels of all replicas that have recently renewed their Lease. */
function findReplicas(leases: readonly Lease[], now: Date) {
  const live = leases.filter((lease) => isCurrentLease(lease, now, CLOCK_TOLERANCE_MS));
  const leader = live.find((lease) => objectName(lease) === INSTALLATION.name)?.spec?.holderIdentity || undefined;
  const replicas = live
    .filter(isReplicaLease)
    .map((lease) => ({ level: publishedDefault(lease), generation: publishedGeneration(lease) }));
  return { replicas, leader };
}

/** Time for which a Lease is treated as current after it expires, because of clock skew. */
const CLOCK_TOLERANCE_MS = 60_000;

/** Finds managed namespaces that lack a required label, and namespaces with a label that the syncer set. */
function findLabels(store: Store, management: ManagementSettings, nowMs: number) {
  const labels = { unlabeled: [] as string[], unreleased: [] as string[] };
  for (const namespace of listNamespaces(store)) {
    const name = objectName(namespace);
    const serviceAccounts = store.list('ServiceAccount', name).map(objectName);
    const { isManaged, ownsEnforceLabel } = getSyncState(namespace, management);
    if (isAwaitingLabel({ namespace, isManaged, serviceAccounts }, nowMs)) labels.unlabeled.push(name);
    if (ownsEnforceLabel) labels.unreleased.push(name);
  }
  return labels;
}
