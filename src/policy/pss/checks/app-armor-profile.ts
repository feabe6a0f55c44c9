import type { FieldError } from '../../../kube/field-error.ts';
import { quote } from '../../../kube/text.ts';
import type { PodFields, SetterFields } from '../fields.ts';
import { annotationsWhere, forbidden, forbiddenAnnotation, settersWhere, type Annotation } from '../offenders.ts';
import { both, distinct, plural, quotedList, settersText } from '../text.ts';
import type { Check, Finding } from '../types.ts';

const FIELD = 'securityContext.appArmorProfile.type';
const ANNOTATION_PREFIX = 'container.apparmor.security.beta.kubernetes.io/';

/**
 * AppArmor may not be switched off, nor may profiles be used that nobody has vetted.
 *
 * Fields   spec.securityContext.appArmorProfile.type
 *          spec.{init,ephemeral,}containers[*].securityContext.appArmorProfile.type
 *          metadata.annotations[container.apparmor.security.beta.kubernetes.io/*]
 * Allowed  RuntimeDefault, Localhost or no profile; in annotations runtime/default, localhost/* or nothing
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const appArmorProfile: Check = {
  id: 'appArmorProfile',
  level: 'baseline',
  remedy:
    'Set securityContext.appArmorProfile.type to RuntimeDefault or Localhost, or remove it and the AppArmor annotations.',
  passesUnlessSet: ['annotations', 'appArmorProfile'],
  versions: [{ since: 'v1.0', check: onlySafeProfiles }],
};

function onlySafeProfiles(pod: PodFields): Finding | undefined {
  const setters = settersText(pod, isUnsafe);
  const annotations = annotationsWhere(pod, isUnsafeAnnotation);
  return !setters && annotations.length === 0 ? undefined : finding(pod, setters, annotations);
}

function finding(pod: PodFields, setters: string, annotations: readonly Annotation[]): Finding {
  const types = distinct(settersWhere(pod, isUnsafe).map(typeOf));
  const values = [...types, ...distinct(annotations.map(({ key, value }) => `${key}=${quote(value)}`))];
  const others = annotations.length === 0 ? '' : plural(annotations.length, 'annotation', 'annotations');
  return {
    reason: plural(values.length, 'forbidden AppArmor profile', 'forbidden AppArmor profiles'),
    detail: `${both(setters, ' and ', others)} must not set AppArmor profile type to ${quotedList(values)}`,
    fields,
  };
}

function fields(pod: PodFields): readonly FieldError[] {
  return [
    ...settersWhere(pod, isUnsafe).map((setter) => forbidden(setter, FIELD, typeOf(setter))),
    ...annotationsWhere(pod, isUnsafeAnnotation).map(forbiddenAnnotation),
  ];
}

const isUnsafe = ({ appArmorProfile: type }: SetterFields): boolean =>
  type !== undefined && type !== 'RuntimeDefault' && type !== 'Localhost';

function typeOf(setter: SetterFields): string {
  return setter.appArmorProfile ?? '';
}

/** Whether or not there is a container of that name. */
function isUnsafeAnnotation(key: string, value: string): boolean {
  if (!key.startsWith(ANNOTATION_PREFIX)) return false;
  return value !== '' && value !== 'runtime/default' && !value.startsWith('localhost/');
}
