import type { Condition } from './conditions.ts';
import type { KubeObject } from './types.ts';

/** Enforcement modes. The empty string means that no mode is selected. */
export const ENFORCEMENT_MODES = ['', 'Restricted', 'Legacy'] as const;
export type EnforcementMode = (typeof ENFORCEMENT_MODES)[number];

/** A namespace with workloads that enforcement would deny. */
export interface ViolatingNamespace {
  readonly name: string;
  readonly reason?: string | null;
  /** `Current` if the latest evaluation found the violation, and `Previous` if only an earlier one did. */
  readonly state?: 'Current' | 'Previous' | null;
  /** Time when `state` last changed (RFC 3339). */
  readonly lastTransitionTime?: string | null;
}

/** A cluster's enforcement mode for the Pod Security Standards, and the namespaces that block enforcement. */
export interface PSAEnforcementConfig extends KubeObject {
  readonly spec?: {
    /** One of `ENFORCEMENT_MODES`. Objects that were stored before the schema existed may have other values. */
    readonly enforcementMode?: string | null;
  } | null;
  readonly status?: {
    readonly enforcementMode?: string | null;
    /** End of the last complete evaluation (RFC 3339). */
    readonly lastEvaluationTime?: string | null;
    readonly violatingNamespaces?: readonly ViolatingNamespace[] | null;
    readonly conditions?: readonly Condition[] | null;
    readonly observedGeneration?: number | null;
  } | null;
}

/** Name of the only object of this kind. */
export const PSA_ENFORCEMENT_CONFIG = 'cluster';

/** Maximum number of violating namespaces that the status lists. */
export const MAX_VIOLATING_NAMESPACES = 1000;

/** Returns true if the schema allows the mode. */
export function isEnforcementMode(mode: string): mode is EnforcementMode {
  return (ENFORCEMENT_MODES as readonly string[]).includes(mode);
}
