import type { Cluster } from '../cluster/cluster.ts';
import { select } from '../config/settings.ts';
import { getApiVersion } from '../kube/resources.ts';
import { NAMESPACE_RANGE_ANNOTATIONS, type RangeAllocation } from '../kube/scc.ts';
import { ApiError } from '../kube/status.ts';
import type { Namespace } from '../kube/types.ts';
import { truncate } from '../kube/text.ts';
import { RANGE_ALLOCATION_MANAGER } from '../kube/well-known.ts';
import {
  createAllocator,
  blockAnnotations,
  findNamespaceNeed,
  findRangeProblems,
  ORPHANED_MS,
  planRepair,
  type Repair,
  formatState,
  RANGE_ALLOCATION_NAME,
  readState,
} from '../policy/uid-range/allocation.ts';
import { sccMode } from '../policy/scc/mode.ts';
import { uniteBlocks, type Blocks } from '../policy/uid-range/blocks.ts';
import { type RangeSettings, formatUidRange } from '../policy/uid-range/ranges.ts';
import {
  createObject,
  isNotFound,
  orUndefined,
  rule,
  watch,
  watchValue,
  type ControllerContext,
  type ControllerDefinition,
  type ReconcileContext,
  type Reconciler,
  type ReconcileResult,
} from './controller.ts';

const KIND = 'RangeAllocation';
const OPTIONS = { fieldManager: RANGE_ALLOCATION_MANAGER };

/**
 * Existing annotations are never changed. Without enforced SCCs, no namespace receives ranges. The name is that of the
 * controller in OpenShift.
 */
export const uidRangeAllocator: ControllerDefinition = {
  name: RANGE_ALLOCATION_MANAGER,
  description: 'allocates UIDs, supplemental groups and an SELinux label to each namespace',
  runsOn: 'leader',
  readsSettings: true,
  permissions: [
    {
      role: 'uid-range-allocator',
      clusterRules: [
        // RBAC cannot limit a patch to annotations. The policy for the service account does.
        rule(['patch'], ['Namespace']),
        rule(['get', 'create', 'update'], [KIND]),
      ],
      namespaceKeys: Object.values(NAMESPACE_RANGE_ANNOTATIONS),
    },
  ],
  isEnabled: ({ scc }) => scc,
  create: (context) => createAllocatorReconciler(context),
};

/** After a failure of the leader, pods would be denied until its Lease expires. They wait for ranges for 10 s. */
const STANDBY_MS = 3000;

/** Replicas may allocate at the same time: each write fails if another replica has written in the meantime. */
export const uidRangeStandby: ControllerDefinition = {
  name: 'namespace-security-allocation-standby',
  description: `allocates ranges that the leader has not allocated within ${STANDBY_MS / 1000} s, for example after its failure`,
  runsOn: 'replica',
  readsSettings: true,
  permissions: [],
  isEnabled: ({ scc, replicas }) => scc && replicas,
  create: (context) => createAllocatorReconciler(context, STANDBY_MS),
};

/** A block that is marked as taken in the RangeAllocation, without a known namespace. */
interface Reservation {
  readonly block: number;
  readonly sinceMs: number;
  /** The only namespace that may receive the block, because its annotations may already have been written. */
  readonly onlyFor?: string;
}

type StateContext = Pick<ReconcileContext, 'cluster' | 'now'>;

interface WaitingNamespace {
  readonly namespace: string;
  readonly resolve: (reservation: Reservation) => void;
  readonly reject: (error: unknown) => void;
}

interface HeldState {
  readonly object: RangeAllocation;
  readonly taken: Blocks;
}

/** A reservation is used for this long. A repair frees the block later, and a write ends within a minute. */
const RESERVED_MS = ORPHANED_MS - 60_000;

/** The RangeAllocation. A block is marked as taken before a namespace receives it, so that it is allocated once. */
function createRangeState(settings: RangeSettings) {
  const { uidRange } = settings;
  const allocate = createAllocator(settings);
  /** The state after the last write; dropped when a write fails. */
  let held: HeldState | undefined;
  let released: readonly Reservation[] = [];
  let orphans: Repair['orphans'] = new Map();
  let waiting: WaitingNamespace[] = [];

  const read = async ({ cluster }: StateContext): Promise<HeldState> => {
    const object = await findState(cluster);
    if (!object) throw missingState();
    const taken = readState(object, uidRange);
    if ('error' in taken) throw new Error(taken.error);
    return { object, taken: taken.value };
  };
  const write = async (
    { cluster }: StateContext,
    object: RangeAllocation | undefined,
    taken: Blocks,
  ): Promise<HeldState> => {
    const fields = formatState(uidRange, taken);
    if (object?.range === fields.range && object.data === fields.data) return { object, taken };
    const written = await (object
      ? updateState(cluster, { ...object, ...fields })
      : createObject(cluster, KIND, { metadata: { name: RANGE_ALLOCATION_NAME }, ...fields }, OPTIONS));
    return { object: written, taken };
  };

  /** Runs work one after another: the state that was read must still hold when it is written. */
  let last: Promise<unknown> = Promise.resolve();
  const serialize = <T>(work: () => Promise<T>): Promise<T> => {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  };

  const takeReleased = (namespace: string, nowMs: number): Reservation | undefined => {
    const valid = released.filter(({ sinceMs }) => nowMs - sinceMs < RESERVED_MS);
    const reservation = valid.find(({ onlyFor = namespace }) => onlyFor === namespace);
    released = valid.filter((one) => one !== reservation);
    return reservation;
  };
  const takeFree = async (count: number, context: StateContext): Promise<readonly number[]> => {
    const state = held ?? (await read(context));
    held = undefined;
    let { taken } = state;
    const namespaces = context.cluster.store.list('Namespace');
    const blocks: number[] = [];
    for (let block; blocks.length < count && (block = allocate(taken, namespaces)) !== undefined;) {
      taken = uniteBlocks([...taken, { first: block, last: block }]);
      blocks.push(block);
    }
    held = await write(context, state.object, taken);
    return blocks;
  };
  const serve = async (context: StateContext): Promise<void> => {
    const nowMs = context.now();
    const unserved = waiting.filter(({ namespace, resolve }) => {
      const reservation = takeReleased(namespace, nowMs);
      if (reservation) resolve(reservation);
      return !reservation;
    });
    waiting = [];
    if (unserved.length === 0) return;
    try {
      const blocks = await takeFree(unserved.length, context);
      for (const [index, { resolve, reject }] of unserved.entries()) {
        const block = blocks[index];
        if (block === undefined) reject(new Error('uid range exceeded'));
        else resolve({ block, sinceMs: nowMs });
      }
    } catch (error) {
      for (const { reject } of unserved) reject(error);
    }
  };

  return {
    /**
     * Takes a block for a namespace: a released one, or the next free one. One write takes blocks for all waiting namespaces.
     * Rejects if no block is free, or if the object is missing, invalid or of another range: then it needs a repair.
     */
    take(namespace: string, context: StateContext): Promise<Reservation> {
      return new Promise((resolve, reject) => {
        waiting.push({ namespace, resolve, reject });
        // Requests that arrive during a write share the next write.
        if (waiting.length === 1) void serialize(() => serve(context));
      });
    },
    /** Releases a block to any namespace, or to the one that the reservation names. */
    release(reservation: Reservation): void {
      released = [...released, reservation];
    },
    /** Rebuilds the object from the annotations of the namespaces. */
    repair: (context: StateContext): Promise<Repair> =>
      serialize(async () => {
        held = undefined;
        const state = await findState(context.cluster);
        const namespaces = context.cluster.store.list('Namespace');
        const plan = planRepair({ range: uidRange, namespaces, state, orphans, nowMs: context.now() });
        held = await write(context, state, plan.taken);
        orphans = plan.orphans;
        return plan;
      }),
  };
}

function findState(cluster: Cluster): Promise<RangeAllocation | undefined> {
  return orUndefined(cluster.get(KIND, RANGE_ALLOCATION_NAME));
}

async function updateState(cluster: Cluster, object: RangeAllocation): Promise<RangeAllocation> {
  try {
    return await cluster.update(KIND, object, OPTIONS);
  } catch (error) {
    throw isNotFound(error) ? missingState({ cause: error }) : error;
  }
}

function missingState(options?: ErrorOptions): Error {
  return new Error(`RangeAllocation "${RANGE_ALLOCATION_NAME}" is missing`, options);
}

/** Keys that are not names of namespaces. */
const REPAIR = 'repair/';
const ALL = 'all/';
const RANGES_CHANGED = 'ranges-changed/';
const CHECK_RANGES = 'check-ranges/';

const REPAIR_MS = 8 * 60 * 60_000;
/** Delay of the check of all ranges after a change, since namespaces are often created in bursts. */
const CHECK_DELAY_MS = 1000;
/** Interval between repairs while the range is full. */
const FULL_MS = 60_000;
const RESYNC_MS = 10 * 60_000;
/** Number of namespaces that share one write of the RangeAllocation. */
const CONCURRENCY = 32;
/** The interval at which OpenShift's controller retries the repair at start. */
const MAX_RETRY_MS = 10_000;

/**
 * Creates the reconciler of the leader, or that of a standby.
 * @param standbyMs how long a standby leaves a namespace to the leader
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/security/controller/namespace_scc_allocation_controller.go
 */
function createAllocatorReconciler({ settings }: ControllerContext, standbyMs = 0): Reconciler {
  const { ranges } = settings.value;
  const isStandby = standbyMs > 0;
  const state = createRangeState(ranges);
  /** `done` if the RangeAllocation agrees with the namespaces. Allocations wait for the repair. */
  let repairState: 'none' | 'requested' | 'done' = 'none';
  let isFull = false;
  let reported: RangeProblems = new Map();
  /** The times since which namespaces need ranges. */
  const needed = new Map<string, number>();

  const findNeed = (namespace: Namespace): ReturnType<typeof findNamespaceNeed> => {
    const { scc, disabledControllers } = settings.value;
    const isEnforced = scc.mode === 'enforce' || sccMode(namespace, scc).mode === 'enforce';
    return isEnforced && !disabledControllers.includes(RANGE_ALLOCATION_MANAGER)
      ? findNamespaceNeed(namespace, ranges)
      : undefined;
  };
  const keys = (namespace: Namespace): readonly string[] =>
    findNeed(namespace) ? [namespace.metadata?.name ?? ''] : [];
  const enqueueAll = ({ cluster, enqueue }: ReconcileContext): void =>
    cluster.store
      .list('Namespace')
      .flatMap(keys)
      .forEach((key) => enqueue(key));
  const requestRepair = (context: ReconcileContext): void => {
    if (repairState === 'requested') return;
    repairState = 'requested';
    context.enqueue(REPAIR);
  };

  const repair = async (context: ReconcileContext): Promise<ReconcileResult> => {
    const isNeeded = settings.value.scc.mode === 'enforce' || context.cluster.store.list('Namespace').some(findNeed);
    repairState = isNeeded ? 'requested' : 'none';
    if (!isNeeded) return undefined;
    const { orphans, ...plan } = await state.repair(context);
    if (plan.isFull && !isFull && !isStandby) reportFull(ranges, context);
    isFull = plan.isFull;
    repairState = !isFull ? 'done' : isStandby ? 'none' : 'requested';
    if (!isFull) enqueueAll(context);
    if (isStandby) return undefined;
    return { requeueAfterMs: isFull ? FULL_MS : orphans.size > 0 ? ORPHANED_MS : REPAIR_MS };
  };

  /** Returns `undefined` if a repair is pending, which enqueues all namespaces that need a block. */
  const take = async (name: string, context: ReconcileContext): Promise<Reservation | undefined> => {
    try {
      return await state.take(name, context);
    } catch (error) {
      if (error instanceof ApiError) throw error;
      if (repairState !== 'done') return undefined;
      requestRepair(context);
      throw error;
    }
  };
  const release = (reservation: Reservation, context: ReconcileContext): void => {
    state.release(reservation);
    // The repair frees the block if no namespace takes it.
    context.enqueue(REPAIR, ORPHANED_MS);
  };

  const allocate = async (name: string, context: ReconcileContext): Promise<void> => {
    const reservation = await take(name, context);
    if (!reservation) return;
    const namespace = context.cluster.store.get('Namespace', name);
    if (!namespace || findNeed(namespace) !== 'block') {
      release(reservation, context);
      return;
    }
    try {
      await annotate(namespace, blockAnnotations(reservation.block, namespace, ranges), context);
    } catch (error) {
      // After an error of the client nothing was written. After any other error the namespace may have the block.
      const isUnwritten = error instanceof ApiError && error.status.code < 500;
      release(isUnwritten ? reservation : { ...reservation, onlyFor: name }, context);
      throw error;
    }
  };

  const reconcileNamespace = async (name: string, context: ReconcileContext): Promise<ReconcileResult> => {
    const namespace = context.cluster.store.get('Namespace', name);
    const need = namespace && findNeed(namespace);
    if (!need) {
      needed.delete(name);
      return undefined;
    }
    const sinceMs = needed.get(name) ?? context.now();
    needed.set(name, sinceMs);
    const leftMs = sinceMs + standbyMs - context.now();
    if (leftMs > 0) return { requeueAfterMs: leftMs };
    if (repairState === 'none') requestRepair(context);
    else if (repairState === 'done' && need === 'block') await allocate(name, context);
    else if (repairState === 'done' && need !== 'block') await annotate(namespace, need.annotations, context);
    return undefined;
  };

  return {
    initialKeys: isStandby ? [] : [REPAIR],
    sources: [
      watch('Namespace', (namespace, _store, { type }) =>
        type === 'remove' ? [namespace.metadata?.name ?? ''] : keys(namespace),
      ),
      watchValue(
        select(settings, ({ scc }) => scc),
        () => [ALL],
      ),
      ...(isStandby ? [] : [watch('Namespace', () => [RANGES_CHANGED])]),
    ],
    resyncMs: RESYNC_MS,
    maxRetryMs: MAX_RETRY_MS,
    concurrency: CONCURRENCY,
    async reconcile(key, context) {
      if (key === REPAIR) return repair(context);
      if (key === ALL) enqueueAll(context);
      else if (key === CHECK_RANGES) reported = reportProblems(reported, context);
      else if (key === RANGES_CHANGED) context.enqueue(CHECK_RANGES, CHECK_DELAY_MS);
      else return reconcileNamespace(key, context);
      return undefined;
    },
  };
}

/** Applies the annotations of a namespace. Fails with a conflict if it has changed since it was read. */
async function annotate(
  namespace: Namespace,
  annotations: Readonly<Record<string, string>>,
  { cluster, logger, recordEvent }: ReconcileContext,
): Promise<void> {
  const { name = '', resourceVersion = '' } = namespace.metadata ?? {};
  const applied = {
    apiVersion: getApiVersion('Namespace'),
    kind: 'Namespace',
    metadata: { name, resourceVersion, annotations },
  };
  await cluster.apply('Namespace', applied, OPTIONS);
  logger.info({ namespace: name, annotations }, 'ranges allocated to namespace');
  recordEvent('Namespace', namespace, {
    type: 'Normal',
    reason: 'CreatedSCCRanges',
    action: 'Allocate',
    message: `created SCC ranges for ${name} namespace`,
  });
}

/** Problems of the ranges of namespaces, by name. */
type RangeProblems = ReturnType<typeof findRangeProblems>;

/** Reports problems that are new, since the allocator does not change existing ranges. Returns all problems. */
function reportProblems(reported: RangeProblems, { cluster, logger, recordEvent }: ReconcileContext): RangeProblems {
  const { store } = cluster;
  const found = findRangeProblems(store.list('Namespace'));
  for (const [name, problems] of found) {
    const reason = problems.join('; ');
    if (reported.get(name)?.join('; ') === reason) continue;
    logger.warn({ namespace: name, reason }, 'namespace has invalid ranges');
    recordEvent('Namespace', store.get('Namespace', name) ?? { metadata: { name } }, {
      type: 'Warning',
      reason: 'InvalidSCCRanges',
      action: 'Check',
      message: `${truncate(reason, 700)}; correct the annotations, or remove them to allocate new ranges`,
    });
  }
  return found;
}

function reportFull({ uidRange }: RangeSettings, { logger, recordEvent }: ReconcileContext): void {
  const message = `the UID range ${formatUidRange(uidRange)} is full; you must widen the range in order to allocate more UIDs`;
  logger.error({ reason: message }, 'new namespaces receive no ranges');
  recordEvent(
    KIND,
    { metadata: { name: RANGE_ALLOCATION_NAME } },
    {
      type: 'Warning',
      reason: 'UIDRangeFull',
      action: 'Repair',
      message,
    },
  );
}
