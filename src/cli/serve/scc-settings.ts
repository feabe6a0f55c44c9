import { UserError } from '../../config/files.ts';
import type { SccSettings } from '../../policy/scc/mode.ts';
import type { Compatibility, Deviations } from '../../policy/scc/types.ts';
import type { ServeValues } from './options.ts';

/** The values of the options that say how SCCs are to work. */
export type SccValues = Pick<ServeValues, Extract<keyof ServeValues, `scc-${string}`>>;

/** How SCCs are to work. Throws a UserError if options contradict each other. */
export function sccSettingsOf(values: SccValues): SccSettings {
  return {
    mode: values['scc-mode'],
    exemptNamespaces: values['scc-exempt-namespaces'],
    compatibility: compatibilityOf(values),
    preferUserNamespaces: values['scc-prefer-user-namespaces'],
  };
}

const DEVIATIONS = ['scc-identity', 'scc-broken', 'scc-required', 'scc-unprocessed-pods'] as const;

function compatibilityOf(values: SccValues): Compatibility {
  if (values['scc-compatibility'] === 'openshift') {
    const given = DEVIATIONS.find((name) => (values[name]?.length ?? 0) > 0);
    if (given === undefined) return 'openshift';
    throw new UserError(
      `--${given} says how to deviate from OpenShift, --scc-compatibility=openshift not to: leave one of them out`,
    );
  }
  const { 'scc-identity': identity, 'scc-broken': brokenScc, 'scc-unprocessed-pods': unprocessedPods } = values;
  const deviations: Deviations = {
    requiredSccs: values['scc-required'],
    ...(identity === undefined ? {} : { identity }),
    ...(brokenScc === undefined ? {} : { brokenScc }),
    ...(unprocessedPods === undefined ? {} : { unprocessedPods }),
  };
  return deviations;
}
