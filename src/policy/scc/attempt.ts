import type { FieldError } from '../../kube/field-error.ts';
import type { ContainerFields } from './decode/container.ts';
import type { PodFields } from './decode/pod.ts';
import type { SccFields } from './scc.ts';
import {
  CONTAINER_STRATEGIES,
  POD_STRATEGIES,
  type Bound,
  type ContainerContext,
  type ContainerValues,
  type PodContext,
  type PodValues,
} from './strategies/index.ts';
import { SECCOMP_POD_ANNOTATION } from '../../kube/scc.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';

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
type Extent = 'nothing' | 'ephemeralContainers' | 'more';

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

/** Returns the pod with the values that the SCC gave it, and these annotations; it shares with the input what did not change. */
export function writePod(attempt: Attempt, annotations: Readonly<Record<string, string>>): JsonObject {
  const { json } = attempt.pod;
  return {
    ...json,
    metadata: {
      ...memberOf(json, 'metadata'),
      annotations: { ...attempt.pod.annotations, ...seccompAnnotation(attempt), ...annotations },
    },
    spec: writeSpec(attempt),
  };
}

function seccompAnnotation({ podValues }: Attempt): Readonly<Record<string, string>> {
  const { seccompAnnotation: value } = podValues;
  return value === '' ? {} : { [SECCOMP_POD_ANNOTATION]: value };
}

function writeSpec({ pod, podValues, containerValues }: Attempt): JsonObject {
  const before = memberOf(pod.json, 'spec');
  // The annotation is no part of the security context.
  const values = { ...podValues, seccompAnnotation: pod.seccompAnnotation };
  const spec: Record<string, unknown> = { ...withContext(before, ownPodValues(pod), values) };
  const written = new Map<string, unknown[]>();
  for (let position = 0; position < pod.containers.length; position++) {
    const container = pod.containers[position];
    const generated = containerValues[position];
    if (container === undefined || generated === undefined) continue;
    const own = before[container.list];
    const json: unknown = Array.isArray(own) ? own[container.index] : undefined;
    if (!isObject(json)) continue;
    const next = withContext(json, ownContainerValues(container), generated);
    if (next === json) continue;
    let list = written.get(container.list);
    if (!list) written.set(container.list, (list = [...(own as unknown[])]));
    list[container.index] = next;
  }
  for (const [name, list] of written) spec[name] = list;
  return spec;
}

/** Returns the pod spec or container with what is new in its security context; the same object if nothing is. */
function withContext<Values extends PodValues | ContainerValues>(
  owner: JsonObject,
  before: Values,
  after: Values,
): JsonObject {
  let context: Record<string, unknown> | undefined;
  for (const key in after) {
    const value = after[key];
    if (value === before[key]) continue;
    context ??= { ...memberOf(owner, 'securityContext') };
    context[key] = toJson(value);
  }
  if (context === undefined) return owner;
  // Only a seccomp profile ever goes away: where its annotation says nothing that can be understood.
  if (context['seccompProfile'] === undefined) delete context['seccompProfile'];
  return { ...owner, securityContext: context };
}

/** Members of objects that are empty are left out. */
function toJson(value: unknown): unknown {
  if (Array.isArray(value)) return [...(value as unknown[])];
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== '' && !isEmptyList(member)));
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

function memberOf(owner: JsonObject, key: string): JsonObject {
  const member = owner[key];
  return isObject(member) ? member : {};
}
