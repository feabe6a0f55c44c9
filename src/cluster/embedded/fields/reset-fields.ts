import type { ResourceKey } from '../types.ts';

/** The fields that a request to a (sub)resource cannot change and hence never owns. */
export interface ResetFields {
  readonly paths: readonly (readonly string[])[];
  /** True where `paths` are the only fields that can be changed. */
  readonly only: boolean;
}

/** Which fields a resource resets, by subresource (`''`: the object itself). */
export declare function resetFieldsOf(
  resource: ResourceKey,
  subresource: string,
  custom?: { hasStatus: boolean },
): ResetFields;
