/** The registry of controllers. A new controller is one file in this folder and one line in this array. */
import { configObserver } from './config-observer.ts';
import type { Controller, ControllerContext, ControllerDefinition, Features } from './controller.ts';
import { labelSyncer } from './label-syncer.ts';
import { readiness } from './readiness.ts';
import { replica } from './replica.ts';
import { runLevelZeroLabeler } from './run-level-zero-labeler.ts';
import { servingCertificate } from './serving-certificate.ts';
import { standardSccs } from './standard-sccs.ts';
import { uidRangeAllocator } from './uid-range-allocator.ts';

/** All controllers, in the order in which they start. */
export const CONTROLLERS: readonly ControllerDefinition[] = [
  servingCertificate,
  replica,
  uidRangeAllocator,
  standardSccs,
  labelSyncer,
  runLevelZeroLabeler,
  configObserver,
  readiness,
];

/** The names that `spec.controllers.disabled` of the settings accepts. */
export const CONTROLLER_NAMES: readonly string[] = CONTROLLERS.map(({ name }) => name);

/** The controllers that the features need and that are not disabled. */
export function enabledControllers(
  features: Features,
  disabled: readonly string[] = [],
  registry: readonly ControllerDefinition[] = CONTROLLERS,
): readonly ControllerDefinition[] {
  return registry.filter((one) => one.isEnabled(features) && !disabled.includes(one.name));
}

export function createControllers(
  definitions: readonly ControllerDefinition[],
  context: ControllerContext,
): readonly Controller[] {
  return definitions.map(({ name, runsOn, create }) => ({ name, runsOn, ...create(context) }));
}
