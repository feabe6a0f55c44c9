/**
 * The objects of an installation: the one source of every manifest. Nothing here reads files or asks clusters; what a
 * cluster needs comes in as settings.
 */
import {
  podDisruptionBudget,
  certManagerObjects,
  configuration,
  deployment,
  namespace,
  resourceQuota,
  networkPolicy,
  service,
} from './deployment.ts';
import { SCC_DEFINITIONS, psaEnforcementConfigs } from './definitions.ts';
import { monitoringObjects } from './monitoring.ts';
import { rbacObjects } from './rbac.ts';
import type { ManifestSettings, Manifest } from './settings.ts';
import { webhookConfigurations } from './webhooks.ts';

export { DEFINITIONS, SCC_DEFINITIONS } from './definitions.ts';
export { defaultSettings, type ManifestSettings } from './settings.ts';
export type { Manifest, ManifestOf } from './settings.ts';
export { webhookConfigurations, type WebhookConfiguration } from './webhooks.ts';

/** All objects of an installation, in the order in which they have to be applied: webhooks at the end. */
export function manifestsOf(settings: ManifestSettings): readonly Manifest[] {
  return [
    psaEnforcementConfigs,
    ...(settings.sccMode === 'off' ? [] : SCC_DEFINITIONS),
    namespace(settings),
    resourceQuota(settings),
    ...rbacObjects(settings),
    configuration(settings),
    ...(settings.certificates === 'cert-manager' ? certManagerObjects(settings) : []),
    service(settings),
    networkPolicy(settings),
    podDisruptionBudget(settings),
    ...(settings.monitoring === 'none' ? [] : monitoringObjects(settings)),
    deployment(settings),
    ...webhookConfigurations(settings),
  ];
}
