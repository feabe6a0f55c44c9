import type { PodFields, Setter, SetterFields } from '../fields.ts';
import { forbidden, settersWhere } from '../offenders.ts';
import { quotedSet, settersText } from '../text.ts';
import type { Finding } from '../types.ts';

const FIELD = 'securityContext.seccompProfile.type';

/** Refuses profiles of any type but RuntimeDefault and Localhost; a pod without profiles passes. */
export function onlySafeSeccompProfiles(pod: PodFields): Finding | undefined {
  const offenders = settersWhere(pod, isUnsafe);
  return (
    offenders && {
      reason: 'seccompProfile',
      detail: `${settersText(offenders)} must not set ${FIELD} to ${quotedSet(offenders.map(typeOf))}`,
      fields: () => offenders.map((setter) => forbidden(setter, FIELD, typeOf(setter))),
    }
  );
}

function isUnsafe({ seccompProfile: type }: SetterFields): boolean {
  return type !== undefined && type !== 'RuntimeDefault' && type !== 'Localhost';
}

function typeOf(setter: Setter): string {
  return setter.seccompProfile ?? '';
}
