import { celList, celString } from '../../../kube/cel.ts';
import { SECCOMP_CONTAINER_ANNOTATION_PREFIX, SECCOMP_POD_ANNOTATION } from '../../../kube/scc.ts';
import { plural, quote } from '../../../kube/text.ts';
import { LOST, type PodFields } from '../../pod/index.ts';
import { bind, type BuildCel, celPlural } from '../cel.ts';
import {
  type Check,
  distinct,
  findAnnotations,
  type Finding,
  forbiddenAnnotation,
  securityContextRule,
} from '../check.ts';

const FIELD = 'securityContext.seccompProfile.type';
const ALLOWED_TYPES = ['RuntimeDefault', 'Localhost'];
const ALLOWED_ANNOTATIONS = ['runtime/default', 'docker/default'];
const ALLOWED_ANNOTATION_PREFIX = 'localhost/';

const annotationsCel: BuildCel = ({ annotations, containers }) => {
  const isSafe = `!(key in ${annotations}) || ${annotations}[key] in ${celList(ALLOWED_ANNOTATIONS)} || ${annotations}[key].startsWith(${celString(ALLOWED_ANNOTATION_PREFIX)})`;
  const keys = `([${celString(SECCOMP_POD_ANNOTATION)}] + ${containers}.map(c, ${celString(SECCOMP_CONTAINER_ANNOTATION_PREFIX)} + c.name))`;
  return {
    passes: `${keys}.all(key, ${isSafe})`,
    text: bind(
      {
        seccompAnnotations: `${keys}.filter(key, !(${isSafe})).map(key, key + "=" + strings.quote(${annotations}[key])).distinct().sort()`,
      },
      `"seccompProfile (" + ${celPlural('seccompAnnotations', 'forbidden annotation ', 'forbidden annotations ')} + seccompAnnotations.join(", ") + ")"`,
    ),
  };
};

/**
 * Denies profile types other than RuntimeDefault and Localhost. Pods that set no profile pass. The API server requires
 * a type in every profile, so a missing type means that there is no profile.
 */
export const ONLY_SAFE_SECCOMP_PROFILES = securityContextRule({
  name: 'seccomp',
  reason: 'seccompProfile',
  field: FIELD,
  violates: ({ seccompProfile: profile }) => profile !== undefined && !ALLOWED_TYPES.includes(profile.type),
  passes: (owner) =>
    `${owner}.?securityContext.?seccompProfile.?type.orValue("Localhost") in ${celList(ALLOWED_TYPES)}`,
  must: (types) => `must not set ${FIELD} to ${types}`,
  value: ({ seccompProfile }) => seccompProfile?.type,
  celValue: (owner) => `${owner}.securityContext.seccompProfile.type`,
});

/**
 * Seccomp must not be disabled. Before v1.19, annotations set the profiles.
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
  why: 'The default seccomp profile of the container runtime denies rarely used system calls, through which many kernel vulnerabilities can be exploited. `Unconfined` permits all system calls.',
  fix: 'Set securityContext.seccompProfile.type to RuntimeDefault or Localhost, or remove it and the seccomp annotations.',
  violation: ['spec.containers[0].securityContext.seccompProfile', { type: 'Unconfined' }],
  cis: '5.6.2',
  nsa: 'seccomp profiles',
  repairs: [
    { field: /^metadata\./, set: 'runtime/default', note: LOST.seccomp, explicit: true },
    { set: 'RuntimeDefault', note: LOST.seccomp, explicit: true },
  ],
  versions: [
    { since: 'v1.0', check: onlySafeAnnotations, cel: annotationsCel },
    { since: 'v1.19', ...ONLY_SAFE_SECCOMP_PROFILES },
  ],
};

function onlySafeAnnotations(pod: PodFields): Finding | undefined {
  const annotations = findAnnotations(pod, (key, value) => isUnsafeValue(value) && isProfile(pod, key));
  if (annotations.length === 0) return undefined;
  const items = distinct(annotations.map(({ key, value }) => `${key}=${quote(value)}`));
  return {
    reason: 'seccompProfile',
    detail: `forbidden ${plural(items.length, 'annotation')} ${items.join(', ')}`,
    fields: () => annotations.map(forbiddenAnnotation),
  };
}

/** Returns true for an unsafe annotation value. The empty string is also unsafe. */
function isUnsafeValue(value: string): boolean {
  return !ALLOWED_ANNOTATIONS.includes(value) && !value.startsWith(ALLOWED_ANNOTATION_PREFIX);
}

/** Returns true for an annotation that sets a profile. Annotations for containers that do not exist set none. */
function isProfile(pod: PodFields, key: string): boolean {
  if (key === SECCOMP_POD_ANNOTATION) return true;
  if (!key.startsWith(SECCOMP_CONTAINER_ANNOTATION_PREFIX)) return false;
  const name = key.slice(SECCOMP_CONTAINER_ANNOTATION_PREFIX.length);
  return pod.containers.some((container) => container.name === name);
}
