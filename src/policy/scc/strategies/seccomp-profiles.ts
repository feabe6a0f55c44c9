import { forbiddenField, type FieldError } from '../../../kube/field-error.ts';
import { SECCOMP_CONTAINER_ANNOTATION_PREFIX, SECCOMP_POD_ANNOTATION } from '../../../kube/scc.ts';
import type { SeccompProfilesFields } from '../scc.ts';
import type { SeccompProfile } from '../decode/security-context.ts';
import type { ContainerStrategy, PodStrategy } from './index.ts';

const RUNTIME_DEFAULT = 'runtime/default';
const DOCKER_DEFAULT = 'docker/default';
const UNCONFINED = 'unconfined';
const LOCALHOST_PREFIX = 'localhost/';

/**
 * The pod has a seccomp profile that the SCC allows; without any it gets the first. Annotation and field are made to
 * agree, and the annotation goes before the field.
 */
export const seccompProfilesOfPod: PodStrategy = {
  generate({ scc, podValues }) {
    const { seccompAnnotation, seccompProfile } = podValues;
    const profile = seccompProfile ? annotationOf(seccompProfile) : (scc.seccompProfiles.names[0] ?? '');
    podValues.seccompAnnotation = seccompAnnotation === '' ? profile : seccompAnnotation;
    if (podValues.seccompAnnotation === '') return;
    podValues.seccompProfile = unlessSame(seccompProfile, profileOf(podValues.seccompAnnotation));
  },
  validate({ scc, podValues: { seccompAnnotation, seccompProfile } }, errors) {
    const isByField = seccompAnnotation === '' && seccompProfile !== undefined;
    const profile = isByField ? annotationOf(seccompProfile) : seccompAnnotation;
    validateProfile(scc.seccompProfiles, profile, { key: SECCOMP_POD_ANNOTATION, errors });
  },
};

/** Each container has a profile that the SCC allows, by its field, its annotation or the pod. */
export const seccompProfilesOfContainer: ContainerStrategy = {
  generate({ container, values }) {
    if (container.seccompAnnotation === undefined) return;
    values.seccompProfile = unlessSame(values.seccompProfile, profileOf(container.seccompAnnotation));
  },
  validate({ scc, podValues, container, values }, errors) {
    const profile = values.seccompProfile
      ? annotationOf(values.seccompProfile)
      : (container.seccompAnnotation ??
        (podValues.seccompProfile ? annotationOf(podValues.seccompProfile) : podValues.seccompAnnotation));
    validateProfile(scc.seccompProfiles, profile, {
      key: SECCOMP_CONTAINER_ANNOTATION_PREFIX + container.name,
      errors,
    });
  },
};

function validateProfile(
  { names, isAnyAllowed }: SeccompProfilesFields,
  profile: string,
  { key, errors }: { readonly key: string; readonly errors: FieldError[] },
): void {
  if (isAnyAllowed || (names.length === 0 && profile === '') || isListed(names, profile)) return;
  const detail =
    names.length === 0
      ? 'seccomp may not be set'
      : `${profile} is not an allowed seccomp profile. Valid values are [${names.join(' ')}]`;
  errors.push(forbiddenField(`metadata.annotations[${key}]`, detail));
}

/** The two names of the runtime's default stand for each other. */
function isListed(names: readonly string[], profile: string): boolean {
  if (profile !== RUNTIME_DEFAULT && profile !== DOCKER_DEFAULT) return names.includes(profile);
  return names.includes(RUNTIME_DEFAULT) || names.includes(DOCKER_DEFAULT);
}

/** The value of an annotation for a field; empty where there is none. */
function annotationOf({ type, localhostProfile }: SeccompProfile): string {
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

/** The field for the value of an annotation. */
function profileOf(annotation: string): SeccompProfile | undefined {
  if (annotation === UNCONFINED) return { type: 'Unconfined' };
  if (annotation === RUNTIME_DEFAULT || annotation === DOCKER_DEFAULT) return { type: 'RuntimeDefault' };
  if (!annotation.startsWith(LOCALHOST_PREFIX) || annotation === LOCALHOST_PREFIX) return undefined;
  return { type: 'Localhost', localhostProfile: annotation.slice(LOCALHOST_PREFIX.length) };
}

/** Keeps the value that is there if the new one says the same, so that nothing counts as changed. */
function unlessSame(old: SeccompProfile | undefined, next: SeccompProfile | undefined): SeccompProfile | undefined {
  return old?.type === next?.type && old?.localhostProfile === next?.localhostProfile ? old : next;
}
