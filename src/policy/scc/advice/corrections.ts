/**
 * Finds pod fields because of which a pod is denied although it does not need them. They are empty, deprecated or
 * misspelled.
 */
import { SECCOMP_CONTAINER_ANNOTATION_PREFIX, SECCOMP_POD_ANNOTATION } from '../../../kube/scc.ts';
import { type PodFields, type SeccompProfile, type SeLinuxFields, sysctlName } from '../../pod/index.ts';
import { allowsPod } from '../complete.ts';
import type { Rejection, Search } from '../search.ts';
import { findDisallowedFields, withoutField } from './disallowed-fields.ts';
import { formatValues } from './warning-text.ts';

export interface Corrections {
  /** The usable SCC that admits the corrected pod. If absent, the corrected pod still needs another SCC. */
  readonly scc?: string;
  /** Verb phrases, such as `remove spec.securityContext.seLinuxOptions, which is empty`. */
  readonly changes: readonly string[];
}

/** A correction of one field. */
interface Correction {
  /** Path of the field. The correction also applies to all fields below it. */
  readonly path: string;
  readonly change: string;
  correct(pod: PodFields): PodFields;
}

/** Returns the corrections, if any, that suffice for a usable SCC to admit the pod. Prefers the first of these SCCs. */
export function findCorrections(search: Search, rejections: readonly Rejection[]): Corrections | undefined {
  const { pod } = search;
  const known = listCorrections(pod);
  if (known.length === 0) return undefined;
  for (const { scc, errors } of rejections) {
    const paths = findDisallowedFields(pod, errors).map(({ path }) => path);
    const own = known.filter((correction) =>
      paths.some((path) => path === correction.path || path.startsWith(`${correction.path}.`)),
    );
    if (own.length === 0 || !allowsPod(scc, { ...search, pod: apply(pod, own) })) continue;
    return { scc: scc.name, changes: own.map(({ change }) => change) };
  }
  return undefined;
}

/** Returns the pod with all corrections, or `undefined` if there are none. */
export function correctPod(pod: PodFields): { readonly pod: PodFields; readonly corrections: Corrections } | undefined {
  const corrections = listCorrections(pod);
  if (corrections.length === 0) return undefined;
  return { pod: apply(pod, corrections), corrections: { changes: corrections.map(({ change }) => change) } };
}

function apply(pod: PodFields, corrections: readonly Correction[]): PodFields {
  return corrections.reduce((corrected, { correct }) => correct(corrected), pod);
}

function listCorrections(pod: PodFields): readonly Correction[] {
  const { containers, seccompAnnotation, supplementalGroups } = pod;
  return [
    ...(seccompAnnotation === '' ? [] : [removal(annotationPath(SECCOMP_POD_ANNOTATION), 'deprecated')]),
    ...containers.flatMap((container) => [
      ...(container.seccompAnnotation === undefined
        ? []
        : [removal(annotationPath(SECCOMP_CONTAINER_ANNOTATION_PREFIX + container.name), 'deprecated')]),
      ...emptyFields(`spec.${container.location}.securityContext`, container),
    ]),
    ...emptyFields('spec.securityContext', pod),
    ...(supplementalGroups?.length === 0 ? [removal('spec.securityContext.supplementalGroups', 'empty')] : []),
    ...listSysctls(pod),
  ];
}

interface Context {
  readonly seLinuxOptions: SeLinuxFields | undefined;
  readonly seccompProfile: SeccompProfile | undefined;
}

/**
 * Returns the removals of empty objects. An empty object is a value that differs from all other values, so SCCs may not
 * allow it.
 */
function emptyFields(path: string, { seLinuxOptions, seccompProfile }: Context): readonly Correction[] {
  const isEmpty = seLinuxOptions !== undefined && Object.values(seLinuxOptions).every((value) => value === '');
  return [
    ...(isEmpty ? [removal(`${path}.seLinuxOptions`, 'empty')] : []),
    ...(seccompProfile?.type === '' ? [removal(`${path}.seccompProfile`, 'empty')] : []),
  ];
}

function listSysctls({ sysctls }: PodFields): readonly Correction[] {
  return sysctls.flatMap((name, index) => {
    const dotted = sysctlName(name);
    if (dotted === name) return [];
    const path = `spec.securityContext.sysctls[${index}].name`;
    const change = `write ${formatValues([dotted])} instead of ${formatValues([name])} in ${path}`;
    return [{ path, change, correct: (pod) => ({ ...pod, sysctls: pod.sysctls.with(index, dotted) }) }];
  });
}

function removal(path: string, cause: 'deprecated' | 'empty'): Correction {
  return { path, change: `remove ${path}, which is ${cause}`, correct: (pod) => withoutField(pod, path) };
}

function annotationPath(key: string): string {
  return `metadata.annotations[${key}]`;
}
