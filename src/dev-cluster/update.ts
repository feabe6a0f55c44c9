import { applyDefaults, readBody } from './body.ts';
import type { ApiResult, Call, Core } from './core.ts';
import { matchName, matchNamespace } from './metadata.ts';
import { readWriteOptions } from './options.ts';
import { replaceObject } from './replace.ts';
import { track } from './tracking.ts';
import { allowsCreateOnUpdate } from './traits.ts';
import { metadataOf } from './types.ts';

/** Replaces an object, or the part of it that a subresource stands for. */
export async function update(core: Core, call: Call): Promise<ApiResult> {
  const options = readWriteOptions(call.query, 'UpdateOptions');
  const sent = readBody(core, call, options.fieldValidation);
  applyDefaults(call, sent);
  matchNamespace(sent, call.scope);
  matchName(sent, call.name);
  return replaceObject(core, call, {
    options,
    createsMissing: allowsCreateOnUpdate(call.info),
    uid: metadataOf(sent).uid ?? '',
    next(existing) {
      const object = structuredClone(sent);
      track(core, call, options.fieldManager, object, existing);
      return object;
    },
  });
}
