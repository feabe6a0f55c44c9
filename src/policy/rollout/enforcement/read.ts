import { isEnforcementMode, type PSAEnforcementConfig } from '../../../kube/psa-enforcement-config.ts';
import { isObject } from '../../../kube/types.ts';
import type { EnforcementInput } from './types.ts';

/** The owner of what the program itself writes into `spec`. */
export const ROLLOUT_MANAGER = 'PodSecurityReadinessController';

/** What an object asks for, what was decided, and who asks. An object that is missing asks for nothing. */
export function readEnforcement(
  config: PSAEnforcementConfig | undefined,
): Pick<EnforcementInput, 'spec' | 'status' | 'specOwner'> {
  const decided = config?.status?.enforcementMode ?? '';
  return {
    spec: config?.spec?.enforcementMode ?? '',
    status: isEnforcementMode(decided) ? decided : '',
    specOwner: specOwnerOf(config),
  };
}

/** Where others share the field, it is theirs. */
function specOwnerOf(config: PSAEnforcementConfig | undefined): EnforcementInput['specOwner'] {
  const owners = (config?.metadata?.managedFields ?? []).filter(({ fieldsV1 }) => ownsMode(fieldsV1));
  if (owners.length === 0) return undefined;
  return owners.every(({ manager }) => manager === ROLLOUT_MANAGER) ? 'rollout' : 'others';
}

function ownsMode(fields: unknown): boolean {
  const spec = isObject(fields) ? fields['f:spec'] : undefined;
  return isObject(spec) && spec['f:enforcementMode'] !== undefined;
}
