import { deepEqual } from '../kube/equality.ts';
import { PSA_ENFORCEMENT_CONFIG, type PSAEnforcementConfig } from '../kube/psa-enforcement-config.ts';
import { ApiError } from '../kube/status.ts';
import { ROLLOUT_MANAGER, forcedWarning } from '../policy/rollout/enforcement.ts';
import type { ControllerEvent, ReconcileContext, RecordEvent } from './controller.ts';
import { isSaid, type Decision } from './readiness.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { REPORT_NAME, buildReport, type NamespaceEvaluation } from '../policy/rollout/readiness.ts';
import type { Namespace } from '../kube/types.ts';
import { summarizeNames } from '../kube/text.ts';

const metadata = { name: PSA_ENFORCEMENT_CONFIG };

/** Creates the object, which asks for nothing; resolves to `undefined` if the cluster does not serve its kind. */
export async function createConfig({ cluster, logger }: ReconcileContext): Promise<PSAEnforcementConfig | undefined> {
  try {
    // Nobody is to own the mode: whoever sets it first is to have it.
    const by = { fieldManager: ROLLOUT_MANAGER };
    const created = await cluster.apply('PSAEnforcementConfig', { metadata, spec: {} }, by);
    logger.info('PSAEnforcementConfig created');
    return created;
  } catch (error) {
    if (error instanceof ApiError && error.status.code === 404) return undefined;
    throw error;
  }
}

/**
 * Writes a decision where the object does not say it yet. The mode is proposed only: resolves to `refused` where the API
 * server says that it is somebody else's, and nothing is written then.
 */
export async function writeDecision(
  object: PSAEnforcementConfig,
  decision: Decision,
  { cluster, logger }: ReconcileContext,
): Promise<'unchanged' | 'refused' | 'written'> {
  let { generation } = object.metadata ?? {};
  const isNewSpec = decision.spec !== (object.spec?.enforcementMode ?? '');
  if (isNewSpec) {
    const spec = { enforcementMode: decision.spec };
    try {
      const written = await cluster.apply(
        'PSAEnforcementConfig',
        { metadata, spec },
        { fieldManager: ROLLOUT_MANAGER },
      );
      ({ generation } = written.metadata ?? {});
    } catch (error) {
      if (isOwnedByOthers(error)) return 'refused';
      throw error;
    }
    logger.info({ mode: decision.spec }, 'mode proposed');
  } else if (isSaid(object, decision)) return 'unchanged';
  const status = { ...decision.status, ...(generation === undefined ? {} : { observedGeneration: generation }) };
  await cluster.applyStatus(
    'PSAEnforcementConfig',
    { metadata, status },
    { fieldManager: ROLLOUT_MANAGER, force: true },
  );
  if (!deepEqual(object.status?.enforcementMode ?? '', status.enforcementMode)) {
    logger.info({ mode: status.enforcementMode }, 'mode decided');
  }
  return 'written';
}

function isOwnedByOthers(error: unknown): boolean {
  const causes = error instanceof ApiError && error.status.code === 409 ? error.status.details?.causes : undefined;
  return causes?.some(({ reason }) => reason === 'FieldManagerConflict') === true;
}

/** One report for each namespace that violates, where the cluster serves reports. */
interface Reports {
  /** The namespace has to be looked at; where nothing is to be done that costs nothing. */
  want(name: string): void;
  /** Writes some of what is to be written; true if more is to come. */
  write(cluster: Cluster, current: Current): Promise<boolean>;
  /** Reports may be served by now. */
  lookAgain(): void;
}

interface Current {
  readonly fieldManager: string;
  /** What is known of a namespace now. */
  find(name: string): NamespaceEvaluation | undefined;
  readonly seconds: number;
}

const BATCH = 20;

/** Makes the keeper of reports, which remembers what it has written. */
export function createReports(): Reports {
  const wanted = new Set<string>();
  const written = new Map<string, NamespaceEvaluation>();
  let isServed = true;

  const keep = async (name: string, cluster: Cluster, current: Current): Promise<void> => {
    const found = current.find(name);
    if (found?.verdict === 'violating') {
      if (deepEqual(written.get(name)?.workloads, found.workloads)) return;
      const { fieldManager, seconds } = current;
      await cluster.apply('Report', buildReport(found, { seconds }), { fieldManager, force: true });
      written.set(name, found);
      return;
    }
    // What could not be judged stays as it was.
    if (found?.verdict === 'inconclusive') return;
    await cluster.remove('Report', REPORT_NAME, name);
    written.delete(name);
  };
  return {
    want: (name) => void wanted.add(name),
    lookAgain: () => void (isServed = true),
    async write(cluster, current) {
      if (!isServed) wanted.clear();
      for (const name of [...wanted].slice(0, BATCH)) {
        try {
          await keep(name, cluster, current);
        } catch (error) {
          if (!isRefused(error)) throw error;
          written.delete(name);
          if (isUnserved(error)) isServed = false;
        }
        wanted.delete(name);
        if (!isServed) wanted.clear();
      }
      return wanted.size > 0;
    },
  };
}

function isRefused(error: unknown): error is ApiError {
  return error instanceof ApiError && (error.status.code === 404 || error.status.code === 403);
}

/** An object that is missing is named. Who may not write reports does without. */
function isUnserved({ status }: ApiError): boolean {
  return status.code === 403 || (status.details?.name ?? '') === '';
}

/** What enforcement would do to a namespace. */
export function violationNote(
  namespace: Namespace,
  { level, workloads }: NamespaceEvaluation,
  recordEvent: RecordEvent,
): void {
  const count = `${workloads.length} ${workloads.length === 1 ? 'workload' : 'workloads'}`;
  const names = summarizeNames(workloads.map(({ kind, name }) => `${kind}/${name}`));
  recordEvent('Namespace', namespace, {
    type: 'Warning',
    reason: 'PodSecurityViolations',
    action: 'EvaluatePodSecurity',
    message: `enforcement would hold this namespace to ${level} and refuse ${count}: ${names}`,
  });
}

/** Who deletes the object takes back what it says. */
export function deletionNote(created: PSAEnforcementConfig, recordEvent: RecordEvent): void {
  recordEvent('PSAEnforcementConfig', created, {
    type: 'Warning',
    reason: 'EnforcementConfigDeleted',
    action: 'Create',
    message: 'the object was deleted while namespaces were held to restricted: they are not any more',
  });
}

/** What a decision changes, and what an administrator who asks for it should know. */
export function decisionNotes(
  object: PSAEnforcementConfig,
  { spec, status }: Decision,
  recordEvent: RecordEvent,
): void {
  const asked = object.spec?.enforcementMode ?? '';
  const before = object.status?.enforcementMode ?? '';
  const isNews = object.status?.observedGeneration !== object.metadata?.generation;
  const forced = isNews ? forcedWarning({ ...object, status }, undefined) : undefined;
  const record = (type: ControllerEvent['type'], reason: string, message: string): void =>
    recordEvent('PSAEnforcementConfig', object, { type, reason, action: 'Decide', message });
  if (forced !== undefined) record('Warning', 'EnforcementForced', forced);
  if (spec !== asked) {
    record('Warning', 'LegacyProposed', 'workloads would be refused: spec.enforcementMode becomes Legacy');
  }
  if (status.enforcementMode !== before) {
    record('Normal', 'EnforcementDecided', `status.enforcementMode becomes "${status.enforcementMode ?? ''}"`);
  }
}

/** The names of namespaces that have not violated before. */
export function newlyViolating(
  { status: before }: PSAEnforcementConfig,
  { violatingNamespaces }: NonNullable<PSAEnforcementConfig['status']>,
): readonly string[] {
  const isCurrent = ({ state }: { readonly state?: string | null }): boolean => state !== 'Previous';
  const known = new Set(before?.violatingNamespaces?.filter(isCurrent).map(({ name }) => name));
  return (violatingNamespaces ?? []).filter(isCurrent).flatMap(({ name }) => (known.has(name) ? [] : name));
}
