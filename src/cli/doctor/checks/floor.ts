import { POLICY_KINDS } from '../../../api/admission-policies.ts';
import { decodePolicy } from '../../../install/index.ts';
import { matchesLabelSelector } from '../../../kube/label-selector.ts';
import { KUBE_SYSTEM, POD_SECURITY_LABELS } from '../../../kube/well-known.ts';
import { MIN_POLICY_MINOR, resolvePolicies, setsMode } from '../../../policy/psa/index.ts';
import { minorVersion } from '../../../policy/pss/index.ts';
import {
  type DoctorCheck,
  type CheckResult,
  evaluateFact,
  type Facts,
  factValue,
  type FloorObject,
  type NamespaceFact,
  ok,
  problem,
  unknown,
  warning,
} from '../facts.ts';
import { instruction, leaderCorrects, commandFix } from '../fix.ts';
import { closedNamespaces } from '../matching.ts';

const OBJECT = 'floor';
/** Describes the effect of an outage of all replicas without a floor. */
function withoutFloor(facts: Facts): string {
  const isNoneClosed = 'value' in facts.namespaces && closedNamespaces(facts).length === 0;
  const none = 'No namespace fails closed, so pods are created without a review while no replica responds';
  return isNoneClosed ? none : 'While no replica responds, no pods can be created in fail-closed namespaces';
}

/**
 * Checks that the floor is in force. Does not compare the policies with the settings, because the leader corrects them.
 */
export const floor: DoctorCheck = {
  name: 'floor',
  evaluate: (facts) =>
    evaluateFact(facts.spec, OBJECT, () =>
      evaluateFact(facts.policies, OBJECT, (policies) => evaluateFloor(facts, policies)),
    ),
};

function evaluateFloor(facts: Facts, policies: readonly FloorObject[]): readonly CheckResult[] {
  const { mode } = decodePolicy(facts.settings).floor;
  if (mode === 'off') return [ok(OBJECT, `is off. ${withoutFloor(facts)}`)];
  const minor = factValue(facts.server)?.minor;
  if (minor === undefined) return [unknown(OBJECT, 'is on, but the API server reports no version')];
  if (minorVersion(minor) < MIN_POLICY_MINOR) {
    return [
      problem(OBJECT, `is on, but Kubernetes ${minor} is older than v1.${MIN_POLICY_MINOR}`, {
        impact: `API servers evaluate no policy, and webhooks fail closed. ${withoutFloor(facts)}`,
        fix: instruction('upgrade the cluster, or set spec.floor.mode to "off"'),
      }),
    ];
  }
  const [denying, bindings] = POLICY_KINDS.map((kind) => policies.filter((policy) => policy.kind === kind).length);
  if (!denying || !bindings) {
    return [
      problem(OBJECT, 'is on, but no policy is in force', { impact: withoutFloor(facts), fix: leaderCorrects(facts) }),
    ];
  }
  return [ok(OBJECT, `${denying} policies are in force`), ...evaluateSystem(facts)];
}

/** Checks that the floor permits node and network pods in kube-system, which must be able to start during an outage. */
function evaluateSystem(facts: Facts): readonly CheckResult[] {
  const { podSecurity, rollout } = decodePolicy(facts.settings);
  const { defaults, exemptions } = podSecurity;
  const system = factValue(facts.namespaces)?.find(({ name }) => name === KUBE_SYSTEM);
  if (!system || !isUnderFloor(facts, system) || setsMode(system.labels, 'enforce')) return [];
  const hasLevel =
    rollout.phase === 'Enforce' || resolvePolicies(system.labels, defaults).enforce.level !== 'privileged';
  if (!hasLevel || exemptions.namespace(KUBE_SYSTEM)) return [];
  return [
    warning(`namespace ${KUBE_SYSTEM}`, 'has the default level, because it has no label and is not exempt', {
      impact: 'during an outage, the floor denies its pods that violate the level, such as network pods',
      fix: commandFix('kubectl', 'label', 'namespace', KUBE_SYSTEM, `${POD_SECURITY_LABELS.enforce}=privileged`),
    }),
  ];
}

/** Returns true if a floor policy denies pods in the namespace. All policies exclude the same namespaces. */
export function isUnderFloor({ policies }: Facts, { labels }: NamespaceFact): boolean {
  const all = factValue(policies) ?? [];
  return POLICY_KINDS.every((policyKind) =>
    all.some(({ kind, spec }) => {
      const { namespaceSelector } = spec?.matchConstraints ?? spec?.matchResources ?? {};
      return kind === policyKind && matchesLabelSelector(namespaceSelector ?? {}, labels);
    }),
  );
}
