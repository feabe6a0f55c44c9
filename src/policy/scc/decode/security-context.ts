import type { JsonObject } from '../../../kube/types.ts';
import { pathTo } from './paths.ts';
import { objectAt, stringAt, type Reader } from './reader.ts';

/** Empty members are absent ones. */
export interface SeLinuxFields {
  readonly level: string;
  readonly role: string;
  readonly type: string;
  readonly user: string;
}

export interface SeccompProfile {
  readonly type: string;
  readonly localhostProfile?: string;
}

/** What the security contexts of pods and of containers have in common; the container's value goes before the pod's. */
export interface SharedFields {
  readonly runAsUser: number | undefined;
  readonly runAsNonRoot: boolean | undefined;
  readonly seLinuxOptions: SeLinuxFields | undefined;
  readonly seccompProfile: SeccompProfile | undefined;
}

/** The SELinux options of a security context, or of an SCC's strategy. */
export function readSeLinuxOptions(reader: Reader, context: JsonObject, path: string): SeLinuxFields | undefined {
  const options = objectAt(reader, context, 'seLinuxOptions', path);
  if (options === undefined) return undefined;
  const own = pathTo(path, 'seLinuxOptions');
  return {
    level: stringAt(reader, options, 'level', own),
    role: stringAt(reader, options, 'role', own),
    type: stringAt(reader, options, 'type', own),
    user: stringAt(reader, options, 'user', own),
  };
}

export function readSeccompProfile(reader: Reader, context: JsonObject, path: string): SeccompProfile | undefined {
  const profile = objectAt(reader, context, 'seccompProfile', path);
  if (profile === undefined) return undefined;
  const own = pathTo(path, 'seccompProfile');
  const type = stringAt(reader, profile, 'type', own);
  const localhostProfile = stringAt(reader, profile, 'localhostProfile', own);
  return profile['localhostProfile'] == null ? { type } : { type, localhostProfile };
}
