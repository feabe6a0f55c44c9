/** Values of options that name policies. */
import { UserError } from '../config/user-error.ts';
import { printFieldErrors } from '../kube/field-error.ts';
import { POD_SECURITY_LABELS } from '../kube/well-known.ts';
import { resolvePolicies, type Labels } from '../policy/psa/namespace-policy.ts';
import { LEVEL_RULE, VERSION_RULE } from '../policy/psa/policy.ts';
import { isLevel, parseVersion, type Level, type Version } from '../policy/pss/index.ts';

export function level(value: string): Level {
  if (!isLevel(value)) throw new UserError(LEVEL_RULE);
  return value;
}

/** A version of the Pod Security Standards. */
export function policyVersion(value: string): Version {
  const version = parseVersion(value);
  if (version === undefined) throw new UserError(VERSION_RULE);
  return version;
}

const KNOWN_LABELS: ReadonlySet<string> = new Set(Object.values(POD_SECURITY_LABELS));
const DEFAULT = { level: 'restricted', version: 'latest' } as const;

/** Labels of a namespace; where there are any, they have to set policies, and rightly. */
export function podSecurityLabels(pairs: readonly (readonly [key: string, value: string])[]): Labels {
  const labels = Object.fromEntries(pairs);
  const { errors } = resolvePolicies(labels, { enforce: DEFAULT, audit: DEFAULT, warn: DEFAULT });
  if (errors.length > 0) throw new UserError(printFieldErrors(errors));
  const setsPolicy = pairs.some(([key]) => KNOWN_LABELS.has(key));
  if (pairs.length > 0 && !setsPolicy) throw new UserError(`must have one of ${[...KNOWN_LABELS].join(', ')}`);
  return labels;
}
