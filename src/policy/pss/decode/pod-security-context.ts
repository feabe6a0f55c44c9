import type { JsonObject } from '../../../kube/types.ts';
import { SETTING, type PodFields, type SysctlFields } from '../fields.ts';
import { listIn, objectIn, stringIn, type Reader, type Struct } from './reader.ts';
import { createPool, newSysctl } from './scratch.ts';
import { readSharedField } from './security-context.ts';

const POD_SECURITY_CONTEXT: Struct = {
  name: 'PodSecurityContext',
  path: 'securityContext',
};
const SYSCTL: Struct = { name: 'Sysctl', path: 'securityContext.sysctls[*]' };

const poolOfSysctls = createPool(newSysctl);

/** Reads the security context of the pod; the reader stands on the pod spec. */
export function readPodSecurityContext(reader: Reader, context: JsonObject | undefined, into: PodFields): void {
  for (const key in context) {
    if (key === 'sysctls') into.sysctls = readSysctls(reader, context[key]);
    else readSharedField(reader, POD_SECURITY_CONTEXT, key, context[key], into);
  }
}

function readSysctls(reader: Reader, value: unknown): readonly SysctlFields[] {
  const list = listIn(reader, POD_SECURITY_CONTEXT, 'sysctls', value, 'v1.Sysctl');
  reader.pod.settings |= SETTING.sysctls;
  const sysctls = poolOfSysctls(list.length);
  for (const [index, into] of sysctls.entries()) {
    reader.index = index;
    into.index = index;
    const sysctl = objectIn(reader, POD_SECURITY_CONTEXT, 'sysctls[*]', list[index], 'v1.Sysctl');
    into.name = stringIn(reader, SYSCTL, 'name', sysctl?.name);
  }
  return sysctls;
}
