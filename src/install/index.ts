/** Generates the manifests of an installation from its settings and the registries of webhooks and controllers. */
import { accountPolicy } from './account-policy.ts';
import nodes from './definitions/nodes.json' with { type: 'json' };
import podSecurityExceptions from './definitions/podsecurityexceptions.json' with { type: 'json' };
import portcullisConfigurations from './definitions/portcullisconfigurations.json' with { type: 'json' };
import psaEnforcementConfigs from './definitions/psaenforcementconfigs.json' with { type: 'json' };
import rangeAllocations from './definitions/rangeallocations.json' with { type: 'json' };
import securityContextConstraints from './definitions/securitycontextconstraints.json' with { type: 'json' };
import { namespaceObjects, replicaObjects } from './deployment.ts';
import { exceptionPolicy } from './exception-policy.ts';
import { grantPolicy } from './grant-policy.ts';
import { monitoringObjects } from './monitoring.ts';
import { rbacObjects } from './rbac.ts';
import { settingsPolicy } from './settings-policy.ts';
import {
  decodePolicy,
  type Manifest,
  type ManifestSettings,
  prerequisiteMetadata,
  SETTINGS_SCHEMA,
} from './settings.ts';
import { staticWebhookConfigurations } from './webhooks.ts';

export {
  type BreakGlassNote,
  type BreakGlassStatus,
  breakGlassStatus,
  formatNote,
  isOff,
  otherConditions,
  otherRequirements,
  parseFloorPolicy,
  parseTarget,
  planSwitch,
  type Target,
  targetPhase,
} from './break-glass-state.ts';
export { CONTROL_PLANE_CERTIFICATES, controlPlaneFiles } from './control-plane.ts';
export { CERTIFICATE, INITIAL_SETTINGS, namespaceObjects } from './deployment.ts';
export {
  type Configuration,
  type LiveWebhook,
  parseWebhookConfiguration,
  readConfigurations,
} from './live-webhooks.ts';
export {
  ALL_FEATURES,
  decodePolicy,
  defaultSettings,
  MINIMUM_MINOR,
  parseFeatures,
  PREREQUISITES,
  PROFILES,
  SELECTOR_LABELS,
  SETTINGS_SCHEMA,
  type Manifest,
  type ManifestOf,
  type ManifestSettings,
  type PolicySettings,
  type Profile,
} from './settings.ts';
export { DEV_CLUSTER_ENFORCEMENT, type Enforcement, staticWebhookConfigurations } from './webhooks.ts';

const SETTINGS_CRD = withLabels({
  ...portcullisConfigurations,
  spec: {
    ...portcullisConfigurations.spec,
    versions: portcullisConfigurations.spec.versions.map((version) => ({
      ...version,
      schema: { openAPIV3Schema: SETTINGS_SCHEMA },
    })),
  },
});

/** The PSAEnforcementConfig CRD. An object of this kind requests enforcement and reports its state. */
const ENFORCEMENT_CRD = withLabels(psaEnforcementConfigs);

/**
 * CRDs for SCC admission, which is built into OpenShift. The mutate.objects.portcullis.dev webhook defaults short SCCs
 * before the API server applies the schema, and validate.objects.portcullis.dev validates them afterwards. The CEL rule
 * protects pods if an SCC is stored without these webhooks. Only the controllers write the `scc-uid` RangeAllocation, so no two namespaces get the same
 * block. The schema does not declare its data as base64, because API servers do not accept an empty string as base64.
 */
const SCC_CRDS = [rangeAllocations, securityContextConstraints].map(withLabels);

/** The `nodes.config.openshift.io` CRD. OpenShift installs its own. */
const NODES_CRD = withLabels(nodes);

const EXCEPTION_CRD = withLabels(podSecurityExceptions);

/** The CRDs that Portcullis defines. */
export const CRDS = [SETTINGS_CRD, EXCEPTION_CRD, ENFORCEMENT_CRD, ...SCC_CRDS, NODES_CRD];

function withLabels<T extends Manifest>(crd: T): T {
  return { ...crd, metadata: prerequisiteMetadata(crd.metadata.name) };
}

/** Returns all objects of an installation, in the order in which they are applied. Webhook configurations come last. */
export function buildManifests(settings: ManifestSettings): readonly Manifest[] {
  return [
    SETTINGS_CRD,
    EXCEPTION_CRD,
    ...(settings.features.rollout ? [ENFORCEMENT_CRD] : []),
    ...(settings.features.scc ? SCC_CRDS : []),
    ...(settings.nodesConfig ? [NODES_CRD] : []),
    ...namespaceObjects(settings),
    ...rbacObjects(settings),
    ...accountPolicy(settings),
    ...exceptionPolicy(),
    ...settingsPolicy(),
    ...(settings.features.scc ? grantPolicy() : []),
    ...replicaObjects(settings),
    ...(settings.monitoring === 'none' ? [] : monitoringObjects(settings)),
    ...(decodePolicy(settings).webhooks.management === 'static' ? staticWebhookConfigurations(settings) : []),
  ];
}
