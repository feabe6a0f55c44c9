import type { Found, Namespace } from '../../kube/types.ts';
import { quote } from '../../kube/text.ts';
import type { RangeAllocation } from '../../kube/scc.ts';
import { emptyBitmap, parseBitmap, type Bitmap } from './bitmap.ts';
import { ownBlockOf } from './in-use.ts';
import { blockAt, blockCountOf, blocksTouching, parseUidRange, printUidRange, type UidRange } from './uid-range.ts';

/** The name of the object that says which blocks are taken. */
export const RANGE_ALLOCATION_NAME = 'scc-uid';

/** The fields of the state object that say which blocks are taken. */
export type RangeState = Required<Pick<RangeAllocation, 'range' | 'data'>>;

/** The blocks that are taken; an error if the object is none of this range, or broken. */
export function readState(object: RangeAllocation, range: UidRange): Found<Bitmap> {
  const expected = printUidRange(range);
  if (object.range !== expected) {
    return { error: `conflicting UID range; expected ${expected}, got ${object.range ?? ''}` };
  }
  const taken = parseBitmap(object.data ?? '');
  return taken ? { value: taken } : { error: `data of RangeAllocation ${quote(RANGE_ALLOCATION_NAME)} is no base64` };
}

export function printState(range: UidRange, taken: Bitmap): RangeState {
  return { range: printUidRange(range), data: taken.print() };
}

/** The blocks that namespaces have; ids that are no block of the range do not count. */
export function blocksOfNamespaces(namespaces: readonly Namespace[], range: UidRange): Bitmap {
  const taken = emptyBitmap();
  for (const namespace of namespaces) {
    const index = ownBlockOf(namespace, range);
    if (index !== undefined) taken.add(index);
  }
  return taken;
}

/** Blocks of the range that the state object calls taken, also where it is the state of another range. */
export function blocksOfState(object: RangeAllocation, range: UidRange): Bitmap {
  const recorded = parseUidRange(object.range ?? '');
  const taken = emptyBitmap();
  if ('error' in recorded) return taken;
  const count = blockCountOf(recorded.value);
  for (const { first, last } of parseBitmap(object.data ?? '')?.rows() ?? []) {
    if (first >= count) break;
    const { min } = blockAt(recorded.value, first);
    const { max } = blockAt(recorded.value, Math.min(last, count - 1));
    const touched = blocksTouching(range, { min, max });
    if (touched) taken.addRange(touched.first, touched.last);
  }
  return taken;
}
