import type { FieldError } from '../../kube/field-error.ts';
import type { ContainerFields } from './decode/container.ts';
import type { PodFields } from './decode/pod.ts';
import type { PreparedScc } from './prepare.ts';
import type { Bound, ContainerContext, ContainerValues, PodContext, PodValues } from './strategies/types.ts';

/** A pod under one SCC: the values that it would have, and what is wrong with them. The pod itself stays as it is. */
export interface Attempt {
  readonly pod: PodFields;
  readonly podValues: PodValues;
  /** In the order of `pod.containers`. */
  readonly containerValues: readonly ContainerValues[];
  /** In the order of messages; a path that begins with a dot is relative to the SCC. Empty: the pod fits. */
  readonly errors: readonly FieldError[];
}

/** Generates what the pod leaves open, and validates the outcome. */
export function applyScc(scc: PreparedScc, bound: Bound, pod: PodFields): Attempt {
  const rules = scc.rules();
  const errors: FieldError[] = [];
  const podValues = ownPodValues(pod);
  const context: PodContext = { pod, bound, podValues };
  for (const rule of rules.pod) rule.generate?.(context);
  for (const rule of rules.pod) rule.validate?.(context, errors);
  const containerValues = pod.containers.map((container) => {
    const values = ownContainerValues(container);
    const inner: ContainerContext = { pod, bound, podValues, container, values };
    for (const rule of rules.container) rule.generate?.(inner);
    for (const rule of rules.container) rule.validate?.(inner, errors);
    return values;
  });
  return { pod, podValues, containerValues, errors };
}

/** A pod as it is, with what is wrong. */
export function unchanged(pod: PodFields, errors: readonly FieldError[]): Attempt {
  return { pod, podValues: ownPodValues(pod), containerValues: pod.containers.map(ownContainerValues), errors };
}

/** How much an SCC would change: nothing, ephemeral containers alone, or more. */
export type Extent = 'nothing' | 'ephemeralContainers' | 'more';

export function extentOf({ pod, podValues, containerValues }: Attempt): Extent {
  if (!isSame(podValues, ownPodValues(pod))) return 'more';
  let extent: Extent = 'nothing';
  for (const [index, container] of pod.containers.entries()) {
    const values = containerValues[index];
    if (values === undefined || isSame(values, ownContainerValues(container))) continue;
    if (container.list !== 'ephemeralContainers') return 'more';
    extent = 'ephemeralContainers';
  }
  return extent;
}

/** The values that a pod brings itself. */
export function ownPodValues(pod: PodFields): PodValues {
  return {
    fsGroup: pod.fsGroup,
    supplementalGroups: pod.supplementalGroups,
    seLinuxOptions: pod.seLinuxOptions,
    seccompAnnotation: pod.seccompAnnotation,
    seccompProfile: pod.seccompProfile,
  };
}

/** The values that a container brings itself. */
export function ownContainerValues(container: ContainerFields): ContainerValues {
  return {
    runAsUser: container.runAsUser,
    runAsNonRoot: container.runAsNonRoot,
    seLinuxOptions: container.seLinuxOptions,
    seccompProfile: container.seccompProfile,
    capabilities: container.capabilities,
    readOnlyRootFilesystem: container.readOnlyRootFilesystem,
    allowPrivilegeEscalation: container.allowPrivilegeEscalation,
  };
}

/** Values are either those of the pod or generated ones: identity tells. */
function isSame<Values extends PodValues | ContainerValues>(a: Values, b: Values): boolean {
  for (const key in a) {
    if (a[key] !== b[key]) return false;
  }
  return true;
}
