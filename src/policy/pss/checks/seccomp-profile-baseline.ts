import { SECCOMP_CONTAINER_ANNOTATION_PREFIX, SECCOMP_POD_ANNOTATION } from '../../../kube/scc.ts';
import { quote } from '../../../kube/text.ts';
import type { PodFields, SecurityContextFields } from '../../pod/pod.ts';
import {
  distinct,
  findAnnotations,
  findSetters,
  forbidden,
  forbiddenAnnotation,
  formatSetters,
  plural,
  quotedList,
  type Check,
  type Finding,
} from '../check.ts';

const FIELD = 'securityContext.seccompProfile.type';

/**
 * Seccomp must not be disabled. Before v1.19, profiles were set by annotations.
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
  fix: 'Set securityContext.seccompProfile.type to RuntimeDefault or Localhost, or remove it and the seccomp annotations.',
  versions: [
    { since: 'v1.0', check: onlySafeAnnotations },
    { since: 'v1.19', check: onlySafeSeccompProfiles },
  ],
};

function onlySafeAnnotations(pod: PodFields): Finding | undefined {
  const offenders = findAnnotations(pod, (key, value) => isUnsafeValue(value) && isProfile(pod, key));
  if (offenders.length === 0) return undefined;
  const items = distinct(offenders.map(({ key, value }) => `${key}=${quote(value)}`));
  return {
    reason: 'seccompProfile',
    detail: `forbidden ${plural(items.length, 'annotation', 'annotations')} ${items.join(', ')}`,
    fields: () => offenders.map(forbiddenAnnotation),
  };
}

/** The empty string is unsafe too. */
function isUnsafeValue(value: string): boolean {
  return value !== 'runtime/default' && value !== 'docker/default' && !value.startsWith('localhost/');
}

/** Annotations for containers that do not exist are ignored. */
function isProfile(pod: PodFields, key: string): boolean {
  if (key === SECCOMP_POD_ANNOTATION) return true;
  if (!key.startsWith(SECCOMP_CONTAINER_ANNOTATION_PREFIX)) return false;
  const name = key.slice(SECCOMP_CONTAINER_ANNOTATION_PREFIX.length);
  return pod.containers.some((container) => container.name === name);
}

/** Denies profiles of other types than RuntimeDefault and Localhost. A pod without profiles passes. */
export function onlySafeSeccompProfiles(pod: PodFields): Finding | undefined {
  const setters = findSetters(pod, isUnsafe);
  if (setters.length === 0) return undefined;
  const types = quotedList(distinct(setters.map(({ seccompProfile }) => seccompProfile?.type ?? '')));
  return {
    reason: 'seccompProfile',
    detail: `${formatSetters(setters)} must not set securityContext.seccompProfile.type to ${types}`,
    fields: () => setters.map((setter) => forbidden(setter, FIELD, setter.seccompProfile?.type)),
  };
}

function isUnsafe({ seccompProfile: profile }: SecurityContextFields): boolean {
  return profile !== undefined && profile.type !== 'RuntimeDefault' && profile.type !== 'Localhost';
}
