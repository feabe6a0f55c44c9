/** Returns the commands that change the settings of an installation, and describes the consequences of settings. */
import { CONFIGURATION_NAME } from '../../api/names.ts';
import type { Server } from '../../cluster/client.ts';
import { type Setting, withSetting } from '../../config/setting-paths.ts';
import { kubectl, type ShellCommand } from '../output/shell.ts';

/** Consequence of installing the SCC CRDs without enforcing SCCs. "This group" is the API group of SCCs. */
export const CHART_CONSEQUENCE =
  'charts that detect OpenShift by this group, such as those of Bitnami, omit runAsUser and fsGroup, which SCC admission sets only while it enforces SCCs. Their value global.compatibility.openshift.adaptSecurityContext=disabled keeps both fields';

/** Returns true for OpenShift. Other clusters can serve OpenShift groups through CRDs, but not `route.openshift.io`. */
export function isOpenShift({ groups }: Pick<Server, 'groups'>): boolean {
  return groups.includes('route.openshift.io');
}

/** Returns the command that changes settings regardless of their owner. A `null` value removes a setting. */
export function patchSettings(settings: readonly Setting[]): ShellCommand {
  const patch = JSON.stringify({ spec: settings.reduce(withSetting, {}) });
  return kubectl('patch', 'portcullisconfiguration', CONFIGURATION_NAME, '--type=merge', '-p', patch);
}
