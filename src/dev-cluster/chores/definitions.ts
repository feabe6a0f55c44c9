import { objectAt, objectsAt, textAt } from '../objects/read.ts';
import { metadataOf, type ApiObject, type ResourceKey } from '../types.ts';
import { isOf, type Chore, type Tools } from './chore.ts';
import { removeExisting } from './write.ts';

const DEFINITIONS: ResourceKey = { group: 'apiextensions.k8s.io', resource: 'customresourcedefinitions' };
const FINALIZER = 'customresourcecleanup.apiextensions.k8s.io';

/** Says of a CustomResourceDefinition that it is served, and deletes its objects before it goes. */
export function createDefinitionChore(tools: Tools): Chore {
  const { reader } = tools;
  return {
    name: 'custom-resource-definitions',
    keyOf(change) {
      if (isOf(change, DEFINITIONS)) return change.type === 'DELETED' ? undefined : metadataOf(change.object).name;
      const { group, resource } = change.resource;
      return change.type === 'DELETED' && group.includes('.') ? `${resource}.${group}` : undefined;
    },
    async run(name) {
      const definition = reader.get(DEFINITIONS, '', name);
      if (!definition) return;
      if (metadataOf(definition).deletionTimestamp !== undefined) return clean(tools, definition);
      await establish(tools, definition);
    },
  };
}

async function establish({ writer }: Tools, definition: ApiObject): Promise<void> {
  const { finalizers = [] } = metadataOf(definition);
  if (!finalizers.includes(FINALIZER)) {
    const metadata = { ...definition.metadata, finalizers: [...finalizers, FINALIZER] };
    await writer.update(DEFINITIONS, { ...definition, metadata });
    return;
  }
  const status = objectAt(definition, 'status');
  if (objectsAt(status, 'conditions').length > 0) return;
  const acceptedNames = objectAt(objectAt(definition, 'spec'), 'names');
  const changed = { ...definition, status: { ...status, conditions: conditions(definition), acceptedNames } };
  await writer.update(DEFINITIONS, changed, { subresource: 'status' });
}

function conditions(definition: ApiObject): readonly object[] {
  const lastTransitionTime = metadataOf(definition).creationTimestamp;
  return [
    { type: 'NamesAccepted', status: 'True', lastTransitionTime, reason: 'NoConflicts', message: 'no conflicts found' },
    {
      type: 'Established',
      status: 'True',
      lastTransitionTime,
      reason: 'InitialNamesAccepted',
      message: 'the initial names have been accepted',
    },
  ];
}

async function clean(tools: Tools, definition: ApiObject): Promise<void> {
  const spec = objectAt(definition, 'spec');
  const resource = { group: textAt(spec, 'group'), resource: textAt(objectAt(spec, 'names'), 'plural') };
  for (const object of tools.reader.list(resource)) await removeExisting(tools, resource, object);
  if (tools.reader.list(resource).length > 0) return;
  const { finalizers = [] } = metadataOf(definition);
  if (!finalizers.includes(FINALIZER)) return;
  const metadata = { ...definition.metadata, finalizers: finalizers.filter((name) => name !== FINALIZER) };
  await tools.writer.update(DEFINITIONS, { ...definition, metadata });
}
