import type { JsonObject } from '../../../kube/types.ts';
import { SETTING, type SetterFields } from '../fields.ts';
import { booleanIn, int64In, objectIn, stringIn, type Reader, type Struct } from './reader.ts';

const SECCOMP: Struct = {
  name: 'SeccompProfile',
  path: 'securityContext.seccompProfile',
};
const APP_ARMOR: Struct = {
  name: 'AppArmorProfile',
  path: 'securityContext.appArmorProfile',
};
const SE_LINUX: Struct = {
  name: 'SELinuxOptions',
  path: 'securityContext.seLinuxOptions',
};
const WINDOWS: Struct = {
  name: 'WindowsSecurityContextOptions',
  path: 'securityContext.windowsOptions',
};

/** Reads a field that the security contexts of pods and of containers share; others are left alone. */
export function readSharedField(reader: Reader, struct: Struct, key: string, value: unknown, into: SetterFields): void {
  switch (key) {
    case 'runAsNonRoot':
      into.runAsNonRoot = booleanIn(reader, struct, key, value);
      break;
    case 'runAsUser':
      into.runAsUser = int64In(reader, struct, key, value);
      if (into.runAsUser === 0) reader.pod.settings |= SETTING.runAsUser;
      break;
    case 'seccompProfile':
      reader.pod.settings |= SETTING.seccompProfile;
      into.seccompProfile = readType(
        reader,
        SECCOMP,
        objectIn(reader, struct, key, value, 'v1.SeccompProfile'),
        'v1.SeccompProfileType',
      );
      break;
    case 'appArmorProfile':
      reader.pod.settings |= SETTING.appArmorProfile;
      into.appArmorProfile = readType(
        reader,
        APP_ARMOR,
        objectIn(reader, struct, key, value, 'v1.AppArmorProfile'),
        'v1.AppArmorProfileType',
      );
      break;
    case 'seLinuxOptions':
      readSeLinuxOptions(reader, objectIn(reader, struct, key, value, 'v1.SELinuxOptions'), into);
      break;
    case 'windowsOptions':
      readWindowsOptions(reader, objectIn(reader, struct, key, value, 'v1.WindowsSecurityContextOptions'), into);
  }
}

/** The type of a profile; empty where it has none, `undefined` where there is no profile. */
function readType(reader: Reader, struct: Struct, profile: JsonObject | undefined, type: string): string | undefined {
  return profile && stringIn(reader, struct, 'type', profile.type, type);
}

function readSeLinuxOptions(reader: Reader, options: JsonObject | undefined, into: SetterFields): void {
  into.seLinuxType = stringIn(reader, SE_LINUX, 'type', options?.type);
  into.seLinuxUser = stringIn(reader, SE_LINUX, 'user', options?.user);
  into.seLinuxRole = stringIn(reader, SE_LINUX, 'role', options?.role);
  if (into.seLinuxType || into.seLinuxUser || into.seLinuxRole) reader.pod.settings |= SETTING.seLinuxOptions;
}

function readWindowsOptions(reader: Reader, options: JsonObject | undefined, into: SetterFields): void {
  into.hostProcess = booleanIn(reader, WINDOWS, 'hostProcess', options?.hostProcess);
  if (into.hostProcess) reader.pod.settings |= SETTING.windowsOptions;
}
