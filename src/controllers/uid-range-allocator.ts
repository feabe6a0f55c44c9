import { ignoreNotFound } from '../cluster/client.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { httpStatusCode } from '../cluster/connection.ts';
import { selectObservable } from '../config/settings.ts';
import { getApiVersion } from '../kube/resources.ts';
import { NAMESPACE_RANGE_ANNOTATIONS, type RangeAllocation } from '../kube/scc.ts';
import { ApiError } from '../kube/status.ts';
import { truncate } from '../kube/text.ts';
import type { Namespace } from '../kube/types.ts';
import { RANGE_ALLOCATION_MANAGER } from '../kube/well-known.ts';
import { sccMode } from '../policy/scc/index.ts';
import {
  blockAnnotations,
  createAllocator,
  findMissingRanges,
  findRangeProblems,
  formatState,
  formatUidRange,
  ORPHANED_MS,
  type Orphans,
  planRepair,
  RANGE_ALLOCATION_NAME,
  type RangeSettings,
  readState,
  uniteBlocks,
} from '../policy/uid-range/index.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  createObject,
  type ReconcileContext,
  type Reconciler,
  type ReconcileResult,
  watch,
  watchValue,
} from './controller.ts';
import { rbacRule } from './permissions.ts';

const KIND = 'RangeAllocation';
const OPTIONS = { fieldManager: RANGE_ALLOCATION_MANAGER };

/**
 * Allocates ranges to namespaces in which SCCs are enforced. Never changes existing annotations. The name is that of
 * OpenShift's controller.
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
        // RBAC cannot restrict a patch to annotations, but the policy for the service account does.
        rbacRule(['patch'], ['Namespace']),
        rbacRule(['get', 'create', 'update'], [KIND]),
      ],
      namespaceKeys: Object.values(NAMESPACE_RANGE_ANNOTATIONS),
    },
  ],
  isEnabled: ({ scc }) => scc,
  create: (context) => createAllocatorReconciler(context),
};

/**
 * Time after which a standby allocates ranges that the leader has not allocated. It is short because pod reviews wait
 * only 10 s for ranges.
 */
const STANDBY_MS = 3000;

/**
 * Allocates ranges if the leader does not. Several replicas may allocate concurrently, because a write fails if another
 * replica has written in the meantime.
 */
export const uidRangeStandby: ControllerDefinition = {
  name: 'namespace-security-allocation-standby',
  description: `allocates ranges that the leader has not allocated within ${STANDBY_MS / 1000} s, for example because it failed`,
  runsOn: 'replica',
  disabledWith: RANGE_ALLOCATION_MANAGER,
  readsSettings: true,
  permissions: [],
  isEnabled: ({ scc, replicas }) => scc && replicas,
  create: (context) => createAllocatorReconciler(context, STANDBY_MS),
};

/** A block that is marked as taken but that no namespace is known to use. */
interface Reservation {
  readonly block: number;
  readonly sinceMs: number;
}

/** Result of taking blocks from the RangeAllocation. */
interface TakenBlocks {
  readonly blocks: ReadonlyMap<string, number>;
  /** True if there are orphaned blocks, which remain marked as taken until a later repair. */
  readonly hasOrphans: boolean;
}

/**
 * Lifetime of a reservation. It is a minute shorter than the time after which a repair frees the block, so
 * pending writes end before the repair.
 */
const RESERVED_MS = ORPHANED_MS - 60_000;

/**
 * Manages the RangeAllocation. A block is marked as taken before it is assigned to a namespace, so no block
 * is allocated twice.
 */
function createRangeState(settings: RangeSettings) {
  const { uidRange } = settings;
  const allocate = createAllocator(settings);
  /**
   * Reserved blocks by namespace name. They are reserved because the namespace's annotations may already have been
   * written.
   */
  const reserved = new Map<string, Reservation>();
  /** Taken blocks that may be assigned to any namespace. */
  let released: readonly Reservation[] = [];
  let orphans: Orphans = new Map();
  let uid: string | undefined;
  /**
   * Drops the blocks of a deleted object, because another replica that recreated it may have allocated them again.
   */
  const forgetDeleted = (state: RangeAllocation | undefined): void => {
    if (!state || state.metadata?.uid === uid) return;
    reserved.clear();
    released = [];
    orphans = new Map();
  };
  return {
    /**
     * Repairs the object based on the annotations of all namespaces, and takes a block for each given namespace. This
     * is its reserved block, a released block, or the next free block. A namespace receives no block if none is free.
     */
    async take(names: readonly string[], { cluster, logger, now }: ReconcileContext): Promise<TakenBlocks> {
      const state = await ignoreNotFound(cluster.get(KIND, RANGE_ALLOCATION_NAME));
      forgetDeleted(state);
      const read = state && readState(state, uidRange);
      if (read && 'error' in read) logger.warn({ reason: read.error }, 'replacing the RangeAllocation');
      const namespaces = cluster.store.list('Namespace');
      const nowMs = now();
      const known = state ? orphans : addReserved(orphans, reserved);
      const plan = planRepair({ range: uidRange, namespaces, state, orphans: known, nowMs });
      const isUsable = ({ block, sinceMs }: Reservation): boolean =>
        nowMs - sinceMs < RESERVED_MS && isOrphan(block, plan.orphans);
      const free = released.filter(isUsable);
      let { taken } = plan;
      const blocks = new Map<string, Reservation>();
      for (const name of names) {
        const own = reserved.get(name);
        const reservation = own && isUsable(own) ? own : free.shift();
        const block = reservation?.block ?? allocate(taken, namespaces);
        if (block === undefined) break;
        taken = uniteBlocks([...taken, { first: block, last: block }]);
        blocks.set(name, reservation ?? { block, sinceMs: nowMs });
      }
      const written = await writeState(cluster, state, formatState(uidRange, taken));
      uid = written.metadata?.uid;
      orphans = plan.orphans;
      released = free;
      reserved.clear();
      for (const [name, reservation] of blocks) reserved.set(name, reservation);
      return {
        blocks: new Map(Array.from(blocks, ([name, { block }]) => [name, block])),
        hasOrphans: orphans.size > 0,
      };
    },
    /**
     * Ends a namespace's reservation. If the namespace did not receive its block, the block may be assigned
     * to another namespace.
     */
    endReservation(name: string, { isReceived }: { readonly isReceived: boolean }): void {
      const reservation = reserved.get(name);
      reserved.delete(name);
      if (reservation && !isReceived) released = [...released, reservation];
    },
  };
}

/**
 * Returns the orphans and the reserved blocks. After the object is deleted, only the reservations record that
 * a namespace may have received a block.
 */
function addReserved(orphans: Orphans, reserved: ReadonlyMap<string, Reservation>): Orphans {
  const all = new Map(orphans);
  for (const { block, sinceMs } of reserved.values()) {
    all.set(sinceMs, uniteBlocks([...(all.get(sinceMs) ?? []), { first: block, last: block }]));
  }
  return all;
}

/** Returns true for a taken block that no namespace uses. */
function isOrphan(block: number, orphans: Orphans): boolean {
  return [...orphans.values()].flat().some(({ first, last }) => first <= block && block <= last);
}

/**
 * Writes the object if it has changed. Rejects with a conflict if another client has changed the object since it was
 * read.
 */
async function writeState(
  cluster: Cluster,
  state: RangeAllocation | undefined,
  fields: ReturnType<typeof formatState>,
): Promise<RangeAllocation> {
  if (state?.range === fields.range && state.data === fields.data) return state;
  return state
    ? await cluster.update(KIND, { ...state, ...fields }, OPTIONS)
    : await createObject(cluster, KIND, { metadata: { name: RANGE_ALLOCATION_NAME }, ...fields }, OPTIONS);
}

/** Keys of the controller, for allocating blocks and for checking all ranges. */
const ALLOCATE = 'allocate';
const RANGES_CHANGED = 'ranges-changed';
const CHECK_RANGES = 'check-ranges';

const REPAIR_MS = 8 * 60 * 60_000;
/** Delay before checking all ranges after a change, because namespaces are often created in bursts. */
const CHECK_DELAY_MS = 1000;
/** Retry interval while the range is full. */
const FULL_MS = 60_000;
const RESYNC_MS = 10 * 60_000;
/** Number of concurrent namespace writes. */
const CONCURRENCY = 32;
/** Maximum retry delay, which is the interval at which OpenShift's controller retries the startup repair. */
const MAX_RETRY_MS = 10_000;

type Missing = NonNullable<ReturnType<typeof findMissingRanges>>;

interface IncompleteNamespace {
  readonly name: string;
  readonly missing: Missing;
}

/**
 * Creates a function that determines whether a namespace needs a block or only annotations under the current settings.
 */
function createMissingRanges({ settings }: Pick<ControllerContext, 'settings'>, ranges: RangeSettings) {
  return (namespace: Namespace): Missing | undefined => {
    const { scc } = settings.value;
    const isEnforced = scc.mode === 'enforce' || sccMode(namespace, scc).mode === 'enforce';
    return isEnforced ? findMissingRanges(namespace, ranges) : undefined;
  };
}

/**
 * Creates the reconciler for the leader or for a standby, which waits `standbyMs` for the leader to handle a namespace.
 * A single write to the RangeAllocation takes blocks for all namespaces that need one.
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/security/controller/namespace_scc_allocation_controller.go
 */
function createAllocatorReconciler({ settings }: ControllerContext, standbyMs = 0): Reconciler {
  const { ranges } = settings.value;
  const isStandby = standbyMs > 0;
  const findMissing = createMissingRanges({ settings }, ranges);
  const state = createRangeState(ranges);
  const selectDue = createDelay(standbyMs);
  const receiver: Receiver = { findMissing, ranges, state };
  let repairDueMs = 0;
  let isFull = false;
  let reported: RangeProblems = new Map();

  /**
   * Returns true on the leader if SCCs are enforced by default. In that case, the leader repairs the RangeAllocation
   * even if no namespace needs a block.
   */
  const isRepairing = (): boolean => !isStandby && settings.value.scc.mode === 'enforce';
  const takeBlocks = async (
    due: readonly IncompleteNamespace[],
    context: ReconcileContext,
  ): Promise<TakenBlocks['blocks']> => {
    const names = due.flatMap(({ name, missing }) => (missing === 'block' ? name : []));
    if (names.length === 0 && !(isRepairing() && context.now() >= repairDueMs)) return new Map();
    const { blocks, hasOrphans } = await state.take(names, context);
    const isExceeded = blocks.size < names.length;
    if (isExceeded && !isFull && !isStandby) reportFull(ranges, context);
    isFull = isExceeded;
    // A block that this write takes becomes an orphan if its namespace does not receive the block.
    const mayHaveOrphans = hasOrphans || names.length > 0;
    repairDueMs = context.now() + (mayHaveOrphans ? ORPHANED_MS : REPAIR_MS);
    return blocks;
  };
  const allocate = async (context: ReconcileContext): Promise<ReconcileResult> => {
    const { due, waitMs } = selectDue(listIncomplete(context, findMissing), context.now());
    const blocks = await takeBlocks(due, context);
    await forEachConcurrently(due, ({ name }) => receive(name, blocks.get(name), receiver, context));
    const retryMs = isFull ? FULL_MS : Infinity;
    const repairMs = isRepairing() ? Math.max(repairDueMs - context.now(), 1) : Infinity;
    const requeueAfterMs = Math.min(waitMs, retryMs, repairMs);
    return requeueAfterMs === Infinity ? undefined : { requeueAfterMs };
  };

  const changed = selectObservable(settings, ({ scc }) => scc);
  return {
    initialKeys: [ALLOCATE],
    sources: [
      watch('Namespace', (namespace, _store, { type }) =>
        type !== 'remove' && findMissing(namespace) ? [ALLOCATE] : [],
      ),
      watchValue(changed, () => [ALLOCATE]),
      ...(isStandby ? [] : [watch('Namespace', () => [RANGES_CHANGED])]),
    ],
    resyncMs: RESYNC_MS,
    maxRetryMs: MAX_RETRY_MS,
    async reconcile(key, context) {
      if (key === ALLOCATE) return allocate(context);
      if (key === CHECK_RANGES) reported = reportProblems(reported, context);
      else context.enqueue(CHECK_RANGES, CHECK_DELAY_MS);
      return undefined;
    },
  };
}

function listIncomplete(
  { cluster }: ReconcileContext,
  findMissing: Receiver['findMissing'],
): readonly IncompleteNamespace[] {
  return cluster.store.list('Namespace').flatMap((namespace) => {
    const missing = findMissing(namespace);
    return missing ? [{ name: namespace.metadata?.name ?? '', missing }] : [];
  });
}

interface Receiver {
  findMissing(namespace: Namespace): Missing | undefined;
  readonly ranges: RangeSettings;
  readonly state: Pick<ReturnType<typeof createRangeState>, 'endReservation'>;
}

/** Writes the annotations that a namespace needs. The RangeAllocation must have been written before. */
async function receive(
  name: string,
  block: number | undefined,
  { findMissing, ranges, state }: Receiver,
  context: ReconcileContext,
): Promise<void> {
  const namespace = context.cluster.store.get('Namespace', name);
  const missing = namespace && findMissing(namespace);
  if (!namespace || !missing) {
    state.endReservation(name, { isReceived: false });
    return;
  }
  const blockRanges = block === undefined ? undefined : blockAnnotations(block, namespace, ranges);
  const annotations = missing === 'block' ? blockRanges : missing.annotations;
  // The namespace needs a block, but none was free.
  if (!annotations) return;
  try {
    await annotate(namespace, annotations, context);
    state.endReservation(name, { isReceived: true });
  } catch (error) {
    // After a client error, nothing was written. After any other error, the namespace may have received the block.
    if (error instanceof ApiError && error.status.code < 500) state.endReservation(name, { isReceived: false });
    throw error;
  }
}

/**
 * Creates a function that selects the namespaces that have needed ranges for at least the delay. It also returns the
 * time until the next namespace is due.
 */
function createDelay(delayMs: number) {
  let since: ReadonlyMap<string, number> = new Map();
  return (
    namespaces: readonly IncompleteNamespace[],
    nowMs: number,
  ): { readonly due: readonly IncompleteNamespace[]; readonly waitMs: number } => {
    since = new Map(namespaces.map(({ name }) => [name, since.get(name) ?? nowMs]));
    const leftMs = ({ name }: IncompleteNamespace): number => (since.get(name) ?? nowMs) + delayMs - nowMs;
    const due = namespaces.filter((namespace) => leftMs(namespace) <= 0);
    return { due, waitMs: Math.min(...namespaces.map(leftMs).filter((ms) => ms > 0)) };
  };
}

/**
 * Calls a function for all items. If any calls fail, rejects after all calls have ended. Rejects with a conflict only
 * if all failures are conflicts.
 */
async function forEachConcurrently<T>(items: readonly T[], call: (item: T) => Promise<void>): Promise<void> {
  const errors: unknown[] = [];
  const open = items.values();
  const work = async (): Promise<void> => {
    for (const item of open) await call(item).catch((error: unknown) => errors.push(error));
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
  if (errors.length > 0) throw errors.find((error) => httpStatusCode(error) !== 409) ?? errors[0];
}

/** Applies the annotations to a namespace. Rejects with a conflict if the namespace has changed since it was read. */
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

/** Problems with namespace ranges, by name. */
type RangeProblems = ReturnType<typeof findRangeProblems>;

/** Reports new problems, because the allocator does not correct existing ranges. Returns all problems. */
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
