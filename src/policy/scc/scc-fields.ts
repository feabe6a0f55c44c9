/** Decodes the fields of SCCs. */
import { type FieldError, invalidValue } from '../../kube/field-error.ts';
import { isObject } from '../../kube/types.ts';
import {
  booleanAt,
  createSource,
  int64At,
  objectAt,
  objectsAt,
  readSeLinuxOptions,
  reportInvalid,
  type SeLinuxFields,
  type DecodeSource,
  stringAt,
  stringsAt,
} from '../pod/index.ts';

/** An inclusive range. It is empty if `min` is greater than `max`. */
export interface Range {
  readonly min: number;
  readonly max: number;
}

/**
 * Bounds beyond 2^53 lose precision. Comparisons with the IDs in pods are still exact, because the API server limits
 * these to 2^31-1.
 */
export interface RunAsUserFields {
  readonly type: string;
  readonly uid: number | undefined;
  readonly uidRangeMin: number | undefined;
  readonly uidRangeMax: number | undefined;
}

export interface SeLinuxContextFields {
  readonly type: string;
  readonly seLinuxOptions: SeLinuxFields | undefined;
}

export interface GroupFields {
  readonly type: string;
  readonly ranges: readonly Range[];
}

/**
 * The fields of an SCC. Absent lists are read as empty, and absent booleans are read as false, unless absence has a
 * separate meaning.
 */
export type SccFields = ReturnType<typeof readScc>;

interface DecodedScc {
  readonly fields: SccFields;
  /** The error for the first field that has the wrong type. */
  readonly error: FieldError | undefined;
}

/** Decodes an SCC. Accepts values of any type. */
export function decodeScc(scc: unknown): DecodedScc {
  const source = createSource(isObject(scc) ? scc : {}, 'SecurityContextConstraints');
  const fields = readScc(source);
  const { error, nullElement } = source.state;
  const nullError = nullElement === undefined ? undefined : invalidValue(nullElement, null, 'must not be null');
  return { fields, error: error?.field ?? nullError };
}

function readScc(scc: DecodeSource) {
  const metadata = objectAt(scc, 'metadata', 'ObjectMeta');
  const profiles = stringsAt(scc, 'seccompProfiles');
  const isSet = (key: string): boolean => booleanAt(scc, key) ?? false;
  return {
    name: metadata ? stringAt(metadata, 'name') : '',
    priority: int32At(scc, 'priority') ?? 0,
    users: stringsAt(scc, 'users'),
    groups: stringsAt(scc, 'groups'),
    allowPrivilegedContainer: isSet('allowPrivilegedContainer'),
    defaultAddCapabilities: stringsAt(scc, 'defaultAddCapabilities'),
    requiredDropCapabilities: stringsAt(scc, 'requiredDropCapabilities'),
    allowedCapabilities: stringsAt(scc, 'allowedCapabilities'),
    /** Pod decisions ignore this field and depend only on `volumes`. */
    allowHostDirVolumePlugin: isSet('allowHostDirVolumePlugin'),
    volumes: stringsAt(scc, 'volumes'),
    /** Names of the drivers. */
    allowedFlexVolumes: objectsAt(scc, 'allowedFlexVolumes', 'AllowedFlexVolume').map((volume) =>
      stringAt(volume, 'driver'),
    ),
    allowHostNetwork: isSet('allowHostNetwork'),
    allowHostPorts: isSet('allowHostPorts'),
    allowHostPID: isSet('allowHostPID'),
    allowHostIPC: isSet('allowHostIPC'),
    userNamespaceLevel: stringAt(scc, 'userNamespaceLevel'),
    defaultAllowPrivilegeEscalation: booleanAt(scc, 'defaultAllowPrivilegeEscalation'),
    allowPrivilegeEscalation: booleanAt(scc, 'allowPrivilegeEscalation'),
    seLinuxContext: readSeLinuxContext(objectAt(scc, 'seLinuxContext', 'SELinuxContextStrategyOptions')),
    runAsUser: readRunAsUser(objectAt(scc, 'runAsUser', 'RunAsUserStrategyOptions')),
    supplementalGroups: readGroups(objectAt(scc, 'supplementalGroups', 'SupplementalGroupsStrategyOptions')),
    fsGroup: readGroups(objectAt(scc, 'fsGroup', 'FSGroupStrategyOptions')),
    readOnlyRootFilesystem: isSet('readOnlyRootFilesystem'),
    /** The profiles without the wildcard. */
    seccompProfiles: profiles.filter((name) => name !== '*'),
    allowsAnySeccompProfile: profiles.includes('*'),
    allowedUnsafeSysctls: stringsAt(scc, 'allowedUnsafeSysctls'),
    forbiddenSysctls: stringsAt(scc, 'forbiddenSysctls'),
  } as const;
}

function readRunAsUser(options: DecodeSource | undefined): RunAsUserFields {
  return {
    type: options ? stringAt(options, 'type') : '',
    uid: options && int64At(options, 'uid'),
    uidRangeMin: options && int64At(options, 'uidRangeMin'),
    uidRangeMax: options && int64At(options, 'uidRangeMax'),
  };
}

function readSeLinuxContext(options: DecodeSource | undefined): SeLinuxContextFields {
  return {
    type: options ? stringAt(options, 'type') : '',
    seLinuxOptions: options && readSeLinuxOptions(options),
  };
}

function readGroups(options: DecodeSource | undefined): GroupFields {
  if (options === undefined) return { type: '', ranges: [] };
  const ranges = objectsAt(options, 'ranges', 'IDRange').map((range) => ({
    min: int64At(range, 'min') ?? 0,
    max: int64At(range, 'max') ?? 0,
  }));
  return { type: stringAt(options, 'type'), ranges };
}

function int32At(source: DecodeSource, key: string): number | undefined {
  const value = int64At(source, key);
  if (value === undefined || (value | 0) === value) return value;
  reportInvalid(source, key, `must be from ${-(2 ** 31)} to ${2 ** 31 - 1}`);
  return undefined;
}
