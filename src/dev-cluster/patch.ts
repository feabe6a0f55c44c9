import { ApiError, notFound } from '../kube/status.ts';
import { applyDefaults, kindOf, mediaType, typeOf } from './body.ts';
import type { ApiResult, Call, Core } from './core.ts';
import { unsupportedMediaType, unsupportedPatchType } from './errors.ts';
import { applyConfiguration, applyPatch, decodeConfiguration, type PatchMediaType } from './fields/index.ts';
import { APPLY, readWriteOptions, type WriteOptions } from './options.ts';
import { replaceObject, type Change } from './replace.ts';
import { ownershipOf, track } from './tracking.ts';

const JSON_PATCH = 'application/json-patch+json';
const MERGE_PATCH = 'application/merge-patch+json';
const STRATEGIC_MERGE_PATCH = 'application/strategic-merge-patch+json';

/** Changes a part of an object, or applies a configuration to it. */
export async function patch(core: Core, call: Call): Promise<ApiResult> {
  return replaceObject(core, call, readPatch(core, call));
}

/** What a patch does to the object that it meets. Throws ApiError 415 for patches of another type. */
export function readPatch(core: Core, call: Call): Change {
  const type = patchType(call);
  const options = readWriteOptions(call.query, 'PatchOptions', type);
  return type === APPLY ? applied(core, call, options) : patched(core, call, options, type);
}

function patchType(call: Call): PatchMediaType | typeof APPLY {
  const type = mediaType(call.contentType);
  const accepted = [JSON_PATCH, MERGE_PATCH, ...(call.info.custom ? [] : [STRATEGIC_MERGE_PATCH]), APPLY];
  if (!accepted.includes(type)) throw call.info.custom ? unsupportedMediaType(accepted) : unsupportedPatchType();
  return type as PatchMediaType | typeof APPLY;
}

function patched(core: Core, call: Call, options: WriteOptions, mediaType: PatchMediaType): Change {
  const { fieldManager, fieldValidation } = options;
  const type = typeOf(core, kindOf(call));
  return {
    options,
    createsMissing: true,
    next(existing) {
      if (!existing) throw new ApiError(notFound(call.info, call.name));
      const { object, warnings } = applyPatch({ object: existing, text: call.body, mediaType, type, fieldValidation });
      for (const warning of warnings) call.context.warn(warning);
      applyDefaults(call, object);
      track(core, call, fieldManager, object, existing);
      return object;
    },
  };
}

function applied(core: Core, call: Call, options: WriteOptions): Change {
  const kind = kindOf(call);
  return {
    options,
    createsMissing: true,
    next(existing) {
      const { object: config, warnings } = decodeConfiguration({ text: call.body });
      const object = applyConfiguration({
        ...ownershipOf(core, call, options.fieldManager),
        ...(existing ? { live: existing } : {}),
        config,
        kind,
        force: options.force,
      });
      applyDefaults(call, object);
      for (const warning of warnings) call.context.warn(warning);
      return object;
    },
  };
}
