import { metadataOf, type ApiObject, type ResourceInfo } from '../types.ts';
import type { Chore, Tools } from './chore.ts';
import { removeExisting } from './write.ts';

/** Deletes what belonged to an object that has gone, unless it has another owner that is still there. */
export function createGarbageCollection(tools: Tools): Chore {
  const { reader, registry, writer } = tools;
  const exists = (reference: OwnerReference, namespace: string): boolean => {
    const [group, kind] = [groupOf(reference.apiVersion), reference.kind];
    const info = registry.byKind(group, kind);
    const owner = info && reader.get(info, info.namespaced ? namespace : '', reference.name);
    return owner !== undefined && metadataOf(owner).uid === reference.uid;
  };
  const collect = async (resource: ResourceInfo, object: ApiObject, uid: string): Promise<void> => {
    const owners = ownersOf(object);
    const { namespace = '' } = metadataOf(object);
    const left = owners.filter((owner) => owner.uid !== uid);
    if (!left.some((owner) => exists(owner, namespace))) return removeExisting(tools, resource, object);
    await writer.update(resource, { ...object, metadata: { ...object.metadata, ownerReferences: left } });
  };
  return {
    name: 'garbage-collection',
    keyOf: (change) => (change.type === 'DELETED' ? metadataOf(change.object).uid : undefined),
    async run(uid) {
      for (const resource of registry.list()) {
        const owned = reader.list(resource).filter((object) => ownersOf(object).some((owner) => owner.uid === uid));
        for (const object of owned) await collect(resource, object, uid);
      }
    },
  };
}

type OwnerReference = ReturnType<typeof ownersOf>[number];

function ownersOf(object: ApiObject) {
  return metadataOf(object).ownerReferences ?? [];
}

function groupOf(apiVersion: string): string {
  return apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
}
