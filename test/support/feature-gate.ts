import type { FeatureGate, JsonObject } from '../../src/kube/types.ts';

/** A FeatureGate object that disables enforcement. */
export const GATE_OFF: FeatureGate = {
  metadata: { name: 'cluster' },
  spec: { featureSet: 'CustomNoUpgrade', customNoUpgrade: { disabled: ['OpenShiftPodSecurityAdmission'] } },
};

/** Returns the CRD for a kind that is not part of an installation, without a schema. */
export function definition(group: string, version: string, plural: string, kind: string, scope: string): JsonObject {
  const schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope,
      names: { plural, kind, singular: kind.toLowerCase(), listKind: `${kind}List` },
      versions: [{ name: version, served: true, storage: true, schema: { openAPIV3Schema: schema } }],
    },
  };
}
