import type { ClusterClient } from '../../cluster/client.ts';
import { PSA_ENFORCEMENT_CONFIG, type PSAEnforcementConfig } from '../../kube/psa-enforcement-config.ts';
import { RESOURCES } from '../../kube/resources.ts';

/**
 * Returns the message of `Upgradeable=False` in the PSAEnforcementConfig, or `undefined` if the condition is not false.
 */
export async function readUpgradeProblem(client: ClusterClient): Promise<string | undefined> {
  const object = await client.get(RESOURCES.PSAEnforcementConfig, PSA_ENFORCEMENT_CONFIG);
  const { conditions } = (object as PSAEnforcementConfig | undefined)?.status ?? {};
  return conditions?.find(({ type, status }) => type === 'Upgradeable' && status === 'False')?.message;
}
