/**
 * Applies an SCC to a pod. Generates the values that the pod lacks, validates the result, and writes the values into
 * the pod.
 */
import type { FieldError } from '../../kube/field-error.ts';
import { SECCOMP_POD_ANNOTATION } from '../../kube/scc.ts';
import { quote } from '../../kube/text.ts';
import { isObject, type JsonObject, objectMember } from '../../kube/types.ts';
import type { ContainerFields, PodFields } from '../pod/index.ts';
import { MAX_ERRORS } from './budget.ts';
import { bindScc, type PodInNamespace } from './namespace.ts';
import type { PreparedScc } from './scc.ts';
import { CONTAINER_STRATEGIES, POD_STRATEGIES } from './strategies/index.ts';
import type { ContainerContext, ContainerValues, PodContext, PodValues } from './strategies/strategy.ts';

export interface Completion {
  readonly pod: PodFields;
  readonly podValues: PodValues;
  /**
   * Values of the containers, in the order of `pod.containers`. The list is incomplete if the evaluation stopped after
   * `maxErrors` errors.
   */
  readonly containerValues: readonly ContainerValues[];
  /** Errors for the values that the SCC does not allow. Paths that begin with a dot are relative to the SCC. */
  readonly errors: readonly FieldError[];
}

/**
 * Generates the values that the pod does not set, and validates the result. If the namespace lacks a range that the SCC
 * requires, the SCC allows no pods.
 */
export function completePod(scc: PreparedScc, { namespace, pod }: PodInNamespace, maxErrors = MAX_ERRORS): Completion {
  const bound = bindScc(scc, namespace);
  const podValues = ownPodValues(pod);
  if ('error' in bound) {
    const error: FieldError = { type: 'InternalError', path: `provider ${quote(scc.name)}`, detail: bound.error };
    return { pod, podValues, containerValues: pod.containers.map(ownContainerValues), errors: [error] };
  }
  const errors: FieldError[] = [];
  const context: PodContext = { scc: scc.fields, bound: bound.value, pod, podValues, maxErrors };
  for (const { generate } of POD_STRATEGIES) generate?.(context);
  for (const { validate } of POD_STRATEGIES) validate?.(context, errors);
  const containerValues: ContainerValues[] = [];
  for (const container of pod.containers) {
    if (errors.length >= maxErrors) break;
    const values = ownContainerValues(container);
    completeContainer({ scc: scc.fields, bound: bound.value, pod, podValues, maxErrors, container, values }, errors);
    containerValues.push(values);
  }
  return { pod, podValues, containerValues, errors };
}

function completeContainer(context: ContainerContext, errors: FieldError[]): void {
  for (const { generate } of CONTAINER_STRATEGIES) generate?.(context);
  for (const { validate } of CONTAINER_STRATEGIES) validate?.(context, errors);
}

/** Returns true if the SCC allows the pod. Stops at the first error. */
export function allowsPod(scc: PreparedScc, input: PodInNamespace): boolean {
  return completePod(scc, input, 1).errors.length === 0;
}

/** The parts of a pod that an SCC changes. */
export type ChangeExtent = 'nothing' | 'ephemeralContainers' | 'everything';

export function findExtent({ pod, podValues, containerValues }: Completion): ChangeExtent {
  if (!isSame(podValues, ownPodValues(pod))) return 'everything';
  let extent: ChangeExtent = 'nothing';
  for (const [index, container] of pod.containers.entries()) {
    const values = containerValues[index];
    if (values === undefined || isSame(values, ownContainerValues(container))) continue;
    if (container.list !== 'ephemeralContainers') return 'everything';
    extent = 'ephemeralContainers';
  }
  return extent;
}

/** Returns true if all values are identical. A strategy that changes a value creates a new object. */
function isSame<Values extends PodValues | ContainerValues>(a: Values, b: Values): boolean {
  for (const key in a) {
    if (a[key] !== b[key]) return false;
  }
  return true;
}

export function ownPodValues(pod: PodFields): PodValues {
  const { fsGroup, supplementalGroups, seLinuxOptions, seccompAnnotation, seccompProfile } = pod;
  return { fsGroup, supplementalGroups, seLinuxOptions, seccompAnnotation, seccompProfile };
}

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

/** Returns the decoded pod with the SCC's values. The annotations do not change. */
export function applyCompletion({ pod, podValues, containerValues }: Completion): PodFields {
  const containers = pod.containers.map((container, index) => ({ ...container, ...containerValues[index] }));
  return { ...pod, ...podValues, seccompAnnotation: pod.seccompAnnotation, containers };
}

/**
 * Returns the pod with the SCC's values and the given annotations. The result shares unchanged parts with the input.
 */
export function writePod(completion: Completion, annotations: Readonly<Record<string, string>>): JsonObject {
  const { pod, podValues } = completion;
  const { seccompAnnotation } = podValues;
  return {
    ...pod.json,
    metadata: {
      ...objectMember(pod.json, 'metadata'),
      annotations: {
        ...pod.annotations,
        ...(seccompAnnotation === '' ? {} : { [SECCOMP_POD_ANNOTATION]: seccompAnnotation }),
        ...annotations,
      },
    },
    spec: writeSpec(completion),
  };
}

function writeSpec({ pod, podValues, containerValues }: Completion): JsonObject {
  // The seccomp annotation is not part of the security context.
  const values = { ...podValues, seccompAnnotation: pod.seccompAnnotation };
  const spec: Record<string, unknown> = { ...writeContext(objectMember(pod.json, 'spec'), ownPodValues(pod), values) };
  const lists = new Map<string, unknown[]>();
  for (const [position, container] of pod.containers.entries()) {
    const generated = containerValues[position];
    const written = generated && writeContext(container.json, ownContainerValues(container), generated);
    if (written === undefined || written === container.json) continue;
    const list = lists.get(container.list) ?? [...(spec[container.list] as readonly unknown[])];
    lists.set(container.list, list);
    list[container.index] = written;
  }
  for (const [name, list] of lists) spec[name] = list;
  return spec;
}

/**
 * Writes the changed values into the security context of a pod spec or container. Returns the same object if nothing
 * changed.
 */
function writeContext<Values extends PodValues | ContainerValues>(
  owner: JsonObject,
  before: Values,
  after: Values,
): JsonObject {
  let context: Record<string, unknown> | undefined;
  for (const key in after) {
    const value = after[key];
    if (value === before[key]) continue;
    context ??= { ...objectMember(owner, 'securityContext') };
    context[key] = toJson(value);
  }
  if (context === undefined) return owner;
  // If no field value is equivalent to the annotation, the security context contains no seccomp profile.
  if (context['seccompProfile'] === undefined) delete context['seccompProfile'];
  return { ...owner, securityContext: context };
}

/** Converts a value to JSON. Omits empty object members. */
function toJson(value: unknown): unknown {
  if (Array.isArray(value)) return [...(value as unknown[])];
  if (!isObject(value)) return value;
  const json: Record<string, unknown> = {};
  for (const key in value) {
    const member = value[key];
    if (member !== '' && !(Array.isArray(member) && member.length === 0)) json[key] = member;
  }
  return json;
}
