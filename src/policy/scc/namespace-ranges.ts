import { NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import { isObject } from '../../kube/types.ts';
import type { Range } from './decode/scc.ts';

/** A value, or why there is none. */
export type Found<T> = { readonly value: T } | { readonly error: string };

/** The ids and the level that belong to a namespace; each is read from its annotation when first asked for. */
export interface NamespaceRanges {
  readonly name: string;
  /** Why pods of the namespace cannot be judged at all. */
  readonly problem: string | undefined;
  uidRange(): Found<Range>;
  seLinuxLevel(): Found<string>;
  /** At least one. */
  groupRanges(): Found<readonly Range[]>;
}

const { uidRange, mcs, supplementalGroups } = NAMESPACE_RANGE_ANNOTATIONS;

export function createNamespaceRanges(namespace: unknown): NamespaceRanges {
  const metadata = isObject(namespace) && isObject(namespace['metadata']) ? namespace['metadata'] : {};
  const name = typeof metadata['name'] === 'string' ? metadata['name'] : '';
  const annotationOf = (key: string): string | undefined => {
    const value = isObject(metadata['annotations']) ? metadata['annotations'][key] : undefined;
    return typeof value === 'string' ? value : undefined;
  };
  return {
    name,
    problem: isObject(namespace) ? findProblem(name, annotationOf) : cannotFetch(name, `namespace "${name}" not found`),
    uidRange: once(() => filled(uidRange, annotationOf(uidRange), parseBlock)),
    seLinuxLevel: once(() => filled(mcs, annotationOf(mcs), (value) => ({ value }))),
    groupRanges: once(() => parseGroups(name, annotationOf(supplementalGroups) ?? annotationOf(uidRange))),
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

function findProblem(name: string, annotationOf: (key: string) => string | undefined): string | undefined {
  const missing = [uidRange, mcs].find((key) => annotationOf(key) === undefined);
  return missing === undefined ? undefined : cannotFetch(name, `unable to find annotation ${missing}`);
}

function cannotFetch(name: string, cause: string): string {
  return `error fetching namespace "${name}": ${cause}`;
}

function once<T>(read: () => Found<T>): () => Found<T> {
  let found: Found<T> | undefined;
  return () => (found ??= read());
}
