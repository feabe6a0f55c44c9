/** The admission policies that the leader maintains. */
import type { Kinds } from './types.ts';

/** The kinds of policies and bindings, each policy kind before the kind of its bindings. */
export const POLICY_KINDS = ['ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding'] as const;
export type PolicyKind = (typeof POLICY_KINDS)[number];

/** The kinds of the policy with the defaults of pods, and of its binding. API servers before Kubernetes 1.36 do not serve them. */
export const DEFAULTS_KINDS = ['MutatingAdmissionPolicy', 'MutatingAdmissionPolicyBinding'] as const;
export type DefaultsKind = (typeof DEFAULTS_KINDS)[number];

/** The name of the maintained policy with the defaults of pods, and of its binding. */
export const DEFAULTS_POLICY = 'defaults.portcullis.dev';

/** An admission policy or its binding. */
export type AdmissionPolicy = Kinds[PolicyKind];

/** The prefix of the names of maintained policies. Without it, they are the names of generated manifests. */
export const FLOOR_PREFIX = 'floor.';

/** Policies of former versions, which the leader deletes. */
const FORMER = ['named.scc.portcullis.dev', 'unnamed.scc.portcullis.dev'];

/**
 * The maintained policies by kind and name. The leader changes only these, and its role permits only these. A copy with the
 * same labels belongs to its creator.
 */
export const FLOOR_POLICIES: Readonly<Record<PolicyKind, readonly string[]>> = {
  ValidatingAdmissionPolicy: withPrefix(['enforce-baseline', 'enforce-restricted'].map(psaName), FORMER),
  ValidatingAdmissionPolicyBinding: withPrefix(
    ['enforce-baseline', 'enforce-baseline-unlabeled', 'enforce-restricted', 'enforce-restricted-unlabeled'].map(
      psaName,
    ),
    FORMER,
  ),
};

function psaName(name: string): string {
  return `${name}.psa.portcullis.dev`;
}

function withPrefix(...names: readonly (readonly string[])[]): readonly string[] {
  return names.flat().map((name) => `${FLOOR_PREFIX}${name}`);
}

/** Returns true for a policy or binding that the leader maintains. */
export function isFloorPolicy(kind: PolicyKind, name: string | undefined): boolean {
  return name !== undefined && FLOOR_POLICIES[kind].includes(name);
}
