import type { ApiObject } from '../types.ts';
import type { ResetFields } from './reset-fields.ts';
import type { ObjectType } from './types.ts';

export interface Ownership {
  readonly type: ObjectType;
  /** The version of the request, such as `apps/v1`. */
  readonly apiVersion: string;
  readonly subresource: string;
  readonly manager: string;
  readonly now: Date;
  readonly resetFields: ResetFields;
  /** True for resources of CustomResourceDefinitions: a new one is compared with nothing. */
  readonly custom: boolean;
}

export interface UpdateRequest extends Ownership {
  /** As stored; absent on create. */
  readonly live?: ApiObject;
  /** As decoded and defaulted, before admission; its `metadata.managedFields` is set. */
  readonly object: ApiObject;
}

/** The name under which a request owns fields: `fieldManager`, or the User-Agent up to its slash. */
export declare function managerOf(fieldManager: string | undefined, userAgent: string | undefined): string;

/** Sets `metadata.managedFields` of an object that is created, updated or patched. */
export declare function trackUpdate(request: UpdateRequest): void;
