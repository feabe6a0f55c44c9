/** The manifests of an installation, generated from its settings and the registries of webhooks and controllers. */
import { psaEnforcementConfigs, SCC_DEFINITIONS } from './definitions.ts';
import { namespaceObjects, replicaObjects } from './deployment.ts';
import { monitoringObjects } from './monitoring.ts';
import { rbacObjects } from './rbac.ts';
import type { Manifest, ManifestSettings } from './settings.ts';
import { webhookConfigurations } from './webhooks.ts';

export { DEFINITIONS, SCC_DEFINITIONS } from './definitions.ts';
export {
  defaultSettings,
  MINIMUM_MINOR,
  PROFILES,
  type Manifest,
  type ManifestOf,
  type ManifestSettings,
  type Profile,
} from './settings.ts';
export { webhookConfigurations, type WebhookConfiguration } from './webhooks.ts';

/** All objects of an installation, in the order in which they are applied. Webhook configurations are last. */
export function buildManifests(settings: ManifestSettings): readonly Manifest[] {
  return [
    psaEnforcementConfigs,
    ...(settings.sccMode === 'off' ? [] : SCC_DEFINITIONS),
    ...namespaceObjects(settings),
    ...rbacObjects(settings),
    ...replicaObjects(settings),
    ...(settings.monitoring === 'none' ? [] : monitoringObjects(settings)),
    ...webhookConfigurations(settings),
  ];
}
