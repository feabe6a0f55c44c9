import type { FieldError } from '../../kube/field-error.ts';
import type { ContainerFields } from './decode/container.ts';
import type { PodFields } from './decode/pod.ts';
import type { SccFields } from './decode/scc.ts';
import { CONTAINER_STRATEGIES, POD_STRATEGIES } from './strategies/index.ts';
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

const GENERATE_POD = POD_STRATEGIES.map(({ generate }) => generate).filter((step) => step !== undefined);
const VALIDATE_POD = POD_STRATEGIES.map(({ validate }) => validate).filter((step) => step !== undefined);
const GENERATE_CONTAINER = CONTAINER_STRATEGIES.map(({ generate }) => generate).filter((step) => step !== undefined);
const VALIDATE_CONTAINER = CONTAINER_STRATEGIES.map(({ validate }) => validate).filter((step) => step !== undefined);

interface ApplyInput {
  readonly scc: SccFields;
  readonly bound: Bound;
  readonly pod: PodFields;
  /** Once there are as many, the values stay incomplete; one does for those who only want to know whether the pod fits. */
  readonly maxErrors: number;
}

/** Generates what the pod leaves open, and validates the outcome. */
export function applyScc({ scc, bound, pod, maxErrors }: ApplyInput): Attempt {
  const errors: FieldError[] = [];
  const podValues = ownPodValues(pod);
  const context: PodContext = { scc, bound, pod, podValues, maxErrors };
  for (const generate of GENERATE_POD) generate(context);
  for (const validate of VALIDATE_POD) validate(context, errors);
  const containerValues: ContainerValues[] = [];
  for (const container of pod.containers) {
    if (errors.length >= maxErrors) break;
    const values = ownContainerValues(container);
    applyToContainer({ scc, bound, pod, podValues, container, values, maxErrors }, errors);
    containerValues.push(values);
  }
  return { pod, podValues, containerValues, errors };
}

function applyToContainer(context: ContainerContext, errors: FieldError[]): void {
  for (const generate of GENERATE_CONTAINER) generate(context);
  for (const validate of VALIDATE_CONTAINER) validate(context, errors);
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
