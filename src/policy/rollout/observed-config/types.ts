/**
 * The configuration that follows from the state of a cluster, each part from one observer. Pure: an observer is given what
 * was seen and what it said last, and says the same again where nothing can be told.
 */
import { isObject, type JsonObject } from '../../../kube/types.ts';
import type { PodSecurityConfiguration } from '../../psa/configuration.ts';
import type { EnforcementPlan } from '../enforcement.ts';

/** What observers see. */
export interface ObservedState {
  readonly plan: Pick<EnforcementPlan, 'enforce' | 'want'>;
  /** From the configuration file. */
  readonly exemptions: PodSecurityConfiguration['exemptions'];
  /** Why something could not be read. */
  readonly error?: string | undefined;
}

/** Where in the configuration a value stands. */
export type ConfigPath = readonly string[];

/** The value for the path of an observer; the one before is `undefined` where there was none. */
export interface Observer {
  readonly name: string;
  /** It owns this path and all below, and nothing else. */
  readonly path: ConfigPath;
  observe(state: ObservedState, before: unknown): Observation;
}

export interface Observation {
  readonly value: unknown;
  readonly error?: string | undefined;
}

/** The parts of all observers together, and what went wrong. */
export interface ObservedConfig {
  readonly config: JsonObject;
  readonly errors: readonly string[];
}

/** The configuration of the plugin, as upstream's operators have it. */
export const POD_SECURITY_PATH: ConfigPath = ['admission', 'pluginConfig', 'PodSecurity', 'configuration'];

/** What stands at a path; `undefined` where the way ends before. */
export function valueAt(config: unknown, path: ConfigPath): unknown {
  return path.reduce<unknown>((value, name) => (isObject(value) ? value[name] : undefined), config);
}
