import type { Pod } from '../../../kube/types.ts';

/** What makes the pods: the outermost object that is known. */
export interface Owner {
  readonly kind: string;
  readonly name: string;
}

/** Tells whether there is an object of that kind and name in the namespace. */
export type Exists = (kind: 'Deployment' | 'CronJob', name: string) => boolean;

/** Kinds whose objects another kind makes, under its own name with a suffix. */
const MAKERS: ReadonlyMap<string, 'Deployment' | 'CronJob'> = new Map([
  ['ReplicaSet', 'Deployment'],
  ['Job', 'CronJob'],
]);

/** The maker of a pod; the pod itself where there is none. */
export function ownerOf(pod: Pod, exists: Exists): Owner {
  const controller = pod.metadata?.ownerReferences?.find((reference) => reference.controller === true);
  if (controller === undefined) return { kind: 'Pod', name: pod.metadata?.name ?? '' };
  const { kind, name } = controller;
  const maker = MAKERS.get(kind);
  const base = name.slice(0, Math.max(0, name.lastIndexOf('-')));
  return maker !== undefined && base !== '' && exists(maker, base) ? { kind: maker, name: base } : { kind, name };
}

/** A key by which owners of one namespace can be told apart. */
export function ownerKey({ kind, name }: Owner): string {
  return `${kind}/${name}`;
}
