/**
 * The table of the kinds that replicas watch. To watch another kind, add it to a row, or add a row. The permissions of
 * the replicas are generated from this table.
 */
import { DEFAULTS_KINDS, POLICY_KINDS } from '../api/admission-policies.ts';
import { INSTALLATION, type OptionalFeature, POD_SECURITY_CONFIG_MAP } from '../api/names.ts';
import type { Scope } from '../cluster/live-cluster.ts';
import type { Settings } from '../config/settings.ts';
import type { Kind } from '../kube/kinds.ts';
import { RESOURCES } from '../kube/resources.ts';
import { RBAC_KINDS } from '../policy/rbac/index.ts';
import { POD_SOURCES } from '../views/workloads.ts';
import { rbacRule, type RbacRule, WATCH_VERBS } from './permissions.ts';

/** Input that determines at run time which kinds a replica watches. */
interface WatchInput {
  /** `undefined` until the settings are known. */
  readonly settings: Settings | undefined;
  /** Installed features. */
  readonly features: readonly (OptionalFeature | 'rollout')[];
  /** True if the settings come from the PortcullisConfiguration instead of a file. */
  readonly hasSettingsObject: boolean;
  readonly hasManagedCertificate: boolean;
  /** True if API servers reach the webhooks through the Service instead of a URL. */
  readonly hasService: boolean;
}

/** Kinds that are watched under the same condition. */
interface WatchedKinds {
  readonly kinds: readonly Kind[];
  /**
   * The installed feature whose role permits the watch. `always` is in every installation. If absent, a controller's
   * own permissions include the watch.
   */
  readonly feature?: 'always' | 'rollout' | OptionalFeature;
  /** If absent, the kinds are always watched. */
  isNeeded?(input: WatchInput): boolean;
  /** Restricts the watch to objects in the installation namespace, optionally to a single object. */
  readonly own?: { readonly name?: string };
  /** Restricts the watch to some objects, or to their metadata. */
  readonly scope?: Omit<Scope, 'kind' | 'namespace' | 'name'>;
  /** True if only controllers read the kinds, so the readiness of a replica does not depend on them. */
  readonly isForControllers?: boolean;
}

const isRolloutOn = ({ settings }: WatchInput): boolean =>
  settings !== undefined && settings.rollout.phase !== 'Disabled';
const hasRollout = (input: WatchInput): boolean =>
  isRolloutOn(input) || (input.settings !== undefined && input.features.includes('rollout'));
const hasKubelet = ({ features }: WatchInput): boolean => features.includes('kubelet');
const hasOlm = ({ features }: WatchInput): boolean => features.includes('olm');

/** Metadata of the ClusterServiceVersions that are not copies. */
export const CSV_SCOPE = {
  kind: 'ClusterServiceVersion',
  labelSelector: '!olm.copiedFrom',
  isMetadataOnly: true,
} as const satisfies Scope;

/**
 * All watched kinds. Pods and workloads do not affect the readiness of a replica, because reviews of namespaces wait
 * for them.
 */
const WATCHED_KINDS: readonly WatchedKinds[] = [
  {
    kinds: ['PortcullisConfiguration'],
    feature: 'always',
    isNeeded: ({ hasSettingsObject }) => hasSettingsObject,
  },
  { kinds: ['Namespace'], feature: 'always' },
  { kinds: ['Pod'], feature: 'always', isForControllers: true },
  // A replica is ready only if these configurations trust its serving certificate.
  {
    kinds: ['MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration'],
    feature: 'always',
    isForControllers: true,
  },
  // The leader manages the policies, and lets webhooks fail open only while the policies are in force.
  { kinds: [...POLICY_KINDS, ...DEFAULTS_KINDS], feature: 'always', isForControllers: true },
  {
    kinds: ['Secret'],
    isNeeded: ({ hasManagedCertificate }) => hasManagedCertificate,
    own: { name: INSTALLATION.certificateSecret },
    isForControllers: true,
  },
  { kinds: ['Lease'], own: {}, isForControllers: true },
  // The leader registers webhooks once the Service has an endpoint.
  { kinds: ['EndpointSlice'], isNeeded: ({ hasService }) => hasService, own: {}, isForControllers: true },
  {
    kinds: ['PodSecurityException'],
    feature: 'always',
    isNeeded: ({ settings }) => settings !== undefined && settings.exceptions.mode !== 'off',
  },
  // SCC admission reads SCCs and their grants.
  {
    kinds: ['SecurityContextConstraints', ...RBAC_KINDS],
    feature: 'scc',
    isNeeded: ({ settings }) => settings !== undefined && settings.scc.mode !== 'off',
  },
  { kinds: ['Node', 'NodesConfig', 'MachineConfigPool'], feature: 'kubelet', isNeeded: hasKubelet },
  { kinds: ['ClusterServiceVersion'], feature: 'olm', isNeeded: hasOlm, scope: CSV_SCOPE },
  // Hardening of OLM pods reads these kinds. On OpenShift, it leaves the users of pods to SCC admission.
  {
    kinds: ['CatalogSource', 'SecurityContextConstraints'],
    feature: 'olm',
    isNeeded: (input) => hasOlm(input) && input.settings !== undefined && input.settings.olm.hardening.mode !== 'off',
  },
  // During a rollout, reviews predict levels from the SCCs that service accounts may use.
  { kinds: ['ServiceAccount'], feature: 'rollout', isNeeded: isRolloutOn },
  // The evaluation of workloads reads these kinds in every phase of the rollout.
  {
    kinds: ['ServiceAccount', 'PodTemplate', ...POD_SOURCES.filter((kind) => kind !== 'Pod')],
    feature: 'rollout',
    isNeeded: hasRollout,
    isForControllers: true,
  },
  { kinds: ['PSAEnforcementConfig', 'FeatureGate'], feature: 'rollout', isNeeded: isRolloutOn },
  // The ConfigMap contains the default level that the leader publishes.
  { kinds: ['ConfigMap'], feature: 'rollout', isNeeded: isRolloutOn, own: { name: POD_SECURITY_CONFIG_MAP } },
  // The leader also reads these kinds in the Disabled phase, because a rollout may have ended while no leader ran. The
  // rows above contain the permissions.
  { kinds: ['PSAEnforcementConfig'], isNeeded: hasRollout, isForControllers: true },
  { kinds: ['ConfigMap'], isNeeded: hasRollout, own: { name: POD_SECURITY_CONFIG_MAP }, isForControllers: true },
];

/** A kind that a replica watches. */
export interface WatchedKind {
  readonly scope: Scope;
  readonly isForControllers: boolean;
}

/** Returns the kinds that a replica watches. The namespace is that of the installation. */
export function watchedKinds(input: WatchInput, namespace: string): readonly WatchedKind[] {
  const byKind = new Map<Kind, WatchedKind>();
  for (const { kinds, isNeeded, own, scope, isForControllers = false } of WATCHED_KINDS) {
    if (isNeeded?.(input) === false) continue;
    for (const kind of kinds) {
      const known = byKind.get(kind);
      byKind.set(kind, {
        scope: known?.scope ?? { kind, ...(own ? { namespace, ...own } : {}), ...scope },
        isForControllers: isForControllers && known?.isForControllers !== false,
      });
    }
  }
  return [...byKind.values()];
}

/**
 * Returns the rules that permit the watches of a feature. They apply to kinds in all namespaces or, if `isOwn` is true,
 * to objects in the installation namespace.
 */
export function watchRules(feature: WatchedKinds['feature'], isOwn: boolean): readonly RbacRule[] {
  const rows = WATCHED_KINDS.filter((row) => row.feature === feature && (row.own !== undefined) === isOwn);
  const named = rows.flatMap(({ kinds, own }) =>
    own?.name === undefined ? [] : kinds.map((kind) => rbacRule(WATCH_VERBS, [kind], [own.name ?? ''])),
  );
  const kinds = new Set(rows.flatMap((row) => (row.own?.name === undefined ? row.kinds : [])));
  const groups = [...Map.groupBy(kinds, (kind) => RESOURCES[kind].group).values()];
  return [
    ...groups.flatMap(([first, ...others]) => (first ? rbacRule(WATCH_VERBS, [first, ...others]) : [])),
    ...named,
  ];
}
