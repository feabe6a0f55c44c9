/** Writes the readiness controller's decisions and events. */
import { ignoreNotFound } from '../cluster/client.ts';
import { refusalEvent } from '../cluster/workload-events.ts';
import { POD_SOURCES } from '../cluster/workloads.ts';
import type { Condition } from '../kube/conditions.ts';
import { defined } from '../kube/defined.ts';
import { deepEqual } from '../kube/equality.ts';
import { PSA_ENFORCEMENT_CONFIG, type PSAEnforcementConfig } from '../kube/psa-enforcement-config.ts';
import { typeMeta } from '../kube/resources.ts';
import { ApiError } from '../kube/status.ts';
import { summarizeNames, printCount } from '../kube/text.ts';
import type { Namespace } from '../kube/types.ts';
import { printEvaluatedAs, printLevel, printPodSecurity } from '../policy/psa/policy.ts';
import { forcedWarning, ROLLOUT_MANAGER } from '../policy/rollout/enforcement.ts';
import type { NamespaceEvaluation, ViolatingWorkload } from '../policy/rollout/evaluation.ts';
import { decidedConditions, type Decision } from '../policy/rollout/readiness.ts';
import type { ReconcileContext } from './controller.ts';
import type { ControllerEvent } from './events.ts';

const OPTIONS = { fieldManager: ROLLOUT_MANAGER };
const metadata = { name: PSA_ENFORCEMENT_CONFIG };

/**
 * Creates the configuration object without a mode, so the first manager that sets the mode owns it. Resolves to
 * `undefined` if the cluster does not serve the kind.
 */
export async function createConfig({ cluster, logger }: ReconcileContext): Promise<PSAEnforcementConfig | undefined> {
  const created = await ignoreNotFound(cluster.apply('PSAEnforcementConfig', { metadata, spec: {} }, OPTIONS));
  if (created) logger.info('PSAEnforcementConfig created');
  return created;
}

/**
 * Writes a decision if the object differs. If another manager owns the mode, resolves to `conflict` and writes nothing.
 */
export async function writeDecision(
  object: PSAEnforcementConfig,
  decision: Decision,
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
  decision: Decision,
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
export function recordViolations(
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

/** A workload whose pods are denied or would be denied under enforcement. */
export interface WorkloadRefusal {
  readonly namespace: string;
  readonly workload: ViolatingWorkload;
}

/** Records an event for a denied workload. */
export function recordRefusal(
  { namespace, workload: { kind, name, verdict, level, version, violations } }: WorkloadRefusal,
  { cluster, recordEvent }: ReconcileContext,
): void {
  const source = POD_SOURCES.find((known) => known === kind && known !== 'Pod');
  const object = source && cluster.store.get(source, name, namespace);
  if (!object) return;
  const reasons = violations.map(({ reason, detail }) => `${reason}${detail === '' ? '' : ` (${detail})`}`);
  const denied = { level, version };
  const text = `pods ${verdict === 'deniedNow' ? '' : 'would '}violate ${printPodSecurity(denied)}: ${reasons.join(', ')}`;
  const workload = { ...typeMeta(source), metadata: { name, namespace } };
  const { note, ...event } = refusalEvent(workload, {
    policy: 'PodSecurity',
    action: 'EvaluatePodSecurity',
    text,
    denied,
  });
  recordEvent(source, object, { ...event, message: note });
}

/** Records an event because deleting the object has ended enforcement. */
export function recordDeletion(created: PSAEnforcementConfig, { recordEvent }: ReconcileContext): void {
  recordEvent('PSAEnforcementConfig', created, {
    type: 'Warning',
    reason: 'EnforcementConfigDeleted',
    action: 'Create',
    message: 'the object was deleted while the default level was restricted: enforcement ends',
  });
}

/** Records events for changed decisions, and for violations that a forced mode ignores. */
export function recordDecision(
  object: PSAEnforcementConfig,
  { spec, status }: Decision,
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
