import { otherDefaults } from './default-other.ts';
import { defaultPod, type Part } from './default-pod.ts';
import { workloadDefaults } from './default-workload.ts';

const defaults: Readonly<Record<string, (object: Part) => void>> = {
  '/Pod': defaultPod,
  ...workloadDefaults,
  ...otherDefaults,
};

/**
 * Fills in, in place, what the API server fills in before admission; objects of unknown kinds stay as they are. Parts of a
 * wrong type are left alone. May be repeated.
 */
export function applyDefaults(object: Record<string, unknown>): void {
  const apiVersion = typeof object['apiVersion'] === 'string' ? object['apiVersion'] : '';
  const kind = typeof object['kind'] === 'string' ? object['kind'] : '';
  const group = apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
  const key = `${group}/${kind}`;
  if (Object.hasOwn(defaults, key)) defaults[key]?.(object);
}
