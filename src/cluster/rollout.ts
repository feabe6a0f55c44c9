import {
  LABEL_SYNC_MODE_ANNOTATION,
  POD_SECURITY_CONFIG_MAP,
  POD_SECURITY_DEFAULT_ANNOTATION,
  POD_SECURITY_GENERATION_ANNOTATION,
} from '../kube/well-known.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../kube/psa-enforcement-config.ts';
import type { KubeObject, Kind, Namespace } from '../kube/types.ts';
import { podSecurityDefaultsFor } from '../policy/rollout/observed-config.ts';
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
import { createPodSecurity, type PodSecurity } from '../policy/psa/configuration.ts';
import type { RolloutSettings } from '../policy/rollout/settings.ts';
import type { Store } from './store.ts';
import { getMetadataOwners } from '../kube/managed-fields.ts';
import {
  createSccLevels,
  getNeededLevel,
  type ManagementSettings,
  type SccLevels,
  isManaged,
} from '../policy/rollout/label-sync.ts';
import { predictLevel } from '../policy/rollout/evaluation.ts';
import type { Level } from '../policy/pss/policy.ts';
import { canUseScc } from './access.ts';

// The rollout of enforcement as the store shows it: the same for webhooks, controllers and commands.

/** The store and the installation that a rollout is read from. */
export interface RolloutScope {
  readonly store: Store;
  /** Of the installation. */
  readonly namespace: string;
  /** Ours: a FeatureGate may have an entry for it. */
  readonly version: string;
}

/** The rollout as a replica sees it for itself. */
export interface RolloutView {
  readonly gate: boolean;
  /** Whether enforcement is wanted now. */
  readonly want: boolean;
  /** What the leader has published for namespaces without a label. */
  readonly published: DefaultLevel;
  /** The number of what was published; 0: nothing yet. */
  readonly generation: number;
  /** What is to become of labels that enforce; what is there stays until something has been published. */
  readonly syncer: SyncerMode;
  /** What this replica holds them to: it goes down by itself, and up with the leader. */
  readonly enforce: DefaultLevel;
}

/** The level that an object of the rollout names; what names none is privileged. */
export function publishedDefault(object: KubeObject | undefined): DefaultLevel {
  return object?.metadata?.annotations?.[POD_SECURITY_DEFAULT_ANNOTATION] === 'restricted'
    ? 'restricted'
    : 'privileged';
}

/** The number of the configuration that an object of the rollout names; 0 if it names none. */
export function publishedGeneration(object: KubeObject | undefined): number {
  const text = object?.metadata?.annotations?.[POD_SECURITY_GENERATION_ANNOTATION] ?? '';
  return /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

function syncerModeOf(object: KubeObject | undefined): SyncerMode {
  const mode = object?.metadata?.annotations?.[LABEL_SYNC_MODE_ANNOTATION];
  return SYNCER_MODES.find((one) => one === mode) ?? 'Hold';
}

/** The rollout by what the store holds now. */
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
  return {
    gate,
    want,
    published,
    generation: publishedGeneration(configMap),
    syncer: syncerModeOf(configMap),
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

/** What the view depends on. */
export const ROLLOUT_KINDS: readonly Kind[] = ['FeatureGate', 'PSAEnforcementConfig', 'ConfigMap'];

/**
 * Creates a cached `getRolloutView` for the hot path. It computes the view again only after a change of its kinds or
 * the settings.
 */
export function createRolloutViewCache(): typeof getRolloutView {
  let known: { store: Store; settings: RolloutSettings; revisions: number; view: RolloutView } | undefined;
  return (place, settings) => {
    const { store } = place;
    let revisions = 0;
    for (const kind of ROLLOUT_KINDS) revisions += store.revision(kind);
    if (known?.store !== store || known.settings !== settings || known.revisions !== revisions) {
      known = { store, settings, revisions, view: getRolloutView(place, settings) };
    }
    return known.view;
  };
}

/**
 * Creates the function that returns the effective configuration: that of the file; during a rollout, its exemptions
 * with the defaults of the rollout.
 */
export function createEffectivePodSecurity(
  place: RolloutScope,
  settings: () => RolloutSettings,
  file: () => PodSecurity,
): () => PodSecurity {
  const viewOf = createRolloutViewCache();
  let made: { file: PodSecurity; enforce: DefaultLevel; podSecurity: PodSecurity } | undefined;
  return () => {
    const base = file();
    const now = settings();
    if (now.phase === 'Disabled') return base;
    const { enforce } = viewOf(place, now);
    if (made?.file !== base || made.enforce !== enforce) {
      const { exemptions } = base.configuration;
      made = {
        file: base,
        enforce,
        podSecurity: createPodSecurity({ defaults: podSecurityDefaultsFor(enforce), exemptions }),
      };
    }
    return made.podSecurity;
  };
}

/** Creates the function that predicts the level of a namespace under enforcement; `undefined` if it is unknown. */
export function createLevelPredictor(
  management: ManagementSettings,
): (namespace: Namespace, store: Store) => Level | undefined {
  const sccLevels = createSccLevelCache();
  return (namespace, store) => {
    const owners = getMetadataOwners(namespace.metadata);
    // Where SCCs are somebody else's, so are the labels; and who cannot tell what belongs to whom says nothing.
    if (management.scc.mode === 'off' || owners === undefined) return predictLevel(namespace);
    if (!isManaged(namespace, owners, management)) return 'restricted';
    const accounts = store.list('ServiceAccount', namespace.metadata?.name ?? '');
    const serviceAccounts = accounts.flatMap(({ metadata }) => metadata?.name ?? []);
    const need = getNeededLevel({ namespace, serviceAccounts, sccLevels: sccLevels(store), canUse: canUseScc(store) });
    return predictLevel(namespace, { isManaged: true, need });
  };
}

/** Tells the levels of the SCCs of now, judged again only when one has changed. */
export function createSccLevelCache(): (store: Store) => SccLevels {
  let made: { readonly store: Store; readonly revision: number; readonly levels: SccLevels } | undefined;
  return (store) => {
    const revision = store.revision('SecurityContextConstraints');
    if (made?.store !== store || made.revision !== revision) {
      const levels = createSccLevels(store.list('SecurityContextConstraints'), { profile: 'accurate' });
      made = { store, revision, levels };
    }
    return made.levels;
  };
}
