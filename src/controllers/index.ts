import { LABEL_SYNC_MANAGER, RUN_LEVEL_ZERO_MANAGER } from '../kube/well-known.ts';
import { ROLLOUT_MANAGER } from '../policy/rollout/enforcement.ts';
import type { RangeSettings } from '../policy/uid-range/ranges.ts';
import type { Controller } from './controller.ts';
import { PSA_CONFIG_OBSERVER } from './config-observer.ts';
import { REPLICA_CONTROLLER } from './replica.ts';
import { SERVING_CERTIFICATE_CONTROLLER } from './serving-certificate.ts';
import { STANDARD_SCC_CONTROLLER, standardSccs } from './standard-sccs.ts';
import { createUidRangeAllocator, UID_RANGE_ALLOCATOR } from './uid-range-allocator.ts';

export interface ControllersOptions {
  readonly ranges: RangeSettings;
}

/** The names of all controllers. */
export const CONTROLLER_NAMES: readonly string[] = [
  SERVING_CERTIFICATE_CONTROLLER,
  REPLICA_CONTROLLER,
  UID_RANGE_ALLOCATOR,
  STANDARD_SCC_CONTROLLER,
  LABEL_SYNC_MANAGER,
  RUN_LEVEL_ZERO_MANAGER,
  PSA_CONFIG_OBSERVER,
  ROLLOUT_MANAGER,
];

/** The controllers of the program, in the order in which they start. */
export function createControllers({ ranges }: ControllersOptions): readonly Controller[] {
  return [createUidRangeAllocator(ranges), standardSccs];
}
