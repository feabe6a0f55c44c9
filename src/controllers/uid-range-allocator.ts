import type { Cluster } from '../cluster/cluster.ts';
import { ApiError } from '../kube/status.ts';
import type { RangeAllocation } from '../kube/scc.ts';
import {
  createAllocator,
  ORPHANED_MS,
  planRepair,
  type Repair,
  printState,
  RANGE_ALLOCATION_NAME,
  readState,
  annotationsOfBlock,
  needOf,
  rangeProblems,
} from '../policy/uid-range/allocation.ts';
import type { Bitmap } from '../policy/uid-range/bitmap.ts';
import { type RangeSettings, printUidRange } from '../policy/uid-range/ranges.ts';
import { type ReconcileContext, on, type Controller, type ReconcileResult, createObject } from './controller.ts';
import { truncate } from '../kube/text.ts';
import { getApiVersion } from '../kube/resources.ts';
import type { Namespace } from '../kube/types.ts';

/** A block that is taken and that no namespace is known to have. */
interface Reservation {
  readonly block: number;
  readonly sinceMs: number;
  /** The namespace that may have it after all. */
  readonly onlyFor?: string;
}

/** The state object, in which every block is taken before a namespace gets it: never is one given twice. */
interface RangeState {
  /**
   * Takes a block for a namespace: one that was given back, or the next. One write takes blocks for all that wait.
   * @throws {Error} when none is left, or when the object is missing, broken or of another range: repair it
   */
  take(namespace: string, context: Context): Promise<Reservation>;
  /** Gives a block back: for any namespace, or for the one that is named. */
  giveBack(reservation: Reservation): void;
  /** Makes the object say what namespaces have. */
  repair(context: Context): Promise<Repair>;
}

type Context = Pick<ReconcileContext, 'cluster' | 'now'>;

/** A namespace that waits for a block. */
interface Taker {
  readonly namespace: string;
  readonly resolve: (reservation: Reservation) => void;
  readonly reject: (error: unknown) => void;
}

interface Held {
  readonly object: RangeAllocation;
  readonly taken: Bitmap;
}

const KIND = 'RangeAllocation';

/** For so long a block is sure to be ours: a repair, by whomever, releases it later, and a write takes less than a minute. */
const RESERVED_MS = ORPHANED_MS - 60_000;

/** Keeps the state object by writes that fail if somebody else has written in between. */
function createRangeState(settings: RangeSettings, fieldManager: string): RangeState {
  const { uidRange } = settings;
  const allocate = createAllocator(settings);
  /** What the last write has left; forgotten when one fails. */
  let held: Held | undefined;
  let spares: readonly Reservation[] = [];
  let orphans: Repair['orphans'] = new Map();

  const read = async ({ cluster }: Context): Promise<Held> => {
    const object = await find(cluster);
    if (!object) throw missing();
    const taken = readState(object, uidRange);
    if ('error' in taken) throw new Error(taken.error);
    return { object, taken: taken.value };
  };
  const write = async ({ cluster }: Context, object: RangeAllocation | undefined, taken: Bitmap): Promise<Held> => {
    const fields = printState(uidRange, taken);
    if (object?.range === fields.range && object.data === fields.data) return { object, taken };
    const written = await (object
      ? replace(cluster, { ...object, ...fields }, fieldManager)
      : createObject(cluster, KIND, { metadata: { name: RANGE_ALLOCATION_NAME }, ...fields }, { fieldManager }));
    return { object: written, taken };
  };

  /** One after another: whatever is read of the object must still hold when it is written. */
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  };

  let takers: Taker[] = [];
  const takeSpare = (namespace: string, nowMs: number): Reservation | undefined => {
    const ours = spares.filter(({ sinceMs }) => nowMs - sinceMs < RESERVED_MS);
    const spare = ours.find(({ onlyFor = namespace }) => onlyFor === namespace);
    spares = ours.filter((one) => one !== spare);
    return spare;
  };
  const takeNew = async (count: number, context: Context): Promise<readonly number[]> => {
    const { object, taken } = held ?? (await read(context));
    held = undefined;
    const namespaces = context.cluster.store.list('Namespace');
    const blocks: number[] = [];
    for (let block; blocks.length < count && (block = allocate(taken, namespaces)) !== undefined;) {
      taken.add(block);
      blocks.push(block);
    }
    held = await write(context, object, taken);
    return blocks;
  };
  const serve = async (context: Context): Promise<void> => {
    const nowMs = context.now();
    const waiting = takers.filter(({ namespace, resolve }) => {
      const spare = takeSpare(namespace, nowMs);
      if (spare) resolve(spare);
      return !spare;
    });
    takers = [];
    if (waiting.length === 0) return;
    try {
      const blocks = await takeNew(waiting.length, context);
      for (const [index, { resolve, reject }] of waiting.entries()) {
        const block = blocks[index];
        if (block === undefined) reject(new Error('uid range exceeded'));
        else resolve({ block, sinceMs: nowMs });
      }
    } catch (error) {
      for (const { reject } of waiting) reject(error);
    }
  };

  return {
    take(namespace, context) {
      return new Promise((resolve, reject) => {
        takers.push({ namespace, resolve, reject });
        // Who comes while the object is written waits for the next write, together with all others.
        if (takers.length === 1) void inTurn(() => serve(context));
      });
    },
    giveBack(reservation) {
      spares = [...spares, reservation];
    },
    repair: (context) =>
      inTurn(async () => {
        held = undefined;
        const state = await find(context.cluster);
        const namespaces = context.cluster.store.list('Namespace');
        const plan = planRepair({ range: uidRange, namespaces, state, orphans, nowMs: context.now() });
        held = await write(context, state, plan.taken);
        orphans = plan.orphans;
        return plan;
      }),
  };
}

async function find(cluster: Cluster): Promise<RangeAllocation | undefined> {
  try {
    return await cluster.get(KIND, RANGE_ALLOCATION_NAME);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

async function replace(cluster: Cluster, object: RangeAllocation, fieldManager: string): Promise<RangeAllocation> {
  try {
    return await cluster.update(KIND, object, { fieldManager });
  } catch (error) {
    throw isMissing(error) ? missing({ cause: error }) : error;
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof ApiError && error.status.code === 404;
}

function missing(options?: ErrorOptions): Error {
  return new Error(`RangeAllocation "${RANGE_ALLOCATION_NAME}" is missing`, options);
}

/** Named as the controller of the original, which on OpenShift writes under another field manager. */
export const UID_RANGE_ALLOCATOR = 'namespace-security-allocation-controller';

/** The key that stands for the state object; no namespace can be called that. */
const REPAIR = 'repair/';
const REPAIR_MS = 8 * 60 * 60_000;
/** The keys that stand for the ranges that namespaces have: one of them has changed, and look at all. */
const RANGES_CHANGED = 'ranges-changed/';
const CHECK_RANGES = 'check-ranges/';
/** Namespaces come in bursts. */
const CHECK_DELAY_MS = 1000;
/** How soon a range that is full is looked at again. */
const FULL_MS = 60_000;
const RESYNC_MS = 10 * 60_000;
/** So many namespaces get their blocks by one write of the state object, and are annotated at a time. */
const CONCURRENCY = 32;
/** As often as the original tries to repair at start. */
const MAX_RETRY_MS = 10_000;

/**
 * Gives each namespace ids, groups and a label of its own. What is there already stays as it is.
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/security/controller/namespace_scc_allocation_controller.go
 */
export function createUidRangeAllocator(settings: RangeSettings): Controller {
  const state = createRangeState(settings, UID_RANGE_ALLOCATOR);
  /** False until the state object agrees with the namespaces; what they need waits for that. */
  let isRepaired = false;
  let isFull = false;
  /** What is wrong with ranges that somebody has chosen. */
  let told: RangeProblems = new Map();

  const repair = async (context: ReconcileContext): Promise<ReconcileResult> => {
    isRepaired = false;
    const { orphans, ...plan } = await state.repair(context);
    if (plan.isFull && !isFull) tellFull(settings, context);
    isFull = plan.isFull;
    if (isFull) return { requeueAfterMs: FULL_MS };
    isRepaired = true;
    for (const namespace of context.cluster.store.list('Namespace')) {
      for (const key of keysOf(namespace, settings)) context.enqueue(key);
    }
    return { requeueAfterMs: orphans.size > 0 ? ORPHANED_MS : REPAIR_MS };
  };

  /** `undefined` if the state object is to be repaired, as is known already: then all who need a block come again. */
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
  const giveBack = (reservation: Reservation, context: ReconcileContext): void => {
    state.giveBack(reservation);
    // Should nobody take it, it is released.
    context.enqueue(REPAIR, ORPHANED_MS);
  };

  const allot = async (name: string, context: ReconcileContext): Promise<void> => {
    const reservation = await take(name, context);
    if (!reservation) return;
    const namespace = context.cluster.store.get('Namespace', name);
    if (!namespace || needOf(namespace, settings) !== 'block') {
      giveBack(reservation, context);
      return;
    }
    try {
      await annotate(namespace, annotationsOfBlock(reservation.block, namespace, settings), context);
    } catch (error) {
      // A refusal is known to have written nothing. After any other failure the namespace may have the block.
      const isRefused = error instanceof ApiError && error.status.code < 500;
      giveBack(isRefused ? reservation : { ...reservation, onlyFor: name }, context);
      throw error;
    }
  };

  return {
    name: UID_RANGE_ALLOCATOR,
    runs: 'leader',
    keys: [REPAIR],
    sources: [on('Namespace', (namespace) => keysOf(namespace, settings)), on('Namespace', () => [RANGES_CHANGED])],
    resyncMs: RESYNC_MS,
    maxRetryMs: MAX_RETRY_MS,
    concurrency: CONCURRENCY,
    async reconcile(key, context) {
      if (key === REPAIR) return repair(context);
      if (key === CHECK_RANGES) told = tellProblems(told, context);
      if (key === RANGES_CHANGED) context.enqueue(CHECK_RANGES, CHECK_DELAY_MS);
      const namespace = isRepaired ? context.cluster.store.get('Namespace', key) : undefined;
      const need = namespace && needOf(namespace, settings);
      if (need === 'block') await allot(key, context);
      else if (namespace && need) await annotate(namespace, need.annotations, context);
      return undefined;
    },
  };
}

function keysOf(namespace: Namespace, settings: RangeSettings): readonly string[] {
  return needOf(namespace, settings) ? [namespace.metadata?.name ?? ''] : [];
}

/** Writes all annotations of the namespace that are ours, unless it has changed since it was read. */
async function annotate(
  { metadata: { name = '', uid, resourceVersion = '' } = {} }: Namespace,
  annotations: Readonly<Record<string, string>>,
  { cluster, logger, tell }: ReconcileContext,
): Promise<void> {
  const type = { apiVersion: getApiVersion('Namespace'), kind: 'Namespace' };
  await cluster.apply(
    'Namespace',
    { ...type, metadata: { name, resourceVersion, annotations } },
    { fieldManager: UID_RANGE_ALLOCATOR },
  );
  logger.info({ namespace: name, annotations }, 'namespace has its ranges');
  tell({
    regarding: { ...type, metadata: { name, ...(uid === undefined ? {} : { uid }) } },
    type: 'Normal',
    reason: 'CreatedSCCRanges',
    action: 'Allocate',
    note: `created SCC ranges for ${name} namespace`,
  });
}

/** What is wrong with the ranges of namespaces, by their names. */
type RangeProblems = ReturnType<typeof rangeProblems>;

/** Tells what is new, since the allocator leaves ranges as they are; returns all there is. */
function tellProblems(told: RangeProblems, { cluster, logger, tell }: ReconcileContext): RangeProblems {
  const found = rangeProblems(cluster.store.list('Namespace'));
  for (const [name, problems] of found) {
    const note = problems.join('; ');
    if (told.get(name)?.join('; ') === note) continue;
    logger.warn({ namespace: name, reason: note }, 'namespace has ranges that are wrong');
    const uid = cluster.store.get('Namespace', name)?.metadata?.uid;
    tell({
      regarding: {
        apiVersion: getApiVersion('Namespace'),
        kind: 'Namespace',
        metadata: { name, ...(uid === undefined ? {} : { uid }) },
      },
      type: 'Warning',
      reason: 'InvalidSCCRanges',
      action: 'Check',
      note: `${truncate(note, 700)}; correct it, or remove the annotations so that they are allocated`,
    });
  }
  return found;
}

function tellFull({ uidRange }: RangeSettings, { logger, tell }: ReconcileContext): void {
  const note = `the UID range ${printUidRange(uidRange)} is full; you must widen the range in order to allocate more UIDs`;
  logger.error({ reason: note }, 'new namespaces get no ids');
  tell({
    regarding: {
      apiVersion: getApiVersion('RangeAllocation'),
      kind: 'RangeAllocation',
      metadata: { name: RANGE_ALLOCATION_NAME },
    },
    type: 'Warning',
    reason: 'UIDRangeFull',
    action: 'Repair',
    note,
  });
}
