import type { Condition } from './conditions.ts';
import type { KubeObject } from './types.ts';

/** `''`: nobody has decided. */
export const ENFORCEMENT_MODES = ['', 'Restricted', 'Legacy'] as const;
export type EnforcementMode = (typeof ENFORCEMENT_MODES)[number];

/** A namespace with workloads that enforcement would refuse. */
export interface ViolatingNamespace {
  readonly name: string;
  readonly reason?: string | null;
  /** Whether the newest evaluation found it, or only an earlier one. */
  readonly state?: 'Current' | 'Previous' | null;
  /** RFC 3339: when `state` last changed. */
  readonly lastTransitionTime?: string | null;
}

/** Whether a cluster holds its workloads to the Pod Security Standards, and what is in the way. */
export interface PSAEnforcementConfig extends KubeObject {
  readonly spec?: {
    /** One of `ENFORCEMENT_MODES`, unless it was stored before there was a schema. */
    readonly enforcementMode?: string | null;
  } | null;
  readonly status?: {
    readonly enforcementMode?: string | null;
    /** RFC 3339: the end of the last evaluation that judged every namespace. */
    readonly lastEvaluationTime?: string | null;
    readonly violatingNamespaces?: readonly ViolatingNamespace[] | null;
    readonly conditions?: readonly Condition[] | null;
    readonly observedGeneration?: number | null;
  } | null;
}

/** The name of the only one. */
export const PSA_ENFORCEMENT_CONFIG = 'cluster';

/** What the list of violating namespaces holds at most. */
export const MAX_VIOLATING_NAMESPACES = 1000;

/** True for a mode that the schema knows. */
export function isEnforcementMode(mode: string): mode is EnforcementMode {
  return (ENFORCEMENT_MODES as readonly string[]).includes(mode);
}
