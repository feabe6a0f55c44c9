import assert from 'node:assert/strict';
import type { Result, Namespace } from '../../../src/kube/types.ts';
import {
  createAllocator,
  blockAnnotations,
  planRepair,
  formatState,
} from '../../../src/policy/uid-range/allocation.ts';
import { emptyBitmap, type Bitmap } from '../../../src/policy/uid-range/bitmap.ts';
import {
  parseMcsLabel,
  formatMcsLabel,
  labelRank,
  isInMcsRange,
  labelCount,
  parseMcsRange,
  formatMcsRange,
  parseUidRange,
} from '../../../src/policy/uid-range/ranges.ts';
import { area, type Area } from './area.ts';

type Annotations = Readonly<Record<string, string>>;

interface McsRangeExpect {
  readonly valid: boolean;
  readonly errorContains?: string;
  readonly size?: number;
  readonly string?: string;
  readonly contains?: Readonly<Record<string, boolean>>;
}

interface McsLabelExpect {
  readonly valid: boolean;
  readonly categories?: readonly number[];
  readonly offset?: number;
  readonly string?: string;
}

interface AllocateInput {
  readonly uidRange: string;
  readonly mcsRange: string;
  readonly labelsPerBlock: number;
  readonly allocatedBits?: readonly number[];
  readonly forcedBit?: number;
  readonly namespaceAnnotations: Annotations;
}

interface RepairInput {
  readonly uidRange: string;
  readonly namespaces: readonly Annotations[];
}

const LABELS = 'the labels of blocks';

/** The ids and labels that namespaces get. */
export const ALLOCATION_AREAS: Readonly<Record<string, Area>> = {
  'allocation.mcsRange': area(LABELS, ({ range: text }: { readonly range: string }, expect: McsRangeExpect) => {
    const range = parseMcsRange(text);
    assert.equal('value' in range, expect.valid);
    if ('error' in range) {
      assert.ok(range.error.includes(expect.errorContains ?? ''), range.error);
      return;
    }
    assert.equal(labelCount(range.value), expect.size);
    assert.equal(formatMcsRange(range.value), expect.string);
    for (const [label, isIn] of Object.entries(expect.contains ?? {})) {
      assert.equal(isInMcsRange(range.value, valueOf(parseMcsLabel(label))), isIn, label);
    }
  }),
  'allocation.mcsLabel': area(LABELS, ({ label: text }: { readonly label: string }, expect: McsLabelExpect) => {
    const label = parseMcsLabel(text);
    assert.equal('value' in label, expect.valid);
    if ('error' in label) return;
    assert.deepEqual(label.value.categories, expect.categories);
    assert.equal(labelRank(label.value.categories), expect.offset);
    assert.equal(formatMcsLabel(label.value), expect.string);
  }),
  'allocation.allocate': area(
    'the allocation of blocks',
    (input: AllocateInput, expect: { readonly bit: number; readonly annotations: Annotations }) => {
      const settings = {
        uidRange: valueOf(parseUidRange(input.uidRange)),
        mcsRange: valueOf(parseMcsRange(input.mcsRange)),
        labelsPerBlock: input.labelsPerBlock,
      };
      const namespace = namespaceWith(input.namespaceAnnotations);
      const next = createAllocator(settings)(bitmapOf(input.allocatedBits ?? []), [namespace]);
      const index = input.forcedBit ?? next;
      assert.equal(index, expect.bit);
      assert.deepEqual(blockAnnotations(expect.bit, namespace, settings), expect.annotations);
    },
  ),
  'allocation.repair': area(
    'the repair of what is taken',
    (input: RepairInput, expect: { readonly range: string; readonly bitmap: number }) => {
      const range = valueOf(parseUidRange(input.uidRange));
      const namespaces = input.namespaces.map(namespaceWith);
      const { taken } = planRepair({ range, namespaces, state: undefined, orphans: new Map(), nowMs: 0 });
      assert.equal(formatState(range, taken).range, expect.range);
      assert.equal(
        [...taken.values()].reduce((number, bit) => number + 2 ** bit, 0),
        expect.bitmap,
      );
    },
  ),
};

function valueOf<T>(found: Result<T>): T {
  if ('error' in found) throw new TypeError(found.error);
  return found.value;
}

function namespaceWith(annotations: Annotations): Namespace {
  return { metadata: { name: 'demo', annotations } };
}

function bitmapOf(bits: readonly number[]): Bitmap {
  const bitmap = emptyBitmap();
  for (const bit of bits) bitmap.add(bit);
  return bitmap;
}
