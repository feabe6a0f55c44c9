import { isObject, type JsonObject } from '../../../kube/types.ts';
import { podSecurityDefaults } from './pod-security-defaults.ts';
import { podSecurityExemptions } from './pod-security-exemptions.ts';
import { valueAt, type ConfigPath, type ObservedConfig, type ObservedState, type Observer } from './types.ts';

export { admissionConfigurationOf } from './admission-configuration.ts';
export { defaultsFor } from './pod-security-defaults.ts';
export type { ObservedConfig, ObservedState, Observer } from './types.ts';

/** Every observer. */
export const OBSERVERS: readonly Observer[] = [podSecurityDefaults, podSecurityExemptions];

/** Puts together what all observers say; one that fails keeps what it said before. */
export function observeConfig(
  state: ObservedState,
  before: JsonObject,
  observers: readonly Observer[] = OBSERVERS,
): ObservedConfig {
  let config: JsonObject = {};
  const errors: string[] = [];
  for (const { name, path, observe } of observers) {
    const { value, error } = observe(state, valueAt(before, path));
    config = withValue(config, path, value);
    if (error !== undefined) errors.push(`${name}: ${error}`);
  }
  return { config, errors };
}

function withValue(config: JsonObject, [name, ...rest]: ConfigPath, value: unknown): JsonObject {
  if (name === undefined) return config;
  const member = config[name];
  return { ...config, [name]: rest.length === 0 ? value : withValue(isObject(member) ? member : {}, rest, value) };
}
