import { isDeepStrictEqual } from 'node:util';
import { quote } from '../../kube/text.ts';
import type { Status } from '../../kube/status.ts';
import { hasField, objectAt, objectsAt, textAt } from '../objects/read.ts';
import type { ApiObject, Attributes, Reader } from '../types.ts';
import { isOnPods, refuse, type Plugin } from './plugin.ts';

const RUNTIME_CLASSES = { group: 'node.k8s.io', resource: 'runtimeclasses' };

/**
 * Refuses pods whose RuntimeClass does not exist; copies its overhead and scheduling into the others.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/admission/runtimeclass/admission.go
 */
export function createRuntimeClassPlugin(reader: Reader): Plugin {
  const classOf = (pod: ApiObject): ApiObject | undefined =>
    reader.get(RUNTIME_CLASSES, '', textAt(objectAt(pod, 'spec'), 'runtimeClassName'));

  return {
    admit(attributes) {
      const pod = newPod(attributes);
      if (!pod || !hasField(objectAt(pod, 'spec'), 'runtimeClassName')) return undefined;
      const runtimeClass = classOf(pod);
      if (!runtimeClass) return unknownClass(attributes, pod);
      const spec = objectAt(pod, 'spec') as Record<string, unknown>;
      return copyOverhead(attributes, spec, runtimeClass) ?? copyScheduling(attributes, spec, runtimeClass);
    },
    validate(attributes) {
      const pod = newPod(attributes);
      if (!pod) return undefined;
      const spec = objectAt(pod, 'spec');
      const runtimeClass = hasField(spec, 'runtimeClassName') ? classOf(pod) : undefined;
      if (hasField(spec, 'runtimeClassName') && !runtimeClass) return unknownClass(attributes, pod);
      if (!hasField(spec, 'overhead') || hasField(runtimeClass, 'overhead')) return undefined;
      return refuse(attributes, 'pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead');
    },
  };
}

function newPod(attributes: Attributes): ApiObject | undefined {
  return attributes.operation === 'CREATE' && isOnPods(attributes) ? attributes.object : undefined;
}

function unknownClass(attributes: Attributes, pod: ApiObject): Status {
  const name = quote(textAt(objectAt(pod, 'spec'), 'runtimeClassName'));
  return refuse(attributes, `pod rejected: RuntimeClass ${name} not found`);
}

function copyOverhead(
  attributes: Attributes,
  spec: Record<string, unknown>,
  runtimeClass: ApiObject,
): Status | undefined {
  if (!hasField(runtimeClass, 'overhead')) return undefined;
  const overhead = objectAt(objectAt(runtimeClass, 'overhead'), 'podFixed');
  if (hasField(spec, 'overhead') && !isDeepStrictEqual(spec['overhead'], overhead)) {
    return refuse(attributes, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead");
  }
  spec['overhead'] = structuredClone(overhead);
  return undefined;
}

function copyScheduling(
  attributes: Attributes,
  spec: Record<string, unknown>,
  runtimeClass: ApiObject,
): Status | undefined {
  const scheduling = objectAt(runtimeClass, 'scheduling');
  const wanted = new Map(Object.entries(objectAt(spec, 'nodeSelector')).map(([key, value]) => [key, String(value)]));
  for (const [key, value] of Object.entries(objectAt(scheduling, 'nodeSelector')).map(
    ([name, text]) => [name, String(text)] as const,
  )) {
    const given = wanted.get(key);
    if (given !== undefined && given !== value) {
      const cause = `conflict: runtimeClass.scheduling.nodeSelector[${key}] = ${value}; pod.spec.nodeSelector[${key}] = ${given}`;
      return refuse(attributes, cause);
    }
    wanted.set(key, value);
  }
  if (wanted.size > 0) spec['nodeSelector'] = Object.fromEntries(wanted);
  const given = objectsAt(spec, 'tolerations');
  const added = objectsAt(scheduling, 'tolerations').filter(
    (toleration) => !given.some((other) => isDeepStrictEqual(other, toleration)),
  );
  if (added.length > 0) spec['tolerations'] = [...given, ...structuredClone(added)];
  return undefined;
}
