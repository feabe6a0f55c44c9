import type { Send } from './requests.ts';
import { metadataOf, type ApiObject, type Writer, type WriterOptions } from './types.ts';

const FIELD_MANAGER = 'kube-apiserver';

/** The writes that the cluster makes itself. */
export function createWriter(send: Send): Writer {
  return {
    create: (resource, object, options) =>
      send({ verb: 'create', resource, ...placeOf(object), name: '', ...queryOf(options), body: object }),
    update: (resource, object, options = {}) =>
      send({
        verb: 'update',
        resource,
        subresource: options.subresource ?? '',
        ...placeOf(object),
        ...queryOf(options),
        body: object,
      }),
    remove: (resource, namespace, name) => send({ verb: 'delete', resource, namespace, name }),
  };
}

function placeOf(object: ApiObject): { namespace: string; name: string } {
  const { namespace = '', name = '' } = metadataOf(object);
  return { namespace, name };
}

function queryOf({ fieldManager = FIELD_MANAGER }: WriterOptions = {}): { query: Record<string, string> } {
  return { query: { fieldManager } };
}
