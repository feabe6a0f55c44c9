import { kindOf, typeOf } from './body.ts';
import type { Call, Core } from './core.ts';
import { managerOf, trackUpdate, type UpdateRequest } from './fields/index.ts';
import type { ApiObject } from './types.ts';

/** Under which name, and for which fields, a request owns what it writes. */
export type Ownership = Omit<UpdateRequest, 'live' | 'object'>;

export function ownershipOf(core: Core, call: Call, fieldManager: string | undefined): Ownership {
  return {
    resource: call.info,
    subresource: call.subresource?.name ?? '',
    type: typeOf(core, kindOf(call)),
    manager: managerOf(fieldManager, call.userAgent),
    now: core.clock(),
  };
}

/** Records who owns the fields of an object that a request creates or changes. */
export function track(
  core: Core,
  call: Call,
  fieldManager: string | undefined,
  object: ApiObject,
  live?: ApiObject,
): void {
  trackUpdate({ ...ownershipOf(core, call, fieldManager), object, ...(live ? { live } : {}) });
}
