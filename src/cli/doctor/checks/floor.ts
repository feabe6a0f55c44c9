import { requiredPolicies } from '../../../controllers/admission-policies.ts';
import { decodePolicy } from '../../../install/index.ts';
import { POLICY_KINDS } from '../../../kube/admission-policies.ts';
import { deepEqual } from '../../../kube/equality.ts';
import { matchesLabelSelector } from '../../../kube/label-selector.ts';
import { printCount, summarizeNames } from '../../../kube/text.ts';
import { BREAK_GLASS_ANNOTATION, KUBE_SYSTEM, POD_SECURITY_LABELS } from '../../../kube/well-known.ts';
import { MIN_POLICY_MINOR, type PolicyObject } from '../../../policy/psa/admission-policies.ts';
import { completeDefaults, createPodSecurity, type PodSecurity } from '../../../policy/psa/configuration.ts';
import { resolvePolicies, setsMode } from '../../../policy/psa/policy.ts';
import { minorVersion } from '../../../policy/pss/cel-policy.ts';
import { podSecurityDefaultsFor } from '../../../policy/rollout/observed-config.ts';
import {
  evaluateFact,
  factValue,
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
import { END_BREAK_GLASS, instruction, leaderCorrects, run } from '../fix.ts';
import { namespaceTier, withoutBreakGlass, type Tier } from '../matching.ts';
import { isDevCluster } from './installation.ts';

const OBJECT = 'floor';

/** Checks that the policies of the floor are those that the settings require. */
export const floor: Check = {
  name: 'floor',
  evaluate: (facts) => evaluateFact(facts.policies, OBJECT, (policies) => evaluateFloor(facts, policies)),
};

function evaluateFloor(facts: Facts, policies: readonly FloorObject[]): readonly CheckResult[] {
  const { floor: settings, webhooks } = decodePolicy(facts.settings);
  const isOpen = webhooks.failurePolicy === 'Ignore';
  if (settings.mode === 'off') {
    const fix = leaderCorrects(facts);
    const impact = 'API servers evaluate it until the leader deletes it';
    return policies.length === 0
      ? [ok(OBJECT, `is off. ${OUTAGE}, ${CLOSED}`)]
      : policies.map((one) => warning(formatName(one), 'exists, but spec.floor.mode is off', { impact, fix }));
  }
  const minor = factValue(facts.server)?.minor;
  if (minor === undefined)
    return [unknown(OBJECT, 'not compared with the settings, because the API server reports no version')];
  if (minorVersion(minor) < MIN_POLICY_MINOR) {
    return [
      problem(OBJECT, `is on, but Kubernetes ${minor} is older than v1.${MIN_POLICY_MINOR}`, {
        impact: `API servers evaluate no policy, and webhooks fail closed. ${OUTAGE}, ${CLOSED}`,
        fix: instruction('upgrade the cluster, or set spec.floor.mode to "off"'),
      }),
    ];
  }
  const differences = findDifferences(facts, policies).map(({ name, message }) => {
    const impact = 'while no replica responds, pods that it would deny are admitted, unless webhooks fail closed';
    return problem(name, message, { impact, fix: message === PAUSED ? END_BREAK_GLASS : leaderCorrects(facts) });
  });
  if (differences.length > 0) {
    const message = 'is Ignore, but webhooks fail closed until the floor is in force';
    const fix = instruction('fix the problems of the floor');
    const closed = problem('spec.webhooks.failurePolicy', message, {
      impact: `${OUTAGE.toLowerCase()}, ${CLOSED}`,
      fix,
    });
    return [...differences, ...(isOpen ? [closed] : [])];
  }
  const count = `${policies.filter(({ kind }) => kind === 'ValidatingAdmissionPolicy').length} policies are in force`;
  if (isOpen && isDevCluster(facts)) {
    const reason = 'because no replica changes the failure policy in a development cluster';
    return [ok(OBJECT, `${count}. Webhooks fail closed, ${reason}`)];
  }
  const effect = isOpen ? describeOutage(facts) : CLOSED;
  return [ok(OBJECT, `${count}. ${OUTAGE}, ${effect}`), ...evaluateSystem(facts, policies)];
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
    warning(`namespace ${KUBE_SYSTEM}`, `has the default level ${level}, because it has no label and is not exempt`, {
      impact: 'during an outage, the floor denies its pods that violate the level, such as those of the network',
      fix: run('kubectl', 'label', 'namespace', KUBE_SYSTEM, `${POD_SECURITY_LABELS.enforce}=privileged`),
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
    return `${printCount(names.length, 'namespace')} (${summarizeNames(names, 3)})`;
  };
  return `compliant pods are admitted in ${describe('fail-open')} and denied in ${describe('fail-closed')}`;
}

const OUTAGE = 'While no replica responds';
const CLOSED = 'no pods can be created in fail-closed namespaces';
const PAUSED = 'is paused by break-glass';

interface Difference {
  readonly name: string;
  readonly message: string;
}

/** Compares the policies with those of the settings. The default level of a rollout is not known, so both levels count. */
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

/** Returns the Pod Security of the settings. A rollout has one for each default level. */
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
