/** Reads the feature gates of OpenShift clusters. */
import type { FeatureGate } from '../../kube/types.ts';

/** The feature gate for enforcement. */
export const ENFORCEMENT_GATE = 'OpenShiftPodSecurityAdmission';

/** Feature sets that enable all preview features. */
const PREVIEWS: ReadonlySet<string> = new Set(['TechPreviewNoUpgrade', 'DevPreviewNoUpgrade']);

interface GateOptions {
  readonly name: string;
  /** The version of Portcullis. Each component reads the entry for its own version. */
  readonly version: string;
  /** The fallback if the object does not specify the feature. */
  readonly fallback: boolean;
}

/**
 * Returns the state of a feature. The order of precedence is: the computed entry for the version, the custom lists, the
 * feature set, and the fallback.
 * @see https://github.com/openshift/api/blob/master/config/v1/types_feature.go
 */
export function isFeatureOn(object: FeatureGate | undefined, { name, version, fallback }: GateOptions): boolean {
  const { spec, status } = object ?? {};
  const computed = status?.featureGates?.find((entry) => entry.version === version);
  return findIn(name, names(computed?.enabled), names(computed?.disabled)) ?? findInSet(name, spec) ?? fallback;
}

function findInSet(name: string, spec: FeatureGate['spec']): boolean | undefined {
  const set = spec?.featureSet ?? '';
  if (set === 'CustomNoUpgrade') {
    return findIn(name, spec?.customNoUpgrade?.enabled ?? [], spec?.customNoUpgrade?.disabled ?? []);
  }
  return PREVIEWS.has(set) ? true : undefined;
}

/** A feature that is in both lists is disabled. */
function findIn(name: string, enabled: readonly string[], disabled: readonly string[]): boolean | undefined {
  if (disabled.includes(name)) return false;
  return enabled.includes(name) ? true : undefined;
}

function names(list: readonly { readonly name?: string | null }[] | null | undefined): readonly string[] {
  return list?.map(({ name }) => name ?? '') ?? [];
}
