import type { GroupVersionKind } from '../kube/types.ts';
import type { ResourceInfo } from './types.ts';

/** What is asked of a part of an object. */
export interface Subresource {
  readonly name: string;
  readonly kind: GroupVersionKind;
  readonly verbs: readonly string[];
}

const CHANGE = ['get', 'patch', 'update'];
const CONNECT = ['create', 'get'];

/** The subresources; those without a kind have that of the resource. */
const rows: Readonly<Record<string, { verbs: readonly string[]; kind?: GroupVersionKind }>> = {
  attach: { verbs: CONNECT, kind: core('PodAttachOptions') },
  binding: { verbs: ['create'], kind: core('Binding') },
  ephemeralcontainers: { verbs: CHANGE },
  eviction: { verbs: ['create'], kind: { group: 'policy', version: 'v1', kind: 'Eviction' } },
  exec: { verbs: CONNECT, kind: core('PodExecOptions') },
  finalize: { verbs: ['update'] },
  log: { verbs: ['get'] },
  portforward: { verbs: CONNECT, kind: core('PodPortForwardOptions') },
  resize: { verbs: CHANGE },
  scale: { verbs: CHANGE, kind: { group: 'autoscaling', version: 'v1', kind: 'Scale' } },
  status: { verbs: CHANGE },
};

function core(kind: string): GroupVersionKind {
  return { group: '', version: 'v1', kind };
}

/** A subresource of a resource; `undefined` where there is none of that name. */
export function subresourceOf(resource: ResourceInfo, name: string): Subresource | undefined {
  if (!resource.subresources.includes(name)) return undefined;
  const row = Object.hasOwn(rows, name) ? rows[name] : undefined;
  if (!row) return undefined;
  const { group, version, kind } = resource;
  return { name, kind: row.kind ?? { group, version, kind }, verbs: row.verbs };
}
