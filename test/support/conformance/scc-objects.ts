import assert from 'node:assert/strict';
import { formatFieldError } from '../../../src/kube/field-error.ts';
import { parseIdBlock, parseIdBlocks, type SecurityContextConstraints } from '../../../src/kube/scc.ts';
import type { JsonObject, Namespace, Result } from '../../../src/kube/types.ts';
import {
  bindScc,
  createSccSet,
  defaultScc,
  explainScores,
  type Needs,
  prepareScc,
  type Range,
  readNamespaceRanges,
  validateSccObject,
} from '../../../src/policy/scc/index.ts';
import {
  blockAnnotations,
  createAllocator,
  formatMcsLabel,
  formatMcsRange,
  formatState,
  isInMcsRange,
  labelCount,
  labelRank,
  parseMcsLabel,
  parseMcsRange,
  parseUidRange,
  planRepair,
} from '../../../src/policy/uid-range/index.ts';
import { blockIndexes, blockSet } from '../blocks.ts';
import { laxScc } from '../scc.ts';
import { type Area, area } from './cases.ts';

interface DefaultExpect {
  readonly object?: unknown;
  readonly fields?: JsonObject;
}

interface BuildInput {
  readonly scc: SecurityContextConstraints;
  readonly namespace: Namespace;
}

interface BuildExpect {
  readonly valid: boolean;
  readonly resolved?: unknown;
  readonly error?: string;
}

interface Block {
  readonly start: number;
  readonly end: number;
}

interface GroupsExpect {
  readonly valid: boolean;
  readonly ranges?: readonly Range[];
  readonly error?: string;
}

interface PointsInput {
  readonly scc: SecurityContextConstraints | string;
  readonly sccsFrom?: string;
}

/** Compares SCC objects, their order, and their binding to a namespace. `standard` is OpenShift's list of SCCs. */
export function objectAreas(standard: readonly SecurityContextConstraints[]): Readonly<Record<string, Area>> {
  return {
    'scc.default': area(
      ({ scc }: { readonly scc: SecurityContextConstraints }, { object, fields = {} }: DefaultExpect) => {
        const defaulted = { ...defaultScc(scc) } as JsonObject;
        if (object !== undefined) assert.deepEqual(defaulted, object);
        for (const [field, value] of Object.entries(fields)) assert.deepEqual(defaulted[field], value, field);
      },
    ),
    'scc.validate': area(({ scc }: { readonly scc: unknown }, { errors }: { readonly errors: readonly string[] }) =>
      assert.deepEqual(validateSccObject(scc).map(formatFieldError), errors),
    ),
    'sort.order': area(
      (
        { sccs }: { readonly sccs: readonly SecurityContextConstraints[] | string },
        { names }: { readonly names: readonly string[] },
      ) =>
        assert.deepEqual(
          createSccSet(typeof sccs === 'string' ? standard : sccs).sccs.map(({ name }) => name),
          names,
        ),
    ),
    'sort.points': area(({ scc }: PointsInput, { points }: { readonly points: number }) => {
      const found = typeof scc === 'string' ? standard.find(({ metadata }) => metadata?.name === scc) : scc;
      assert.equal(prepareScc(found).score, points);
    }),
    // The score for capabilities starts at 5000.
    'sort.volumePoints': area((scc: object, { points }: { readonly points: number }) =>
      assert.equal(prepareScc(scc).score - 5000, points),
    ),
    'sort.capabilityPoints': area((scc: object, { points }: { readonly points: number }) =>
      assert.equal(prepareScc(scc).score, points),
    ),
    'sort.reason': area(
      ({ lower, higher }: { readonly lower: number; readonly higher: number }, expect: { readonly reason: string }) =>
        assert.equal(explainScores(lower, higher), expect.reason),
    ),
    'provider.build': area(({ scc, namespace }: BuildInput, expect: BuildExpect) => {
      const ranges = readNamespaceRanges(namespace);
      const bound = bindScc(prepareScc(scc), ranges);
      if (expect.valid) assert.deepEqual('value' in bound && withoutGaps(bound.value), expect.resolved);
      else assert.equal(ranges.problem ?? ('error' in bound ? bound.error : undefined), expect.error);
    }),
    'preallocation.uid': needs('uidRange'),
    'preallocation.seLinuxLevel': needs('seLinuxLevel'),
    'preallocation.fsGroup': needs('fsGroup'),
    'preallocation.supplementalGroups': needs('supplementalGroups'),
    'annotations.parseBlock': area(
      ({ value }: { readonly value: string }, { valid, start, end }: Block & { readonly valid: boolean }) => {
        const block = parseIdBlock(value);
        assert.deepEqual('value' in block ? block.value : undefined, valid ? { min: start, max: end } : undefined);
      },
    ),
    'annotations.parseGroups': area(
      (
        { value }: { readonly value: string },
        { valid, blocks = [] }: { readonly valid: boolean; readonly blocks?: readonly Block[] },
      ) => {
        const found = parseIdBlocks(value);
        const expected = blocks.map(({ start, end }) => ({ min: start, max: end }));
        assert.deepEqual('value' in found ? found.value : undefined, valid ? expected : undefined);
      },
    ),
    'annotations.fsGroup': bindsGroups('fsGroup'),
    'annotations.supplementalGroups': bindsGroups('supplementalGroups'),
  };
}

function needs(what: Exclude<keyof Needs, 'defect'>): Area {
  return area((scc: object, { requires }: { readonly requires: boolean }) =>
    assert.equal(prepareScc(scc).needs[what], requires),
  );
}

function bindsGroups(field: 'fsGroup' | 'supplementalGroups'): Area {
  return area((input: { readonly namespaceAnnotations: JsonObject }, { valid, ranges, error = '' }: GroupsExpect) => {
    const scc = prepareScc(laxScc({ name: 'x', [field]: { type: 'MustRunAs' } }));
    const metadata = { name: 'default', annotations: input.namespaceAnnotations };
    const bound = bindScc(scc, readNamespaceRanges({ metadata }));
    if (valid) assert.deepEqual('value' in bound && bound.value[field].ranges, ranges);
    else {
      const what = 'unable to find pre-allocated group annotation for namespace default';
      assert.equal('error' in bound && bound.error, `${what} while trying to configure SCC x: ${error}`);
    }
  });
}

/** Removes members that are undefined or empty. */
function withoutGaps(value: unknown): unknown {
  const text = JSON.stringify(value, (_key, member: unknown) =>
    member === '' || (Array.isArray(member) && member.length === 0) ? undefined : member,
  );
  return JSON.parse(text) as unknown;
}

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

/** Compares the user IDs and SELinux labels of namespaces. */
export const ALLOCATION_AREAS: Readonly<Record<string, Area>> = {
  'allocation.mcsRange': area(({ range: text }: { readonly range: string }, expect: McsRangeExpect) => {
    const range = parseMcsRange(text);
    assert.equal('value' in range, expect.valid);
    if ('error' in range) {
      assert.ok(range.error.includes(expect.errorContains ?? ''), range.error);
      return;
    }
    assert.equal(labelCount(range.value), expect.size);
    assert.equal(formatMcsRange(range.value), expect.string);
    for (const [label, isIn] of Object.entries(expect.contains ?? {})) {
      assert.equal(isInMcsRange(range.value, resultValue(parseMcsLabel(label))), isIn, label);
    }
  }),
  'allocation.mcsLabel': area(({ label: text }: { readonly label: string }, expect: McsLabelExpect) => {
    const label = parseMcsLabel(text);
    assert.equal('value' in label, expect.valid);
    if ('error' in label) return;
    assert.deepEqual(label.value.categories, expect.categories);
    assert.equal(labelRank(label.value.categories), expect.offset);
    assert.equal(formatMcsLabel(label.value), expect.string);
  }),
  'allocation.allocate': area(
    (input: AllocateInput, expect: { readonly bit: number; readonly annotations: Annotations }) => {
      const settings = {
        uidRange: resultValue(parseUidRange(input.uidRange)),
        mcsRange: resultValue(parseMcsRange(input.mcsRange)),
        labelsPerBlock: input.labelsPerBlock,
      };
      const namespace = namespaceWith(input.namespaceAnnotations);
      const next = createAllocator(settings)(blockSet(input.allocatedBits ?? []), [namespace]);
      const index = input.forcedBit ?? next;
      assert.equal(index, expect.bit);
      assert.deepEqual(blockAnnotations(expect.bit, namespace, settings), expect.annotations);
    },
  ),
  'allocation.repair': area((input: RepairInput, expect: { readonly range: string; readonly bitmap: number }) => {
    const range = resultValue(parseUidRange(input.uidRange));
    const namespaces = input.namespaces.map(namespaceWith);
    const { taken } = planRepair({ range, namespaces, state: undefined, orphans: new Map(), nowMs: 0 });
    assert.equal(formatState(range, taken).range, expect.range);
    assert.equal(
      blockIndexes(taken).reduce((number, bit) => number + 2 ** bit, 0),
      expect.bitmap,
    );
  }),
};

function resultValue<T>(found: Result<T>): T {
  if ('error' in found) throw new TypeError(found.error);
  return found.value;
}

function namespaceWith(annotations: Annotations): Namespace {
  return { metadata: { name: 'demo', annotations } };
}
