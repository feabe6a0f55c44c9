/**
 * The configuration file of the server: a PortcullisConfiguration, or upstream's PodSecurityConfiguration, alone or in an
 * AdmissionConfiguration. Decoding is strict: a file with any error is rejected as a whole.
 */
import { dirname, resolve } from 'node:path';
import {
  checkFields,
  childNode,
  firstDocument,
  isOfKind,
  requireKind,
  userError,
  type ConfigKind,
  type ConfigNode,
  type DocumentShape,
  type Issue,
} from './document.ts';
import { parsePath } from './yaml.ts';
import { formatFieldError } from '../kube/field-error.ts';
import type { FieldShape } from '../kube/field-shape.ts';
import { isObject, type Result } from '../kube/types.ts';
import {
  completeDefaults,
  createPodSecurity,
  DEFAULT_CONFIGURATION,
  DEFAULTS_FIELDS,
  EXEMPTIONS_FIELDS,
  validateConfiguration,
  type PodSecurity,
  type PodSecurityConfiguration,
} from '../policy/psa/configuration.ts';
import { readSource, type Source } from './files.ts';
import { parseDurationMs } from '../kube/units.ts';
import { quote } from '../kube/text.ts';
import { ENFORCEMENT_GATE } from '../policy/rollout/enforcement.ts';
import {
  ROLLOUT_PHASES,
  DEFAULT_ROLLOUT,
  EVALUATORS,
  INCONCLUSIVE_POLICIES,
  type RolloutSettings,
} from '../policy/rollout/settings.ts';

/** @see https://kubernetes.io/docs/reference/config-api/apiserver-config.v1/#apiserver-config-k8s-io-v1-AdmissionConfiguration */
const ADMISSION_CONFIGURATION: ConfigKind = {
  kind: 'AdmissionConfiguration',
  apiVersions: ['apiserver.config.k8s.io/v1'],
};

const ADMISSION_SHAPE: DocumentShape = {
  types: { '': 'AdmissionConfiguration', plugins: 'AdmissionPluginConfiguration' },
  fields: {
    apiVersion: 'string',
    kind: 'string',
    plugins: [{ name: 'string', path: 'string', configuration: 'any' }],
  },
};

/** The configuration of one plugin: inline, in a file with a path relative to this one, or neither. */
interface PluginConfiguration {
  readonly inline?: ConfigNode;
  readonly path?: string;
}

/**
 * Finds the configuration of a plugin in a file for `--admission-control-config-file` of the API server.
 * @throws {UserError} if the file is invalid or does not contain the plugin
 */
function findPluginConfiguration(node: ConfigNode, name: string): PluginConfiguration {
  requireKind(node, [ADMISSION_CONFIGURATION]);
  checkFields(node, ADMISSION_SHAPE);
  const plugins = childNode(node, ['plugins']).value ?? [];
  const index = (plugins as readonly (PluginEntry | null)[]).findIndex((plugin) => plugin?.name === name);
  if (index < 0) {
    throw userError(node, '', [{ message: `no plugin "${name}" in the AdmissionConfiguration`, path: ['plugins'] }]);
  }
  const inline = childNode(node, ['plugins', index, 'configuration']);
  // As in the API server, the inline configuration precedes the path.
  if (inline.value != null) return { inline };
  const path = childNode(node, ['plugins', index, 'path']).value;
  return typeof path === 'string' && path !== '' ? { path } : {};
}

interface PluginEntry {
  readonly name?: string | null;
}

const POD_SECURITY_CONFIGURATION: ConfigKind = {
  kind: 'PodSecurityConfiguration',
  apiVersions: ['v1', 'v1beta1', 'v1alpha1'].map((version) => `pod-security.admission.config.k8s.io/${version}`),
};

const POD_SECURITY_SHAPE: DocumentShape = {
  types: { '': 'PodSecurityConfiguration', defaults: 'PodSecurityDefaults', exemptions: 'PodSecurityExemptions' },
  fields: {
    apiVersion: 'string',
    kind: 'string',
    defaults: createRecord(DEFAULTS_FIELDS, (): FieldShape => 'string'),
    exemptions: createRecord(EXEMPTIONS_FIELDS, (): FieldShape => ['string']),
  },
};

/** The name of the plugin in an AdmissionConfiguration. */
const PLUGIN = 'PodSecurity';

/**
 * Reads the configuration file, or the file to which its AdmissionConfiguration refers.
 * @throws {UserError} if a file cannot be read or is not a configuration
 */
export async function readPodSecuritySource(file: string): Promise<Source> {
  const source = await readSource(file);
  const node = source.text === '' ? undefined : firstDocument(source);
  if (!node || !isOfKind(node, ADMISSION_CONFIGURATION)) return source;
  const { path } = findPluginConfiguration(node, PLUGIN);
  return path === undefined ? source : await readSource(resolve(dirname(file), path));
}

/**
 * Parses a PodSecurityConfiguration. An empty text means the defaults.
 * @throws {UserError} with file, line and column of each error
 */
export function parsePodSecurity(source: Source): PodSecurity {
  const node = findConfiguration(source);
  return node ? readPodSecurity(node) : createPodSecurity(DEFAULT_CONFIGURATION);
}

/** Finds the PodSecurityConfiguration in a text. */
export function findConfiguration(source: Source): ConfigNode | undefined {
  if (source.text === '') return undefined;
  const root = firstDocument(source);
  const node = isOfKind(root, ADMISSION_CONFIGURATION) ? findPluginConfiguration(root, PLUGIN).inline : root;
  if (node) requireKind(node, [POD_SECURITY_CONFIGURATION]);
  return node;
}

/**
 * Reads a PodSecurityConfiguration in a document, where it may omit apiVersion and kind.
 * @throws {UserError} with file, line and column of each error
 */
export function readPodSecurity(node: ConfigNode): PodSecurity {
  const configuration = decodeConfiguration(node);
  const { errors } = completeDefaults(configuration.defaults);
  if (errors.length > 0) {
    const issues = errors.map(({ field, detail }) => ({ message: `${field}: ${detail}`, path: ['defaults', field] }));
    throw userError(node, 'configuration error: ', issues);
  }
  const invalid = validateConfiguration(configuration);
  if (invalid.length > 0) {
    const issues = invalid.map((error) => ({ message: formatFieldError(error), path: parsePath(error.path) }));
    throw userError(node, 'invalid configuration: ', issues);
  }
  return createPodSecurity(configuration);
}

/**
 * Decodes a configuration and sets defaults. It does not validate the values.
 * @throws {UserError} for wrong types, unknown fields and duplicate keys
 */
export function decodeConfiguration(node: ConfigNode): PodSecurityConfiguration {
  checkFields(node, POD_SECURITY_SHAPE);
  const own = isObject(node.value) && (node.value.apiVersion != null || node.value.kind != null);
  if (own) requireKind(node, [POD_SECURITY_CONFIGURATION]);
  return {
    defaults: createRecord(
      DEFAULTS_FIELDS,
      // An empty string counts as absent.
      (field) => (childNode(node, ['defaults', field]).value as Text) || DEFAULT_CONFIGURATION.defaults[field],
    ),
    exemptions: createRecord(EXEMPTIONS_FIELDS, (field) => {
      const names = childNode(node, ['exemptions', field]).value as readonly Text[] | null | undefined;
      return names?.map((name) => name ?? '') ?? [];
    }),
  };
}

type Text = string | null | undefined;

function createRecord<Key extends string, Value>(
  keys: readonly Key[],
  createValue: (key: Key) => Value,
): Record<Key, Value> {
  return Object.fromEntries(keys.map((key) => [key, createValue(key)])) as Record<Key, Value>;
}

const ROLLOUT_SHAPE: DocumentShape = {
  types: { '': 'RolloutConfiguration' },
  fields: {
    phase: 'string',
    enforcementDate: 'string',
    evaluationInterval: 'string',
    maxEvaluationAge: 'string',
    recheckBeforeEnforce: 'boolean',
    inconclusivePolicy: 'string',
    raiseSettleSeconds: 'number',
    evaluator: 'string',
    clientQPS: 'number',
    clientBurst: 'number',
  },
};

/** The names of the known feature gates. */
const FEATURES: readonly string[] = [ENFORCEMENT_GATE];

/**
 * Reads the rollout settings and sets defaults.
 * @throws {UserError} with file, line and column of each error
 */
function readRollout(rollout: ConfigNode, featureGates: ConfigNode): RolloutSettings {
  checkFields(rollout, ROLLOUT_SHAPE);
  const issues: Issue[] = [];
  const at = <T>(name: string, read: (value: unknown) => Result<T>, fallback: T): T => {
    const { value } = childNode(rollout, [name]);
    if (value == null) return fallback;
    const result = read(value);
    if ('value' in result) return result.value;
    issues.push({ message: `rollout.${name}: Invalid value: ${JSON.stringify(value)}: ${result.error}`, path: [name] });
    return fallback;
  };
  const enforcementDate = at('enforcementDate', date, undefined);
  const settings: RolloutSettings = {
    phase: at('phase', oneOf(ROLLOUT_PHASES), DEFAULT_ROLLOUT.phase),
    ...(enforcementDate === undefined ? {} : { enforcementDate }),
    evaluationIntervalMs: at('evaluationInterval', duration, DEFAULT_ROLLOUT.evaluationIntervalMs),
    maxEvaluationAgeMs: at('maxEvaluationAge', duration, DEFAULT_ROLLOUT.maxEvaluationAgeMs),
    recheckBeforeEnforce: at(
      'recheckBeforeEnforce',
      (value) => ({ value: value === true }),
      DEFAULT_ROLLOUT.recheckBeforeEnforce,
    ),
    inconclusivePolicy: at('inconclusivePolicy', oneOf(INCONCLUSIVE_POLICIES), DEFAULT_ROLLOUT.inconclusivePolicy),
    raiseSettleMs: at('raiseSettleSeconds', seconds, DEFAULT_ROLLOUT.raiseSettleMs),
    evaluator: at('evaluator', oneOf(EVALUATORS), DEFAULT_ROLLOUT.evaluator),
    clientQps: at('clientQPS', positive, DEFAULT_ROLLOUT.clientQps),
    clientBurst: at('clientBurst', positive, DEFAULT_ROLLOUT.clientBurst),
    featureGates: readFeatureGates(featureGates),
  };
  if (settings.maxEvaluationAgeMs < settings.evaluationIntervalMs) {
    const detail = 'must not be less than evaluationInterval, because results would expire before the next evaluation';
    issues.push({ message: `rollout.maxEvaluationAge: ${detail}`, path: ['maxEvaluationAge'] });
  }
  if (issues.length > 0) throw userError(rollout, 'invalid configuration: ', issues);
  return settings;
}

function readFeatureGates(node: ConfigNode): ReadonlyMap<string, boolean> {
  if (node.value == null) return new Map();
  if (!isObject(node.value)) throw userError(node, '', [{ message: 'must be an object of feature names', path: [] }]);
  const issues: Issue[] = [];
  const gates = new Map<string, boolean>();
  for (const [name, value] of Object.entries(node.value)) {
    if (!FEATURES.includes(name)) {
      issues.push({
        message: `unknown feature ${quote(name)}; the known features are ${FEATURES.join(', ')}`,
        path: [name],
      });
    } else if (typeof value === 'boolean') gates.set(name, value);
    else issues.push({ message: 'must be true or false', path: [name] });
  }
  if (issues.length > 0) throw userError(node, '', issues);
  return gates;
}

function oneOf<T extends string>(words: readonly T[]): (value: unknown) => Result<T> {
  return (value) => {
    const word = words.find((one) => one === value);
    return word === undefined ? { error: `must be one of ${words.join(', ')}` } : { value: word };
  };
}

/** Date.parse accepts February 30 and returns a day of March. */
function date(value: unknown): Result<string | undefined> {
  const text = String(value);
  const ms = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : NaN;
  const isDay = !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text);
  return isDay ? { value: text } : { error: 'must be a date such as 2027-01-31' };
}

const MIN_MS = 60_000;

function duration(value: unknown): Result<number> {
  const ms = parseDurationMs(String(value));
  const isLongEnough = ms !== undefined && ms >= MIN_MS;
  return isLongEnough ? { value: ms } : { error: 'must be a duration of at least 1m, such as 4h or 1h30m' };
}

const MAX_SETTLE_S = 3600;

function seconds(value: unknown): Result<number> {
  const isWithin = typeof value === 'number' && value >= 0 && value <= MAX_SETTLE_S;
  return isWithin ? { value: value * 1000 } : { error: `must be a number from 0 to ${MAX_SETTLE_S}` };
}

function positive(value: unknown): Result<number> {
  return typeof value === 'number' && value > 0 ? { value } : { error: 'must be greater than 0' };
}

const PORTCULLIS_CONFIGURATION: ConfigKind = {
  kind: 'PortcullisConfiguration',
  apiVersions: ['config.portcullis.dev/v1alpha1'],
};

const CONFIGURATION_SHAPE: DocumentShape = {
  types: { '': 'PortcullisConfiguration' },
  fields: {
    apiVersion: 'string',
    kind: 'string',
    options: 'any',
    podSecurity: 'any',
    rollout: 'any',
    featureGates: 'any',
  },
};

/** The content of a configuration file. */
export interface Configuration {
  readonly podSecurity: PodSecurity;
  readonly rollout: RolloutSettings;
  /** Command line options by name, with their values as text. They are read once, at start. */
  readonly options: ReadonlyMap<string, readonly string[]>;
}

/**
 * Parses a configuration file. An empty file means the defaults.
 * @param optionNames the command line options that the file may set
 * @throws {UserError} with file, line and column of each error
 */
export function parseConfiguration(source: Source, optionNames: readonly string[]): Configuration {
  const root = source.text === '' ? undefined : firstDocument(source);
  if (!root || !isOfKind(root, PORTCULLIS_CONFIGURATION)) {
    return { podSecurity: parsePodSecurity(source), rollout: DEFAULT_ROLLOUT, options: new Map() };
  }
  requireKind(root, [PORTCULLIS_CONFIGURATION]);
  checkFields(root, CONFIGURATION_SHAPE);
  const podSecurity = childNode(root, ['podSecurity']);
  const rollout = readRollout(childNode(root, ['rollout']), childNode(root, ['featureGates']));
  if (rollout.phase !== 'Disabled') forbidDefaults(childNode(podSecurity, ['defaults']), rollout);
  return {
    podSecurity: podSecurity.value == null ? createPodSecurity(DEFAULT_CONFIGURATION) : readPodSecurity(podSecurity),
    rollout,
    options: readOptions(childNode(root, ['options']), optionNames),
  };
}

/** A rollout manages the defaults, so that the file must not set them. */
function forbidDefaults(defaults: ConfigNode, { phase }: RolloutSettings): void {
  if (defaults.value == null) return;
  const message = `podSecurity.defaults and rollout.phase ${phase} exclude each other: the rollout manages the defaults`;
  throw userError(defaults, 'invalid configuration: ', [{ message, path: [] }]);
}

function readOptions(node: ConfigNode, names: readonly string[]): Map<string, readonly string[]> {
  if (node.value == null) return new Map();
  if (!isObject(node.value)) throw userError(node, '', [{ message: 'must be an object of option names', path: [] }]);
  const issues: Issue[] = [];
  const options = new Map<string, readonly string[]>();
  for (const [name, value] of Object.entries(node.value)) {
    const items: readonly unknown[] = Array.isArray(value) ? value : [value];
    if (!names.includes(name)) issues.push({ message: `unknown option "${name}"`, path: [name] });
    else if (items.every(isScalar)) options.set(name, items.map(String));
    else issues.push({ message: 'must be a string, a number, true, false, or a list of these', path: [name] });
  }
  if (issues.length > 0) throw userError(node, '', issues);
  return options;
}

function isScalar(value: unknown): value is string | number | boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
}
