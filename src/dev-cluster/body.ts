import { ApiError, badRequest } from '../kube/status.ts';
import type { GroupVersionKind } from '../kube/types.ts';
import type { Call, Core } from './core.ts';
import { unsupportedMediaType } from './errors.ts';
import { decodeBody, type FieldValidation, type ObjectType } from './fields/index.ts';
import type { ApiObject } from './types.ts';
import { apiVersionOf } from './views.ts';

const READABLE = ['application/json', 'application/yaml', 'application/vnd.kubernetes.protobuf'];

/** The kind of the objects that a request is about. */
export function kindOf(call: Call): GroupVersionKind {
  return call.subresource?.kind ?? call.info;
}

/** The type of the objects that a request is about. Throws ApiError 500 where nothing is known of the kind. */
export function typeOf(core: Core, kind: GroupVersionKind): ObjectType {
  const type = core.schemas.typeOf(kind);
  if (!type) throw new Error(`no schema of ${apiVersionOf(kind)} ${kind.kind}`);
  return type;
}

/** Reads the body of a create or an update, without defaults. Throws ApiError 400 or 415. */
export function readBody(core: Core, call: Call, fieldValidation: FieldValidation): ApiObject {
  const kind = kindOf(call);
  const contentType = mediaType(call.contentType) || 'application/json';
  if (!READABLE.includes(contentType)) throw unsupportedMediaType(READABLE);
  const decoded = decodeBody({ text: call.body, contentType, type: typeOf(core, kind), kind, fieldValidation });
  for (const warning of decoded.warnings) call.context.warn(warning);
  const version = decoded.object.apiVersion ?? '';
  if (version !== apiVersionOf(kind)) {
    throw new ApiError(
      badRequest(
        `the API version in the data (${version}) does not match the expected API version (${apiVersionOf(kind)})`,
      ),
    );
  }
  return decoded.object;
}

/** Fills in what is left out of an object of the resource; those of other kinds (a Scale, an Eviction) stay as sent. */
export function applyDefaults(call: Call, object: ApiObject): void {
  if (kindOf(call).kind === call.info.kind) call.info.strategy.defaults(object);
}

/** A media type without its parameters. */
export function mediaType(contentType: string): string {
  return (contentType.split(';')[0] ?? '').trim().toLowerCase();
}
