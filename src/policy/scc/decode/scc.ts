import type { FieldError } from '../../../kube/field-error.ts';
import { readSccCapabilities, type CapabilitiesFields } from './capabilities.ts';
import { isObject, type JsonObject } from '../../../kube/types.ts';
import {
  booleanAt,
  boundedAt,
  createWords,
  elementAt,
  INT32,
  INT53,
  listAt,
  NOTHING,
  objectAt,
  stringAt,
  stringsAt,
  type Reader,
} from './reader.ts';
import { readSeLinuxOptions, type SeLinuxFields } from './security-context.ts';

/** Both ends belong to it; it is empty if `min` is above `max`. */
export interface Range {
  readonly min: number;
  readonly max: number;
}

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

export interface SeccompProfilesFields {
  /** Without the wildcard. */
  readonly names: readonly string[];
  readonly isAnyAllowed: boolean;
}

/** What decisions read of an SCC: lists and booleans that are absent are empty and false. */
export interface SccFields {
  readonly name: string;
  readonly priority: number;
  readonly users: readonly string[];
  readonly groups: readonly string[];
  readonly allowPrivilegedContainer: boolean;
  readonly capabilities: CapabilitiesFields;
  /** Decisions on pods read `volumes` alone. */
  readonly allowHostDirVolumePlugin: boolean;
  readonly volumes: readonly string[];
  readonly allowedFlexVolumes: readonly string[];
  readonly allowHostNetwork: boolean;
  readonly allowHostPorts: boolean;
  readonly allowHostPID: boolean;
  readonly allowHostIPC: boolean;
  readonly userNamespaceLevel: string;
  readonly defaultAllowPrivilegeEscalation: boolean | undefined;
  readonly allowPrivilegeEscalation: boolean | undefined;
  readonly seLinuxContext: SeLinuxContextFields;
  readonly runAsUser: RunAsUserFields;
  readonly supplementalGroups: GroupFields;
  readonly fsGroup: GroupFields;
  readonly readOnlyRootFilesystem: boolean;
  readonly seccompProfiles: SeccompProfilesFields;
  readonly allowedUnsafeSysctls: readonly string[];
  readonly forbiddenSysctls: readonly string[];
}

/** SCCs have most of their words in common. */
const WORDS = createWords();

export interface DecodedScc {
  readonly fields: SccFields;
  /** The first field of a wrong type; the rest then grants nothing. */
  readonly error: FieldError | undefined;
}

/** Reads an SCC, whatever it holds. */
export function decodeScc(scc: unknown): DecodedScc {
  const reader: Reader = { error: undefined, words: WORDS, items: 0 };
  const fields = readScc(reader, isObject(scc) ? scc : NOTHING);
  return { fields, error: reader.error };
}

function readScc(reader: Reader, scc: JsonObject): SccFields {
  return {
    name: stringAt(reader, objectAt(reader, scc, 'metadata', '') ?? NOTHING, 'name', 'metadata'),
    priority: boundedAt(reader, scc, 'priority', { path: '', ...INT32 }) ?? 0,
    users: stringsAt(reader, scc, 'users', ''),
    groups: stringsAt(reader, scc, 'groups', ''),
    allowPrivilegedContainer: booleanAt(reader, scc, 'allowPrivilegedContainer', '') ?? false,
    capabilities: readSccCapabilities(reader, scc),
    allowHostDirVolumePlugin: booleanAt(reader, scc, 'allowHostDirVolumePlugin', '') ?? false,
    volumes: stringsAt(reader, scc, 'volumes', ''),
    allowedFlexVolumes: readDrivers(reader, scc),
    allowHostNetwork: booleanAt(reader, scc, 'allowHostNetwork', '') ?? false,
    allowHostPorts: booleanAt(reader, scc, 'allowHostPorts', '') ?? false,
    allowHostPID: booleanAt(reader, scc, 'allowHostPID', '') ?? false,
    allowHostIPC: booleanAt(reader, scc, 'allowHostIPC', '') ?? false,
    userNamespaceLevel: stringAt(reader, scc, 'userNamespaceLevel', ''),
    defaultAllowPrivilegeEscalation: booleanAt(reader, scc, 'defaultAllowPrivilegeEscalation', ''),
    allowPrivilegeEscalation: booleanAt(reader, scc, 'allowPrivilegeEscalation', ''),
    seLinuxContext: readSeLinuxContext(reader, scc),
    runAsUser: readRunAsUser(reader, scc),
    supplementalGroups: readGroups(reader, scc, 'supplementalGroups'),
    fsGroup: readGroups(reader, scc, 'fsGroup'),
    readOnlyRootFilesystem: booleanAt(reader, scc, 'readOnlyRootFilesystem', '') ?? false,
    seccompProfiles: readSeccompProfiles(reader, scc),
    allowedUnsafeSysctls: stringsAt(reader, scc, 'allowedUnsafeSysctls', ''),
    forbiddenSysctls: stringsAt(reader, scc, 'forbiddenSysctls', ''),
  };
}

function readRunAsUser(reader: Reader, scc: JsonObject): RunAsUserFields {
  const options = objectAt(reader, scc, 'runAsUser', '') ?? NOTHING;
  return {
    type: stringAt(reader, options, 'type', 'runAsUser'),
    uid: idAt(reader, options, 'uid', 'runAsUser'),
    uidRangeMin: idAt(reader, options, 'uidRangeMin', 'runAsUser'),
    uidRangeMax: idAt(reader, options, 'uidRangeMax', 'runAsUser'),
  };
}

function idAt(reader: Reader, owner: JsonObject, key: string, path: string): number | undefined {
  return boundedAt(reader, owner, key, { path, ...INT53 });
}

function readSeLinuxContext(reader: Reader, scc: JsonObject): SeLinuxContextFields {
  const options = objectAt(reader, scc, 'seLinuxContext', '') ?? NOTHING;
  return {
    type: stringAt(reader, options, 'type', 'seLinuxContext'),
    seLinuxOptions: readSeLinuxOptions(reader, options, 'seLinuxContext'),
  };
}

function readSeccompProfiles(reader: Reader, scc: JsonObject): SeccompProfilesFields {
  const profiles = stringsAt(reader, scc, 'seccompProfiles', '');
  const isAnyAllowed = profiles.includes('*');
  return { names: isAnyAllowed ? profiles.filter((name) => name !== '*') : profiles, isAnyAllowed };
}

function readGroups(reader: Reader, scc: JsonObject, field: 'fsGroup' | 'supplementalGroups'): GroupFields {
  const options = objectAt(reader, scc, field, '') ?? NOTHING;
  const list = listAt(reader, options, 'ranges', field);
  const ranges = list.map((_, index) => {
    const range = elementAt(reader, list, index, `${field}.ranges`);
    const path = `${field}.ranges[${index}]`;
    return { min: idAt(reader, range, 'min', path) ?? 0, max: idAt(reader, range, 'max', path) ?? 0 };
  });
  return { type: stringAt(reader, options, 'type', field), ranges };
}

function readDrivers(reader: Reader, scc: JsonObject): readonly string[] {
  const list = listAt(reader, scc, 'allowedFlexVolumes', '');
  return list.map((_, index) =>
    stringAt(reader, elementAt(reader, list, index, 'allowedFlexVolumes'), 'driver', `allowedFlexVolumes[${index}]`),
  );
}
