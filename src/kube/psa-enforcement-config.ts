import type { Condition } from './conditions.ts';
import type { KubeObject } from './types.ts';

/** `''` means that no mode has been chosen. */
export const ENFORCEMENT_MODES = ['', 'Restricted', 'Legacy'] as const;
export type EnforcementMode = (typeof ENFORCEMENT_MODES)[number];

/** A namespace with workloads that enforcement would deny. */
export interface ViolatingNamespace {
  readonly name: string;
  readonly reason?: string | null;
  /** Whether the latest evaluation or only an earlier one found the violation. */
  readonly state?: 'Current' | 'Previous' | null;
  /** The time of the last change of `state`: RFC 3339. */
  readonly lastTransitionTime?: string | null;
}

/** The enforcement mode of the Pod Security Standards in a cluster, and the namespaces that block it. */
export interface PSAEnforcementConfig extends KubeObject {
  readonly spec?: {
    /** One of `ENFORCEMENT_MODES`. Objects that were stored before the schema existed may have other values. */
    readonly enforcementMode?: string | null;
  } | null;
  readonly status?: {
    readonly enforcementMode?: string | null;
    /** The end of the last complete evaluation: RFC 3339. */
    readonly lastEvaluationTime?: string | null;
    readonly violatingNamespaces?: readonly ViolatingNamespace[] | null;
    readonly conditions?: readonly Condition[] | null;
    readonly observedGeneration?: number | null;
  } | null;
}

/** The name of the only object. */
export const PSA_ENFORCEMENT_CONFIG = 'cluster';

/** The maximum number of violating namespaces in the status. */
export const MAX_VIOLATING_NAMESPACES = 1000;

/** Returns true for a mode of the schema. */
export function isEnforcementMode(mode: string): mode is EnforcementMode {
  return (ENFORCEMENT_MODES as readonly string[]).includes(mode);
}
