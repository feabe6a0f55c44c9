import { ApiError, notFound } from '../kube/status.ts';
import type { ApiResult, Call, Core } from './core.ts';
import type { ApiObject } from './types.ts';
import { present, storageKey } from './views.ts';

/** Returns the named object. Throws ApiError 404. */
export function getObject(core: Core, call: Call): ApiObject {
  const stored = core.storage.get(storageKey(call.info), call.scope, call.name);
  if (!stored) throw new ApiError(notFound(call.info, call.name));
  return present(call.info, stored);
}

/** Answers with one object. */
export function read(core: Core, call: Call): ApiResult {
  return { kind: 'object', code: 200, object: getObject(core, call), info: call.info };
}
