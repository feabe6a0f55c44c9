import { type Found, isObject } from '../../kube/types.ts';
import { parseIdBlock, parseIdBlocks, type IdBlock, NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';

/** The ids and the level that belong to a namespace. */
export interface NamespaceRanges {
  readonly name: string;
  /** Why pods of the namespace cannot be judged at all. */
  readonly problem: string | undefined;
  readonly uidRange: Found<IdBlock>;
  readonly seLinuxLevel: Found<string>;
  /** At least one. */
  readonly groupRanges: Found<readonly IdBlock[]>;
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
    uidRange: filled(uidRange, source.uidRange, parseIdBlock),
    seLinuxLevel: filled(mcs, source.mcs, (value) => ({ value })),
    groupRanges: parseGroups(name, source.supplementalGroups ?? source.uidRange),
  };
}

function parseGroups(name: string, text: string | undefined): Found<readonly IdBlock[]> {
  if (text === undefined) {
    return { error: `unable to find supplemental group or uid annotation for namespace ${name}` };
  }
  if (text === '') {
    return { error: `unable to find groups using ${supplementalGroups} and ${uidRange} annotations` };
  }
  return parseIdBlocks(text);
}

function filled<T>(key: string, text: string | undefined, parse: (text: string) => Found<T>): Found<T> {
  if (text === undefined) return { error: `unable to find annotation ${key}` };
  return text === '' ? { error: `found annotation ${key} but it was empty` } : parse(text);
}
