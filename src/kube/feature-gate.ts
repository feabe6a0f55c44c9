import type { KubeObject } from './types.ts';

interface GateName {
  readonly name?: string | null;
}

/**
 * The features of a cluster that are switched on; the only one is named `cluster`.
 * @see https://github.com/openshift/api/blob/master/config/v1/types_feature.go
 */
export interface FeatureGate extends KubeObject {
  readonly spec?: {
    /** `''`, `TechPreviewNoUpgrade`, `DevPreviewNoUpgrade`, `OKD` or `CustomNoUpgrade`. */
    readonly featureSet?: string | null;
    /** Counts for `CustomNoUpgrade` only. */
    readonly customNoUpgrade?: {
      readonly enabled?: readonly string[] | null;
      readonly disabled?: readonly string[] | null;
    } | null;
  } | null;
  readonly status?: {
    /** One entry for each version that components run in. */
    readonly featureGates?:
      | readonly {
          readonly version?: string | null;
          readonly enabled?: readonly GateName[] | null;
          readonly disabled?: readonly GateName[] | null;
        }[]
      | null;
  } | null;
}
