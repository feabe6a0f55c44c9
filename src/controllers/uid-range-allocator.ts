import type { Cluster } from '../cluster/cluster.ts';
import { getApiVersion } from '../kube/resources.ts';
import type { RangeAllocation } from '../kube/scc.ts';
import { ApiError } from '../kube/status.ts';
import type { Namespace } from '../kube/types.ts';
import { truncate } from '../kube/text.ts';
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
import { uniteBlocks, type Blocks } from '../policy/uid-range/blocks.ts';
import { type RangeSettings, formatUidRange } from '../policy/uid-range/ranges.ts';
import {
  createObject,
  isNotFound,
  orUndefined,
  rule,
  watch,
  type ControllerDefinition,
  type ReconcileContext,
  type Reconciler,
  type ReconcileResult,
} from './controller.ts';

const NAME = 'namespace-security-allocation-controller';
const KIND = 'RangeAllocation';
const OPTIONS = { fieldManager: NAME };

/** Existing annotations are never changed. The name is that of the controller in OpenShift. */
export const uidRangeAllocator: ControllerDefinition = {
  name: NAME,
  description: 'allocates UIDs, supplemental groups and an SELinux label to each namespace',
  runsOn: 'leader',
  permissions: [
    {
      role: 'uid-range-allocator',
      clusterRules: [
        // RBAC cannot limit a patch to annotations: this permits all metadata, including finalizers.
        rule(['patch'], ['Namespace']),
        rule(['get', 'create', 'update'], [KIND]),
      ],
    },
  ],
  isEnabled: ({ scc }) => scc,
  create: ({ settings }) => createAllocatorReconciler(settings.value.ranges),
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

/** @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/security/controller/namespace_scc_allocation_controller.go */
function createAllocatorReconciler(settings: RangeSettings): Reconciler {
  const state = createRangeState(settings);
  /** False until the RangeAllocation agrees with the namespaces. Allocations wait for the repair. */
  let isRepaired = false;
  let isFull = false;
  let reported: RangeProblems = new Map();

  const repair = async (context: ReconcileContext): Promise<ReconcileResult> => {
    isRepaired = false;
    const { orphans, ...plan } = await state.repair(context);
    if (plan.isFull && !isFull) reportFull(settings, context);
    isFull = plan.isFull;
    if (isFull) return { requeueAfterMs: FULL_MS };
    isRepaired = true;
    for (const namespace of context.cluster.store.list('Namespace')) {
      for (const key of namespaceKeys(namespace, settings)) context.enqueue(key);
    }
    return { requeueAfterMs: orphans.size > 0 ? ORPHANED_MS : REPAIR_MS };
  };

  /** Returns `undefined` if a repair is pending, which enqueues all namespaces that need a block. */
  const take = async (name: string, context: ReconcileContext): Promise<Reservation | undefined> => {
    try {
      return await state.take(name, context);
    } catch (error) {
      if (error instanceof ApiError) throw error;
      if (!isRepaired) return undefined;
      isRepaired = false;
      context.enqueue(REPAIR);
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
    if (!namespace || findNamespaceNeed(namespace, settings) !== 'block') {
      release(reservation, context);
      return;
    }
    try {
      await annotate(namespace, blockAnnotations(reservation.block, namespace, settings), context);
    } catch (error) {
      // After an error of the client nothing was written. After any other error the namespace may have the block.
      const isUnwritten = error instanceof ApiError && error.status.code < 500;
      release(isUnwritten ? reservation : { ...reservation, onlyFor: name }, context);
      throw error;
    }
  };

  return {
    initialKeys: [REPAIR],
    sources: [
      watch('Namespace', (namespace) => namespaceKeys(namespace, settings)),
      watch('Namespace', () => [RANGES_CHANGED]),
    ],
    resyncMs: RESYNC_MS,
    maxRetryMs: MAX_RETRY_MS,
    concurrency: CONCURRENCY,
    async reconcile(key, context) {
      if (key === REPAIR) return repair(context);
      if (key === CHECK_RANGES) reported = reportProblems(reported, context);
      if (key === RANGES_CHANGED) context.enqueue(CHECK_RANGES, CHECK_DELAY_MS);
      const namespace = isRepaired ? context.cluster.store.get('Namespace', key) : undefined;
      const need = namespace && findNamespaceNeed(namespace, settings);
      if (need === 'block') await allocate(key, context);
      else if (namespace && need) await annotate(namespace, need.annotations, context);
      return undefined;
    },
  };
}

function namespaceKeys(namespace: Namespace, settings: RangeSettings): readonly string[] {
  return findNamespaceNeed(namespace, settings) ? [namespace.metadata?.name ?? ''] : [];
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
