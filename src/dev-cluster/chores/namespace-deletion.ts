import { metadataOf, type ApiObject, type ResourceInfo, type ResourceKey } from '../types.ts';
import { isOf, type Chore, type Tools } from './chore.ts';
import { removeExisting } from './write.ts';

const NAMESPACES: ResourceKey = { group: '', resource: 'namespaces' };

/** Empties namespaces that are being deleted, then lets them go. */
export function createNamespaceDeletion(tools: Tools): Chore {
  const { reader, registry, writer } = tools;
  return {
    name: 'namespace-deletion',
    keyOf(change) {
      const { name, namespace } = metadataOf(change.object);
      if (isOf(change, NAMESPACES)) return change.type === 'DELETED' ? undefined : name;
      return change.type === 'DELETED' ? namespace : undefined;
    },
    async run(name) {
      const namespace = reader.get(NAMESPACES, '', name);
      if (!namespace || metadataOf(namespace).deletionTimestamp === undefined) return;
      const resources = registry.list().filter(holdsObjects);
      for (const resource of resources) {
        for (const object of reader.list(resource, name)) {
          if (metadataOf(object).deletionTimestamp === undefined) await removeExisting(tools, resource, object);
        }
      }
      // What finalizers hold brings this here again when it goes.
      if (resources.some((resource) => reader.list(resource, name).length > 0)) return;
      await writer.update(NAMESPACES, released(namespace), { subresource: 'finalize' });
    },
  };
}

function holdsObjects({ namespaced, verbs }: ResourceInfo): boolean {
  return namespaced && verbs.includes('delete');
}

function released(namespace: ApiObject): ApiObject {
  return { ...namespace, spec: { ...(namespace['spec'] as object | undefined), finalizers: [] } };
}
