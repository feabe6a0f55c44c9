import { type Result, isObject } from '../../kube/types.ts';
import { parseIdBlock, parseIdBlocks, type IdBlock, NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import type { RunAsUserFields, SccFields, SeLinuxContextFields, PreparedScc } from './scc.ts';
import type { Bound } from './strategies/index.ts';

/** The ids and the level that belong to a namespace. */
export interface NamespaceRanges {
  readonly name: string;
  /** Why pods of the namespace cannot be judged at all. */
  readonly problem: string | undefined;
  readonly uidRange: Result<IdBlock>;
  readonly seLinuxLevel: Result<string>;
  /** At least one. */
  readonly groupRanges: Result<readonly IdBlock[]>;
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

function parseGroups(name: string, text: string | undefined): Result<readonly IdBlock[]> {
  if (text === undefined) {
    return { error: `unable to find supplemental group or uid annotation for namespace ${name}` };
  }
  if (text === '') {
    return { error: `unable to find groups using ${supplementalGroups} and ${uidRange} annotations` };
  }
  return parseIdBlocks(text);
}

function filled<T>(key: string, text: string | undefined, parse: (text: string) => Result<T>): Result<T> {
  if (text === undefined) return { error: `unable to find annotation ${key}` };
  return text === '' ? { error: `found annotation ${key} but it was empty` } : parse(text);
}

/**
 * Fills in what an SCC leaves to the namespace; an error says why the SCC cannot work there.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccmatching/matcher.go
 */
export function bindScc(scc: PreparedScc, namespace: NamespaceRanges): Result<Bound> {
  const error = bindingError(scc, namespace);
  if (error !== undefined) return { error };
  const { fields, needs } = scc;
  return {
    value: {
      runAsUser: needs.uidRange ? bindRunAsUser(fields, namespace) : fields.runAsUser,
      seLinuxContext: needs.seLinuxLevel ? bindSeLinuxContext(fields, namespace) : fields.seLinuxContext,
      fsGroup: needs.fsGroup ? bindFsGroup(fields, namespace) : fields.fsGroup,
      supplementalGroups: needs.supplementalGroups
        ? { type: fields.supplementalGroups.type, ranges: valueOf(namespace.groupRanges, []) }
        : fields.supplementalGroups,
    },
  };
}

/** Why an SCC cannot work in the namespace; `undefined` if it can. */
export function bindingError({ name, needs }: PreparedScc, namespace: NamespaceRanges): string | undefined {
  const missing =
    (needs.uidRange ? lackOf('uid', namespace.uidRange) : undefined) ??
    (needs.seLinuxLevel ? lackOf('mcs', namespace.seLinuxLevel) : undefined) ??
    (needs.fsGroup || needs.supplementalGroups ? lackOf('group', namespace.groupRanges) : undefined);
  if (missing) {
    const where = `for namespace ${namespace.name} while trying to configure SCC ${name}`;
    return `unable to find pre-allocated ${missing.what} annotation ${where}: ${missing.why}`;
  }
  if (needs.defect === undefined) return undefined;
  return `error creating provider for SCC ${name} in namespace ${namespace.name}: ${needs.defect}`;
}

function bindRunAsUser({ runAsUser }: SccFields, namespace: NamespaceRanges): RunAsUserFields {
  const range = valueOf(namespace.uidRange, undefined);
  return { type: runAsUser.type, uid: runAsUser.uid, uidRangeMin: range?.min, uidRangeMax: range?.max };
}

function bindSeLinuxContext({ seLinuxContext }: SccFields, namespace: NamespaceRanges): SeLinuxContextFields {
  const { role = '', type = '', user = '' } = seLinuxContext.seLinuxOptions ?? {};
  const level = valueOf(namespace.seLinuxLevel, '');
  return { type: seLinuxContext.type, seLinuxOptions: { level, role, type, user } };
}

/** Only the first id of the first block. */
function bindFsGroup({ fsGroup }: SccFields, namespace: NamespaceRanges): Bound['fsGroup'] {
  const [first] = valueOf(namespace.groupRanges, []);
  return { type: fsGroup.type, ranges: first ? [{ min: first.min, max: first.min }] : [] };
}

interface Lack {
  readonly what: string;
  readonly why: string;
}

function lackOf(what: string, found: Result<unknown>): Lack | undefined {
  return 'error' in found ? { what, why: found.error } : undefined;
}

function valueOf<T, Otherwise>(found: Result<T>, otherwise: Otherwise): T | Otherwise {
  return 'error' in found ? otherwise : found.value;
}
