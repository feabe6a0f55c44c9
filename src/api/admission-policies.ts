/** Names of the admission policies that the leader manages. */
import type { Kinds } from '../kube/kinds.ts';

/** Policy and binding kinds. Each policy kind comes before its binding kind. */
export const POLICY_KINDS = ['ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding'] as const;
export type PolicyKind = (typeof POLICY_KINDS)[number];

/**
 * Kinds of the policy that sets pod defaults and of its binding. API servers older than Kubernetes 1.36 do not serve
 * them.
 */
export const DEFAULTS_KINDS = ['MutatingAdmissionPolicy', 'MutatingAdmissionPolicyBinding'] as const;
export type DefaultsKind = (typeof DEFAULTS_KINDS)[number];

/** Name of both the managed policy that sets pod defaults and its binding. */
export const DEFAULTS_POLICY = 'defaults.portcullis.dev';

/** Name of both the managed policy that guards the labels of namespaces and its binding. */
export const GUARD_POLICY = 'guard.portcullis.dev';

export type AdmissionPolicy = Kinds[PolicyKind];

/** Name prefix of the policies that the leader manages. The rest of the name is the same as in generated manifests. */
export const FLOOR_PREFIX = 'floor.';

/**
 * Annotation on webhook configurations with the digest of the policies that allow the webhooks to fail open. A new
 * leader reads it, so webhooks do not switch to failing closed on every leader change, and policies are not deleted
 * while webhooks depend on them.
 */
export const FLOOR_ANNOTATION = 'portcullis.dev/floor';

/** Policies that earlier versions created. The leader deletes them. */
const FORMER = ['named.scc.portcullis.dev', 'unnamed.scc.portcullis.dev'];

/**
 * The policies that the leader manages, by kind and name. The leader changes only these policies, and its role permits
 * only these. It ignores copies that have the same labels but other names.
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

/** Returns true for a policy or binding that the leader manages. */
export function isFloorPolicy(kind: PolicyKind, name: string | undefined): boolean {
  return name !== undefined && FLOOR_POLICIES[kind].includes(name);
}
