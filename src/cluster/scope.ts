import type { Kind, KubeObject } from '../kube/types.ts';
import { pathOf } from './list.ts';

/** What is followed of a kind: what lies in one namespace, or one object. The rights of a reader often end there. */
export interface Scope {
  readonly kind: Kind;
  readonly namespace?: string;
  readonly name?: string;
}

/** Where a scope is listed and watched. */
export interface ScopedRequest {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
}

/** The request for what lies in a scope; rights to the one object by its name are enough for one with a name. */
export function requestFor({ kind, namespace, name }: Scope): ScopedRequest {
  const query = name === undefined ? {} : { fieldSelector: `metadata.name=${name}` };
  return { path: pathOf(kind, namespace), query };
}

/** True if the object, of the kind of the scope, lies in it. */
export function isWithin({ namespace, name }: Scope, { metadata }: KubeObject): boolean {
  return (
    (namespace === undefined || metadata?.namespace === namespace) && (name === undefined || metadata?.name === name)
  );
}
