/** The rollout of enforcement according to the store: the same for webhooks, controllers and commands. */
import { getMetadataOwners } from '../kube/managed-fields.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../kube/psa-enforcement-config.ts';
import type { Kind, KubeObject, Namespace } from '../kube/types.ts';
import {
  LABEL_SYNC_MODE_ANNOTATION,
  POD_SECURITY_CONFIG_MAP,
  POD_SECURITY_DEFAULT_ANNOTATION,
  POD_SECURITY_GENERATION_ANNOTATION,
} from '../kube/well-known.ts';
import { createPodSecurity, type PodSecurity } from '../policy/psa/configuration.ts';
import type { Level } from '../policy/pss/policy.ts';
import {
  ENFORCEMENT_GATE,
  isFeatureOn,
  readEnforcement,
  replicaDefault,
  SYNCER_MODES,
  wantsEnforcement,
  type DefaultLevel,
  type SyncerMode,
} from '../policy/rollout/enforcement.ts';
import { predictLevel } from '../policy/rollout/evaluation.ts';
import {
  createSccLevels,
  getNeededLevel,
  isManaged,
  type ManagementSettings,
  type SccLevels,
} from '../policy/rollout/label-sync.ts';
import { podSecurityDefaultsFor } from '../policy/rollout/observed-config.ts';
import type { RolloutSettings } from '../policy/rollout/settings.ts';
import { canUseScc } from './access.ts';
import type { Store } from './store.ts';

/** The store and the installation from which a rollout is read. */
export interface RolloutScope {
  readonly store: Store;
  /** Namespace of the installation. */
  readonly namespace: string;
  /** Version of the program: selects the entry of a FeatureGate. */
  readonly version: string;
}

/** The rollout from the point of view of one replica. */
export interface RolloutView {
  readonly gate: boolean;
  /** True if enforcement is wanted now. */
  readonly want: boolean;
  /** The published level of namespaces without a label. */
  readonly published: DefaultLevel;
  /** Generation of the published configuration; 0 before anything is published. */
  readonly generation: number;
  /** The published mode of the label syncer; `Hold` before anything is published. */
  readonly syncer: SyncerMode;
  /** The level that this replica enforces. A replica lowers it on its own, and raises it when the leader publishes it. */
  readonly enforce: DefaultLevel;
}

/** The level in the annotation of a ConfigMap or Lease; privileged if it is absent or invalid. */
export function publishedDefault(object: KubeObject | undefined): DefaultLevel {
  const level = object?.metadata?.annotations?.[POD_SECURITY_DEFAULT_ANNOTATION];
  return level === 'restricted' ? 'restricted' : 'privileged';
}

/** The generation in the annotation of a ConfigMap or Lease; 0 if it is absent or invalid. */
export function publishedGeneration(object: KubeObject | undefined): number {
  const text = object?.metadata?.annotations?.[POD_SECURITY_GENERATION_ANNOTATION] ?? '';
  return /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

/** Computes the view from the current objects of the store. */
export function getRolloutView({ store, namespace, version }: RolloutScope, settings: RolloutSettings): RolloutView {
  const { phase, featureGates } = settings;
  const gate = isFeatureOn(store.get('FeatureGate', 'cluster'), {
    name: ENFORCEMENT_GATE,
    version,
    fallback: featureGates.get(ENFORCEMENT_GATE) ?? phase === 'Enforce',
  });
  const { spec, status } = readEnforcement(store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG));
  const want = wantsEnforcement({ phase, gate, spec, status }) === true;
  const configMap = store.get('ConfigMap', POD_SECURITY_CONFIG_MAP, namespace);
  const published = publishedDefault(configMap);
  const mode = configMap?.metadata?.annotations?.[LABEL_SYNC_MODE_ANNOTATION];
  return {
    gate,
    want,
    published,
    generation: publishedGeneration(configMap),
    syncer: SYNCER_MODES.find((one) => one === mode) ?? 'Hold',
    enforce: replicaDefault({ published, want }),
  };
}

/** The annotations of the Lease of a replica: the default level that it runs. */
export function replicaAnnotations(
  view: Pick<RolloutView, 'enforce' | 'generation'>,
): Readonly<Record<string, string>> {
  return {
    [POD_SECURITY_DEFAULT_ANNOTATION]: view.enforce,
    [POD_SECURITY_GENERATION_ANNOTATION]: String(view.generation),
  };
}

/** The kinds that the view depends on. */
export const ROLLOUT_KINDS: readonly Kind[] = ['FeatureGate', 'PSAEnforcementConfig', 'ConfigMap'];

/**
 * Creates a cached `getRolloutView` for the hot path. It computes the view again only after a change of its kinds or
 * the settings.
 */
export function createRolloutViewCache(): typeof getRolloutView {
  let cached: { store: Store; settings: RolloutSettings; revisions: number; view: RolloutView } | undefined;
  return (scope, settings) => {
    const { store } = scope;
    let revisions = 0;
    for (const kind of ROLLOUT_KINDS) revisions += store.revision(kind);
    if (cached?.store !== store || cached.settings !== settings || cached.revisions !== revisions) {
      cached = { store, settings, revisions, view: getRolloutView(scope, settings) };
    }
    return cached.view;
  };
}

/**
 * Creates the function that returns the effective configuration: that of the file, with the defaults of the rollout unless
 * its phase is `Disabled`.
 */
export function createEffectivePodSecurity(
  scope: RolloutScope,
  settings: () => RolloutSettings,
  file: () => PodSecurity,
): () => PodSecurity {
  const getView = createRolloutViewCache();
  let cached: { file: PodSecurity; enforce: DefaultLevel; podSecurity: PodSecurity } | undefined;
  return () => {
    const base = file();
    const rollout = settings();
    if (rollout.phase === 'Disabled') return base;
    const { enforce } = getView(scope, rollout);
    if (cached?.file !== base || cached.enforce !== enforce) {
      const { exemptions } = base.configuration;
      const podSecurity = createPodSecurity({ defaults: podSecurityDefaultsFor(enforce), exemptions });
      cached = { file: base, enforce, podSecurity };
    }
    return cached.podSecurity;
  };
}

/** Creates the function that predicts the level of a namespace under enforcement; `undefined` if it is unknown. */
export function createLevelPredictor(
  management: ManagementSettings,
): (namespace: Namespace, store: Store) => Level | undefined {
  const sccLevels = createSccLevelCache();
  return (namespace, store) => {
    const owners = getMetadataOwners(namespace.metadata);
    // Without SCC admission another component maintains the labels. Without owners the level is unknown.
    if (management.scc.mode === 'off' || owners === undefined) return predictLevel(namespace);
    if (!isManaged(namespace, owners, management)) return 'restricted';
    const accounts = store.list('ServiceAccount', namespace.metadata?.name ?? '');
    const serviceAccounts = accounts.flatMap(({ metadata }) => metadata?.name ?? []);
    const need = getNeededLevel({ namespace, serviceAccounts, sccLevels: sccLevels(store), canUse: canUseScc(store) });
    return predictLevel(namespace, { isManaged: true, need });
  };
}

/** Creates a cached `createSccLevels`. It computes the levels again only after a change of the SCCs. */
export function createSccLevelCache(): (store: Store) => SccLevels {
  let cached: { readonly store: Store; readonly revision: number; readonly levels: SccLevels } | undefined;
  return (store) => {
    const revision = store.revision('SecurityContextConstraints');
    if (cached?.store !== store || cached.revision !== revision) {
      const levels = createSccLevels(store.list('SecurityContextConstraints'), { profile: 'accurate' });
      cached = { store, revision, levels };
    }
    return cached.levels;
  };
}
