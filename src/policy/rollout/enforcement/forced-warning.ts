import type { PSAEnforcementConfig } from '../../../kube/psa-enforcement-config.ts';
import { printSome } from '../../psa/some.ts';

/**
 * What to tell somebody who asks for `Restricted` while workloads are known that this would refuse; `undefined` if there is
 * nothing to tell.
 */
export function forcedWarning(
  config: PSAEnforcementConfig,
  before: PSAEnforcementConfig | undefined,
): string | undefined {
  const isForced = config.spec?.enforcementMode === 'Restricted' && before?.spec?.enforcementMode !== 'Restricted';
  const violating = (before ?? config).status?.violatingNamespaces ?? [];
  const names = violating.filter(({ state }) => state !== 'Previous').map(({ name }) => name);
  if (!isForced || names.length === 0) return undefined;
  const which = `${names.length} ${names.length === 1 ? 'namespace' : 'namespaces'}`;
  return `spec.enforcementMode: Restricted enforces at once, although workloads in ${which} would be refused: ${printSome(names)}`;
}
