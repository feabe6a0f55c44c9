/** The registry of controllers. To add a controller, add a file to this folder and a line to the array. */
import type { Store } from '../cluster/store.ts';
import type { Settings } from '../config/settings.ts';
import { deepEqual } from '../kube/equality.ts';
import { admissionPolicies, admissionPolicyStandby } from './admission-policies.ts';
import { configObserver } from './config-observer.ts';
import { type Controller, type ControllerContext, type ControllerDefinition, isDisabled } from './controller.ts';
import { createNamespaceEvaluations } from './evaluations.ts';
import { exceptions } from './exceptions.ts';
import { kubeletEnforcement } from './kubelet-enforcement.ts';
import { kubeletMinimum } from './kubelet-minimum.ts';
import { kubeletReporter } from './kubelet-reporter.ts';
import { labelSyncer } from './label-syncer.ts';
import { namespaceEvaluator } from './namespace-evaluator.ts';
import { olmAutoLabeler } from './olm-auto-labeler.ts';
import type { Features } from './permissions.ts';
import { policyReports } from './policy-reports.ts';
import { readiness } from './readiness.ts';
import { followRemovedGrants } from './removed-grants.ts';
import { replica } from './replica.ts';
import { runLevelZeroLabeler } from './run-level-zero-labeler.ts';
import { sccGrantExpiry } from './scc-grant-expiry.ts';
import { servingCertificate } from './serving-certificate.ts';
import { settingsStatus } from './settings-status.ts';
import { standardSccs } from './standard-sccs.ts';
import { uidRangeAllocator, uidRangeStandby } from './uid-range-allocator.ts';
import { unreviewedPods } from './unreviewed-pods.ts';
import { webhookConfigurations } from './webhook-configurations.ts';

/** All controllers, in startup order. */
export const CONTROLLERS: readonly ControllerDefinition[] = [
  servingCertificate,
  replica,
  settingsStatus,
  webhookConfigurations,
  admissionPolicies,
  admissionPolicyStandby,
  unreviewedPods,
  exceptions,
  uidRangeAllocator,
  uidRangeStandby,
  standardSccs,
  sccGrantExpiry,
  labelSyncer,
  runLevelZeroLabeler,
  configObserver,
  namespaceEvaluator,
  readiness,
  policyReports,
  olmAutoLabeler,
  kubeletMinimum,
  kubeletEnforcement,
  kubeletReporter,
];

/** Names that `spec.controllers.disabled` accepts. */
export const CONTROLLER_NAMES: readonly string[] = CONTROLLERS.map(({ name }) => name);

/** Returns the controllers that the features require and the settings do not disable. */
export function enabledControllers(
  features: Features,
  disabled: readonly string[] = [],
  registry: readonly ControllerDefinition[] = CONTROLLERS,
): readonly ControllerDefinition[] {
  return registry.filter((controller) => controller.isEnabled(features) && !isDisabled(controller, disabled));
}

export function createController(
  { name, runsOn, create }: ControllerDefinition,
  context: ControllerContext,
): Controller {
  return { name, runsOn, create: (store) => create(context, store) };
}

/**
 * Creates a function that returns the controllers for the current settings. When the settings for SCC admission, ranges
 * or defaults change, it recreates the controllers that read them in `create`.
 */
export function createControllerSelector(
  dependencies: Omit<ControllerContext, 'removedGrants' | 'evaluations'>,
  features: (settings: Settings) => Features,
  store: Store,
): () => readonly Controller[] {
  const context = {
    ...dependencies,
    removedGrants: followRemovedGrants(store, dependencies.date),
    evaluations: createNamespaceEvaluations(),
  };
  const created = new Map<ControllerDefinition, Controller>();
  let basis: unknown;
  return () => {
    const { scc, ranges, defaults, disabledControllers } = context.settings.value;
    if (!deepEqual(basis, { scc, ranges, defaults })) {
      for (const controller of CONTROLLERS) if (controller.readsSettings) created.delete(controller);
      basis = { scc, ranges, defaults };
    }
    return enabledControllers(features(context.settings.value), disabledControllers).map((definition) => {
      const controller = created.get(definition) ?? createController(definition, context);
      created.set(definition, controller);
      return controller;
    });
  };
}
