/** Finds changes to settings that weaken enforcement. */
import type { Settings } from '../../config/settings.ts';
import { decodePolicy, type PolicySettings } from '../../install/index.ts';
import type { JsonObject } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import { OPTIONAL_FEATURES } from '../../kube/well-known.ts';
import { compareVersions, LEVELS, parseVersion, type Version } from '../../policy/pss/index.ts';
import { ROLLOUT_PHASES } from '../../policy/rollout/index.ts';
import { SCC_MODES } from '../../policy/scc/index.ts';

/** Settings whose values can be ordered by strictness, with their values from weakest to strictest. */
const STRICTNESS: readonly (readonly [path: string, read: (settings: Settings) => string, order: readonly string[]])[] =
  [
    ['podSecurity.defaults.enforce', ({ podSecurity }) => podSecurity.configuration.defaults.enforce, LEVELS],
    ['defaults.mode', ({ defaults }) => defaults.mode, ['off', 'apply']],
    ['scc.mode', ({ scc }) => scc.mode, SCC_MODES.toReversed()],
    ['scc.compatibility', ({ scc }) => scc.compatibility, ['portcullis', 'openshift']],
    ['rollout.phase', ({ rollout }) => rollout.phase, ROLLOUT_PHASES],
    ['kubelet.compatibility', ({ kubelet }) => kubelet.compatibility, ['portcullis', 'openshift']],
    ['floor.mode', ({ floor }) => floor.mode, ['off', 'enforce']],
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
 * Describes settings of optional features that are missing in `after`. Without its section, the SCC feature has default
 * settings, which are compared like all others.
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

/** @throws {UserError} if enforcement becomes weaker and the options do not accept this */
export function checkWeakenings(weakenings: readonly string[], isAllowed: boolean): void {
  if (weakenings.length === 0 || isAllowed) return;
  const list = [...new Set(weakenings)].join('; ');
  throw new UserError(`the settings would weaken enforcement: ${list}: add --allow-weaker to accept this`);
}

/**
 * Describes the settings that a server enforces less strictly than policies. Policies contain only settings with these
 * prefixes.
 */
export function findWeakerThanPolicies(namespace: string, policies: JsonObject, server: JsonObject): readonly string[] {
  return findWeakenings({ namespace, policy: policies }, { namespace, policy: server }).filter((weakening) =>
    /^(?:podSecurity|defaults)\./.test(weakening),
  );
}

/** Returns the version of the default enforced level, or `undefined` if the level is `privileged`. */
function enforcedVersion({ podSecurity }: Settings): Version | undefined {
  const { defaults } = podSecurity.configuration;
  return defaults.enforce === 'privileged' ? undefined : parseVersion(defaults['enforce-version']);
}
