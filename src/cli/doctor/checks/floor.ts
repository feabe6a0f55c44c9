import { requiredPolicies } from '../../../controllers/admission-policies.ts';
import { decodePolicy } from '../../../install/index.ts';
import { POLICY_KINDS } from '../../../kube/admission-policies.ts';
import { deepEqual } from '../../../kube/equality.ts';
import { matchesLabelSelector } from '../../../kube/label-selector.ts';
import { BREAK_GLASS_ANNOTATION, KUBE_SYSTEM, POD_SECURITY_LABELS } from '../../../kube/well-known.ts';
import { MIN_POLICY_MINOR, type PolicyObject } from '../../../policy/psa/admission-policies.ts';
import { completeDefaults, createPodSecurity, type PodSecurity } from '../../../policy/psa/configuration.ts';
import { resolvePolicies, setsMode } from '../../../policy/psa/policy.ts';
import { minorVersion } from '../../../policy/pss/cel-policy.ts';
import { podSecurityDefaultsFor } from '../../../policy/rollout/observed-config.ts';
import {
  evaluateFact,
  factValue,
  FIXES,
  formatNames,
  ok,
  problem,
  unknown,
  warning,
  type Check,
  type CheckResult,
  type Facts,
  type FloorObject,
  type NamespaceFact,
} from '../facts.ts';
import { namespaceTier, withoutBreakGlass, type Tier } from '../matching.ts';
import { isDevCluster } from './installation.ts';

const OBJECT = 'floor';

/** The policies of the floor are those of the settings. */
export const floor: Check = {
  name: 'floor',
  evaluate: (facts) => evaluateFact(facts.policies, OBJECT, (policies) => evaluateFloor(facts, policies)),
};

function evaluateFloor(facts: Facts, policies: readonly FloorObject[]): readonly CheckResult[] {
  const { floor: settings, webhooks } = decodePolicy(facts.settings);
  const logs = `${FIXES.logs(facts)} # the leader logs why it does not correct it`;
  if (settings.mode === 'off') {
    return policies.length === 0
      ? [ok(OBJECT, `is off; while no replica responds, ${CLOSED}`)]
      : policies.map((one) =>
          warning(formatName(one), 'exists, and spec.floor.mode is off', {
            impact: 'API servers evaluate it until the leader deletes it',
            fix: logs,
          }),
        );
  }
  const minor = factValue(facts.server)?.minor;
  if (minor === undefined) return [unknown(OBJECT, 'not compared with the settings: the API server has no version')];
  if (minorVersion(minor) < MIN_POLICY_MINOR) {
    return [
      problem(OBJECT, `is on, and Kubernetes ${minor} is older than v1.${MIN_POLICY_MINOR}`, {
        impact: `API servers evaluate no policy, and webhooks fail closed: while no replica responds, ${CLOSED}`,
        fix: '# upgrade the cluster, or set spec.floor.mode to "off"',
      }),
    ];
  }
  const differences = findDifferences(facts, policies).map(({ name, message }) => {
    const impact = 'while no replica responds, pods that it would deny are admitted, unless webhooks fail closed';
    return problem(name, message, { impact, fix: message === PAUSED ? 'portcullis break-glass off' : logs });
  });
  if (differences.length > 0 && webhooks.failurePolicy === 'Ignore') {
    const message = 'is Ignore, and the floor is not in force: webhooks fail closed until it is';
    const fix = '# fix the problems of the floor';
    differences.push(
      problem('spec.webhooks.failurePolicy', message, { impact: `while no replica responds, ${CLOSED}`, fix }),
    );
  }
  if (differences.length > 0) return differences;
  const count = `${policies.filter(({ kind }) => kind === 'ValidatingAdmissionPolicy').length} policies are in force`;
  if (webhooks.failurePolicy === 'Ignore' && isDevCluster(facts)) {
    return [
      ok(OBJECT, `${count}; webhooks fail closed: no replica changes the failure policy in a development cluster`),
    ];
  }
  const effect = webhooks.failurePolicy === 'Ignore' ? describeOutage(facts) : CLOSED;
  return [ok(OBJECT, `${count}; while no replica responds, ${effect}`), ...evaluateSystem(facts, policies)];
}

/** The pods of nodes and networks must start during an outage. */
function evaluateSystem(facts: Facts, policies: readonly FloorObject[]): readonly CheckResult[] {
  const system = factValue(facts.namespaces)?.find(({ name }) => name === KUBE_SYSTEM);
  const inForce = candidates(facts).find((one) => compare(expectedPolicies(facts, one), policies).length === 0);
  if (!system || !inForce || !isUnderFloor(facts, system)) return [];
  const { defaults, exemptions } = inForce.configuration;
  const { level } = resolvePolicies(system.labels, completeDefaults(defaults).policies).enforce;
  if (level === 'privileged' || setsMode(system.labels, 'enforce') || exemptions.namespaces.includes(KUBE_SYSTEM))
    return [];
  return [
    warning(`namespace ${KUBE_SYSTEM}`, `has the default level ${level}: it has no label, and is not exempt`, {
      impact: 'during an outage, the floor denies its pods that violate the level, such as those of the network',
      fix: `kubectl label namespace ${KUBE_SYSTEM} ${POD_SECURITY_LABELS.enforce}=privileged`,
    }),
  ];
}

/** Counts the namespaces whose pod webhooks fail open and those whose pod webhooks fail closed. */
function describeOutage({ configurations, namespaces }: Facts): string {
  const known = factValue(namespaces) ?? [];
  const byTier = Map.groupBy(known, (one) => namespaceTier(withoutBreakGlass(configurations), one));
  const describe = (tier: Tier): string => {
    const names = (byTier.get(tier) ?? []).map(({ name }) => name);
    if (names.length === 0) return 'no namespace';
    return `${names.length} ${names.length === 1 ? 'namespace' : 'namespaces'} (${formatNames(names)})`;
  };
  return `compliant pods are admitted in ${describe('fail-open')} and denied in ${describe('fail-closed')}`;
}

const CLOSED = 'namespaces that fail closed get no new pods';
const PAUSED = 'is paused by break-glass';

interface Difference {
  readonly name: string;
  readonly message: string;
}

/** Compares the policies with those of the settings. The default level of a rollout is not known: both levels count. */
function findDifferences(facts: Facts, policies: readonly FloorObject[]): readonly Difference[] {
  const [fewest = []] = candidates(facts)
    .map((one) => compare(expectedPolicies(facts, one), policies))
    .toSorted((a, b) => a.length - b.length);
  return fewest;
}

function compare(expected: readonly PolicyObject[], policies: readonly FloorObject[]): readonly Difference[] {
  const isSame = (a: Named, b: Named): boolean => a.kind === b.kind && a.metadata.name === b.metadata.name;
  return [
    ...expected.flatMap((policy): Difference[] => {
      const found = policies.find((one) => isSame(one, policy));
      const name = formatName(policy);
      if (!found) return [{ name, message: 'does not exist' }];
      if (deepEqual(found.spec, policy.spec)) return [];
      const isPaused = found.metadata.annotations?.[BREAK_GLASS_ANNOTATION] !== undefined;
      return [{ name, message: isPaused ? PAUSED : 'differs from the settings' }];
    }),
    ...policies
      .filter((one) => !expected.some((policy) => isSame(one, policy)))
      .map((one) => ({ name: formatName(one), message: 'is not required by the settings' })),
  ];
}

type Named = Pick<FloorObject, 'kind' | 'metadata'>;

function formatName({ kind, metadata: { name } }: Named): string {
  return `${kind} ${name}`;
}

/** The Pod Security of the settings; for a rollout, that of each default level. */
function candidates({ settings }: Facts): readonly PodSecurity[] {
  const { podSecurity, rollout } = decodePolicy(settings);
  const { exemptions } = podSecurity.configuration;
  return rollout.phase === 'Disabled'
    ? [podSecurity]
    : (['privileged', 'restricted'] as const).map((level) =>
        createPodSecurity({ defaults: podSecurityDefaultsFor(level), exemptions }),
      );
}

function expectedPolicies({ settings, namespace, server }: Facts, podSecurity: PodSecurity): readonly PolicyObject[] {
  const serverVersion = factValue(server)?.minor ?? `v1.${MIN_POLICY_MINOR}`;
  const emulationVersion = decodePolicy(settings).emulationVersion ?? serverVersion;
  return requiredPolicies({ podSecurity, emulationVersion, serverVersion, namespace });
}

/** True if the policies of the floor let webhooks fail open. */
export function isFloorOpen(facts: Facts): boolean {
  const { floor: settings, webhooks } = decodePolicy(facts.settings);
  const policies = factValue(facts.policies) ?? [];
  if (settings.mode === 'off' || webhooks.failurePolicy === 'Fail') return false;
  return policies.length > 0 && findDifferences(facts, policies).length === 0;
}

/** True if a policy of the floor denies pods of the namespace. All policies exclude the same namespaces. */
export function isUnderFloor({ policies }: Facts, { labels }: NamespaceFact): boolean {
  const all = factValue(policies) ?? [];
  return POLICY_KINDS.every((one) =>
    all.some(({ kind, spec }) => {
      const { namespaceSelector } = spec?.matchConstraints ?? spec?.matchResources ?? {};
      return kind === one && matchesLabelSelector(namespaceSelector ?? {}, labels);
    }),
  );
}
