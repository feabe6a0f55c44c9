/** Reports pods that were admitted without a review and that the policy denies. Never changes or deletes pods. */
import { CONFIGURATION_NAME, FORMER_LEADER_ANNOTATION } from '../api/names.ts';
import { ignoreNotFound } from '../cluster/client.ts';
import { writeEvent } from '../cluster/event-recorder.ts';
import type { Store } from '../cluster/store.ts';
import { type ConditionState, withTransitionTimes } from '../kube/conditions.ts';
import { isMirrorPod, nodeUser } from '../kube/controller-pod.ts';
import { deepEqual } from '../kube/equality.ts';
import { EPHEMERAL_CONTAINERS } from '../kube/pod.ts';
import { getApiVersion, objectKey, typeMeta } from '../kube/resources.ts';
import { POD_SCC_ANNOTATIONS } from '../kube/scc.ts';
import { compareBytes, truncate } from '../kube/text.ts';
import type { Lease, Pod, UnreviewedPod } from '../kube/types.ts';
import { formatTimestamp, parseTimestamp } from '../kube/units.ts';
import { DEFAULT_LIMITS, reviewPodSecurity } from '../policy/psa/index.ts';
import type { Policy } from '../policy/pss/index.ts';
import {
  assignScc,
  type SccAccess,
  podAnnotation,
  sccMode,
  serviceAccountSubject,
  userSubject,
  validateScc,
} from '../policy/scc/index.ts';
import { sccAccess, getSccSet } from '../views/access.ts';
import { activeExceptions } from '../views/exceptions.ts';
import { effectivePodSecurity } from '../views/rollout.ts';
import { findPodWorkload, POD_SOURCES } from '../views/workloads.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  type ReconcileContext,
  type Reconciler,
  runYielding,
  watchChanges,
} from './controller.ts';
import { workloadDenialEvent } from './denial-events.ts';
import { statusRule } from './permissions.ts';

const NAME = 'unreviewed-pods-controller';
const KIND = 'PortcullisConfiguration';

export const unreviewedPods: ControllerDefinition = {
  name: NAME,
  description: 'reports pods that were admitted without a review, for example during an outage, and violate the policy',
  runsOn: 'leader',
  permissions: [
    {
      role: 'unreviewed-pods',
      clusterRules: [statusRule(['patch'], KIND)],
      isNeeded: ({ settingsObject }) => settingsObject,
    },
  ],
  isEnabled: () => true,
  create: createReconciler,
};

/** Key for all reported pods. Other keys are `<namespace>/<name>` of a new, changed or deleted pod. */
const ALL = '*';
/** Delay before reevaluating a denied pod, because the namespace and SCC watches may lag behind the pod watch. */
const CONFIRM = { requeueAfterMs: 5_000 };
/** Interval for reevaluating reported pods, because the policy may admit them later. */
const CHECK_AGAIN = { requeueAfterMs: 60_000 };
/** Maximum number of reported pods that the status lists. */
const MAX_PODS = 50;
/** Maximum length in characters of the message about each reported pod. */
const MAX_MESSAGE = 1024;

/**
 * Evaluates pods on the leader. When the leader starts, it evaluates the pods that were created or received an
 * ephemeral container since the former leader's last renewal or just before it. Afterwards, it evaluates each new pod.
 * This includes pods that an API server admitted because it could not reach a running replica.
 */
function createReconciler(context: ControllerContext): Reconciler {
  const { startMs } = context.replica;
  const report = createReport();
  /** UIDs of the pods that have been denied once, by key. */
  const denied = new Map<string, string>();
  let isStarted = false;

  /**
   * Evaluates the reported pods and, when the leader starts, the pods that were admitted since the former leader's last
   * renewal.
   */
  const evaluateAll = async (reconcileContext: ReconcileContext): Promise<void> => {
    const { store } = reconcileContext.cluster;
    const lease = isStarted ? undefined : findTakenLease(store, context.service.namespace);
    const sinceMs = parseTimestamp(lease?.metadata?.annotations?.[FORMER_LEADER_ANNOTATION]) ?? Infinity;
    const admitted = await runYielding(findAdmitted(store, { sinceMs, startMs }), reconcileContext);
    if (!isStarted) report.add(store.get(KIND, CONFIGURATION_NAME)?.status?.unreviewedPods ?? []);
    const pods = new Map([...admitted, ...report.listPods(store)]);
    const scope = { ...context, ...reconcileContext };
    const evaluate = function* (): Generator<undefined, void> {
      for (const [pod, isUnreviewed] of pods) {
        report.update(pod, yield* findDenial(pod, isUnreviewed, scope), reconcileContext);
        yield;
      }
    };
    await runYielding(evaluate(), reconcileContext);
    await publish(report.pods(), context, reconcileContext);
    if (lease) await removeFormerLeader(lease, reconcileContext);
    isStarted = true;
  };

  return {
    initialKeys: [ALL],
    sources: [
      watchChanges('Pod', (pod, _store, { type, before }) => {
        const key = objectKey(pod);
        if (type === 'remove') return report.has(key) ? [key] : [];
        return before === undefined || hasNewEphemeralContainers(pod, before) ? [key] : [];
      }),
    ],
    async reconcile(key, reconcileContext) {
      if (key === ALL) {
        await evaluateAll(reconcileContext);
        return CHECK_AGAIN;
      }
      const [namespace = '', name = ''] = key.split('/');
      const pod = reconcileContext.cluster.store.get('Pod', name, namespace);
      const scope = { ...context, ...reconcileContext };
      const denial = pod && (await runYielding(findDenial(pod, false, scope), reconcileContext));
      const { uid = '' } = pod?.metadata ?? {};
      if (denial !== undefined && denied.get(key) !== uid) {
        denied.set(key, uid);
        return CONFIRM;
      }
      denied.delete(key);
      const isChanged = pod ? report.update(pod, denial, reconcileContext) : report.remove(key);
      if (isChanged) await publish(report.pods(), context, reconcileContext);
      return undefined;
    },
    onStop() {
      context.metrics.unreviewedPods.set(0);
      return Promise.resolve();
    },
  };
}

/**
 * Returns the pods that may have been admitted since the given time, or so shortly before it that the former leader may
 * not have reevaluated them. The flag of a pod is true if no replica is known to have reviewed it. Yields after each
 * pod.
 */
function* findAdmitted(
  store: Store,
  { sinceMs, startMs }: { readonly sinceMs: number; readonly startMs: number },
): Generator<undefined, readonly (readonly [Pod, boolean])[]> {
  const admitted: (readonly [Pod, boolean])[] = [];
  if (sinceMs === Infinity) return admitted;
  // Rounds down to seconds, which is the precision of pod timestamps.
  const since = Math.floor(sinceMs / 1000) * 1000;
  const from = since - CONFIRM.requeueAfterMs;
  for (const pod of store.list('Pod')) {
    const createdMs = parseTimestamp(pod.metadata?.creationTimestamp) ?? 0;
    const changes = ephemeralTimes(pod).map((timeMs = Infinity) => timeMs);
    const isChanged = changes.some((timeMs) => timeMs >= since);
    // Pods that were created while a leader or this replica was running are assumed to be reviewed.
    const isUnreviewed = isChanged || (createdMs >= since && createdMs <= startMs);
    if ([createdMs, ...changes].some((timeMs) => timeMs >= from)) admitted.push([pod, isUnreviewed]);
    yield;
  }
  return admitted;
}

/**
 * Returns the times at which ephemeral containers were added and started, in Unix milliseconds, or `undefined` for a
 * container that has not started. API servers write the first time, but pod authors can change it in `managedFields`.
 * Kubelets, whose clocks may differ, write the second time, but users who have access to `pods/status` can change it.
 */
function ephemeralTimes({ metadata, spec, status }: Pod): readonly (number | undefined)[] {
  const added = metadata?.managedFields?.filter(({ subresource }) => subresource === EPHEMERAL_CONTAINERS) ?? [];
  const states = new Map(status?.ephemeralContainerStatuses?.map(({ name, state }) => [name, state]));
  const started = (spec?.ephemeralContainers ?? []).map(({ name }) => {
    const { running, terminated } = states.get(name) ?? {};
    return running?.startedAt ?? terminated?.startedAt;
  });
  return [...added.map(({ time }) => time), ...started].map(parseTimestamp);
}

/**
 * Returns true if the pod has more ephemeral containers than before. Comparing the counts is sufficient
 * because ephemeral containers cannot be removed.
 */
function hasNewEphemeralContainers(pod: Pod, before: Pod): boolean {
  return (pod.spec?.ephemeralContainers?.length ?? 0) > (before.spec?.ephemeralContainers?.length ?? 0);
}

function createReport() {
  const reported = new Map<string, UnreviewedPod>();
  return {
    has: (key: string): boolean => reported.has(key),
    remove: (key: string): boolean => reported.delete(key),
    add(pods: readonly UnreviewedPod[]): void {
      for (const pod of pods) reported.set(toKey(pod), pod);
    },
    /** Returns the reported pods that still exist. Removes the other pods from the report. */
    listPods(store: Store): readonly (readonly [Pod, boolean])[] {
      return [...reported].flatMap(([key, { namespace, name, uid }]) => {
        const pod = store.get('Pod', name, namespace);
        if (pod?.metadata?.uid === uid) return [[pod, true] as const];
        reported.delete(key);
        return [];
      });
    },
    /** Adds or removes a pod. Returns true if the reported pods change. */
    update(pod: Pod, denial: Denial | undefined, reconcileContext: ReconcileContext): boolean {
      const key = objectKey(pod);
      if (!denial) return reported.delete(key);
      const entry = toEntry(pod, denial);
      if (deepEqual(reported.get(key), entry)) return false;
      reported.set(key, entry);
      recordDenial(pod, denial, reconcileContext);
      return true;
    },
    pods: (): readonly UnreviewedPod[] => [...reported.values()],
  };
}

/** Returns the Lease that records the former leader's last renewal, or `undefined` if there is none. */
function findTakenLease(store: Store, namespace: string): Lease | undefined {
  return store
    .list('Lease', namespace)
    .find(({ metadata }) => metadata?.annotations?.[FORMER_LEADER_ANNOTATION] !== undefined);
}

/**
 * Removes the record of the former leader after the pods have been evaluated. Until then, each new leader evaluates the
 * pods again, because the previous leader may have stopped before it reported them.
 */
async function removeFormerLeader({ metadata }: Lease, { cluster }: ReconcileContext): Promise<void> {
  const lease = await ignoreNotFound(cluster.get('Lease', metadata?.name ?? '', metadata?.namespace));
  if (!lease) return;
  const { [FORMER_LEADER_ANNOTATION]: _reported, ...annotations } = lease.metadata?.annotations ?? {};
  await cluster.update('Lease', { ...lease, metadata: { ...lease.metadata, annotations } }, { fieldManager: NAME });
}

function toEntry({ metadata = {} }: Pod, { message }: Denial): UnreviewedPod {
  const { namespace = '', name = '', uid = '', creationTimestamp: created = '' } = metadata;
  return { namespace, name, uid, created, message: truncate(message, MAX_MESSAGE) };
}

// Decision

interface Denial {
  readonly policy: 'PodSecurity' | 'SCC';
  readonly message: string;
  /** Enforced policy. Absent for SCCs. */
  readonly denied?: Policy;
}

type Scope = Pick<ControllerContext, 'settings' | 'service' | 'version' | 'date' | 'removedGrants'> &
  Pick<ReconcileContext, 'cluster' | 'now'>;

/**
 * Returns the denial of a pod under the current policy, or `undefined`. The creator of the pod is unknown. Therefore, a
 * pod that may have been reviewed is not treated as denied if its creator could be an exempt user or could be allowed
 * to use its SCC, or if a recently removed grant or exception would admit it. Yields after each policy.
 */
function* findDenial(pod: Pod, isUnreviewed: boolean, scope: Scope): Generator<undefined, Denial | undefined> {
  if (pod.metadata?.namespace === scope.service.namespace) return undefined;
  const denial = findPodSecurityDenial(pod, isUnreviewed, scope);
  yield;
  return denial ?? (yield* findSccDenial(pod, isUnreviewed, scope));
}

function findPodSecurityDenial(pod: Pod, isUnreviewed: boolean, scope: Scope): Denial | undefined {
  const { cluster, settings, service, version, date, now, removedGrants } = scope;
  const { store } = cluster;
  const podSecurity = effectivePodSecurity({ store, namespace: service.namespace, version }, settings.value);
  if (!isUnreviewed && podSecurity.configuration.exemptions.usernames.length > 0) return undefined;
  const { name = '', namespace = '' } = pod.metadata ?? {};
  const stored = store.get('Namespace', namespace);
  if (!stored) return undefined;
  const { decision } = reviewPodSecurity({
    request: {
      uid: '',
      kind: { group: '', version: 'v1', kind: 'Pod' },
      resource: { group: '', version: 'v1', resource: 'pods' },
      operation: 'CREATE',
      name,
      namespace,
      userInfo: {},
      object: pod,
    },
    podSecurity,
    emulationVersion: settings.value.emulationVersion,
    findNamespace: () => stored,
    findExceptions(name) {
      const { exceptions } = settings.value;
      const active = activeExceptions(store, exceptions, name, date().getTime());
      return isUnreviewed ? active : removedGrants.exceptions(active, exceptions, name);
    },
    listPods: () => [],
    limits: DEFAULT_LIMITS,
    now,
  });
  if (decision.allowed) return undefined;
  const { enforce: denied } = podSecurity.namespaceRules(stored);
  return { policy: 'PodSecurity', message: withoutPrefix(decision.status.message), denied };
}

function withoutPrefix(message = ''): string {
  return message.replace(/^pods "[^"]*" is forbidden: /, '');
}

function* findSccDenial(
  pod: Pod,
  isUnreviewed: boolean,
  { cluster: { store }, settings, removedGrants }: Scope,
): Generator<undefined, Denial | undefined> {
  const { metadata, spec } = pod;
  const { scc: sccSettings } = settings.value;
  const namespace = store.get('Namespace', metadata?.namespace ?? '');
  if (!namespace || spec?.os?.name === 'windows' || sccMode(namespace, sccSettings).mode !== 'enforce')
    return undefined;
  const { compatibility, preferUserNamespaces } = sccSettings;
  const account = spec?.serviceAccountName ?? 'default';
  const userInfo = isMirrorPod(pod)
    ? userSubject(nodeUser(spec?.nodeName ?? ''))
    : serviceAccountSubject(namespace.metadata?.name ?? '', account);
  const recorded = podAnnotation(pod, POD_SCC_ANNOTATIONS.scc);
  const byCreator = !isUnreviewed && podAnnotation(pod, POD_SCC_ANNOTATIONS.subjectType) === 'user';
  const granted = sccAccess(store);
  // Computes the names in advance. The store caches them, because they take long to compute for accounts with many
  // bindings.
  granted.namesFor?.(userInfo, namespace.metadata?.name ?? '');
  yield;
  const wasGranted: SccAccess | undefined = isUnreviewed ? undefined : removedGrants.access;
  const access: SccAccess =
    recorded === ''
      ? granted
      : {
          canUse: (subject, name, where) =>
            name === recorded &&
            (byCreator || granted.canUse(subject, name, where) || wasGranted?.canUse(subject, name, where) === true),
        };
  const decide = recorded === '' ? assignScc : validateScc;
  const sccs = getSccSet(store);
  const input = { namespace, userInfo, sccs, access, compatibility, preferUserNamespaces };
  const decision = decide({ ...input, operation: 'CREATE', object: pod });
  if (decision.allowed) return undefined;
  const prefix =
    recorded === '' ? 'it has no SCC' : `its annotation ${POD_SCC_ANNOTATIONS.scc} names the SCC "${recorded}"`;
  return { policy: 'SCC', message: `${prefix}: ${withoutPrefix(decision.status.message)}` };
}

// Report

function recordDenial(pod: Pod, { policy, message, denied }: Denial, { cluster, logger }: ReconcileContext): void {
  const regarding = findPodWorkload(pod, cluster.store);
  const { name = '', namespace = '' } = pod.metadata ?? {};
  const text = `pod ${name} was admitted without a review: ${message}`;
  // The commands support only the built-in kinds.
  const isBuiltIn = POD_SOURCES.some((kind) => kind === regarding.kind && getApiVersion(kind) === regarding.apiVersion);
  const target = isBuiltIn ? regarding : { ...typeMeta('Pod'), metadata: { name, namespace } };
  const event = workloadDenialEvent(target, { policy, action: 'ReportPod', text, denied });
  logger.warn({ namespace, pod: name, reason: message }, 'the policy denies an unreviewed pod');
  void writeEvent(cluster, logger, { ...event, regarding, reportingController: NAME });
}

/** Publishes the reported pods as a metric and in the settings' status. */
async function publish(
  pods: readonly UnreviewedPod[],
  { metrics, date }: ControllerContext,
  { cluster }: ReconcileContext,
): Promise<void> {
  metrics.unreviewedPods.set(pods.length);
  const object = cluster.store.get(KIND, CONFIGURATION_NAME);
  if (!object) return;
  const state = describe(pods);
  const { conditions: all = [], unreviewedPods: before = [] } = object.status ?? {};
  const own = all.filter(({ type }) => type === state.type);
  const conditions = withTransitionTimes([state], own, formatTimestamp(date().getTime()));
  const unreviewed = pods.toSorted((a, b) => compareBytes(toKey(a), toKey(b))).slice(0, MAX_PODS);
  if (deepEqual([conditions, unreviewed], [own, before])) return;
  const status = { conditions, unreviewedPods: unreviewed };
  await cluster.applyStatus(
    KIND,
    { metadata: { name: CONFIGURATION_NAME }, status },
    { fieldManager: NAME, force: true },
  );
}

function toKey({ namespace, name }: UnreviewedPod): string {
  return `${namespace}/${name}`;
}

function describe(pods: readonly UnreviewedPod[]): ConditionState {
  const type = 'PodsReviewed';
  if (pods.length === 0) {
    const message = 'the policy denies none of the pods that were admitted without a review';
    return { type, status: 'True', reason: 'NoneDenied', message };
  }
  const count = pods.length === 1 ? '1 pod that was' : `${pods.length} pods that were`;
  const message = `the policy denies ${count} admitted without a review. To list them: portcullis report`;
  return { type, status: 'False', reason: 'PodsDenied', message };
}
