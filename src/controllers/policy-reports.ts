/**
 * Reports the evaluations of namespaces in the first report API that the cluster serves, and as events for workloads.
 */
import { createHash } from 'node:crypto';
import { CONFIGURATION_NAME } from '../api/names.ts';
import { ignoreNotFound, isNotFound } from '../cluster/client.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { Store } from '../cluster/store.ts';
import { defined } from '../kube/defined.ts';
import type { Kind } from '../kube/kinds.ts';
import { getPodTemplate, hasFinished, podTemplatePath } from '../kube/pod.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../kube/psa-enforcement-config.ts';
import { objectName, resourceName, RESOURCES, typeMeta } from '../kube/resources.ts';
import { ApiError } from '../kube/status.ts';
import type { KubeObject, PodLike, Report, ReportSubject } from '../kube/types.ts';
import { type Exemptions, printPodSecurity } from '../policy/psa/index.ts';
import {
  buildClusterReport,
  buildReport,
  type NamespaceEvaluation,
  REPORT_APIS,
  REPORT_NAME,
  type ReportApi,
  type ReportedWorkload,
  type ReportOwner,
  ROLLOUT_MANAGER,
  type ViolatingWorkload,
} from '../policy/rollout/index.ts';
import { effectivePodSecurity } from '../views/rollout.ts';
import {
  findPodWorkload,
  type WorkloadReference,
  listPodSources,
  POD_SOURCES,
  TEMPLATE_KINDS,
} from '../views/workloads.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  isDisabled,
  type ReconcileContext,
  type Reconciler,
  runYielding,
  watchValue,
} from './controller.ts';
import { workloadDenialEvent } from './denial-events.ts';
import { type EvaluationChange, wasViolating } from './evaluations.ts';
import { rbacRule } from './permissions.ts';

export const policyReports: ControllerDefinition = {
  name: 'policy-report-controller',
  description: 'writes reports about workloads that are or would be denied, and records events for them',
  runsOn: 'leader',
  disabledWith: ROLLOUT_MANAGER,
  permissions: [
    {
      role: 'policy-reports',
      clusterRules: REPORT_APIS.map(({ namespaced, cluster }) =>
        rbacRule(['create', 'patch', 'delete'], [namespaced, cluster], [REPORT_NAME]),
      ),
    },
  ],
  isEnabled: ({ evaluation }) => evaluation,
  create: createReconciler,
};

const OPTIONS = { fieldManager: ROLLOUT_MANAGER, force: true };
/** Maximum number of reports in a batch. The same limit applies to events. */
const BATCH_SIZE = 20;
/** Interval between batches. */
const BATCH_MS = 1_000;
/** Minimum interval between cluster report writes. */
const CLUSTER_MS = 10_000;
/** Retry interval while the cluster serves no report API. */
const UNSERVED_MS = 60_000;

/** The only key of the controller. */
const REPORTS = 'reports';

/** Creates the reconciler that writes reports and events in batches, after all namespaces have been evaluated. */
function createReconciler(controller: ControllerContext, store: Store): Reconciler {
  const { settings, evaluations } = controller;
  const reports = createReports(controller, store);
  const denials = createDenials(store);
  return {
    sources: [
      watchValue(settings, () => {
        reports.check();
        return [REPORTS];
      }),
      {
        subscribe: (enqueue) =>
          evaluations.subscribe({
            onChange(change) {
              reports.enqueue(change.name);
              denials.add(change);
              enqueue([REPORTS]);
            },
            onComplete() {
              reports.check();
              enqueue([REPORTS]);
            },
          }),
      },
    ],
    async reconcile(_key, context) {
      for (const denial of denials.take(BATCH_SIZE)) recordDenial(denial, context);
      const delayMs = evaluations.isComplete() ? await reports.writeBatch(context) : Infinity;
      const requeueAfterMs = Math.min(delayMs, denials.isEmpty() ? Infinity : BATCH_MS);
      return requeueAfterMs === Infinity ? undefined : { requeueAfterMs };
    },
    async onStop({ cluster, logger }) {
      if (!isDisabled(policyReports, settings.value.disabledControllers)) return;
      try {
        await removeReports(cluster);
      } catch (err) {
        logger.warn({ err }, 'failed to delete the reports');
      }
    },
  };
}

interface ClusterReport {
  readonly api: ReportApi;
  /** Owner of the namespace reports, which is the cluster report as last written. They are deleted with it. */
  readonly owner: ReportOwner | undefined;
  readonly digest: string;
}

/**
 * Creates the writer of the reports. The cluster report is owned by the PSAEnforcementConfig, or by the
 * PortcullisConfiguration before the first rollout.
 */
function createReports(controller: ControllerContext, store: Store) {
  /** Namespaces whose reports may be outdated. */
  const queue = new Set<string>();
  /** Digest of the last written report of each namespace. */
  const written = new Map<string, string>();
  let published: ClusterReport | undefined;
  /** True if the cluster report may be outdated. */
  let isStale = true;
  /** Earliest time of the next cluster report write. */
  let dueMs = -Infinity;
  let isUnserved = false;

  const check = (): void => {
    isStale = true;
    dueMs = -Infinity;
    if (published) published = { ...published, digest: '' };
  };
  const writeClusterReport = async (context: ReconcileContext): Promise<void> => {
    const { logger, now } = context;
    const before = published;
    const result = await applyClusterReport(before, controller, context);
    if ('failures' in result) {
      if (!isUnserved) logger.info(result, 'no reports are written: install the openreports.io CRDs');
      isUnserved = true;
      published = undefined;
      dueMs = now() + UNSERVED_MS;
      return;
    }
    isStale = false;
    if (result === before) return;
    published = result;
    isUnserved = false;
    dueMs = now() + CLUSTER_MS;
    if (result.api === before?.api && result.owner?.uid === before.owner?.uid) return;
    written.clear();
    for (const namespace of store.list('Namespace')) queue.add(objectName(namespace));
    logger.info({ resource: resourceName(result.api.namespaced) }, 'reports are written');
  };
  /** Writes the report of a namespace, or deletes it if the namespace is exempt. */
  const writeReport = async (name: string, { api, owner }: ClusterReport, context: ReconcileContext): Promise<void> => {
    const evaluation = controller.evaluations.get(name);
    // Keeps the last report while the result is unknown.
    if (evaluation?.verdict === 'inconclusive') return;
    if (!evaluation) {
      // If the namespace does not exist, its report was deleted with it.
      const exists = store.get('Namespace', name) !== undefined;
      if (exists && written.get(name) !== ABSENT) {
        await ignoreNotFound(context.cluster.remove(api.namespaced, REPORT_NAME, name));
        written.set(name, ABSENT);
      } else if (!exists) written.delete(name);
      return;
    }
    const report = await buildNamespaceReport(evaluation, { api, owner }, controller, context);
    const digest = reportDigest(report);
    if (written.get(name) === digest) return;
    await context.cluster.apply(api.namespaced, report, OPTIONS);
    written.set(name, digest);
  };
  return {
    /** Enqueues the report of a namespace, which is written only if it is outdated. */
    enqueue(name: string): void {
      queue.add(name);
      isStale = true;
    },
    /** Writes the cluster report again, for example because it was deleted or the cluster serves another API. */
    check,
    /** Writes a batch. Returns the delay until the next batch, which is infinite if all reports are up to date. */
    async writeBatch(context: ReconcileContext): Promise<number> {
      const { now } = context;
      if (isStale && now() >= dueMs) await writeClusterReport(context);
      if (!published) {
        queue.clear();
        return dueMs - now();
      }
      for (const name of [...queue].slice(0, BATCH_SIZE)) {
        try {
          await writeReport(name, published, context);
        } catch (error) {
          if (!isUnavailable(error)) throw error;
          // Either the namespace was deleted, or the cluster no longer serves the API.
          check();
        }
        queue.delete(name);
      }
      if (queue.size > 0) return BATCH_MS;
      return isStale ? Math.max(BATCH_MS, dueMs - now()) : Infinity;
    },
  };
}

/** Writes the cluster report in the preferred API that the cluster serves, unless the report has not changed. */
async function applyClusterReport(
  before: ClusterReport | undefined,
  controller: ControllerContext,
  context: ReconcileContext,
): Promise<ClusterReport | { readonly failures: readonly string[] }> {
  const { cluster } = context;
  const failures: string[] = [];
  const { reportApi } = controller.settings.value.rollout;
  for (const api of REPORT_APIS.toSorted((a, b) => Number(b.group === reportApi) - Number(a.group === reportApi))) {
    const input = { ...reportInput(controller, cluster.store), api };
    const report = await runYielding(buildClusterReport(controller.evaluations.all(), input), context);
    const digest = reportDigest(report);
    if (api === before?.api && digest === before.digest) return before;
    try {
      const object = await cluster.apply(api.cluster, report, OPTIONS);
      if (before && api !== before.api) await ignoreNotFound(cluster.remove(before.api.cluster, REPORT_NAME));
      return { api, owner: reference(api.cluster, object), digest };
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      failures.push(`${resourceName(api.cluster)}: ${error.message}`);
    }
  }
  return { failures };
}

async function buildNamespaceReport(
  evaluation: NamespaceEvaluation,
  { api, owner }: Pick<ClusterReport, 'api' | 'owner'>,
  controller: ControllerContext,
  context: ReconcileContext,
): Promise<Report> {
  const { settings, service, version } = controller;
  const { store } = context.cluster;
  const { name } = evaluation;
  const { exemptions } = effectivePodSecurity({ store, namespace: service.namespace, version }, settings.value);
  const { namespaceSubject, seconds } = reportInput(controller, store);
  const workloads = await runYielding(listReportedWorkloads(store, name, exemptions), context);
  const input = { api, owner, seconds, namespace: namespaceSubject(name), workloads };
  return runYielding(buildReport(evaluation, input), context);
}

function reportInput({ date }: Pick<ControllerContext, 'date'>, store: Store) {
  return {
    owner:
      reference('PSAEnforcementConfig', store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG)) ??
      reference('PortcullisConfiguration', store.get('PortcullisConfiguration', CONFIGURATION_NAME)),
    namespaceSubject: (name: string) =>
      subject({ ...typeMeta('Namespace'), metadata: store.get('Namespace', name)?.metadata ?? { name } }),
    seconds: Math.floor(date().getTime() / 1000),
  };
}

/** Digest for a namespace that has no report. */
const ABSENT = '';
/** Deletes the cluster reports. The garbage collector then deletes the namespace reports that they own. */
async function removeReports(cluster: Pick<Cluster, 'remove'>): Promise<void> {
  for (const api of REPORT_APIS) await ignoreNotFound(cluster.remove(api.cluster, REPORT_NAME));
}

function isUnavailable(error: unknown): error is ApiError {
  return isNotFound(error) || (error instanceof ApiError && error.status.code === 403);
}

/** Returns a digest of the report that does not include the evaluation time. */
function reportDigest(report: Report): string {
  const text = JSON.stringify(report, (key, value: unknown) => (key === 'timestamp' ? undefined : value));
  return createHash('sha256').update(text).digest('base64');
}

function reference(kind: Kind, object: KubeObject | undefined): ReportOwner | undefined {
  const uid = object?.metadata?.uid;
  return object && uid !== undefined ? { ...typeMeta(kind), name: objectName(object), uid } : undefined;
}

function subject({ apiVersion, kind, metadata: { name = '', namespace, uid } }: WorkloadReference): ReportSubject {
  return {
    apiVersion,
    kind,
    ...defined({ namespace }),
    name,
    ...defined({ uid }),
  };
}

/**
 * Returns a namespace's workloads and bare pods from the store. Omits finished Jobs and pods. Yields after each object.
 */
function* listReportedWorkloads(
  store: Store,
  namespace: string,
  { runtimeClass }: Pick<Exemptions, 'runtimeClass'>,
): Generator<undefined, readonly ReportedWorkload[]> {
  const found = new Map<string, ReportedWorkload>();
  const add = (workload: ReportSubject, pod: PodLike | undefined): void => {
    const name = pod?.spec?.runtimeClassName;
    const exempt = runtimeClass(name) ? { exemptRuntimeClass: name } : {};
    const key = `${workload.kind}/${workload.name}`;
    if (!found.has(key)) found.set(key, { subject: workload, ...exempt });
  };
  for (const { kind, object } of yield* listPodSources(store, namespace, TEMPLATE_KINDS)) {
    const path = podTemplatePath(RESOURCES[kind].group, kind);
    add(subject({ ...typeMeta(kind), metadata: object.metadata ?? {} }), path && getPodTemplate(object, path));
    yield;
  }
  for (const pod of store.list('Pod', namespace)) {
    if (!hasFinished(pod)) add(subject(findPodWorkload(pod, store)), pod);
    yield;
  }
  return [...found.values()];
}

/**
 * Maximum number of pending workload events. Additional events are dropped, because reports list all workloads anyway.
 */
const MAX_REFUSALS = 500;

/** Creates the list of newly denied workloads whose events have not been recorded yet. */
function createDenials(store: Store) {
  const waiting: WorkloadDenial[] = [];
  return {
    add({ name: namespace, evaluation, before }: EvaluationChange): void {
      if (!evaluation) return;
      // After a start, skips namespaces for which an earlier process has, or may have, recorded the events. For a
      // namespace that has its own level, this is unknown.
      if (before === undefined && (!evaluation.isSelected || wasViolating(namespace, store))) return;
      const isDenied = ({ verdict }: ViolatingWorkload): boolean => verdict !== 'restart';
      const known = new Set(before?.workloads.filter(isDenied).map(({ kind, name }) => `${kind}/${name}`));
      const added = evaluation.workloads.filter(
        (workload) => isDenied(workload) && !known.has(`${workload.kind}/${workload.name}`),
      );
      waiting.push(...added.slice(0, MAX_REFUSALS - waiting.length).map((workload) => ({ namespace, workload })));
    },
    take: (count: number) => waiting.splice(0, count),
    isEmpty: () => waiting.length === 0,
  };
}

/** A workload whose pods are denied or would be denied under enforcement. */
interface WorkloadDenial {
  readonly namespace: string;
  readonly workload: ViolatingWorkload;
}

function recordDenial(
  { namespace, workload: { kind, name, verdict, level, version, violations } }: WorkloadDenial,
  { cluster, recordEvent }: ReconcileContext,
): void {
  const source = POD_SOURCES.find((known) => known === kind && known !== 'Pod');
  const object = source && cluster.store.get(source, name, namespace);
  if (!object) return;
  const reasons = violations.map(({ reason, detail }) => `${reason}${detail === '' ? '' : ` (${detail})`}`);
  const denied = { level, version };
  const text = `pods ${verdict === 'deniedNow' ? '' : 'would '}violate ${printPodSecurity(denied)}: ${reasons.join(', ')}`;
  const workload = { ...typeMeta(source), metadata: { name, namespace } };
  const { note, ...event } = workloadDenialEvent(workload, {
    policy: 'PodSecurity',
    action: 'EvaluatePodSecurity',
    text,
    denied,
  });
  recordEvent(source, object, { ...event, message: note });
}
