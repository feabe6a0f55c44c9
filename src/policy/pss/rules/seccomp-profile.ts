import type { FieldError } from '../../../kube/field-error.ts';
import type { PodFields, SetterFields } from '../fields.ts';
import { forbidden, settersWhere } from '../offenders.ts';
import { quotedSet, settersText } from '../text.ts';
import type { Finding } from '../types.ts';

const FIELD = 'securityContext.seccompProfile.type';

/** Refuses profiles of any type but RuntimeDefault and Localhost; a pod without profiles passes. */
export function onlySafeSeccompProfiles(pod: PodFields): Finding | undefined {
  const setters = settersText(pod, isUnsafe);
  if (!setters) return undefined;
  const types = settersWhere(pod, isUnsafe).map(typeOf);
  return {
    reason: 'seccompProfile',
    detail: `${setters} must not set securityContext.seccompProfile.type to ${quotedSet(types)}`,
    fields,
  };
}

function fields(pod: PodFields): readonly FieldError[] {
  return settersWhere(pod, isUnsafe).map((setter) => forbidden(setter, FIELD, typeOf(setter)));
}

const isUnsafe = ({ seccompProfile: type }: SetterFields): boolean =>
  type !== undefined && type !== 'RuntimeDefault' && type !== 'Localhost';

function typeOf(setter: SetterFields): string {
  return setter.seccompProfile ?? '';
}
