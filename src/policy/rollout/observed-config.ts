import { isObject, type JsonObject } from '../../kube/types.ts';
import { type PodSecurityConfiguration, DEFAULTS_FIELDS } from '../psa/configuration.ts';
import type { EnforcementPlan, DefaultLevel } from './enforcement.ts';

// * The configuration that follows from the state of a cluster, each part from one observer. Pure: an observer is given what
// was seen and what it said last, and says the same again where nothing can be told.

/** What observers see. */
export interface ObservedState {
  readonly plan: Pick<EnforcementPlan, 'enforce' | 'want'>;
  /** From the configuration file. */
  readonly exemptions: PodSecurityConfiguration['exemptions'];
  /** Why something could not be read. */
  readonly error?: string | undefined;
}

/** Where in the configuration a value stands. */
type ConfigPath = readonly string[];

/** The value for the path of an observer; the one before is `undefined` where there was none. */
interface Observer {
  readonly name: string;
  /** It owns this path and all below, and nothing else. */
  readonly path: ConfigPath;
  observe(state: ObservedState, before: unknown): Observation;
}

interface Observation {
  readonly value: unknown;
  readonly error?: string | undefined;
}

/** The parts of all observers together, and what went wrong. */
interface ObservedConfig {
  readonly config: JsonObject;
  readonly errors: readonly string[];
}

/** The configuration of the plugin, as upstream's operators have it. */
const POD_SECURITY_PATH: ConfigPath = ['admission', 'pluginConfig', 'PodSecurity', 'configuration'];

/** What stands at a path; `undefined` where the way ends before. */
function valueAt(config: unknown, path: ConfigPath): unknown {
  return path.reduce<unknown>((value, name) => (isObject(value) ? value[name] : undefined), config);
}

/** No level and no version: whoever forgets to fill it in has a server that does not start, and not one that enforces nothing. */
const PLACEHOLDER = 'invalid-to-force-substitution';

/**
 * What a kube-apiserver takes with `--admission-control-config-file` to hold namespaces to the same.
 * @see https://kubernetes.io/docs/tasks/configure-pod-container/enforce-standards-admission-controller/
 */
export function buildAdmissionConfiguration(config: JsonObject): JsonObject {
  const observed = valueAt(config, POD_SECURITY_PATH);
  const { defaults, exemptions } = isObject(observed) ? observed : {};
  const base = Object.fromEntries(DEFAULTS_FIELDS.map((field) => [field, PLACEHOLDER]));
  return {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AdmissionConfiguration',
    plugins: [
      {
        name: 'PodSecurity',
        configuration: {
          apiVersion: 'pod-security.admission.config.k8s.io/v1',
          kind: 'PodSecurityConfiguration',
          defaults: { ...base, ...(isObject(defaults) ? defaults : {}) },
          ...(isObject(exemptions) ? { exemptions } : {}),
        },
      },
    ],
  };
}

/** The defaults while a cluster is held to a level: whatever is enforced, what restricted forbids is told. */
export function podSecurityDefaultsFor(enforce: DefaultLevel): PodSecurityConfiguration['defaults'] {
  return {
    enforce,
    'enforce-version': 'latest',
    audit: 'restricted',
    'audit-version': 'latest',
    warn: 'restricted',
    'warn-version': 'latest',
  };
}

/**
 * What namespaces without labels are held to. Always all six: a part alone would be completed in silence.
 * @see https://github.com/openshift/cluster-kube-apiserver-operator/blob/main/pkg/operator/configobservation/auth/podsecurityadmission.go
 */
export const podSecurityDefaults: Observer = {
  name: 'pod-security-defaults',
  path: [...POD_SECURITY_PATH, 'defaults'],
  observe({ plan: { want, enforce }, error }, before) {
    const isUnknown = error !== undefined || want === undefined;
    return { value: isUnknown && before !== undefined ? before : podSecurityDefaultsFor(enforce), error };
  },
};

/** Who and what is not held to anything: what the configuration file says, whether anything is enforced or not. */
const podSecurityExemptions: Observer = {
  name: 'pod-security-exemptions',
  path: [...POD_SECURITY_PATH, 'exemptions'],
  observe: ({ exemptions }) => ({ value: exemptions }),
};

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
