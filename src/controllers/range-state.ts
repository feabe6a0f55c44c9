import type { Cluster } from '../cluster/port.ts';
import { ApiError } from '../kube/status.ts';
import type { RangeAllocation } from '../kube/scc.ts';
import { createAllocator } from '../policy/uid-range/allocate.ts';
import type { Bitmap } from '../policy/uid-range/bitmap.ts';
import { ORPHANED_MS, planRepair, type Repair } from '../policy/uid-range/repair.ts';
import type { RangeSettings } from '../policy/uid-range/settings.ts';
import { printState, RANGE_ALLOCATION_NAME, readState } from '../policy/uid-range/state.ts';
import type { ReconcileContext } from './controller.ts';
import { createObject } from './create-object.ts';

/** A block that is taken and that no namespace is known to have. */
export interface Reservation {
  readonly block: number;
  readonly sinceMs: number;
  /** The namespace that may have it after all. */
  readonly onlyFor?: string;
}

/** The state object, in which every block is taken before a namespace gets it: never is one given twice. */
export interface RangeState {
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
export function createRangeState(settings: RangeSettings, fieldManager: string): RangeState {
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
