/** Finds the copy of an SCC with the fewest changed fields that admits a pod. */
import { deepEqual } from '../../../kube/equality.ts';
import type { SecurityContextConstraints } from '../../../kube/scc.ts';
import { isObject } from '../../../kube/types.ts';
import { SAFE_SYSCTLS, sysctlName } from '../../pod/index.ts';
import { completePod } from '../complete.ts';
import { defaultScc } from '../object-defaults.ts';
import { validateSccObject } from '../object-validation.ts';
import { toSccSet } from '../order.ts';
import { type PreparedScc, prepareScc } from '../scc.ts';
import { admits, findContradiction, type Search } from '../search.ts';
import { type DisallowedField, findDisallowedFields } from './disallowed-fields.ts';
import { formatValues } from './warning-text.ts';

type Scc = SecurityContextConstraints;
/** The fields of an SCC that change. */
type Edit = Partial<Scc>;

/** Describes how an SCC must change to allow the values of pod fields. */
interface Rule {
  /** Matches the paths of fields. The first rule that matches a field applies to it. */
  readonly path: RegExp;
  relax(scc: Scc, values: readonly unknown[], fields: readonly DisallowedField[]): Edit;
}

const ANY = { type: 'RunAsAny' } as const;

const RULES: readonly Rule[] = [
  {
    path: /\.capabilities\.add$/,
    relax: ({ allowedCapabilities, requiredDropCapabilities: dropped }, values) => ({
      allowedCapabilities: extended(allowedCapabilities, values),
      // A capability cannot be in both lists.
      ...(dropped?.some((name) => values.includes(name))
        ? { requiredDropCapabilities: dropped.filter((name) => !values.includes(name)) }
        : {}),
    }),
  },
  {
    path: /seccomp/,
    relax: ({ seccompProfiles }, _values, fields) => ({
      seccompProfiles: extended(seccompProfiles, fields.flatMap(sccProfiles)),
    }),
  },
  { path: /\.sysctls\[/, relax: relaxSysctls },
  {
    path: /\.flexVolume\.driver$/,
    relax: ({ allowedFlexVolumes }, values) => ({
      allowedFlexVolumes: [...(allowedFlexVolumes ?? []), ...values.map((driver) => ({ driver: String(driver) }))],
    }),
  },
  { path: /^spec\.volumes\[/, relax: relaxVolumes },
  { path: /\.hostPort$/, relax: () => ({ allowHostPorts: true }) },
  { path: /\.hostNetwork$/, relax: () => ({ allowHostNetwork: true }) },
  { path: /\.hostPID$/, relax: () => ({ allowHostPID: true }) },
  { path: /\.hostIPC$/, relax: () => ({ allowHostIPC: true }) },
  { path: /\.runAsNonRoot$/, relax: () => ({ runAsUser: ANY }) },
  { path: /\.runAsUser$/, relax: (_scc, values) => ({ runAsUser: allowUsers(ids(values)) }) },
  { path: /\.seLinuxOptions/, relax: () => ({ seLinuxContext: ANY }) },
  { path: /\.fsGroup$/, relax: (_scc, values) => ({ fsGroup: allowGroups(ids(values)) }) },
  { path: /\.supplementalGroups$/, relax: (_scc, values) => ({ supplementalGroups: allowGroups(ids(values)) }) },
  { path: /\.allowPrivilegeEscalation$/, relax: () => ({ allowPrivilegeEscalation: true }) },
  { path: /\.readOnlyRootFilesystem$/, relax: () => ({ readOnlyRootFilesystem: false }) },
];

function extended(list: readonly string[] | null | undefined, values: readonly unknown[]): readonly string[] {
  return [...new Set([...(list ?? []), ...values.map(String)])];
}

/** Returns the names of a field's seccomp profiles as they appear in SCCs. */
function sccProfiles({ path, values }: DisallowedField): readonly string[] {
  return values.flatMap((value) => {
    if (value === '') return [];
    if (path.endsWith('.localhostProfile')) return `localhost/${String(value)}`;
    if (value === 'Unconfined') return 'unconfined';
    return value === 'RuntimeDefault' ? 'runtime/default' : String(value);
  });
}

function relaxSysctls({ allowedUnsafeSysctls, forbiddenSysctls }: Scc, values: readonly unknown[]): Edit {
  const names = values.map((name) => sysctlName(String(name)));
  const matches = (pattern: string): boolean =>
    names.some((name) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern));
  const isSafe = (name: string): boolean => SAFE_SYSCTLS.some((sysctl) => sysctl.inOpenShift && sysctl.name === name);
  const unsafe = names.filter((name) => !isSafe(name));
  return {
    ...(forbiddenSysctls?.some(matches)
      ? { forbiddenSysctls: forbiddenSysctls.filter((pattern) => !matches(pattern)) }
      : {}),
    ...(unsafe.length > 0 && !allowedUnsafeSysctls?.includes('*')
      ? { allowedUnsafeSysctls: extended(allowedUnsafeSysctls, unsafe) }
      : {}),
  };
}

/**
 * Allows volume types. API servers derive `hostPath` in the list from `allowHostDirVolumePlugin`, so only that field is
 * set.
 */
function relaxVolumes({ volumes }: Scc, values: readonly unknown[]): Edit {
  const types = values.filter((type) => type !== 'hostPath');
  const others = (volumes ?? []).filter((type) => type !== 'none');
  return {
    ...(types.length < values.length ? { allowHostDirVolumePlugin: true } : {}),
    ...(types.length > 0 ? { volumes: extended(others, types) } : {}),
  };
}

function ids(values: readonly unknown[]): readonly number[] {
  return [...new Set(values.flat().filter((value) => typeof value === 'number'))];
}

function allowUsers(users: readonly number[]): NonNullable<Scc['runAsUser']> {
  const [first] = users;
  if (first === undefined) return ANY;
  if (users.length === 1) return { type: 'MustRunAs', uid: first };
  return { type: 'MustRunAsRange', uidRangeMin: Math.min(...users), uidRangeMax: Math.max(...users) };
}

function allowGroups(groups: readonly number[]): NonNullable<Scc['fsGroup']> {
  return groups.length === 0 ? ANY : { type: 'MustRunAs', ranges: groups.map((id) => ({ min: id, max: id })) };
}

/** A modified copy of an SCC that admits a pod. */
export interface SccCopy {
  readonly original: Scc;
  /** The changed fields of the copy. */
  readonly edit: Edit;
  /** Verb phrases, such as `add NET_ADMIN to allowedCapabilities`. */
  readonly changes: readonly string[];
}

/**
 * Maximum number of SCCs to copy, and of rounds of changes to each copy. A change may reveal another field that the SCC
 * does not allow.
 */
const MAX_TRIES = 4;

/**
 * Returns the copy with the fewest changed fields, which are at most `maxFields`. Prefers usable SCCs, and then less
 * permissive SCCs. Returns `undefined` if a container is privileged, because such a copy would allow everything.
 */
export function findCopy(
  search: Search,
  { maxFields, isUsable }: { readonly maxFields: number; isUsable(scc: PreparedScc): boolean },
): SccCopy | undefined {
  const { pod, candidates } = search;
  if (pod.containers.some(({ privileged }) => privileged)) return undefined;
  const { objects } = toSccSet(search.input.sccs);
  const ranked = candidates
    .filter(({ fields }) => !fields.allowPrivilegedContainer)
    .map((scc) => {
      const fields = findDisallowedFields(pod, completePod(scc, search).errors);
      const rules = new Set(fields.map(findRule));
      return { scc, count: rules.size, isUsable: isUsable(scc), isKnown: !rules.has(undefined) };
    })
    .filter(({ count, isKnown }) => count > 0 && count <= maxFields && isKnown)
    .sort((a, b) => a.count - b.count || a.scc.score - b.scc.score)
    // The existence of a copy must not depend on which SCCs are usable. Otherwise, a grant would change the suggestions
    // for others.
    .slice(0, MAX_TRIES)
    .sort((a, b) => a.count - b.count || Number(b.isUsable) - Number(a.isUsable));
  for (const { scc } of ranked) {
    const object = objects.find(({ metadata }) => metadata?.name === scc.name);
    const copy = object && relaxScc(scc, defaultScc(object), search);
    if (copy && Object.keys(copy.edit).length <= maxFields) return copy;
  }
  return undefined;
}

function findRule({ path }: DisallowedField): Rule | undefined {
  return RULES.find((rule) => rule.path.test(path));
}

/** Changes an SCC until it admits the pod. Returns `undefined` if this is not possible. */
function relaxScc(scc: PreparedScc, original: Scc, search: Search): SccCopy | undefined {
  const relaxed = new Map<Rule, DisallowedField[]>();
  let current = scc;
  let edit: Edit = {};
  for (let round = 0; round < MAX_TRIES; round++) {
    for (const field of findHindrances(current, search)) {
      const rule = findRule(field);
      if (rule === undefined) return undefined;
      relaxed.set(rule, [...(relaxed.get(rule) ?? []), field]);
    }
    edit = {};
    for (const [rule, fields] of relaxed) {
      edit = {
        ...edit,
        ...rule.relax(
          { ...original, ...edit },
          fields.flatMap(({ values }) => values),
          fields,
        ),
      };
    }
    const changed = defaultScc({ ...original, ...edit });
    if (validateSccObject(changed).length > 0) return undefined;
    current = prepareScc(changed);
    if (admits(current, search)) return { original, edit, changes: describeEdit(original, edit) };
  }
  return undefined;
}

/**
 * Returns the fields that an SCC does not allow. If it allows all fields, returns the field that makes API servers reject
 * the defaulted pod, because the SCC disallows privilege escalation.
 */
function findHindrances(scc: PreparedScc, search: Search): readonly DisallowedField[] {
  const completion = completePod(scc, search);
  const contradiction = completion.errors.length === 0 ? findContradiction(completion) : undefined;
  if (contradiction === undefined) return findDisallowedFields(search.pod, completion.errors);
  const path = `spec.${contradiction.location}.securityContext.allowPrivilegeEscalation`;
  return [{ path, values: [] }];
}

function describeEdit(original: Scc, edit: Edit): readonly string[] {
  const before = new Map<string, unknown>(Object.entries(original));
  return Object.entries(edit).flatMap(([field, value]: readonly [string, unknown]) => {
    if (!Array.isArray(value)) return [`set ${field}=${formatFlow(value)}`];
    const old = (before.get(field) ?? []) as readonly unknown[];
    const added = value.filter((item) => !old.some((other) => deepEqual(other, item)));
    const removed = old.filter((item) => !value.some((other) => deepEqual(other, item)));
    return [
      ...(added.length === 0 ? [] : [`add ${formatValues(added.map(itemName))} to ${field}`]),
      ...(removed.length === 0 ? [] : [`remove ${formatValues(removed.map(itemName))} from ${field}`]),
    ];
  });
}

/** Returns the name of a list item. Flex volumes are represented by their drivers. */
function itemName(item: unknown): unknown {
  return isObject(item) ? item['driver'] : item;
}

/** Formats a value in YAML flow style. */
function formatFlow(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(formatFlow).join(', ')}]`;
  if (!isObject(value)) return String(value);
  return `{${Object.entries(value)
    .map(([name, member]) => `${name}: ${formatFlow(member)}`)
    .join(', ')}}`;
}

/** Returns the copy as an SCC with the given name and without a priority, users or groups. */
export function createCopy({ original, edit }: SccCopy, name: string): Scc {
  return defaultScc({ ...original, ...edit, priority: null, users: [], groups: [], metadata: { name } });
}
