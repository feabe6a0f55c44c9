import type { ResourceInfo, ResourceKey } from './types.ts';

/** Every resource that is served: the built-in ones, and those that CustomResourceDefinitions add. */
export interface Registry {
  find(group: string, version: string, resource: string): ResourceInfo | undefined;
  /** In its preferred version, which for a custom resource is the first that is served. */
  preferred(key: ResourceKey): ResourceInfo | undefined;
  byKind(group: string, kind: string): ResourceInfo | undefined;
  list(): readonly ResourceInfo[];
  /** Puts the resources of a definition in the place of those that it had before. */
  define(definition: string, resources: readonly ResourceInfo[]): void;
  /** Rises when resources come or go. */
  revision(): number;
}

/** Makes a registry of the built-in resources. */
export function createRegistry(builtIn: readonly ResourceInfo[]): Registry {
  const custom = new Map<string, readonly ResourceInfo[]>();
  let all = builtIn;
  let revision = 1;
  return {
    find: (group, version, resource) =>
      all.find((info) => info.group === group && info.version === version && info.resource === resource),
    preferred: ({ group, resource }) => all.find((info) => info.group === group && info.resource === resource),
    byKind: (group, kind) => all.find((info) => info.group === group && info.kind === kind),
    list: () => all,
    define(definition, resources) {
      if (resources.length === 0) custom.delete(definition);
      else custom.set(definition, resources);
      all = [...builtIn, ...[...custom.values()].flat()];
      revision += 1;
    },
    revision: () => revision,
  };
}
