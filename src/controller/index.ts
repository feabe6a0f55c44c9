import type { RangeSettings } from '../policy/uid-range/settings.ts';
import type { Controller } from './controller.ts';
import { standardSccs } from './standard-sccs.ts';
import { createUidRangeAllocator } from './uid-range-allocator.ts';

/** The controllers of the program, in the order in which they start. */
export function createControllers(options: { readonly ranges: RangeSettings }): readonly Controller[] {
  return [createUidRangeAllocator(options.ranges), standardSccs];
}
