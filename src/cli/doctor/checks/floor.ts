import { requiredPolicies } from '../../../controllers/admission-policies.ts';
import { decodePolicy } from '../../../install/index.ts';
import { POLICY_KINDS } from '../../../kube/admission-policies.ts';
import { matchesLabelSelector } from '../../../kube/label-selector.ts';
import { printCount, summarizeNames } from '../../../kube/text.ts';
import { BREAK_GLASS_ANNOTATION, KUBE_SYSTEM, POD_SECURITY_LABELS } from '../../../kube/well-known.ts';
import { MIN_POLICY_MINOR, type PolicyObject } from '../../../policy/psa/admission-policies.ts';
import { completeDefaults, createPodSecurity, type PodSecurity } from '../../../policy/psa/configuration.ts';
import { resolvePolicies, setsMode } from '../../../policy/psa/policy.ts';
import { minorVersion } from '../../../policy/pss/cel-policy.ts';
import { podSecurityDefaultsFor } from '../../../policy/rollout/observed-config.ts';
import { comparePolicies } from '../../install/policies.ts';
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
const OUTAGE = 'While no replica responds';
const CLOSED = 'no pods can be created in fail-closed namespaces';

/** Checks that the policies of the floor are those that the settings require. */
export const floor: Check = {
  name: 'floor',
  evaluate: (facts) => evaluateFact(facts.policies, OBJECT, (policies) => evaluateFloor(facts, policies)),
};

function evaluateFloor(facts: Facts, policies: readonly FloorObject[]): readonly CheckResult[] {
  const { floor: settings, webhooks } = decodePolicy(facts.settings);
  const isOpen = webhooks.failurePolicy === 'Ignore';
  if (settings.mode === 'off') {
    const details = { impact: 'API servers evaluate it until the leader deletes it', fix: leaderCorrects(facts) };
    return policies.length === 0
      ? [ok(OBJECT, `is off. ${OUTAGE}, ${CLOSED}`)]
      : policies.map((one) => warning(formatName(one), 'exists, but spec.floor.mode is off', details));
  }
  const minor = factValue(facts.server)?.minor;
  if (minor === undefined) {
    return [unknown(OBJECT, 'not compared with the settings, because the API server reports no version')];
  }
  if (minorVersion(minor) < MIN_POLICY_MINOR) {
    return [
      problem(OBJECT, `is on, but Kubernetes ${minor} is older than v1.${MIN_POLICY_MINOR}`, {
        impact: `API servers evaluate no policy, and webhooks fail closed. ${OUTAGE}, ${CLOSED}`,
        fix: instruction('upgrade the cluster, or set spec.floor.mode to "off"'),
      }),
    ];
  }
  const { podSecurity, differences } = compareFloor(facts, policies);
  if (differences.length > 0) {
    const closed = problem(
      'spec.webhooks.failurePolicy',
      'is Ignore, but webhooks fail closed until the floor is in force',
      {
        impact: `while no replica responds, ${CLOSED}`,
        fix: instruction('fix the problems of the floor'),
      },
    );
    return [...differences, ...(isOpen ? [closed] : [])];
  }
  const count = `${policies.filter(({ kind }) => kind === 'ValidatingAdmissionPolicy').length} policies are in force`;
  if (isOpen && isDevCluster(facts)) {
    const reason = 'because no replica changes the failure policy in a development cluster';
    return [ok(OBJECT, `${count}. Webhooks fail closed, ${reason}`)];
  }
  const effect = isOpen ? describeOutage(facts) : CLOSED;
  return [ok(OBJECT, `${count}. ${OUTAGE}, ${effect}`), ...evaluateSystem(facts, podSecurity)];
}

/** The pods of nodes and networks must start during an outage. */
function evaluateSystem(facts: Facts, { configuration }: PodSecurity): readonly CheckResult[] {
  const system = factValue(facts.namespaces)?.find(({ name }) => name === KUBE_SYSTEM);
  if (!system || !isUnderFloor(facts, system)) return [];
  const { defaults, exemptions } = configuration;
  const { level } = resolvePolicies(system.labels, completeDefaults(defaults).policies).enforce;
  const isExempt = exemptions.namespaces.includes(KUBE_SYSTEM);
  if (level === 'privileged' || setsMode(system.labels, 'enforce') || isExempt) return [];
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

/** The Pod Security of the floor, and the differences of the policies from those that it requires. */
interface FloorComparison {
  readonly podSecurity: PodSecurity;
  readonly differences: readonly CheckResult[];
}

/** Compares the policies with those of the settings. The default level of a rollout is not known, so both levels count. */
function compareFloor(facts: Facts, policies: readonly FloorObject[]): FloorComparison {
  const { podSecurity, rollout } = decodePolicy(facts.settings);
  const { exemptions } = podSecurity.configuration;
  const compare = (one: PodSecurity): FloorComparison => ({
    podSecurity: one,
    differences: findDifferences(facts, expectedPolicies(facts, one), policies),
  });
  const withLevel = (level: 'privileged' | 'restricted'): FloorComparison =>
    compare(createPodSecurity({ defaults: podSecurityDefaultsFor(level), exemptions }));
  if (rollout.phase === 'Disabled') return compare(podSecurity);
  const [privileged, restricted] = [withLevel('privileged'), withLevel('restricted')];
  return restricted.differences.length < privileged.differences.length ? restricted : privileged;
}

function findDifferences(
  facts: Facts,
  expected: readonly PolicyObject[],
  policies: readonly FloorObject[],
): readonly CheckResult[] {
  const { missing, changed, obsolete } = comparePolicies(expected, policies);
  const impact = 'while no replica responds, pods that it would deny are admitted, unless webhooks fail closed';
  const corrected = { impact, fix: leaderCorrects(facts) };
  const paused = policies.filter(({ metadata }) => metadata.annotations?.[BREAK_GLASS_ANNOTATION] !== undefined);
  return [
    ...missing.map((one) => problem(formatName(one), 'does not exist', corrected)),
    ...changed
      .map(formatName)
      .map((name) =>
        paused.some((one) => formatName(one) === name)
          ? problem(name, 'is paused by break-glass', { impact, fix: END_BREAK_GLASS })
          : problem(name, 'differs from the settings', corrected),
      ),
    ...obsolete.map((one) => problem(formatName(one), 'is not required by the settings', corrected)),
  ];
}

function formatName({ kind, metadata }: { readonly kind: string; readonly metadata: { readonly name: string } }) {
  return `${kind} ${metadata.name}`;
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
  return policies.length > 0 && compareFloor(facts, policies).differences.length === 0;
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
