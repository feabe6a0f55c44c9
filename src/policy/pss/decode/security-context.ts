import type { JsonObject } from '../../../kube/types.ts';
import type { SetterFields } from '../fields.ts';
import { booleanIn, int64In, objectIn, stringIn, type Reader, type Struct } from './reader.ts';

const SECCOMP: Struct = { name: 'SeccompProfile', path: 'securityContext.seccompProfile' };
const APP_ARMOR: Struct = { name: 'AppArmorProfile', path: 'securityContext.appArmorProfile' };
const SE_LINUX: Struct = { name: 'SELinuxOptions', path: 'securityContext.seLinuxOptions' };
const WINDOWS: Struct = { name: 'WindowsSecurityContextOptions', path: 'securityContext.windowsOptions' };

/** Reads a field that the security contexts of pods and of containers share; others are left alone. */
export function readSharedField(reader: Reader, struct: Struct, key: string, value: unknown, into: SetterFields): void {
  switch (key) {
    case 'runAsNonRoot':
      into.runAsNonRoot = booleanIn(reader, struct, key, value);
      break;
    case 'runAsUser':
      into.runAsUser = int64In(reader, struct, key, value);
      break;
    case 'seccompProfile':
      into.seccompProfile = readType(reader, SECCOMP, objectIn(reader, struct, key, value, 'v1.SeccompProfile'));
      break;
    case 'appArmorProfile':
      into.appArmorProfile = readType(reader, APP_ARMOR, objectIn(reader, struct, key, value, 'v1.AppArmorProfile'));
      break;
    case 'seLinuxOptions':
      readSeLinuxOptions(reader, objectIn(reader, struct, key, value, 'v1.SELinuxOptions'), into);
      break;
    case 'windowsOptions':
      readWindowsOptions(reader, objectIn(reader, struct, key, value, 'v1.WindowsSecurityContextOptions'), into);
  }
}

function readType(reader: Reader, struct: Struct, profile: JsonObject | undefined): string {
  let type = '';
  for (const key in profile) {
    if (key === 'type') type = stringIn(reader, struct, key, profile[key], `v1.${struct.name}Type`);
  }
  return type;
}

function readSeLinuxOptions(reader: Reader, options: JsonObject | undefined, into: SetterFields): void {
  for (const key in options) {
    if (key === 'type') into.seLinuxType = stringIn(reader, SE_LINUX, key, options[key]);
    else if (key === 'user') into.seLinuxUser = stringIn(reader, SE_LINUX, key, options[key]);
    else if (key === 'role') into.seLinuxRole = stringIn(reader, SE_LINUX, key, options[key]);
  }
}

function readWindowsOptions(reader: Reader, options: JsonObject | undefined, into: SetterFields): void {
  for (const key in options) {
    const value = options[key];
    if (key === 'hostProcess' && value != null) into.hostProcess = booleanIn(reader, WINDOWS, key, value);
  }
}
