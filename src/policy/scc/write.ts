import { SECCOMP_POD_ANNOTATION } from '../../kube/scc.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import { ownContainerValues, ownPodValues, type Attempt } from './apply.ts';
import type { ContainerValues, PodValues } from './strategies/types.ts';

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
