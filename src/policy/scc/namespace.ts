/** Reads a namespace's UID range, groups and SELinux level, which supply the values that an SCC does not set. */
import { type IdBlock, NAMESPACE_RANGE_ANNOTATIONS, parseIdBlock, parseIdBlocks } from '../../kube/scc.ts';
import { isObject, type JsonObject, type Result, objectMember } from '../../kube/types.ts';
import type { PodFields } from '../pod/index.ts';
import type { PreparedScc } from './scc.ts';
import type { BoundStrategies } from './strategies/strategy.ts';

export interface NamespaceRanges {
  readonly name: string;
  /** The reason why pods in the namespace cannot be evaluated. */
  readonly problem: string | undefined;
  readonly uidRange: Result<IdBlock>;
  readonly seLinuxLevel: Result<string>;
  /** The group ranges, which are at least one block. */
  readonly groupRanges: Result<readonly IdBlock[]>;
}

export interface PodInNamespace {
  readonly namespace: NamespaceRanges;
  readonly pod: PodFields;
}

const { uidRange, mcs, supplementalGroups } = NAMESPACE_RANGE_ANNOTATIONS;

/** Reads a namespace's ranges from its annotations. Accepts values of any type. */
export function readNamespaceRanges(namespace: unknown): NamespaceRanges {
  const metadata = objectMember(namespace, 'metadata');
  const annotations = objectMember(metadata, 'annotations');
  const name = getString(metadata, 'name') ?? '';
  const [ids, level, groups] = [uidRange, mcs, supplementalGroups].map((key) => getString(annotations, key));
  const missing = ids === undefined ? uidRange : level === undefined ? mcs : undefined;
  const problem = isObject(namespace)
    ? missing && `unable to find annotation ${missing}`
    : `namespace "${name}" not found`;
  return {
    name,
    problem: problem === undefined ? undefined : `error fetching namespace "${name}": ${problem}`,
    uidRange: parseAnnotation(uidRange, ids, parseIdBlock),
    seLinuxLevel: parseAnnotation(mcs, level, (value) => ({ value })),
    groupRanges: parseGroups(name, groups ?? ids),
  };
}

function getString(owner: JsonObject, key: string): string | undefined {
  const value = owner[key];
  return typeof value === 'string' ? value : undefined;
}

function parseAnnotation<T>(key: string, text: string | undefined, parse: (text: string) => Result<T>): Result<T> {
  if (text === undefined) return { error: `unable to find annotation ${key}` };
  return text === '' ? { error: `found annotation ${key} but it was empty` } : parse(text);
}

function parseGroups(namespaceName: string, text: string | undefined): Result<readonly IdBlock[]> {
  if (text === undefined) {
    return { error: `unable to find supplemental group or uid annotation for namespace ${namespaceName}` };
  }
  if (text !== '') return parseIdBlocks(text);
  return { error: `unable to find groups using ${supplementalGroups} and ${uidRange} annotations` };
}

/**
 * Returns the strategies of an SCC with the values from the namespace filled in. Returns an error if the SCC cannot be
 * used in the namespace.
 * @see
 * https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccmatching/matcher.go
 */
export function bindScc(scc: PreparedScc, namespace: NamespaceRanges): Result<BoundStrategies> {
  const error = bindingError(scc, namespace);
  if (error !== undefined) return { error };
  const { needs, fields } = scc;
  const { runAsUser, seLinuxContext, fsGroup, supplementalGroups: groups } = fields;
  const ids = getValue(namespace.uidRange, undefined);
  const blocks = getValue(namespace.groupRanges, []);
  const [first] = blocks;
  return {
    value: {
      runAsUser: needs.uidRange ? { ...runAsUser, uidRangeMin: ids?.min, uidRangeMax: ids?.max } : runAsUser,
      seLinuxContext: needs.seLinuxLevel
        ? bindLevel(seLinuxContext, getValue(namespace.seLinuxLevel, ''))
        : seLinuxContext,
      // Only the first ID of the first block is allowed.
      fsGroup: needs.fsGroup && first ? { type: fsGroup.type, ranges: [{ min: first.min, max: first.min }] } : fsGroup,
      supplementalGroups: needs.supplementalGroups ? { type: groups.type, ranges: blocks } : groups,
    },
  };
}

function bindLevel(
  { type: strategy, seLinuxOptions }: BoundStrategies['seLinuxContext'],
  level: string,
): BoundStrategies['seLinuxContext'] {
  const { role = '', type = '', user = '' } = seLinuxOptions ?? {};
  return { type: strategy, seLinuxOptions: { level, role, type, user } };
}

/** Returns the reason why an SCC cannot be used in the namespace, or `undefined` if it can be used. */
export function bindingError({ name, needs }: PreparedScc, namespace: NamespaceRanges): string | undefined {
  const needed = [
    ['uid', needs.uidRange, namespace.uidRange],
    ['mcs', needs.seLinuxLevel, namespace.seLinuxLevel],
    ['group', needs.fsGroup || needs.supplementalGroups, namespace.groupRanges],
  ] as const;
  for (const [kind, isNeeded, range] of needed) {
    if (!isNeeded || !('error' in range)) continue;
    const where = `for namespace ${namespace.name} while trying to configure SCC ${name}`;
    return `unable to find pre-allocated ${kind} annotation ${where}: ${range.error}`;
  }
  if (needs.defect === undefined) return undefined;
  return `error creating provider for SCC ${name} in namespace ${namespace.name}: ${needs.defect}`;
}

function getValue<T, Default>(result: Result<T>, defaultValue: Default): T | Default {
  return 'error' in result ? defaultValue : result.value;
}
