import type { JsonObject, ObjectMeta, Wire } from '../kube/types.ts';

/** An object as it is applied to a cluster. */
export type Manifest = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta & { readonly name: string };
};

/** The same of a kind that others define. */
export type CustomManifest = Manifest & { readonly spec: JsonObject };

/** The same of a type that Kubernetes has. */
export type ManifestOf<T> = Wire<T> & Manifest;
