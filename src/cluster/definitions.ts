import { kindOf } from '../kube/resources.ts';
import { isObject, type JsonObject, type Kind } from '../kube/types.ts';
import type { Sink } from './reflector.ts';

/** Where definitions of custom resources are served; their names and versions are enough. */
export const DEFINITIONS = {
  path: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
  accept: { list: metadataOnly('PartialObjectMetadataList'), watch: metadataOnly('PartialObjectMetadata') },
} as const;

function metadataOnly(kind: string): string {
  return `application/json;as=${kind};g=meta.k8s.io;v=v1,application/json`;
}

/** Takes definitions and tells of those of kinds that this program reads, whenever they are new or change. */
export function createDefinitionSink(onDefined: (kind: Kind) => void): Sink {
  return {
    put(definition) {
      const kind = definedBy(definition);
      if (kind) onDefined(kind);
    },
    remove: () => undefined,
    retain: () => undefined,
    reached: () => undefined,
  };
}

/** A definition is called `<resource>.<group>`. */
function definedBy({ metadata }: JsonObject): Kind | undefined {
  const name = isObject(metadata) ? metadata['name'] : undefined;
  if (typeof name !== 'string') return undefined;
  const [resource = '', ...group] = name.split('.');
  return kindOf({ resource, group: group.join('.') });
}
