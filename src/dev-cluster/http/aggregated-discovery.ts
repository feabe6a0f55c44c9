import type { GroupVersionKind } from '../../kube/types.ts';
import type { Registry } from '../registry.ts';
import { subresourceOf } from '../subresources.ts';
import type { ResourceInfo } from '../types.ts';
import { groupsOf, groupVersionsOf, resourcesOf } from './discovery.ts';

export const AGGREGATED = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';

/** `/api` or `/apis` in one document. */
export function aggregatedDiscovery(registry: Registry, which: 'core' | 'groups'): object {
  const groups = which === 'core' ? [''] : groupsOf(registry);
  return {
    kind: 'APIGroupDiscoveryList',
    apiVersion: 'apidiscovery.k8s.io/v2',
    metadata: {},
    items: groups.map((group) => ({
      metadata: group === '' ? {} : { name: group },
      versions: groupVersionsOf(registry)
        .filter((served) => served.group === group)
        .map(({ version }) => ({
          version,
          resources: resourcesOf(registry, group, version).map(describe),
          freshness: 'Current',
        })),
    })),
  };
}

function describe(info: ResourceInfo): object {
  const parts = info.subresources.map((name) => subresourceOf(info, name)).filter((part) => part !== undefined);
  return {
    resource: info.resource,
    responseKind: kindOf(info, info),
    scope: info.namespaced ? 'Namespaced' : 'Cluster',
    singularResource: info.singular,
    verbs: info.verbs,
    ...(info.shortNames.length === 0 ? {} : { shortNames: info.shortNames }),
    ...(info.categories.length === 0 ? {} : { categories: info.categories }),
    ...(parts.length === 0
      ? {}
      : {
          subresources: parts.map(({ name, kind, verbs }) => ({
            subresource: name,
            responseKind: kindOf(kind, info),
            verbs,
          })),
        }),
  };
}

/** Empty group and version stand for those of the list. */
function kindOf({ group, version, kind }: GroupVersionKind, info: ResourceInfo): GroupVersionKind {
  const own = group === info.group && version === info.version;
  return own && !info.custom ? { group: '', version: '', kind } : { group, version, kind };
}
