import { UserError } from '../../kube/user-error.ts';
import { VERSION_RULE } from '../../policy/psa/index.ts';
import { parseVersion, type Version } from '../../policy/pss/index.ts';

/** Parses a Pod Security Standards version, which is `latest` or `v1.N`. */
export function policyVersion(value: string): Version {
  const version = parseVersion(value);
  if (version === undefined) throw new UserError(VERSION_RULE);
  return version;
}
