/** Reads the state of the enforcement rollout from the store, for webhooks, controllers and commands. */
import {
  ENFORCE_LABEL,
  LABEL_SYNC_MODE_ANNOTATION,
  POD_SECURITY_CONFIG_MAP,
  POD_SECURITY_DEFAULT_ANNOTATION,
  POD_SECURITY_GENERATION_ANNOTATION,
} from '../api/names.ts';
import { memoize, type Store } from '../cluster/store.ts';
import type { Kind } from '../kube/kinds.ts';
import { getMetadataOwners } from '../kube/managed-fields.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../kube/psa-enforcement-config.ts';
import type { SecurityContextConstraints } from '../kube/scc.ts';
import type { KubeObject, Namespace } from '../kube/types.ts';
import { POD_SECURITY_LABELS } from '../kube/well-known.ts';
import {
  createPodSecurity,
  isSamePolicy,
  type Labels,
  type PodSecurity,
  type Policies,
  resolvePolicies,
  type SccLevelOptions,
} from '../policy/psa/index.ts';
import type { Level, Policy, Version } from '../policy/pss/index.ts';
import {
  createSccLevels,
  type DefaultLevel,
  ENFORCEMENT_GATE,
  findNeededLevel,
  isEnforcementDesired,
  isFeatureOn,
  isManaged,
  isSelected,
  type LabelSyncInput,
  type LabelSyncPlan,
  type ManagementSettings,
  type NamespaceInput,
  planLabels,
  podSecurityDefaultsFor,
  predictLevel,
  readEnforcement,
  type RolloutSettings,
  type RolloutView,
  sccLevelProfile,
  type SccLevels,
  SYNCER_MODES,
} from '../policy/rollout/index.ts';
import type { Compatibility } from '../policy/scc/index.ts';
import { sccAccess } from './access.ts';

/** The store and the installation from which the rollout state is read. */
export interface RolloutScope {
  readonly store: Store;
  /** Installation namespace. */
  readonly namespace: string;
  /** Portcullis version, which selects the FeatureGate entry. */
  readonly version: string;
}

/**
 * Returns the level in an annotation on a ConfigMap or Lease, or `privileged` if the annotation is absent or invalid.
 */
export function publishedDefault(object: KubeObject | undefined): DefaultLevel {
  const level = object?.metadata?.annotations?.[POD_SECURITY_DEFAULT_ANNOTATION];
  return level === 'restricted' ? 'restricted' : 'privileged';
}

/** Returns the generation in an annotation on a ConfigMap or Lease, or 0 if the annotation is absent or invalid. */
export function publishedGeneration(object: KubeObject | undefined): number {
  const text = object?.metadata?.annotations?.[POD_SECURITY_GENERATION_ANNOTATION] ?? '';
  return /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

/** Kinds on which the rollout view depends. */
export const ROLLOUT_KINDS: readonly Kind[] = ['FeatureGate', 'PSAEnforcementConfig', 'ConfigMap'];

interface CachedView extends Omit<RolloutScope, 'store'> {
  readonly settings: RolloutSettings;
  readonly revisions: number;
  readonly view: RolloutView;
}

const views = new WeakMap<Store, CachedView>();

/** Returns the rollout state in the store. Recomputes it only if the settings or objects of `ROLLOUT_KINDS` change. */
export function getRolloutView(scope: RolloutScope, settings: RolloutSettings): RolloutView {
  const { store, namespace, version } = scope;
  let revisions = 0;
  for (const kind of ROLLOUT_KINDS) revisions += store.revision(kind);
  const cached = views.get(store);
  const isSameScope = cached?.namespace === namespace && cached.version === version;
  if (isSameScope && cached.settings === settings && cached.revisions === revisions) return cached.view;
  const view = computeView(scope, settings);
  views.set(store, { namespace, version, settings, revisions, view });
  return view;
}

function computeView({ store, namespace, version }: RolloutScope, settings: RolloutSettings): RolloutView {
  const { phase } = settings;
  const gate = isFeatureOn(store.get('FeatureGate', 'cluster'), {
    name: ENFORCEMENT_GATE,
    version,
    fallback: phase === 'Enforce',
  });
  const { spec, status } = readEnforcement(store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG));
  const want = isEnforcementDesired({ phase, gate, spec, status });
  const configMap = store.get('ConfigMap', POD_SECURITY_CONFIG_MAP, namespace);
  const published = publishedDefault(configMap);
  const mode = configMap?.metadata?.annotations?.[LABEL_SYNC_MODE_ANNOTATION];
  return {
    gate,
    want,
    published,
    generation: publishedGeneration(configMap),
    syncer: SYNCER_MODES.find((known) => known === mode) ?? 'Hold',
    enforce: want ? published : 'privileged',
  };
}

/** Returns the annotations with the default level that a replica enforces. Replicas set them on their Leases. */
export function replicaAnnotations(
  view: Pick<RolloutView, 'enforce' | 'generation'>,
): Readonly<Record<string, string>> {
  return {
    [POD_SECURITY_DEFAULT_ANNOTATION]: view.enforce,
    [POD_SECURITY_GENERATION_ANNOTATION]: String(view.generation),
  };
}

/** Effective configurations with the rollout defaults. The key is the configuration in the settings. */
const effective = new WeakMap<PodSecurity, Map<DefaultLevel, PodSecurity>>();

/**
 * Returns the current effective Pod Security configuration. It is the configuration in the settings, with the rollout
 * defaults unless the phase is `Disabled`.
 */
export function effectivePodSecurity(
  scope: RolloutScope,
  { rollout, podSecurity }: { readonly rollout: RolloutSettings; readonly podSecurity: PodSecurity },
): PodSecurity {
  if (rollout.phase === 'Disabled') return podSecurity;
  const { enforce } = getRolloutView(scope, rollout);
  const byLevel = effective.get(podSecurity) ?? new Map<DefaultLevel, PodSecurity>();
  effective.set(podSecurity, byLevel);
  const known = byLevel.get(enforce);
  if (known) return known;
  const { exemptions } = podSecurity.configuration;
  const created = createPodSecurity({ defaults: podSecurityDefaultsFor(enforce), exemptions });
  byLevel.set(enforce, created);
  return created;
}

/** Predicts a namespace's level under enforcement. Returns `undefined` if the level is unknown. Yields often. */
export function* predictNamespaceLevel(
  namespace: Namespace,
  store: Store,
  management: ManagementSettings,
): Generator<undefined, Level | undefined> {
  const owners = getMetadataOwners(namespace.metadata);
  // If SCC admission is off, another component manages the labels. If the field owners are unknown, it is unknown
  // whether the syncer manages the labels.
  if (management.scc.mode === 'off' || owners === undefined) return predictLevel(namespace);
  // The syncer sets no enforce label in a namespace that has the `ENFORCE_LABEL`, so the default level applies.
  const hasOwnLevel = namespace.metadata?.labels?.[ENFORCE_LABEL] !== undefined;
  if (hasOwnLevel || !isManaged(namespace, owners, management)) return 'restricted';
  const accounts = store.list('ServiceAccount', namespace.metadata?.name ?? '');
  const serviceAccounts = accounts.flatMap(({ metadata }) => metadata?.name ?? []);
  yield;
  const { compatibility } = management.scc;
  const sccLevels = getSccLevels(store, compatibility);
  const access = sccAccess(store);
  const neededLevel = yield* findNeededLevel({ namespace, serviceAccounts, sccLevels, access, compatibility });
  return predictLevel(namespace, { isManaged: true, neededLevel });
}

export type NamespacePolicies = Pick<NamespaceInput, 'current' | 'planned' | 'isSelected'>;

/**
 * Returns a namespace's current policy and its policy under enforcement. The plan changes labels only if the label
 * syncer manages them. `podSecurity` is the effective configuration. Yields often.
 */
export function* namespacePolicies(
  namespace: Namespace,
  store: Store,
  { podSecurity, management }: { readonly podSecurity: PodSecurity; readonly management: ManagementSettings },
): Generator<undefined, NamespacePolicies> {
  const { labels } = namespace.metadata ?? {};
  const { enforce: current } = resolvePolicies(labels, podSecurity.defaults);
  // The namespace's other labels, such as a version label, also apply to an enforce label that is added later.
  const resolveWith = (added: Labels | undefined, defaults: Policies = podSecurity.defaults): Policy => {
    const { enforce } = resolvePolicies({ ...labels, ...added }, defaults);
    return isSamePolicy(enforce, current) ? current : enforce;
  };
  if (isSelected(namespace, podSecurity.exemptions)) {
    const level = yield* predictNamespaceLevel(namespace, store, management);
    // Neither the rollout nor the syncer uses the version in the settings.
    const defaults = { ...podSecurity.defaults, enforce: { ...current, version: 'latest' } } as const;
    const planned = level && resolveWith({ [POD_SECURITY_LABELS.enforce]: level }, defaults);
    return { current, planned, isSelected: true };
  }
  const { apply } = yield* createLabelPlanner(store, { mode: 'Enforce', settings: management })(namespace);
  return { current, planned: resolveWith(apply?.metadata?.labels), isSelected: false };
}

/**
 * Creates a function that plans namespace labels based on the current objects in the store. The returned generators
 * yield often.
 */
export function createLabelPlanner(
  store: Store,
  options: Pick<LabelSyncInput, 'mode' | 'settings'>,
): (namespace: Namespace) => Generator<undefined, LabelSyncPlan> {
  const { compatibility } = options.settings.scc;
  return function* plan(namespace) {
    const accounts = store.list('ServiceAccount', namespace.metadata?.name ?? '');
    const serviceAccounts = accounts.flatMap(({ metadata }) => metadata?.name ?? []);
    yield;
    const sccLevels = getSccLevels(store, compatibility);
    yield;
    return yield* planLabels({ ...options, sccLevels, access: sccAccess(store), namespace, serviceAccounts });
  };
}

const sccLevels = memoize((sccs: readonly SecurityContextConstraints[]) => {
  const byKey = new Map<string, SccLevels>();
  return (version: Version | undefined, profile: SccLevelOptions['profile']): SccLevels => {
    const key = `${profile} ${version ?? ''}`;
    const levels = byKey.get(key) ?? createSccLevels(sccs, { profile, version });
    byKey.set(key, levels);
    return levels;
  };
});

/** Returns the levels that the SCCs in a store require. */
function getSccLevels(store: Store, compatibility: Compatibility): SccLevels {
  return sccLevels(store.list('SecurityContextConstraints'))(store.emulationVersion, sccLevelProfile(compatibility));
}
