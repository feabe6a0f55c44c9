/** Decides whether to enforce based on the evaluations of all namespaces, and writes the decision. */
import { INSTALLATION } from '../api/names.ts';
import { ignoreNotFound } from '../cluster/client.ts';
import type { Store } from '../cluster/store.ts';
import type { Condition } from '../kube/conditions.ts';
import { defined } from '../kube/defined.ts';
import { deepEqual } from '../kube/equality.ts';
import {
  ENFORCEMENT_MODES,
  PSA_ENFORCEMENT_CONFIG,
  type PSAEnforcementConfig,
} from '../kube/psa-enforcement-config.ts';
import { ApiError } from '../kube/status.ts';
import { printCount, summarizeNames } from '../kube/text.ts';
import type { Namespace } from '../kube/types.ts';
import { parseTimestamp } from '../kube/units.ts';
import { printEvaluatedAs, printLevel } from '../policy/psa/index.ts';
import {
  decidedConditions,
  decideReadiness,
  type ReadinessDecision,
  forcedWarning,
  isBlocking,
  isSweepAwaited,
  type NamespaceEvaluation,
  newlyViolating,
  ROLLOUT_MANAGER,
  type RolloutView,
} from '../policy/rollout/index.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { getRolloutView } from '../views/rollout.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  type ReconcileContext,
  type Reconciler,
  watch,
  watchValue,
} from './controller.ts';
import type { ControllerEvent } from './events.ts';
import { rbacRule, statusRule } from './permissions.ts';

export const readiness: ControllerDefinition = {
  name: ROLLOUT_MANAGER,
  description: 'decides whether to enforce the restricted level by default, based on the evaluations of all namespaces',
  runsOn: 'leader',
  permissions: [
    {
      role: 'readiness',
      clusterRules: [
        rbacRule(['create', 'patch'], ['PSAEnforcementConfig'], [PSA_ENFORCEMENT_CONFIG]),
        statusRule(['patch'], 'PSAEnforcementConfig'),
      ],
    },
  ],
  isEnabled: ({ evaluation }) => evaluation,
  create: createReconciler,
};

/** Interval between decisions, which depend on the age of the last evaluation. */
const CHECK_MS = 5_000;
/** Retry interval for creating the configuration object while the cluster does not serve its kind. */
const UNSERVED_MS = 30_000;
const EVENTS_PER_BATCH = 20;
const BATCH_MS = 1_000;

/** Reconciles the PSAEnforcementConfig. In the Disabled phase, there are no decisions. */
function createReconciler(
  { settings, evaluations, metrics, service, version, date }: ControllerContext,
  store: Store,
): Reconciler {
  /** Violating namespaces whose event has not been recorded yet. */
  const unrecorded: string[] = [];
  /** Generation for which the API server has rejected the mode, because another manager owns the field. */
  let rejectedGeneration: number | undefined;

  const getView = (): RolloutView =>
    getRolloutView({ store, namespace: service.namespace, version }, settings.value.rollout);
  const decide = async (
    object: PSAEnforcementConfig,
    { gate, published }: RolloutView,
    context: ReconcileContext,
  ): Promise<void> => {
    const { generation } = object.metadata ?? {};
    const decision = decideReadiness({
      object,
      settings: settings.value.rollout,
      gate,
      published,
      sweep: evaluations.sweep(),
      findNamespace: (name) => store.get('Namespace', name),
      nowMs: date().getTime(),
      isSpecRejected: rejectedGeneration !== undefined && rejectedGeneration === generation,
    });
    const outcome = await writeDecision(object, decision, context);
    if (outcome === 'conflict') {
      rejectedGeneration = generation;
      context.enqueue(PSA_ENFORCEMENT_CONFIG);
    }
    if (outcome !== 'written') return;
    recordDecision(object, decision, context);
    unrecorded.push(...newlyViolating(object, decision));
  };
  const recordNamespaces = (context: ReconcileContext): void => {
    for (const name of unrecorded.splice(0, EVENTS_PER_BATCH)) {
      const namespace = store.get('Namespace', name);
      const evaluation = evaluations.get(name);
      if (namespace && evaluation && isBlocking(evaluation)) recordViolations(namespace, evaluation, context);
    }
  };
  return {
    initialKeys: [PSA_ENFORCEMENT_CONFIG],
    sources: [
      watchValue(settings, () => [PSA_ENFORCEMENT_CONFIG]),
      watch('PSAEnforcementConfig', () => [PSA_ENFORCEMENT_CONFIG]),
      { subscribe: (enqueue) => evaluations.subscribe({ onComplete: () => enqueue([PSA_ENFORCEMENT_CONFIG]) }) },
    ],
    async reconcile(_key, context) {
      const { phase } = settings.value.rollout;
      if (phase === 'Disabled') {
        resetStatusMetrics(metrics.rollout.readiness);
        return undefined;
      }
      const object = getConfig(store);
      if (!object) {
        const wasEnforcing = getView().published === 'restricted';
        const created = await createConfig(context);
        if (created && wasEnforcing) recordDeletion(created, context);
        return { requeueAfterMs: created ? CHECK_MS : UNSERVED_MS };
      }
      const view = getView();
      const sweep = evaluations.sweep();
      const changedSinceMs = evaluations.changedSinceMs();
      if (!isSweepAwaited({ object, settings: settings.value.rollout, sweep, changedSinceMs })) {
        await decide(object, view, context);
      }
      setStatusMetrics(metrics.rollout.readiness, getConfig(store) ?? object, view);
      recordNamespaces(context);
      return { requeueAfterMs: unrecorded.length > 0 ? BATCH_MS : CHECK_MS };
    },
    onStop() {
      resetStatusMetrics(metrics.rollout.readiness);
      return Promise.resolve();
    },
  };
}

function getConfig(store: Store): PSAEnforcementConfig | undefined {
  return store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
}

const OPTIONS = { fieldManager: ROLLOUT_MANAGER };
const metadata = { name: PSA_ENFORCEMENT_CONFIG };

/**
 * Creates the configuration object without a mode, so the first manager that sets the mode owns it. Resolves to
 * `undefined` if the cluster does not serve the kind.
 */
async function createConfig({ cluster, logger }: ReconcileContext): Promise<PSAEnforcementConfig | undefined> {
  const created = await ignoreNotFound(cluster.apply('PSAEnforcementConfig', { metadata, spec: {} }, OPTIONS));
  if (created) logger.info('PSAEnforcementConfig created');
  return created;
}

/**
 * Writes a decision if the object does not contain it. If another manager owns the mode, resolves to `conflict` and
 * writes nothing.
 */
async function writeDecision(
  object: PSAEnforcementConfig,
  decision: ReadinessDecision,
  { cluster, logger }: ReconcileContext,
): Promise<'unchanged' | 'conflict' | 'written'> {
  let { generation } = object.metadata ?? {};
  if (decision.spec !== (object.spec?.enforcementMode ?? '')) {
    const spec = { enforcementMode: decision.spec };
    try {
      const written = await cluster.apply('PSAEnforcementConfig', { metadata, spec }, OPTIONS);
      ({ generation } = written.metadata ?? {});
    } catch (error) {
      if (isOwnedByOthers(error)) return 'conflict';
      throw error;
    }
    logger.info({ mode: decision.spec }, 'mode proposed');
  } else if (isWritten(object, decision)) return 'unchanged';
  const status = { ...decision.status, ...defined({ observedGeneration: generation }) };
  await cluster.applyStatus('PSAEnforcementConfig', { metadata, status }, { ...OPTIONS, force: true });
  if ((object.status?.enforcementMode ?? '') !== status.enforcementMode) {
    logger.info({ mode: status.enforcementMode }, 'mode decided');
  }
  return 'written';
}

function isOwnedByOthers(error: unknown): boolean {
  const causes = error instanceof ApiError && error.status.code === 409 ? error.status.details?.causes : undefined;
  return causes?.some(({ reason }) => reason === 'FieldManagerConflict') === true;
}

/** Returns true if the status contains the decision for the current generation. */
function isWritten(
  { metadata: { generation } = {}, status: before }: PSAEnforcementConfig,
  decision: ReadinessDecision,
): boolean {
  const { status } = decision;
  return (
    (before?.enforcementMode ?? '') === status.enforcementMode &&
    before?.observedGeneration === generation &&
    (before?.lastEvaluationTime ?? undefined) === status.lastEvaluationTime &&
    deepEqual(before?.violatingNamespaces ?? [], status.violatingNamespaces) &&
    deepEqual(byType(decidedConditions(before, decision)), byType(status.conditions))
  );
}

function byType(conditions: readonly Condition[]): Readonly<Record<string, Condition>> {
  return Object.fromEntries(conditions.map((condition) => [condition.type, condition]));
}

/** Records an event about the effect of enforcement on a namespace. */
function recordViolations(
  namespace: Namespace,
  { level, version, workloads }: NamespaceEvaluation,
  { recordEvent }: ReconcileContext,
): void {
  const denied = workloads.filter(({ verdict }) => verdict !== 'restart');
  const count = printCount(denied.length, 'workload');
  const names = summarizeNames(denied.map(({ kind, name }) => `${kind}/${name}`));
  recordEvent('Namespace', namespace, {
    type: 'Warning',
    reason: 'PodSecurityViolations',
    action: 'EvaluatePodSecurity',
    message: `enforcement would apply the ${printLevel({ level, version })} level${printEvaluatedAs({ level, version })} to this namespace and deny ${count}: ${names}`,
  });
}

/** Records an event because deleting the object has ended enforcement. */
function recordDeletion(created: PSAEnforcementConfig, { recordEvent }: ReconcileContext): void {
  recordEvent('PSAEnforcementConfig', created, {
    type: 'Warning',
    reason: 'EnforcementConfigDeleted',
    action: 'Create',
    message: 'the object was deleted while the default level was restricted, so enforcement ends',
  });
}

/** Records events for changed decisions, and for violations that a forced mode ignores. */
function recordDecision(
  object: PSAEnforcementConfig,
  { spec, status }: ReadinessDecision,
  { recordEvent }: ReconcileContext,
): void {
  const record = (type: ControllerEvent['type'], reason: string, message: string): void =>
    recordEvent('PSAEnforcementConfig', object, { type, reason, action: 'Decide', message });
  const isNewSpec = object.status?.observedGeneration !== object.metadata?.generation;
  const forced = isNewSpec ? forcedWarning({ ...object, status }, undefined) : undefined;
  if (forced !== undefined) record('Warning', 'EnforcementForced', forced);
  if (spec !== (object.spec?.enforcementMode ?? '')) {
    record('Warning', 'LegacyProposed', 'workloads would be denied, so spec.enforcementMode was set to Legacy');
  }
  if (status.enforcementMode !== (object.status?.enforcementMode ?? '')) {
    record('Normal', 'EnforcementDecided', `status.enforcementMode is set to "${status.enforcementMode ?? ''}"`);
  }
}

type ReadinessMetrics = Metrics['rollout']['readiness'];

function setStatusMetrics(metrics: ReadinessMetrics, { status }: PSAEnforcementConfig, view: RolloutView): void {
  for (const mode of ENFORCEMENT_MODES) {
    metrics.enforcementMode.set({ mode }, (status?.enforcementMode ?? '') === mode ? 1 : 0);
  }
  metrics.enforcing.set(view.enforce === 'restricted' ? 1 : 0);
  metrics.lastEvaluation.set((parseTimestamp(status?.lastEvaluationTime) ?? 0) / 1000);
  metrics.progressing.reset();
  metrics.operatorConditions.reset();
  for (const { type, reason, status: value } of status?.conditions ?? []) {
    if (type === 'Progressing' && value === 'True') metrics.progressing.set({ reason }, 1);
    if (!type.endsWith('EvaluationConditionsDetected')) continue;
    metrics.operatorConditions.set({ name: INSTALLATION.name, condition: type, reason }, value === 'True' ? 1 : 0);
  }
}

function resetStatusMetrics(metrics: ReadinessMetrics): void {
  metrics.enforcementMode.reset();
  metrics.operatorConditions.reset();
  metrics.progressing.reset();
  metrics.enforcing.reset();
  metrics.lastEvaluation.reset();
}
