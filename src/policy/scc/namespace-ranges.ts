import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import { isObject } from '../../kube/types.ts';
import type { Range } from './decode/scc.ts';

/** A value, or why there is none. */
export type Found<T> = { readonly value: T } | { readonly error: string };

/** The ids and the level that belong to a namespace. */
export interface NamespaceRanges {
  readonly name: string;
  /** Why pods of the namespace cannot be judged at all. */
  readonly problem: string | undefined;
  readonly uidRange: Found<Range>;
  readonly seLinuxLevel: Found<string>;
  /** At least one. */
  readonly groupRanges: Found<readonly Range[]>;
}

/** The annotations as they stand; `undefined` if absent. */
interface Source {
  readonly name: string;
  readonly uidRange: string | undefined;
  readonly mcs: string | undefined;
  readonly supplementalGroups: string | undefined;
}

const { uidRange, mcs, supplementalGroups } = NAMESPACE_RANGE_ANNOTATIONS;
const remembered = new WeakMap<object, { readonly source: Source; readonly ranges: NamespaceRanges }>();

/** Reads the ranges of a namespace; remembered for as long as the object lives. */
export function namespaceRangesOf(namespace: unknown): NamespaceRanges {
  const source = readSource(namespace);
  if (!isObject(namespace)) return parse(source, `namespace "${source.name}" not found`);
  const known = remembered.get(namespace);
  if (known && isSame(known.source, source)) return known.ranges;
  const missing = source.uidRange === undefined ? uidRange : source.mcs === undefined ? mcs : undefined;
  const ranges = parse(source, missing && `unable to find annotation ${missing}`);
  remembered.set(namespace, { source, ranges });
  return ranges;
}

function readSource(namespace: unknown): Source {
  const metadata = isObject(namespace) && isObject(namespace['metadata']) ? namespace['metadata'] : {};
  const annotations = isObject(metadata['annotations']) ? metadata['annotations'] : {};
  return {
    name: textOf(metadata['name']) ?? '',
    uidRange: textOf(annotations[uidRange]),
    mcs: textOf(annotations[mcs]),
    supplementalGroups: textOf(annotations[supplementalGroups]),
  };
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function isSame(a: Source, b: Source): boolean {
  return (
    a.name === b.name && a.uidRange === b.uidRange && a.mcs === b.mcs && a.supplementalGroups === b.supplementalGroups
  );
}

function parse(source: Source, problem: string | undefined): NamespaceRanges {
  const { name } = source;
  return {
    name,
    problem: problem === undefined ? undefined : `error fetching namespace "${name}": ${problem}`,
    uidRange: filled(uidRange, source.uidRange, parseBlock),
    seLinuxLevel: filled(mcs, source.mcs, (value) => ({ value })),
    groupRanges: parseGroups(name, source.supplementalGroups ?? source.uidRange),
  };
}

/**
 * A block of ids, written as `<start>/<size>` or `<start>-<end>`, as Go scans it: in 32 bits without a sign, which may
 * wrap; blanks before a number and anything behind the second one do not count.
 * @see https://github.com/openshift/library-go/blob/master/pkg/security/uid/uid.go
 */
export function parseBlock(text: string): Found<Range> {
  const isSized = text.includes('/');
  const first = scanNumber(text);
  if ('error' in first) return first;
  const { value: start, rest } = first.value;
  if (rest === '') return { error: 'unexpected EOF' };
  if (!rest.startsWith(isSized ? '/' : '-')) return { error: 'input does not match format' };
  const second = scanNumber(rest.slice(1));
  if ('error' in second) return second;
  const { value } = second.value;
  return { value: { min: start, max: isSized ? (start + value - 1) >>> 0 : value } };
}

/** Blocks joined by commas. */
export function parseBlocks(text: string): Found<readonly Range[]> {
  const ranges: Range[] = [];
  for (const part of text.split(',')) {
    const block = parseBlock(part);
    if ('error' in block) return block;
    ranges.push(block.value);
  }
  return { value: ranges };
}

function scanNumber(text: string): Found<{ readonly value: number; readonly rest: string }> {
  const input = text.trimStart();
  if (input === '') return { error: 'unexpected EOF' };
  const digits = /^\d*/.exec(input)?.[0] ?? '';
  if (digits === '') return { error: 'expected integer' };
  const value = Number(digits);
  if (value > 0xffffffff) return { error: `unsigned integer overflow on token ${digits}` };
  return { value: { value, rest: input.slice(digits.length) } };
}

function parseGroups(name: string, text: string | undefined): Found<readonly Range[]> {
  if (text === undefined) {
    return { error: `unable to find supplemental group or uid annotation for namespace ${name}` };
  }
  if (text === '') {
    return { error: `unable to find groups using ${supplementalGroups} and ${uidRange} annotations` };
  }
  return parseBlocks(text);
}

function filled<T>(key: string, text: string | undefined, parse: (text: string) => Found<T>): Found<T> {
  if (text === undefined) return { error: `unable to find annotation ${key}` };
  return text === '' ? { error: `found annotation ${key} but it was empty` } : parse(text);
}
