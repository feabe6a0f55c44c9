import { parseIdBlock, parseIdBlocks, type IdBlock, NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import { compareBytes, quote } from '../../kube/text.ts';
import type { Namespace } from '../../kube/types.ts';

const { uidRange: UID_RANGE, supplementalGroups: GROUPS, mcs: MCS } = NAMESPACE_RANGE_ANNOTATIONS;

interface Reading {
  readonly name: string;
  readonly ids: IdBlock | undefined;
  /** What is wrong with the annotations by themselves. */
  readonly problems: readonly string[];
}

/** What is wrong with ranges that somebody has given to namespaces by hand, by namespace; only those with problems. */
export function rangeProblems(namespaces: readonly Namespace[]): ReadonlyMap<string, readonly string[]> {
  const readings = namespaces.map(read);
  const found = new Map<string, string[]>();
  const add = (name: string, problem: string): void => {
    const known = found.get(name);
    if (known) known.push(problem);
    else found.set(name, [problem]);
  };
  for (const { name, problems } of readings) for (const problem of problems) add(name, problem);
  for (const [name, other] of sharing(readings)) add(name, `shares ids with namespace ${quote(other)}`);
  return found;
}

/** Namespaces that have ids in common with another, each with one such. */
function sharing(readings: readonly Reading[]): ReadonlyMap<string, string> {
  const blocks = readings.flatMap(({ name, ids }) => (ids && ids.min <= ids.max ? [{ name, ...ids }] : []));
  blocks.sort((a, b) => a.min - b.min || compareBytes(a.name, b.name));
  const shared = new Map<string, string>();
  let reaching: (typeof blocks)[number] | undefined;
  for (const block of blocks) {
    if (reaching && block.min <= reaching.max) {
      shared.set(block.name, reaching.name);
      if (!shared.has(reaching.name)) shared.set(reaching.name, block.name);
    }
    if (!reaching || block.max > reaching.max) reaching = block;
  }
  return shared;
}

const remembered = new WeakMap<Namespace, Reading>();

/** Of thousands of namespaces few change. */
function read(namespace: Namespace): Reading {
  let reading = remembered.get(namespace);
  if (!reading) remembered.set(namespace, (reading = parse(namespace)));
  return reading;
}

function parse({ metadata: { name = '', annotations = {}, deletionTimestamp } = {} }: Namespace): Reading {
  // It gets no more pods.
  if (deletionTimestamp !== undefined) return { name, ids: undefined, problems: [] };
  const ids = annotations[UID_RANGE] === undefined ? undefined : parseIdBlock(annotations[UID_RANGE]);
  const groups = annotations[GROUPS] === undefined ? undefined : parseIdBlocks(annotations[GROUPS]);
  const problems = [
    ...(ids === undefined ? [] : 'error' in ids ? [unreadable(ids.error)] : blockProblems(ids.value)).map(
      (why) => `${UID_RANGE}=${quote(annotations[UID_RANGE] ?? '')} ${why}`,
    ),
    ...(groups === undefined
      ? []
      : 'error' in groups
        ? [unreadable(groups.error)]
        : groups.value.flatMap(blockProblems)
    ).map((why) => `${GROUPS}=${quote(annotations[GROUPS] ?? '')} ${why}`),
    ...(annotations[MCS] === undefined || LEVEL.test(annotations[MCS])
      ? []
      : [`${MCS}=${quote(annotations[MCS])} is no level of SELinux`]),
  ];
  return { name, ids: ids && 'value' in ids ? ids.value : undefined, problems };
}

const CATEGORIES = '(?::c\\d+(?:[.,]c\\d+)*)?';
const LEVEL = new RegExp(`^s\\d+${CATEGORIES}(?:-s\\d+${CATEGORIES})?$`);

function unreadable(error: string): string {
  return `cannot be read (${error})`;
}

function blockProblems({ min, max }: IdBlock): readonly string[] {
  if (min > max) return [`has no ids, since ${min} is above ${max}`];
  return min < 1 ? ['begins with 0, the id of root'] : [];
}
