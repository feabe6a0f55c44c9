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
   * Takes a block for a namespace: one that was given back, or the next.
   * @throws {Error} when none is left, or when the object is missing, broken or of another range: repair it
   */
  take(namespace: string, context: Context): Promise<Reservation>;
  /** Gives a block back: for any namespace, or for the one that is named. */
  giveBack(reservation: Reservation): void;
  /** Makes the object say what namespaces have. */
  repair(context: Context): Promise<Repair>;
}

type Context = Pick<ReconcileContext, 'cluster' | 'now'>;

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

  return {
    async take(namespace, context) {
      const nowMs = context.now();
      const ours = spares.filter(({ sinceMs }) => nowMs - sinceMs < RESERVED_MS);
      const spare = ours.find(({ onlyFor = namespace }) => onlyFor === namespace);
      spares = ours.filter((one) => one !== spare);
      if (spare) return spare;
      const { object, taken } = held ?? (await read(context));
      held = undefined;
      const block = allocate(taken, context.cluster.store.list('Namespace'));
      if (block === undefined) throw new Error('uid range exceeded');
      taken.add(block);
      held = await write(context, object, taken);
      return { block, sinceMs: nowMs };
    },
    giveBack(reservation) {
      spares = [...spares, reservation];
    },
    async repair(context) {
      held = undefined;
      const state = await find(context.cluster);
      const namespaces = context.cluster.store.list('Namespace');
      const plan = planRepair({ range: uidRange, namespaces, state, orphans, nowMs: context.now() });
      held = await write(context, state, plan.taken);
      orphans = plan.orphans;
      return plan;
    },
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
