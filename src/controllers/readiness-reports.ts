/** Keeps the readiness controller's reports up to date, using the first report API that the cluster serves. */
import { createHash } from 'node:crypto';
import { ignoreNotFound, isNotFound } from '../cluster/client.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { Store } from '../cluster/store.ts';
import { findPodWorkload, type WorkloadReference } from '../cluster/workload-events.ts';
import { listPodSources, POD_SOURCES } from '../cluster/workloads.ts';
import { defined } from '../kube/defined.ts';
import type { Kind } from '../kube/kinds.ts';
import { getPodTemplate, hasFinished, podTemplatePath } from '../kube/pod.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../kube/psa-enforcement-config.ts';
import { objectName, resourceName, RESOURCES, typeMeta } from '../kube/resources.ts';
import { ApiError } from '../kube/status.ts';
import type { KubeObject, PodLike, Report, ReportSubject } from '../kube/types.ts';
import { CONFIGURATION_NAME } from '../kube/well-known.ts';
import type { Exemptions } from '../policy/psa/configuration.ts';
import { ROLLOUT_MANAGER } from '../policy/rollout/enforcement.ts';
import type { NamespaceEvaluation } from '../policy/rollout/evaluation.ts';
import {
  buildClusterReport,
  buildReport,
  REPORT_APIS,
  REPORT_NAME,
  type ReportApi,
  type ReportedWorkload,
  type ReportOwner,
} from '../policy/rollout/reports.ts';
import { type ReconcileContext, type ReconcileResult, runYielding } from './controller.ts';

const TEMPLATE_KINDS = POD_SOURCES.filter((kind) => kind !== 'Pod');

const OPTIONS = { fieldManager: ROLLOUT_MANAGER, force: true };
const REPORTS_PER_BATCH = 20;
/** Interval between batches. */
const BATCH_MS = 1_000;
/** Minimum interval between cluster report writes. */
const CLUSTER_MS = 10_000;
/** Retry interval while the cluster serves no report API. */
const UNSERVED_MS = 60_000;

interface ReportWriterOptions {
  /** Returns the current evaluations. */
  evaluations(): readonly NamespaceEvaluation[];
  findEvaluation(name: string): NamespaceEvaluation | undefined;
  exemptions(): Pick<Exemptions, 'runtimeClass'>;
  /** Returns the current time in milliseconds since the epoch. */
  nowMs(): number;
}

/** State of the report writer. */
interface ReportWriter extends ReportWriterOptions {
  /** Namespaces whose reports may be outdated. */
  readonly queue: Set<string>;
  /** Digest of each namespace report and of the cluster report, as last written. */
  readonly written: Map<string, string>;
  /** The API in use, and its cluster report. */
  api: ReportApi | undefined;
  owner: ReportOwner | undefined;
  /** True if the cluster report may be outdated. */
  isStale: boolean;
  /** Earliest time of the next cluster report write, or `Infinity` until all namespaces have been evaluated. */
  dueMs: number;
  isUnserved: boolean;
}

/**
 * Creates the report writer. The cluster report owns the namespace reports, so they are deleted with it. Its own owner
 * is the PSAEnforcementConfig, or the PortcullisConfiguration before the first rollout.
 */
export function createReportWriter(options: ReportWriterOptions) {
  const writer: ReportWriter = {
    ...options,
    ...{ queue: new Set(), written: new Map(), api: undefined, owner: undefined },
    ...{ isStale: true, dueMs: Infinity, isUnserved: false },
  };
  return {
    /** Enqueues the report for a namespace. It is written only if it is outdated. */
    enqueue(name: string): void {
      writer.queue.add(name);
      writer.isStale = true;
    },
    /** Called after an evaluation of all namespaces. Nothing is written before the first call. */
    start(): void {
      if (writer.dueMs === Infinity) writer.dueMs = -Infinity;
    },
    /** Makes the next batch write the cluster report again, for example if it was deleted or belongs to another API. */
    refresh: () => refresh(writer),
    /** True if the next attempt to find a report API is due. */
    isRetryDue: (now: number): boolean => writer.isUnserved && now >= writer.dueMs,
    /** Writes a batch and, unless all reports are up to date, schedules the next batch. */
    writeBatch: (context: ReconcileContext): Promise<ReconcileResult> => writeBatch(writer, context),
  };
}

function refresh(writer: ReportWriter): void {
  writer.written.delete(CLUSTER);
  writer.isStale = true;
  writer.dueMs = -Infinity;
}

async function writeBatch(writer: ReportWriter, context: ReconcileContext): Promise<ReconcileResult> {
  const { now } = context;
  const { queue } = writer;
  if (writer.isStale && now() >= writer.dueMs) await writeClusterReport(writer, context);
  const { api } = writer;
  if (api === undefined) {
    queue.clear();
    return undefined;
  }
  for (const name of [...queue].slice(0, REPORTS_PER_BATCH)) {
    try {
      await writeReport(writer, name, api, context);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      // The namespace was deleted, or the cluster no longer serves the API.
      refresh(writer);
    }
    queue.delete(name);
  }
  if (queue.size > 0) return { requeueAfterMs: BATCH_MS };
  return writer.isStale ? { requeueAfterMs: Math.max(BATCH_MS, writer.dueMs - now()) } : undefined;
}

/** Writes the cluster report in the first API that the cluster serves. */
async function writeClusterReport(writer: ReportWriter, context: ReconcileContext): Promise<void> {
  const { cluster, logger, now } = context;
  const failures: string[] = [];
  for (const candidate of REPORT_APIS) {
    const steps = buildClusterReport(writer.evaluations(), { ...reportInput(writer, cluster), api: candidate });
    const report = await runYielding(steps, context);
    const digest = reportDigest(report);
    if (candidate === writer.api && writer.written.get(CLUSTER) === digest) {
      writer.isStale = false;
      return;
    }
    try {
      const object = await cluster.apply(candidate.cluster, report, OPTIONS);
      if (candidate !== writer.api || object.metadata?.uid !== writer.owner?.uid) {
        if (writer.api && candidate !== writer.api) {
          await ignoreNotFound(cluster.remove(writer.api.cluster, REPORT_NAME));
        }
        writer.written.clear();
        for (const namespace of cluster.store.list('Namespace')) writer.queue.add(objectName(namespace));
        logger.info({ resource: resourceName(candidate.namespaced) }, 'reports are written');
      }
      writer.written.set(CLUSTER, digest);
      writer.api = candidate;
      writer.owner = reference(candidate.cluster, object);
      writer.dueMs = now() + CLUSTER_MS;
      writer.isStale = false;
      writer.isUnserved = false;
      return;
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      failures.push(`${resourceName(candidate.cluster)}: ${error.message}`);
    }
  }
  if (!writer.isUnserved) logger.info({ failures }, 'no reports are written: install the openreports.io CRDs');
  writer.isUnserved = true;
  writer.api = undefined;
  writer.owner = undefined;
  writer.dueMs = now() + UNSERVED_MS;
}

function reportInput({ nowMs }: ReportWriter, { store }: Cluster) {
  return {
    owner:
      reference('PSAEnforcementConfig', store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG)) ??
      reference('PortcullisConfiguration', store.get('PortcullisConfiguration', CONFIGURATION_NAME)),
    namespaceSubject: (name: string) =>
      subject({ ...typeMeta('Namespace'), metadata: store.get('Namespace', name)?.metadata ?? { name } }),
    seconds: Math.floor(nowMs() / 1000),
  };
}

async function writeReport(
  writer: ReportWriter,
  name: string,
  api: ReportApi,
  context: ReconcileContext,
): Promise<void> {
  const { cluster } = context;
  const { written, owner } = writer;
  const evaluation = writer.findEvaluation(name);
  // Keep the last report while the result is unknown.
  if (evaluation?.verdict === 'inconclusive') return;
  if (!evaluation) {
    // The report was deleted together with its namespace.
    const exists = cluster.store.get('Namespace', name) !== undefined;
    if (exists && written.get(name) !== ABSENT) {
      await ignoreNotFound(cluster.remove(api.namespaced, REPORT_NAME, name));
      written.set(name, ABSENT);
    } else if (!exists) written.delete(name);
    return;
  }
  const { namespaceSubject, seconds } = reportInput(writer, cluster);
  const workloads = await runYielding(listReportedWorkloads(cluster.store, name, writer.exemptions()), context);
  const input = { api, owner, seconds, namespace: namespaceSubject(name), workloads };
  const report = await runYielding(buildReport(evaluation, input), context);
  const digest = reportDigest(report);
  if (written.get(name) === digest) return;
  await cluster.apply(api.namespaced, report, OPTIONS);
  written.set(name, digest);
}

/** Digest for a namespace that has no report. */
const ABSENT = '';
/** Key for the cluster report. Other keys are namespace names. */
const CLUSTER = '';

/** Deletes the cluster reports. The garbage collector then deletes the namespace reports, which they own. */
export async function removeReports(cluster: Pick<Cluster, 'remove'>): Promise<void> {
  for (const api of REPORT_APIS) await ignoreNotFound(cluster.remove(api.cluster, REPORT_NAME));
}

function isUnavailable(error: unknown): error is ApiError {
  return isNotFound(error) || (error instanceof ApiError && error.status.code === 403);
}

/** Digest of the report without the evaluation time. */
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

/** Returns a namespace's workloads and bare pods from the store. Omits finished Jobs and pods. Yields after each object. */
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
