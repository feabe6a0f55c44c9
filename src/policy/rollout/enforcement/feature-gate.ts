import type { FeatureGate } from '../../../kube/feature-gate.ts';

/** Switches enforcement on. */
export const ENFORCEMENT_GATE = 'OpenShiftPodSecurityAdmission';

/** These sets switch everything on that is in preview. */
const PREVIEWS: ReadonlySet<string> = new Set(['TechPreviewNoUpgrade', 'DevPreviewNoUpgrade']);

interface GateOptions {
  readonly name: string;
  /** Ours: components go by the entry of their own version. */
  readonly version: string;
  /** What holds where the object says nothing. */
  readonly fallback: boolean;
}

/**
 * True if a feature is on: by what the cluster computed for our version, else by its own lists, else since it takes part in
 * a preview, else by our setting.
 * @see https://github.com/openshift/api/blob/master/config/v1/types_feature.go
 */
export function isFeatureOn(object: FeatureGate | undefined, { name, version, fallback }: GateOptions): boolean {
  const { spec, status } = object ?? {};
  const computed = status?.featureGates?.find((entry) => entry.version === version);
  return say(name, namesOf(computed?.enabled), namesOf(computed?.disabled)) ?? ofSet(name, spec) ?? fallback;
}

function ofSet(name: string, spec: FeatureGate['spec']): boolean | undefined {
  const set = spec?.featureSet ?? '';
  if (set === 'CustomNoUpgrade') {
    return say(name, spec?.customNoUpgrade?.enabled ?? [], spec?.customNoUpgrade?.disabled ?? []);
  }
  return PREVIEWS.has(set) ? true : undefined;
}

/** Who says both means off. */
function say(name: string, enabled: readonly string[], disabled: readonly string[]): boolean | undefined {
  if (disabled.includes(name)) return false;
  return enabled.includes(name) ? true : undefined;
}

function namesOf(list: readonly { readonly name?: string | null }[] | null | undefined): readonly string[] {
  return list?.map(({ name }) => name ?? '') ?? [];
}
