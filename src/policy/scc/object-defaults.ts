/** Defaults SCC objects on create and update. */
import type { FieldShapes } from '../../kube/field-shape.ts';
import { type GroupStrategyOptions, SCC_FIELDS, type SecurityContextConstraints } from '../../kube/scc.ts';
import { compareBytes } from '../../kube/text.ts';
import { decodeScc } from './scc-fields.ts';
import { VOLUME_TYPES } from './volume-types.ts';

/**
 * Sets the SCC defaults that OpenShift sets on create and update. The result has all required fields, and no empty
 * optional fields. Unknown fields are kept. An SCC that has a field of the wrong type is returned unchanged.
 * @see
 * https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccdefaults/defaults.go
 */
export function defaultScc(scc: SecurityContextConstraints): SecurityContextConstraints {
  if (decodeScc(scc).error !== undefined) return scc;
  return {
    ...omitEmpty(scc, SCC_FIELDS),
    priority: scc.priority ?? null,
    allowPrivilegedContainer: scc.allowPrivilegedContainer ?? false,
    defaultAddCapabilities: scc.defaultAddCapabilities ?? null,
    requiredDropCapabilities: scc.requiredDropCapabilities ?? null,
    allowedCapabilities: scc.allowedCapabilities ?? null,
    allowHostDirVolumePlugin: scc.allowHostDirVolumePlugin ?? false,
    volumes: defaultVolumes(scc),
    allowHostNetwork: scc.allowHostNetwork ?? false,
    allowHostPorts: scc.allowHostPorts ?? false,
    allowHostPID: scc.allowHostPID ?? false,
    allowHostIPC: scc.allowHostIPC ?? false,
    // The default preserves the behavior of SCCs that predate the field.
    allowPrivilegeEscalation: scc.allowPrivilegeEscalation ?? true,
    seLinuxContext: defaultSeLinuxContext(scc.seLinuxContext ?? {}),
    runAsUser: omitEmpty(scc.runAsUser ?? {}, SCC_FIELDS.runAsUser),
    supplementalGroups: defaultGroups(scc.supplementalGroups),
    fsGroup: defaultGroups(scc.fsGroup),
    readOnlyRootFilesystem: scc.readOnlyRootFilesystem ?? false,
    users: scc.users ?? [],
    groups: scc.groups ?? [],
  };
}

/**
 * Omits empty known fields as Go's encoder does. Numbers and booleans are pointers in Go, so their zero values are not
 * empty.
 * @see https://github.com/openshift/api/blob/master/security/v1/types.go
 */
function omitEmpty<T extends object>(object: T, fields: FieldShapes): T {
  const members = Object.entries(object).filter(
    ([name, value]: readonly [string, unknown]) => !Object.hasOwn(fields, name) || !isEmpty(value),
  );
  return Object.fromEntries(members) as T;
}

function isEmpty(value: unknown): boolean {
  return value == null || value === '' || (Array.isArray(value) && value.length === 0);
}

type SeLinuxContext = NonNullable<SecurityContextConstraints['seLinuxContext']>;

function defaultSeLinuxContext(context: SeLinuxContext): SeLinuxContext {
  const fields = SCC_FIELDS.seLinuxContext;
  const { seLinuxOptions, ...rest } = omitEmpty(context, fields);
  return seLinuxOptions ? { ...rest, seLinuxOptions: omitEmpty(seLinuxOptions, fields.seLinuxOptions) } : rest;
}

function defaultGroups(options: GroupStrategyOptions | null | undefined): GroupStrategyOptions {
  const { type = 'RunAsAny', ranges, ...rest } = omitEmpty(options ?? {}, SCC_FIELDS.fsGroup);
  return { ...rest, type, ...(ranges ? { ranges: ranges.map(defaultRange) } : {}) };
}

/** Omits bounds of 0, because the bounds are integers rather than pointers in Go. */
function defaultRange({ min, max, ...rest }: GroupRange): GroupRange {
  return { ...(min ? { min } : {}), ...(max ? { max } : {}), ...rest };
}

type GroupRange = NonNullable<GroupStrategyOptions['ranges']>[number];

/** Returns the allowed volume types. `allowHostDirVolumePlugin` overrides the list. */
function defaultVolumes({ volumes, allowHostDirVolumePlugin }: SecurityContextConstraints): readonly string[] {
  const types = new Set(listedVolumes(volumes, allowHostDirVolumePlugin ?? false));
  if (!allowHostDirVolumePlugin) {
    const isAnyAllowed = types.delete('*');
    if (isAnyAllowed) for (const type of VOLUME_TYPES) types.add(type);
    types.delete('hostPath');
  } else if (!types.has('*')) types.add('hostPath');
  return [...types].sort(compareBytes);
}

/** Returns the types in the list. An absent list allows all types, and an empty list allows none. */
function listedVolumes(volumes: readonly string[] | null | undefined, isHostPathAllowed: boolean): readonly string[] {
  if (volumes == null) return ['*'];
  if (volumes.length > 0) return volumes;
  return [isHostPathAllowed ? 'hostPath' : 'none'];
}
