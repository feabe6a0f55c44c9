import { quote } from '../../../kube/text.ts';
import type { PodFields, SecurityContextFields } from '../../pod/pod.ts';
import {
  distinct,
  findAnnotations,
  findSetters,
  forbidden,
  forbiddenAnnotation,
  formatSetters,
  joinTexts,
  plural,
  quotedList,
  type Check,
  type Finding,
} from '../check.ts';

const FIELD = 'securityContext.appArmorProfile.type';
const ANNOTATION_PREFIX = 'container.apparmor.security.beta.kubernetes.io/';

/**
 * The AppArmor profile of the runtime must not be disabled or replaced by an arbitrary one.
 *
 * Fields   spec.securityContext.appArmorProfile.type
 *          spec.{init,ephemeral,}containers[*].securityContext.appArmorProfile.type
 *          metadata.annotations[container.apparmor.security.beta.kubernetes.io/*]
 * Allowed  RuntimeDefault, Localhost or no profile; in annotations runtime/default, localhost/* or the empty string
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const appArmorProfile: Check = {
  id: 'appArmorProfile',
  level: 'baseline',
  fix: 'Set securityContext.appArmorProfile.type to RuntimeDefault or Localhost, or remove it and the AppArmor annotations.',
  versions: [{ since: 'v1.0', check: onlySafeProfiles }],
};

function onlySafeProfiles(pod: PodFields): Finding | undefined {
  const setters = findSetters(pod, isUnsafe);
  const annotations = findAnnotations(pod, isUnsafeAnnotation);
  if (setters.length === 0 && annotations.length === 0) return undefined;
  const values = [
    ...distinct(setters.map(profileType)),
    ...distinct(annotations.map(({ key, value }) => `${key}=${quote(value)}`)),
  ];
  const annotationsText = annotations.length === 0 ? '' : plural(annotations.length, 'annotation', 'annotations');
  const offenders = joinTexts(formatSetters(setters), ' and ', annotationsText);
  return {
    reason: plural(values.length, 'forbidden AppArmor profile', 'forbidden AppArmor profiles'),
    detail: `${offenders} must not set AppArmor profile type to ${quotedList(values)}`,
    fields: () => [
      ...setters.map((setter) => forbidden(setter, FIELD, profileType(setter))),
      ...annotations.map(forbiddenAnnotation),
    ],
  };
}

function isUnsafe({ appArmorProfile: type }: SecurityContextFields): boolean {
  return type !== undefined && type !== 'RuntimeDefault' && type !== 'Localhost';
}

function profileType(setter: SecurityContextFields): string {
  return setter.appArmorProfile ?? '';
}

/** Annotations for containers that do not exist count too. */
function isUnsafeAnnotation(key: string, value: string): boolean {
  if (!key.startsWith(ANNOTATION_PREFIX)) return false;
  return value !== '' && value !== 'runtime/default' && !value.startsWith('localhost/');
}
