import { parseQuantity } from '../../../kube/units.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { objectAt, objectsAt } from '../read.ts';

export type QosClass = 'BestEffort' | 'Burstable' | 'Guaranteed';

const COUNTED = ['cpu', 'memory'];

/**
 * How much a pod may rely on its resources.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/v1/helper/qos/qos.go
 */
export function qosClassOf(spec: JsonObject): QosClass {
  const whole = objectAt(spec, 'resources');
  const holders = isSet(whole)
    ? [whole]
    : [...objectsAt(spec, 'containers'), ...objectsAt(spec, 'initContainers')].map((one) => objectAt(one, 'resources'));
  const requests = sum(holders, 'requests');
  const limits = sum(holders, 'limits');
  if (requests.size === 0 && limits.size === 0) return 'BestEffort';
  const isLimited = holders.every((one) => COUNTED.every((name) => amountOf(objectAt(one, 'limits'), name) > 0n));
  const isExact = requests.size === limits.size && [...requests].every(([name, amount]) => limits.get(name) === amount);
  return isLimited && isExact ? 'Guaranteed' : 'Burstable';
}

function isSet(resources: JsonObject): boolean {
  return ['requests', 'limits'].some((field) =>
    COUNTED.some((name) => amountOf(objectAt(resources, field), name) > 0n),
  );
}

function sum(holders: readonly JsonObject[], field: string): ReadonlyMap<string, bigint> {
  const total = new Map<string, bigint>();
  for (const holder of holders) {
    for (const name of COUNTED) {
      const amount = amountOf(objectAt(holder, field), name);
      if (amount > 0n) total.set(name, (total.get(name) ?? 0n) + amount);
    }
  }
  return total;
}

function amountOf(list: JsonObject, name: string): bigint {
  return Object.hasOwn(list, name) ? (parseQuantity(list[name]) ?? 0n) : 0n;
}
