import { ApiError } from '../../kube/status.ts';
import { metadataOf, type ApiObject, type ResourceKey } from '../types.ts';
import type { Tools } from './chore.ts';

/** Creates an object unless there is one of its name. */
export async function createMissing(
  { reader, writer }: Tools,
  resource: ResourceKey,
  object: ApiObject,
): Promise<void> {
  const { namespace = '', name = '' } = metadataOf(object);
  if (reader.get(resource, namespace, name)) return;
  await tolerate(409, writer.create(resource, object));
}

/** Deletes an object unless it has gone already. */
export async function removeExisting({ writer }: Tools, resource: ResourceKey, object: ApiObject): Promise<void> {
  const { namespace = '', name = '' } = metadataOf(object);
  await tolerate(404, writer.remove(resource, namespace, name));
}

async function tolerate(code: number, request: Promise<unknown>): Promise<void> {
  try {
    await request;
  } catch (error) {
    if (!(error instanceof ApiError && error.status.code === code)) throw error;
  }
}
