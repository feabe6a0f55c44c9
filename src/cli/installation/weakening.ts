/** Finds changes to settings that weaken enforcement. */
import { OPTIONAL_FEATURES, ENFORCE_LABEL, POD_SECURITY_CONFIG_MAP } from '../../api/names.ts';
import type { ClusterClient } from '../../cluster/client.ts';
import { readCluster } from '../../cluster/lists.ts';
import type { Store } from '../../cluster/store.ts';
import { withSetting } from '../../config/setting-paths.ts';
import type { Settings } from '../../config/settings.ts';
import { decodePolicy, type PolicySettings } from '../../install/index.ts';
import type { Kind } from '../../kube/kinds.ts';
import { objectName, RESOURCES } from '../../kube/resources.ts';
import { summarizeNames } from '../../kube/text.ts';
import type { JsonObject, Namespace } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import { type Policies, resolvePolicies } from '../../policy/psa/index.ts';
import { compareVersions, LEVELS, parseVersion, type Version } from '../../policy/pss/index.ts';
import { ROLLOUT_PHASES } from '../../policy/rollout/index.ts';
import { sccMode, type SccSettings } from '../../policy/scc/index.ts';
import { effectivePodSecurity } from '../../views/rollout.ts';
import { VERSION } from '../command.ts';

/**
 * Settings whose values can be ordered by strictness, with their values from weakest to strictest. Values that are not
 * listed are equally strict, and weaker than all listed values.
 */
const STRICTNESS: readonly (readonly [path: string, read: (settings: Settings) => string, order: readonly string[]])[] =
  [
    ['podSecurity.defaults.enforce', ({ podSecurity }) => podSecurity.configuration.defaults.enforce, LEVELS],
    ['defaults.mode', ({ defaults }) => defaults.mode, ['off', 'apply']],
    // For namespaces without a label, report mode enforces no more than off mode.
    ['scc.mode', ({ scc }) => scc.mode, ['enforce']],
    ['scc.compatibility', ({ scc }) => scc.compatibility, ['portcullis', 'openshift']],
    ['rollout.phase', ({ rollout }) => rollout.phase, ROLLOUT_PHASES],
    ['kubelet.compatibility', ({ kubelet }) => kubelet.compatibility, ['portcullis', 'openshift']],
    ['floor.mode', ({ floor }) => floor.mode, ['off', 'enforce']],
    ['guard.labels', ({ guard }) => guard.labels, ['off', 'warn', 'enforce']],
    ['webhooks.failurePolicy', ({ webhooks }) => webhooks.failurePolicy, ['Ignore', 'Fail']],
    ['olm.hardening.mode', ({ olm }) => olm.hardening.mode, ['off', 'report', 'fill', 'force']],
  ];

/** Lists in which additional items weaken enforcement. */
const EXEMPTIONS: readonly (readonly [path: string, read: (settings: Settings) => readonly string[]])[] = [
  ['podSecurity.exemptions.namespaces', ({ podSecurity }) => podSecurity.configuration.exemptions.namespaces],
  ['podSecurity.exemptions.usernames', ({ podSecurity }) => podSecurity.configuration.exemptions.usernames],
  ['podSecurity.exemptions.runtimeClasses', ({ podSecurity }) => podSecurity.configuration.exemptions.runtimeClasses],
  ['scc.exemptNamespaces', ({ scc }) => scc.exemptNamespaces],
  ['controllers.disabled', ({ disabledControllers }) => disabledControllers],
];

/**
 * Describes the settings of optional features that are missing in `after`. Without its section, the SCC feature has
 * default settings, which `findWeakenings` compares.
 */
function findRemovedFeatures(before: JsonObject, after: JsonObject): readonly string[] {
  const removed = OPTIONAL_FEATURES.filter((name) => name !== 'scc' && before[name] != null && after[name] == null);
  return removed.map((name) => `spec.${name} is removed`);
}

/**
 * Describes the settings that `after` enforces less strictly than `before`. Each description starts with the path of
 * the setting.
 */
export function findWeakenings(before: PolicySettings, after: PolicySettings): readonly string[] {
  const [from, to] = [decodePolicy(before), decodePolicy(after)];
  const [oldVersion, newVersion] = [enforcedVersion(from), enforcedVersion(to)];
  const isLower = oldVersion && newVersion && compareVersions(newVersion, oldVersion) < 0;
  return [
    ...STRICTNESS.flatMap(([path, read, order]) =>
      order.indexOf(read(to)) < order.indexOf(read(from)) ? [`${path} from ${read(from)} to ${read(to)}`] : [],
    ),
    ...EXEMPTIONS.flatMap(([path, read]) => {
      const added = read(to).filter((name) => !read(from).includes(name));
      return added.length === 0 ? [] : [`${path} with ${added.join(', ')} in addition`];
    }),
    ...findRemovedFeatures(before.policy, after.policy),
    ...(isLower ? [`podSecurity.defaults.enforceVersion from ${oldVersion} to ${newVersion}`] : []),
  ];
}

/** @throws {UserError} if enforcement becomes weaker and the options do not permit it */
export function checkWeakenings(weakenings: readonly string[], isAllowed: boolean): void {
  if (weakenings.length === 0 || isAllowed) return;
  const list = [...new Set(weakenings)].join('; ');
  throw new UserError(`the settings would weaken enforcement: ${list}: add --allow-weaker to accept this`);
}

/**
 * Describes the settings that a server enforces less strictly than policies. Compares only the prefixes of settings
 * that policies contain.
 */
export function findWeakerThanPolicies(namespace: string, policies: JsonObject, server: JsonObject): readonly string[] {
  return findWeakenings({ namespace, policy: policies }, { namespace, policy: server }).filter((weakening) =>
    /^(?:podSecurity|defaults|guard)\./.test(weakening),
  );
}

/** Returns the version of the default enforced level, or `undefined` if the level is `privileged`. */
function enforcedVersion({ podSecurity }: Settings): Version | undefined {
  const { defaults } = podSecurity.configuration;
  return defaults.enforce === 'privileged' ? undefined : parseVersion(defaults['enforce-version']);
}

/** Reads the objects on which the default level of a rollout depends, and the objects of additional kinds. */
export async function readRolloutState(
  client: ClusterClient,
  namespace: string,
  kinds: readonly Kind[] = [],
): Promise<Store> {
  const { store } = await readCluster(client.connection, ['PSAEnforcementConfig', 'FeatureGate', ...kinds], {
    signal: client.signal,
  });
  const configMap = await client.get(RESOURCES.ConfigMap, POD_SECURITY_CONFIG_MAP, namespace);
  if (configMap) store.put('ConfigMap', configMap);
  return store;
}

/** Returns the spec without its rollout, but with the default level that the rollout has reached. */
export function effectiveSpec(store: Store, namespace: string, spec: JsonObject): JsonObject {
  const { rollout, podSecurity } = decodePolicy({ namespace, policy: spec });
  if (rollout.phase === 'Disabled') return withoutRollout(spec);
  const { configuration } = effectivePodSecurity({ store, namespace, version: VERSION }, { rollout, podSecurity });
  const value = configuration.defaults.enforce;
  return withSetting(withoutRollout(spec), { path: ['podSecurity', 'defaults', 'enforce'], value });
}

function withoutRollout(spec: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(spec).filter(([name]) => name !== 'rollout'));
}

/** Objects that determine which enforcement remains without a server. */
interface Remaining {
  /** All namespaces in the cluster, because any of them may have a label that only a server enforces. */
  readonly namespaces: readonly Namespace[];
  /** Spec of the policies in the API server. */
  readonly policies: JsonObject;
}

/** Describes the settings of a server that policies in the API server enforce less strictly. */
export function findLostEnforcement(
  namespace: string,
  spec: JsonObject,
  { namespaces, policies }: Remaining,
): readonly string[] {
  const before = withoutRollout(spec);
  const { scc } = decodePolicy({ namespace, policy: before });
  const { podSecurity = {}, defaults = {}, guard = {} } = policies;
  const lost = ['floor', 'kubelet', 'olm'];
  const remaining = Object.fromEntries(Object.entries(before).filter(([name]) => !lost.includes(name)));
  const after = withSetting({ ...remaining, podSecurity, defaults, guard }, { path: ['scc', 'mode'], value: 'off' });
  const { exemptions, defaults: levels } = decodePolicy({ namespace, policy: policies }).podSecurity;
  const lowered = namespaces.filter(
    (namespace) => !exemptions.namespace(objectName(namespace)) && isRaised(namespace, levels),
  );
  return [
    ...findWeakenings({ namespace, policy: before }, { namespace, policy: after }),
    ...findLostSccs(namespaces, scc),
    ...(lowered.length === 0 ? [] : [`no label ${ENFORCE_LABEL} in ${summarizeNames(lowered.map(objectName))}`]),
  ];
}

/** Describes the namespaces whose label enforces SCCs although the default is weaker. In off mode, it has no effect. */
export function findLostSccs(namespaces: readonly Namespace[], scc: SccSettings): readonly string[] {
  const labeled = namespaces.filter(
    (namespace) => scc.mode !== 'enforce' && sccMode(namespace, scc).mode === 'enforce',
  );
  return labeled.length === 0 ? [] : [`no SCCs in ${summarizeNames(labeled.map(objectName))}`];
}

/** Returns true if the label that only a server enforces raises the level of the namespace. */
function isRaised({ metadata }: Namespace, defaults: Policies): boolean {
  const { labels } = metadata ?? {};
  const { [ENFORCE_LABEL]: _own, ...others } = labels ?? {};
  return resolvePolicies(labels, defaults).enforce.level !== resolvePolicies(others, defaults).enforce.level;
}
