import type { Registry } from '../registry.ts';
import { subresourceOf } from '../subresources.ts';
import type { ResourceInfo } from '../types.ts';
import { apiVersionOf } from '../views.ts';

interface GroupVersion {
  readonly group: string;
  readonly version: string;
}

/** The group versions that are served, each once, in the order of the registry. */
export function groupVersionsOf(registry: Registry): readonly GroupVersion[] {
  const seen = new Map<string, GroupVersion>();
  for (const { group, version } of registry.list()) seen.set(`${group}/${version}`, { group, version });
  return [...seen.values()];
}

/** `/api` */
export function apiVersions(address: string): object {
  return {
    kind: 'APIVersions',
    versions: ['v1'],
    serverAddressByClientCIDRs: [{ clientCIDR: '0.0.0.0/0', serverAddress: address }],
  };
}

/** `/apis` */
export function apiGroups(registry: Registry): object {
  return {
    kind: 'APIGroupList',
    apiVersion: 'v1',
    groups: groupsOf(registry).map((group) => describeGroup(registry, group)),
  };
}

/** `/apis/<group>`; `undefined` for a group that is not served. */
export function apiGroup(registry: Registry, name: string): object | undefined {
  if (name === '' || !groupsOf(registry).includes(name)) return undefined;
  return { kind: 'APIGroup', apiVersion: 'v1', ...describeGroup(registry, name) };
}

/** `/api/v1`, `/apis/<group>/<version>`; `undefined` for a version that is not served. */
export function apiResources(registry: Registry, group: string, version: string): object | undefined {
  const resources = resourcesOf(registry, group, version);
  if (resources.length === 0) return undefined;
  return {
    kind: 'APIResourceList',
    ...(group === '' ? {} : { apiVersion: 'v1' }),
    groupVersion: apiVersionOf({ group, version }),
    resources: resources.flatMap((info) => [describeResource(info), ...info.subresources.flatMap(describePart(info))]),
  };
}

export function groupsOf(registry: Registry): readonly string[] {
  return [...new Set(registry.list().map(({ group }) => group))].filter((group) => group !== '');
}

export function resourcesOf(registry: Registry, group: string, version: string): readonly ResourceInfo[] {
  return registry
    .list()
    .filter((info) => info.group === group && info.version === version)
    .toSorted((a, b) => (a.resource < b.resource ? -1 : 1));
}

function describeGroup(registry: Registry, name: string): object {
  const versions = groupVersionsOf(registry)
    .filter(({ group }) => group === name)
    .map((groupVersion) => ({ groupVersion: apiVersionOf(groupVersion), version: groupVersion.version }));
  return { name, versions, preferredVersion: versions[0] };
}

function describeResource(info: ResourceInfo): object {
  return {
    name: info.resource,
    singularName: info.singular,
    namespaced: info.namespaced,
    kind: info.kind,
    verbs: info.verbs,
    ...(info.shortNames.length === 0 ? {} : { shortNames: info.shortNames }),
    ...(info.categories.length === 0 ? {} : { categories: info.categories }),
  };
}

/** A subresource whose kind is of another group says which. */
function describePart(info: ResourceInfo): (name: string) => object[] {
  return (name) => {
    const part = subresourceOf(info, name);
    if (!part) return [];
    const { group, version, kind } = part.kind;
    const foreign = group === info.group && version === info.version ? {} : { group, version };
    return [
      {
        name: `${info.resource}/${name}`,
        singularName: '',
        namespaced: info.namespaced,
        ...foreign,
        kind,
        verbs: part.verbs,
      },
    ];
  };
}
