import { type FieldError, forbiddenField } from '../../../kube/field-error.ts';
import { SECCOMP_CONTAINER_ANNOTATION_PREFIX, SECCOMP_POD_ANNOTATION } from '../../../kube/scc.ts';
import { LOST, type SeccompProfile } from '../../pod/index.ts';
import type { SccFields } from '../scc-fields.ts';
import type { ContainerStrategy, PodStrategy } from './strategy.ts';

const RUNTIME_DEFAULT = 'runtime/default';
const DOCKER_DEFAULT = 'docker/default';
const UNCONFINED = 'unconfined';
const LOCALHOST_PREFIX = 'localhost/';

/** The pod annotation overrides the field. The strategy sets both to the same profile. */
export const seccompProfilesOfPod: PodStrategy = {
  repairs: [
    { field: /^(spec\..*seccompProfile)\.\w+$/, remove: 'field', note: LOST.seccomp, explicit: true },
    { field: /seccomp/, remove: 'field', note: LOST.seccomp, explicit: true },
  ],
  generate({ scc, podValues }) {
    const { seccompAnnotation, seccompProfile } = podValues;
    const profile = seccompProfile ? toAnnotation(seccompProfile) : (scc.seccompProfiles[0] ?? '');
    podValues.seccompAnnotation = seccompAnnotation === '' ? profile : seccompAnnotation;
    if (podValues.seccompAnnotation === '') return;
    podValues.seccompProfile = keepIfEqual(seccompProfile, toProfile(podValues.seccompAnnotation));
  },
  validate({ scc, podValues: { seccompAnnotation, seccompProfile } }, errors) {
    const isField = seccompAnnotation === '' && seccompProfile !== undefined;
    const profile = isField ? toAnnotation(seccompProfile) : seccompAnnotation;
    validateProfile(scc, profile, { key: SECCOMP_POD_ANNOTATION, errors });
  },
};

/** A container's profile comes from its field, its annotation, or the pod, in this order of precedence. */
export const seccompProfilesOfContainer: ContainerStrategy = {
  generate({ container, values }) {
    if (container.seccompAnnotation === undefined) return;
    values.seccompProfile = keepIfEqual(values.seccompProfile, toProfile(container.seccompAnnotation));
  },
  validate({ scc, podValues, container, values }, errors) {
    const profile = values.seccompProfile
      ? toAnnotation(values.seccompProfile)
      : (container.seccompAnnotation ??
        (podValues.seccompProfile ? toAnnotation(podValues.seccompProfile) : podValues.seccompAnnotation));
    validateProfile(scc, profile, { key: SECCOMP_CONTAINER_ANNOTATION_PREFIX + container.name, errors });
  },
};

function validateProfile(
  { seccompProfiles: allowed, allowsAnySeccompProfile }: SccFields,
  profile: string,
  { key, errors }: { readonly key: string; readonly errors: FieldError[] },
): void {
  if (allowsAnySeccompProfile || (allowed.length === 0 && profile === '') || isListed(allowed, profile)) return;
  const detail =
    allowed.length === 0
      ? 'seccomp may not be set'
      : `${profile} is not an allowed seccomp profile. Valid values are [${allowed.join(' ')}]`;
  errors.push(forbiddenField(`metadata.annotations[${key}]`, detail));
}

/** Returns true if the SCC lists the profile. The container runtime's default profile has two names. */
function isListed(allowed: readonly string[], profile: string): boolean {
  if (profile !== RUNTIME_DEFAULT && profile !== DOCKER_DEFAULT) return allowed.includes(profile);
  return allowed.includes(RUNTIME_DEFAULT) || allowed.includes(DOCKER_DEFAULT);
}

/** Returns the annotation value for a field, or an empty string if there is none. */
function toAnnotation({ type, localhostProfile }: SeccompProfile): string {
  switch (type) {
    case 'Unconfined':
      return UNCONFINED;
    case 'RuntimeDefault':
      return RUNTIME_DEFAULT;
    case 'Localhost':
      return localhostProfile === undefined ? '' : LOCALHOST_PREFIX + localhostProfile;
    default:
      return '';
  }
}

/** Returns the field for an annotation value, or `undefined` for an unknown profile. */
function toProfile(annotation: string): SeccompProfile | undefined {
  if (annotation === UNCONFINED) return { type: 'Unconfined' };
  if (annotation === RUNTIME_DEFAULT || annotation === DOCKER_DEFAULT) return { type: 'RuntimeDefault' };
  if (!annotation.startsWith(LOCALHOST_PREFIX) || annotation === LOCALHOST_PREFIX) return undefined;
  return { type: 'Localhost', localhostProfile: annotation.slice(LOCALHOST_PREFIX.length) };
}

/** Returns the old object if both profiles are equal, so an unchanged profile is not treated as a change. */
function keepIfEqual(old: SeccompProfile | undefined, next: SeccompProfile | undefined): SeccompProfile | undefined {
  return old?.type === next?.type && old?.localhostProfile === next?.localhostProfile ? old : next;
}
