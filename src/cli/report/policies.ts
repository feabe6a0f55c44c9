import type { ManifestObject } from '../../config/manifests.ts';
import { resolvePolicies, type Labels, type NamespacePolicy } from '../../policy/psa/namespace-policy.ts';
import type { Policies } from '../../policy/psa/policy.ts';
import type { Level, Version } from '../../policy/pss/index.ts';
import { labelsOf, nameOf } from './identity.ts';

/** What counts where the manifests do not say it. */
export interface PolicySettings {
  /** What a namespace enforces whose labels do not say it. */
  readonly level: Level;
  /** Of every mode whose labels do not name one. */
  readonly version: Version;
  /** The labels of namespaces that are not among the manifests. */
  readonly namespaceLabels: Labels;
}

/** The policies of namespaces; a Namespace among the objects brings its own labels. */
export interface PolicyIndex {
  ofNamespace(name: string): NamespacePolicy;
  /** Those of a Namespace itself. */
  ofLabels(namespace: ManifestObject): NamespacePolicy;
}

/** Of several Namespaces with one name the last counts, as if all were applied in order. */
export function indexPolicies(
  objects: readonly ManifestObject[],
  { level, version, namespaceLabels }: PolicySettings,
): PolicyIndex {
  const unasked = { level: 'privileged', version } as const;
  const defaults: Policies = { enforce: { level, version }, audit: unasked, warn: unasked };
  const namespaces = objects.filter(isNamespace);
  const ofLabels = new Map(namespaces.map((object) => [object, resolvePolicies(labelsOf(object.value), defaults)]));
  const named = new Map(namespaces.map((object) => [nameOf(object.value), ofLabels.get(object)]));
  const others = resolvePolicies(namespaceLabels, defaults);
  return {
    ofNamespace: (name) => named.get(name) ?? others,
    ofLabels: (namespace) => ofLabels.get(namespace) ?? others,
  };
}

export function isNamespace({ apiVersion, kind }: ManifestObject): boolean {
  return apiVersion === 'v1' && kind === 'Namespace';
}
