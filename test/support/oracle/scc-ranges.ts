/**
 * The ID blocks of a namespace, and the binding of SCCs to a namespace.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccmatching/matcher.go
 */
import { at, type JsonObject, listAt, mapAt, textAt } from './json.ts';

export interface Range {
  readonly min: number;
  readonly max: number;
}

/** An SCC that is bound to a namespace. */
export interface Provider {
  readonly name: string;
  readonly scc: JsonObject;
  readonly runAsUser: { readonly type: string; readonly uid?: number; readonly range?: Range };
  readonly seLinuxOptions: ReadonlyMap<string, string> | undefined;
  /** `undefined` if all groups are allowed. */
  readonly fsGroup: readonly Range[] | undefined;
  readonly supplementalGroups: readonly Range[] | undefined;
}

const UID_RANGE = 'openshift.io/sa.scc.uid-range';
const GROUPS = 'openshift.io/sa.scc.supplemental-groups';
const MCS = 'openshift.io/sa.scc.mcs';

function parseBlock(text: string): Range | undefined {
  const pattern = text.includes('/') ? /^[ \t]*(\d+)\/[ \t]*(\d+)/ : /^[ \t]*(\d+)-[ \t]*(\d+)/;
  const found = pattern.exec(text);
  if (!found) return undefined;
  const [first, second] = [Number(found[1]), Number(found[2])];
  if (first >= 2 ** 32 || second >= 2 ** 32) return undefined;
  // The sum wraps at 32 bits.
  return { min: first, max: text.includes('/') ? (first + second - 1 + 2 ** 32) % 2 ** 32 : second };
}

/** Returns true if the namespace has the annotations that admission requires. */
export function hasRanges(namespace: unknown): boolean {
  const annotations = mapAt(namespace, 'metadata', 'annotations');
  return annotations.has(UID_RANGE) && annotations.has(MCS);
}

/** Returns `undefined` if the SCC cannot be bound to the namespace. */
export function createProvider(scc: JsonObject, namespace: unknown): Provider | undefined {
  const runAsUser = getRunAsUser(scc, namespace);
  const seLinuxOptions = getSeLinux(scc, namespace);
  const fsGroup = getGroups(scc, 'fsGroup', namespace);
  const supplementalGroups = getGroups(scc, 'supplementalGroups', namespace);
  for (const part of [runAsUser, seLinuxOptions, fsGroup, supplementalGroups]) if (part === 'broken') return undefined;
  return {
    name: textAt(scc, 'metadata', 'name'),
    scc,
    runAsUser: runAsUser as Provider['runAsUser'],
    seLinuxOptions: seLinuxOptions as Provider['seLinuxOptions'],
    fsGroup: fsGroup as Provider['fsGroup'],
    supplementalGroups: supplementalGroups as Provider['supplementalGroups'],
  };
}

function getRunAsUser(scc: JsonObject, namespace: unknown): Provider['runAsUser'] | 'broken' {
  const type = textAt(scc, 'runAsUser', 'type');
  if (type === 'RunAsAny' || type === 'MustRunAsNonRoot') return { type };
  if (type === 'MustRunAs') {
    const uid = at(scc, 'runAsUser', 'uid');
    return uid === undefined ? 'broken' : { type, uid: uid as number };
  }
  if (type !== 'MustRunAsRange') return 'broken';
  const min = at(scc, 'runAsUser', 'uidRangeMin');
  const max = at(scc, 'runAsUser', 'uidRangeMax');
  if (min === undefined && max === undefined) {
    const range = parseBlock(mapAt(namespace, 'metadata', 'annotations').get(UID_RANGE) ?? '');
    return range === undefined ? 'broken' : { type, range };
  }
  if (min === undefined || max === undefined) return 'broken';
  return { type, range: { min: min as number, max: max as number } };
}

function getSeLinux(scc: JsonObject, namespace: unknown): Provider['seLinuxOptions'] | 'broken' {
  const type = textAt(scc, 'seLinuxContext', 'type');
  if (type === 'RunAsAny') return undefined;
  if (type !== 'MustRunAs') return 'broken';
  const options = new Map(
    ['level', 'role', 'type', 'user'].map((member) => [
      member,
      textAt(scc, 'seLinuxContext', 'seLinuxOptions', member),
    ]),
  );
  if (options.get('level') === '') {
    const level = mapAt(namespace, 'metadata', 'annotations').get(MCS) ?? '';
    if (level === '') return 'broken';
    options.set('level', level);
  }
  return options;
}

function getGroups(
  scc: JsonObject,
  field: 'fsGroup' | 'supplementalGroups',
  namespace: unknown,
): readonly Range[] | undefined | 'broken' {
  const type = textAt(scc, field, 'type');
  if (type === 'RunAsAny') return undefined;
  if (type !== 'MustRunAs') return 'broken';
  const own = listAt(scc, field, 'ranges').map((range) => ({
    min: (at(range, 'min') ?? 0) as number,
    max: (at(range, 'max') ?? 0) as number,
  }));
  if (own.length > 0) return own;
  const annotations = mapAt(namespace, 'metadata', 'annotations');
  const text = annotations.get(GROUPS) ?? annotations.get(UID_RANGE) ?? '';
  if (text === '') return 'broken';
  const blocks = text.split(',').map(parseBlock);
  const [first] = blocks;
  if (first === undefined || blocks.includes(undefined)) return 'broken';
  return field === 'fsGroup' ? [{ min: first.min, max: first.min }] : (blocks as Range[]);
}
