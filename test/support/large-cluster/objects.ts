/** Generates the objects of a large cluster from their indexes, with defaults and managed fields. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { JsonObject } from '../../../src/kube/types.ts';

export interface Sizes {
  readonly namespaces: number;
  /** Role bindings, evenly distributed across namespaces. */
  readonly bindings: number;
  /** Pods in pairs of replicas, evenly distributed across namespaces. */
  readonly pods: number;
}

/** The size of a large collection and the builder of its objects. */
export interface Collection {
  readonly count: number;
  /** Builds an object after the given number of changes. */
  build(index: number, changes: number, resourceVersion: string): JsonObject;
}

const TEMPLATES = parse(
  readFileSync(new URL('../../fixtures/large-cluster.yaml', import.meta.url), 'utf8'),
) as Readonly<Record<string, JsonObject>>;

/** Returns the large collections by their list paths. */
export function createCollections({ namespaces, bindings, pods }: Sizes): ReadonlyMap<string, Collection> {
  const collections: readonly (readonly [path: string, count: number])[] = [
    ['/api/v1/namespaces', namespaces],
    ['/api/v1/serviceaccounts', namespaces],
    ['/api/v1/pods', pods],
    ['/apis/apps/v1/deployments', pods >> 1],
    ['/apis/apps/v1/replicasets', pods >> 1],
    ['/apis/rbac.authorization.k8s.io/v1/roles', namespaces],
    ['/apis/rbac.authorization.k8s.io/v1/rolebindings', bindings],
  ];
  return new Map(
    collections.map(([path, count]) => {
      const resource = path.slice(path.lastIndexOf('/') + 1);
      const [first = '', ...parts] = JSON.stringify(TEMPLATES[resource])
        .replaceAll(/"#(\{\w+\})"/g, '$$$1')
        .split(/\$\{(\w+)\}/);
      const build: Collection['build'] = (index, changes, version) => {
        // The two pods of a pair have one owner.
        const owner = resource === 'pods' ? index >> 1 : index;
        const namespace = namespaceName(owner % namespaces);
        const values = { namespace, version, changes, ...objectValues(index, changes), ...ownerValues(owner) };
        let text = first;
        for (let at = 0; at < parts.length; at += 2) {
          text += String(values[parts[at] as keyof typeof values]) + (parts[at + 1] ?? '');
        }
        return JSON.parse(text) as JsonObject;
      };
      return [path, { count, build }];
    }),
  );
}

export function namespaceName(index: number): string {
  return `team-${index}`;
}

/** Returns the enforced level of a namespace, which alternates with each change. */
export function enforcedLevel(index: number, changes: number): 'restricted' | 'baseline' {
  return (index + changes) % 2 === 0 ? 'restricted' : 'baseline';
}

function objectValues(index: number, changes: number) {
  return {
    uid: formatUid(index),
    number: index,
    suffix: index.toString(36).padStart(5, 'x'),
    generation: 1 + changes,
    level: enforcedLevel(index, changes),
    phase: changes % 2 === 0 ? 'Running' : 'Succeeded',
    range: `${1_000_000_000 + index * 10_000}/10000`,
    mcs: mcsLabel(index),
    address: formatAddress(index),
    node: index % 1000,
    hostAddress: formatAddress(index % 1000),
    account: index % 7,
    user: index % 5000,
  };
}

function ownerValues(owner: number) {
  return { app: `app-${owner}`, hash: (owner * 2654435761).toString(36).slice(-10), pairUid: formatUid(owner) };
}

/** Returns the MCS label of a block index, as the range allocator formats it. */
function mcsLabel(index: number): string {
  let first = 1;
  let rest = index;
  while (rest >= first) rest -= first++;
  return `s0:c${first},c${rest}`;
}

function formatUid(index: number): string {
  return index.toString(16).padStart(12, '0');
}

function formatAddress(index: number): string {
  return `10.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}`;
}
