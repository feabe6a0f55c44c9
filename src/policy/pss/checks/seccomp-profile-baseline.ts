import type { FieldError } from '../../../kube/field-error.ts';
import { quote } from '../../../kube/text.ts';
import type { PodFields } from '../fields.ts';
import { annotationsWhere, forbiddenAnnotation, type Annotation } from '../offenders.ts';
import { onlySafeSeccompProfiles } from '../rules/seccomp-profile.ts';
import { distinct, plural } from '../text.ts';
import type { Check, Finding } from '../types.ts';

const POD_ANNOTATION = 'seccomp.security.alpha.kubernetes.io/pod';
const CONTAINER_ANNOTATION_PREFIX = 'container.seccomp.security.alpha.kubernetes.io/';

/**
 * Seccomp may not be switched off. Profiles were annotations before they were fields.
 *
 * Fields   from v1.19 spec.securityContext.seccompProfile.type
 *          and spec.{init,ephemeral,}containers[*].securityContext.seccompProfile.type;
 *          before metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]
 *          and metadata.annotations[container.seccomp.security.alpha.kubernetes.io/*]
 * Allowed  RuntimeDefault, Localhost or no profile; in annotations runtime/default, docker/default, localhost/*
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const seccompProfileBaseline: Check = {
  id: 'seccompProfile_baseline',
  level: 'baseline',
  remedy: 'Set securityContext.seccompProfile.type to RuntimeDefault or Localhost, or remove it; likewise annotations.',
  passesUnlessSet: ['annotations', 'seccompProfile'],
  versions: [
    { since: 'v1.0', check: onlySafeAnnotations },
    { since: 'v1.19', check: onlySafeSeccompProfiles },
  ],
};

function onlySafeAnnotations(pod: PodFields): Finding | undefined {
  const offenders = unsafeAnnotations(pod);
  if (offenders.length === 0) return undefined;
  const items = distinct(offenders.map(({ key, value }) => `${key}=${quote(value)}`));
  return {
    reason: 'seccompProfile',
    detail: `forbidden ${plural(items.length, 'annotation', 'annotations')} ${items.join(', ')}`,
    fields,
  };
}

function fields(pod: PodFields): readonly FieldError[] {
  return unsafeAnnotations(pod).map(forbiddenAnnotation);
}

function unsafeAnnotations(pod: PodFields): readonly Annotation[] {
  return annotationsWhere(pod, (key, value) => isUnsafe(value) && isProfile(pod, key));
}

/** Annotations for containers that the pod does not have are of no interest. */
function isProfile(pod: PodFields, key: string): boolean {
  if (key === POD_ANNOTATION) return true;
  if (!key.startsWith(CONTAINER_ANNOTATION_PREFIX)) return false;
  const name = key.slice(CONTAINER_ANNOTATION_PREFIX.length);
  return pod.containers.some((container) => container.name === name);
}

/** The empty string, too, is no profile. */
const isUnsafe = (value: string): boolean =>
  value !== 'runtime/default' && value !== 'docker/default' && !value.startsWith('localhost/');
