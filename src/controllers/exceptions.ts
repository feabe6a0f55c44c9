/** Reports the status of PodSecurityExceptions, and records events when they expire. */
import { CONFIGURATION_NAME, EXPIRY_NOTICE_MS } from '../api/names.ts';
import { writeEvent } from '../cluster/event-recorder.ts';
import type { Store } from '../cluster/store.ts';
import { type ConditionState, readyConditions, withTransitionTimes } from '../kube/conditions.ts';
import { defined } from '../kube/defined.ts';
import { deepEqual } from '../kube/equality.ts';
import type { PodSecurityException } from '../kube/pod-security-exception.ts';
import { hasFinished } from '../kube/pod.ts';
import { objectKey, objectName } from '../kube/resources.ts';
import type { Pod } from '../kube/types.ts';
import { DAY_MS, formatTimestamp, parseTimestamp } from '../kube/units.ts';
import { decodePod } from '../policy/pod/index.ts';
import {
  type ExceptionProblem,
  findExceptionProblem,
  findShadow,
  type PreparedException,
  resolvePolicies,
} from '../policy/psa/index.ts';
import { evaluateExcepted, indexExceptions } from '../policy/pss/index.ts';
import { activeExceptions, readException, unapproved } from '../views/exceptions.ts';
import { readExemptionUses } from '../views/exemptions.ts';
import { effectivePodSecurity } from '../views/rollout.ts';
import { findPodWorkload, type WorkloadReference } from '../views/workloads.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  type ReconcileContext,
  type Reconciler,
  runYielding,
  watch,
  watchChanges,
} from './controller.ts';
import { createEventFilter } from './events.ts';
import { statusRule } from './permissions.ts';

const NAME = 'exception-controller';
const KIND = 'PodSecurityException';

export const exceptions: ControllerDefinition = {
  name: NAME,
  description:
    'reports in the status of PodSecurityExceptions whether they apply, which workloads use them, and when they expire',
  runsOn: 'leader',
  permissions: [{ role: 'exceptions', clusterRules: [statusRule(['patch'], KIND)] }],
  // The controller is always enabled, so the status changes when exceptions are turned off.
  isEnabled: () => true,
  create: createReconciler,
};

/** Interval for observing pods, uses and expiry times. It limits the number of writes. */
const RESYNC_MS = 60_000;
/**
 * Time without pods that need an exception after which it is unused. It is longer than the interval of most CronJobs.
 */
const UNUSED_MS = DAY_MS;
/** Maximum number of workloads that the status lists. */
const MAX_WORKLOADS = 20;

function createReconciler(context: ControllerContext): Reconciler {
  const { settings, date, metrics } = context;
  const uses = createUseCounter();
  const events = createEventFilter();
  return {
    resyncMs: RESYNC_MS,
    sources: [
      watch(KIND, (object) => [objectKey(object)]),
      // Without pods, the status would list no workloads, so the controller starts only once they have been read.
      watchChanges('Pod', () => []),
      watchChanges('PortcullisConfiguration', (_object, store) => store.list(KIND).map(objectKey)),
      watchChanges('Namespace', ({ metadata }, store) => store.list(KIND, metadata?.name ?? '').map(objectKey)),
    ],
    async reconcile(key, reconcileContext) {
      const [namespace = '', name = ''] = key.split('/');
      const { store } = reconcileContext.cluster;
      const object = store.get(KIND, name, namespace);
      const exception = object && readException(object);
      const labels = { exception: key };
      if (!object || !exception) {
        metrics.podSecurity.exceptionExpiry.remove(labels);
        events.takeNew(key, []);
        uses.forget(key);
        return undefined;
      }
      const nowMs = date().getTime();
      const problem = findExceptionProblem(exception, settings.value.exceptions, nowMs);
      const users = findUsers(exception, { context, store, nowMs });
      const pods = problem === undefined ? await runYielding(users, reconcileContext) : [];
      const counted = readExemptionUses(store.list('Lease', context.service.namespace));
      const added = uses.count(key, counted?.counts ?? new Map());
      if (problem === undefined) metrics.podSecurity.exceptionExpiry.set(labels, exception.rule.expiresAtMs / 1000);
      else metrics.podSecurity.exceptionExpiry.remove(labels);
      await writeStatus(object, { exception, problem, pods, added, nowMs }, context, reconcileContext);
      const event = expiryEvent(exception, problem, nowMs);
      if (event && events.takeNew(key, [event]).length > 0) record(object, event, pods, reconcileContext);
      const leftMs = exception.rule.expiresAtMs - nowMs;
      return leftMs > 0 && leftMs < RESYNC_MS ? { requeueAfterMs: leftMs } : undefined;
    },
    onStop() {
      metrics.podSecurity.exceptionExpiry.reset();
      return Promise.resolve();
    },
  };
}

/** Creates a counter for the uses of each exception that exists. */
function createUseCounter() {
  const seen = new Map<string, number>();
  return {
    /** Forgets a deleted exception. */
    forget: (key: string) => seen.delete(key),
    count(key: string, counts: ReadonlyMap<string, number>): number {
      const count = counts.get(`exception/${key}`) ?? 0;
      const before = seen.get(key);
      seen.set(key, count);
      // The result is 0 for a new leader, which has no previous count, and for a restarted replica, which counts from 0
      // again.
      return before === undefined ? 0 : Math.max(0, count - before);
    },
  };
}

/** Returns the labels of a namespace, and the policies that apply without labels. */
function findPolicies(name: string, { settings, service, version }: ControllerContext, store: Store) {
  const scope = { store, namespace: service.namespace, version };
  return {
    labels: store.get('Namespace', name)?.metadata?.labels ?? {},
    defaults: effectivePodSecurity(scope, settings.value).defaults,
  };
}

interface UserScope {
  readonly context: ControllerContext;
  readonly store: Store;
  readonly nowMs: number;
}

/**
 * Returns the running pods that an exception helps to admit. A pod may also need other exceptions for the same
 * violation. Yields after each pod.
 */
function* findUsers(
  { namespace, rule }: PreparedException,
  { context, store, nowMs }: UserScope,
): Generator<undefined, readonly Pod[]> {
  const { labels, defaults } = findPolicies(namespace, context, store);
  const { level, version } = resolvePolicies(labels, defaults).enforce;
  const options = { level, version, emulationVersion: store.emulationVersion };
  const active = activeExceptions(store, context.settings.value.exceptions, namespace, nowMs);
  const others = active.rules.filter(
    (other) => other.name !== rule.name && other.serviceAccountName === rule.serviceAccountName,
  );
  // The empty name precedes the other names, so this exception is preferred where others cover the same field.
  const index = indexExceptions([{ ...rule, name: '' }, ...others]);
  const users: Pod[] = [];
  for (const pod of store.list('Pod', namespace)) {
    if (hasFinished(pod) || (pod.spec?.serviceAccountName ?? 'default') !== rule.serviceAccountName) continue;
    const decoded = decodePod(pod).pod;
    if (decoded !== undefined && evaluateExcepted(decoded, options, index).exceptions.includes('')) users.push(pod);
    yield;
  }
  return users;
}

interface Observation {
  readonly exception: PreparedException;
  readonly problem: ExceptionProblem | undefined;
  readonly pods: readonly Pod[];
  /** Uses since the previous observation. */
  readonly added: number;
  readonly nowMs: number;
}

async function writeStatus(
  object: PodSecurityException,
  observation: Observation,
  context: ControllerContext,
  { cluster }: ReconcileContext,
): Promise<void> {
  const { metadata = {}, status: before = {} } = object;
  const { exception, problem, pods, added, nowMs } = observation;
  const now = formatTimestamp(nowMs);
  const names = pods.map((pod) => findPodWorkload(pod, cluster.store)).map(printWorkload);
  const haveEnded = problem === undefined && names.length === 0 && (before.workloads ?? []).length > 0;
  const lastUsed = added > 0 || haveEnded ? now : before.lastUsed;
  const lastUseMs = Math.max(parseTimestamp(lastUsed) ?? -Infinity, exception.approvedMs);
  const status = {
    observedGeneration: metadata.generation ?? 0,
    conditions: withTransitionTimes(
      describe({ ...observation, lastUseMs }, context, cluster.store),
      before.conditions,
      now,
    ),
    uses: (before.uses ?? 0) + added,
    ...defined({ lastUsed }),
    workloads: [...new Set(names)].sort().slice(0, MAX_WORKLOADS),
  };
  if (deepEqual({ ...before, approval: undefined }, status)) return;
  const { name = '', namespace = '' } = metadata;
  await cluster.applyStatus(KIND, { metadata: { name, namespace }, status }, { fieldManager: NAME, force: true });
}

function printWorkload({ kind, metadata }: WorkloadReference): string {
  return `${kind}/${metadata.name ?? ''}`;
}

function describe(
  { exception, problem, pods, lastUseMs, nowMs }: Observation & { readonly lastUseMs: number },
  context: ControllerContext,
  store: Store,
): readonly ConditionState[] {
  const { approval, rule, spec } = exception;
  const missing = unapproved(problem);
  const { labels, defaults } = findPolicies(exception.namespace, context, store);
  const shadow = problem === undefined ? findShadow(exception, labels, defaults) : undefined;
  const isExpired = nowMs >= rule.expiresAtMs;
  const isUnused = problem === undefined && pods.length === 0 && nowMs - lastUseMs >= UNUSED_MS;
  const unusedReason = problem ? 'NotActive' : isUnused ? 'NoPods' : pods.length > 0 ? 'InUse' : 'RecentlyActive';
  return [
    missing || approval === undefined
      ? condition('Approved', false, missing?.reason ?? 'NotApproved', missing?.message ?? 'it is not approved')
      : condition('Approved', true, 'Approved', printApproval(approval)),
    problem
      ? condition('Active', false, problem.reason, problem.message)
      : condition('Active', true, 'Applies', `it applies to new pods until ${spec.expiresAt}`),
    condition('Expired', isExpired, isExpired ? 'Expired' : 'NotExpired', `expiresAt is ${spec.expiresAt}`),
    condition(
      'Shadowed',
      shadow !== undefined,
      shadow === undefined ? 'NotShadowed' : 'OtherLevel',
      shadow ?? 'no other policy denies its pods',
    ),
    condition('Unused', isUnused, unusedReason, `running pods that need it: ${pods.length}`),
    ...describeReady(problem, shadow, store),
  ];
}

function printApproval({ by, at, through }: NonNullable<PreparedException['approval']>): string {
  return `approved by ${by} at ${at}${through === undefined ? '' : `, applied by ${through}`}`;
}

/**
 * Returns the conditions that report whether all replicas apply the exception, and whether another component denies its
 * pods.
 */
function describeReady(
  problem: ExceptionProblem | undefined,
  shadow: string | undefined,
  store: Store,
): readonly ConditionState[] {
  if (problem) return readyConditions(unapproved(problem) ? 'reconciling' : 'stalled', problem);
  if (shadow !== undefined) return readyConditions('stalled', { reason: 'Shadowed', message: shadow });
  const settings = store.get('PortcullisConfiguration', CONFIGURATION_NAME);
  const applied = settings?.status?.conditions?.find(({ type }) => type === 'Applied');
  const isApplied = applied?.status === 'True' && applied.observedGeneration === settings?.metadata?.generation;
  if (settings && !isApplied) {
    const message = 'not all replicas have applied the settings yet';
    return readyConditions('reconciling', { reason: 'SettingsProgressing', message });
  }
  return readyConditions('ready', { reason: 'Applies', message: 'all replicas apply it to new pods' });
}

function condition(type: string, isTrue: boolean, reason: string, message: string): ConditionState {
  return { type, status: isTrue ? 'True' : 'False', reason, message };
}

/** Returns the event to record shortly before or after an exception expires. */
function expiryEvent({ spec, rule }: PreparedException, problem: ExceptionProblem | undefined, nowMs: number) {
  const { expiresAt } = spec;
  if (problem?.reason === 'Expired') {
    const message = `expired at ${expiresAt}: running pods continue, and new pods are denied`;
    return { reason: 'ExceptionExpired', message };
  }
  if (problem !== undefined || rule.expiresAtMs - nowMs > EXPIRY_NOTICE_MS) return undefined;
  return { reason: 'ExceptionExpires', message: `expires at ${expiresAt}: new pods are denied afterwards` };
}

function record(
  object: PodSecurityException,
  { reason, message }: { readonly reason: string; readonly message: string },
  pods: readonly Pod[],
  { cluster, logger, recordEvent }: ReconcileContext,
): void {
  const event = { type: 'Warning', reason, action: 'Expire' } as const;
  recordEvent(KIND, object, { ...event, message: `the exception ${message}` });
  const note = `the PodSecurityException ${objectName(object)}, which its pods need, ${message}`;
  const workloads = new Map(
    pods
      .map((pod) => findPodWorkload(pod, cluster.store))
      .map((workload) => [printWorkload(workload), workload] as const),
  );
  for (const regarding of [...workloads.values()].slice(0, MAX_WORKLOADS)) {
    void writeEvent(cluster, logger, { ...event, note, regarding, reportingController: NAME });
  }
}
