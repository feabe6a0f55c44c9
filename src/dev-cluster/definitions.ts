import { isObject, type JsonObject } from '../kube/types.ts';
import { typeOfCrdSchema, type Schemas } from './fields/index.ts';
import { resourcesOfDefinition } from './objects/custom-resources.ts';
import type { Registry } from './registry.ts';
import type { Storage } from './storage.ts';
import { at, itemsAt, textAt } from './tables/cells.ts';
import { metadataOf, type ApiObject, type ResourceInfo, type ResourceKey } from './types.ts';

const DEFINITIONS: ResourceKey = { group: 'apiextensions.k8s.io', resource: 'customresourcedefinitions' };

/** Serves what CustomResourceDefinitions define, from the moment they are stored until they are gone. */
export function followDefinitions(storage: Storage, registry: Registry, schemas: Schemas): void {
  const served = new Map<string, readonly ResourceInfo[]>();
  const define = (name: string, resources: readonly ResourceInfo[], definition?: ApiObject): void => {
    for (const info of served.get(name) ?? []) schemas.remove(info);
    for (const info of resources) schemas.put(info, typeOfCrdSchema(schemaOf(definition, info.version)));
    served.set(name, resources);
    registry.define(name, resources);
  };
  storage.subscribe(({ type, resource, object }) => {
    if (resource.group !== DEFINITIONS.group || resource.resource !== DEFINITIONS.resource) return;
    const name = metadataOf(object).name ?? '';
    if (type === 'DELETED') define(name, []);
    else define(name, resourcesOfDefinition(object), object);
  });
}

function schemaOf(definition: ApiObject | undefined, version: string): JsonObject | undefined {
  const found = itemsAt(definition, 'spec', 'versions').find((item) => textAt(item, 'name') === version);
  const schema = at(found, 'schema', 'openAPIV3Schema');
  return isObject(schema) ? schema : undefined;
}
