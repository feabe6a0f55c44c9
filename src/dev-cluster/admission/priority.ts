import type { Status } from '../../kube/status.ts';
import { numberAt, objectAt, textAt } from '../objects/read.ts';
import { metadataOf, type ApiObject, type Attributes, type Reader } from '../types.ts';
import { isOn, isOnPods, refuse, type Plugin } from './plugin.ts';

const PRIORITY_CLASSES = { group: 'scheduling.k8s.io', resource: 'priorityclasses' };

/**
 * Works out a pod's priority from its PriorityClass, and keeps it on updates.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/admission/priority/admission.go
 */
export function createPriorityPlugin(reader: Reader): Plugin {
  return {
    admit(attributes) {
      if (!isOnPods(attributes) || !attributes.object) return undefined;
      const spec = objectAt(attributes.object, 'spec') as Record<string, unknown>;
      if (attributes.operation === 'UPDATE') keep(spec, attributes);
      return attributes.operation === 'CREATE' ? resolve(spec, attributes, reader) : undefined;
    },
    validate(attributes) {
      const { object, operation, subresource } = attributes;
      if (!isOn(attributes, PRIORITY_CLASSES.group, PRIORITY_CLASSES.resource) || subresource !== '') return undefined;
      if (operation === 'DELETE' || object?.['globalDefault'] !== true) return undefined;
      const other = defaultClass(reader);
      if (!other || (operation === 'UPDATE' && metadataOf(other).name === metadataOf(object).name)) return undefined;
      const name = metadataOf(other).name ?? '';
      return refuse(attributes, `PriorityClass ${name} is already marked as default. Only one default can exist`);
    },
  };
}

function keep(spec: Record<string, unknown>, attributes: Attributes): void {
  const before = objectAt(attributes.oldObject, 'spec');
  for (const field of ['priority', 'preemptionPolicy']) {
    if (spec[field] == null && before[field] != null) spec[field] = before[field];
  }
}

function resolve(spec: Record<string, unknown>, attributes: Attributes, reader: Reader): Status | undefined {
  const name = textAt(spec, 'priorityClassName');
  const priorityClass = name === '' ? defaultClass(reader) : reader.get(PRIORITY_CLASSES, '', name);
  if (!priorityClass && name !== '') return refuse(attributes, `no PriorityClass with name ${name} was found`);
  const priority = numberAt(priorityClass, 'value') ?? 0;
  const policy = textAt(priorityClass, 'preemptionPolicy') || 'PreemptLowerPriority';
  const refusal = contradiction(spec, priority, policy);
  if (refusal !== undefined) return refuse(attributes, refusal);
  if (priorityClass) spec['priorityClassName'] = metadataOf(priorityClass).name;
  spec['priority'] = priority;
  spec['preemptionPolicy'] = policy;
  return undefined;
}

function contradiction(spec: Record<string, unknown>, priority: number, policy: string): string | undefined {
  const { priority: given, preemptionPolicy: givenPolicy } = spec;
  if (typeof given === 'number' && given !== priority) {
    return `the integer value of priority (${given}) must not be provided in pod spec; priority admission controller computed ${priority} from the given PriorityClass name`;
  }
  if (typeof givenPolicy === 'string' && givenPolicy !== '' && givenPolicy !== policy) {
    return `the string value of PreemptionPolicy (${givenPolicy}) must not be provided in pod spec; priority admission controller computed ${policy} from the given PriorityClass name`;
  }
  return undefined;
}

/** The lowest of those that say they are the default. */
function defaultClass(reader: Reader): ApiObject | undefined {
  const defaults = reader.list(PRIORITY_CLASSES).filter((object) => object['globalDefault'] === true);
  return defaults.sort((a, b) => (numberAt(a, 'value') ?? 0) - (numberAt(b, 'value') ?? 0))[0];
}
