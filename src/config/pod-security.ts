/**
 * The configuration of Pod Security Admission as upstream has it: a PodSecurityConfiguration, alone or within an
 * AdmissionConfiguration. It is read strictly: what is not right in every part is not put into force.
 */
import { dirname, resolve } from 'node:path';
import { childOf, strictIssues, typeIssues, userError, type ConfigNode, type Struct, parsePath } from './strict.ts';
import { requireKind, type ConfigKind, firstDocument, isOfKind } from './typed-document.ts';
import { printFieldError } from '../kube/field-error.ts';
import { isObject } from '../kube/types.ts';
import {
  completeDefaults,
  DEFAULT_CONFIGURATION,
  DEFAULTS_FIELDS,
  EXEMPTIONS_FIELDS,
  validateConfiguration,
  type PodSecurityConfiguration,
} from '../policy/psa/configuration.ts';
import { createPodSecurity, type PodSecurity } from '../policy/psa/pod-security.ts';
import { readSource, type Source } from './source.ts';

/** @see https://kubernetes.io/docs/reference/config-api/apiserver-config.v1/#apiserver-config-k8s-io-v1-AdmissionConfiguration */
const ADMISSION_CONFIGURATION: ConfigKind = {
  kind: 'AdmissionConfiguration',
  apiVersions: ['apiserver.config.k8s.io/v1'],
};

const STRUCT: Struct = {
  type: 'AdmissionConfiguration',
  fields: {
    apiVersion: 'string',
    kind: 'string',
    plugins: [
      { type: 'AdmissionPluginConfiguration', fields: { name: 'string', path: 'string', configuration: 'anything' } },
    ],
  },
};

/** The configuration of one plugin: here, or in a file that is named relative to this one, or neither. */
interface PluginConfiguration {
  readonly inline?: ConfigNode;
  readonly path?: string;
}

/**
 * Finds a plugin's configuration in the file that an API server takes with `--admission-control-config-file`.
 * @throws {UserError} if the file is wrong or does not name the plugin
 */
function pluginConfigurationOf(node: ConfigNode, name: string): PluginConfiguration {
  requireKind(node, [ADMISSION_CONFIGURATION]);
  const types = typeIssues(node.value, STRUCT);
  if (types.length > 0) throw userError(node, '', types);
  const strict = strictIssues(node, STRUCT);
  if (strict.length > 0) throw userError(node, 'strict decoding error: ', strict);
  const plugins = childOf(node, ['plugins']).value ?? [];
  const index = (plugins as readonly (PluginEntry | null)[]).findIndex((plugin) => plugin?.name === name);
  if (index < 0) {
    throw userError(node, '', [{ message: `no plugin "${name}" in the AdmissionConfiguration`, path: ['plugins'] }]);
  }
  const inline = childOf(node, ['plugins', index, 'configuration']);
  // As for the API server, what is written here wins over a path.
  if (inline.value != null) return { inline };
  const path = childOf(node, ['plugins', index, 'path']).value;
  return typeof path === 'string' && path !== '' ? { path } : {};
}

interface PluginEntry {
  readonly name?: string | null;
}

const POD_SECURITY_CONFIGURATION: ConfigKind = {
  kind: 'PodSecurityConfiguration',
  apiVersions: ['v1', 'v1beta1', 'v1alpha1'].map((version) => `pod-security.admission.config.k8s.io/${version}`),
};

const POD_SECURITY_STRUCT: Struct = {
  type: 'PodSecurityConfiguration',
  fields: {
    apiVersion: 'string',
    kind: 'string',
    defaults: { type: 'PodSecurityDefaults', fields: recordOf(DEFAULTS_FIELDS, () => 'string') },
    exemptions: { type: 'PodSecurityExemptions', fields: recordOf(EXEMPTIONS_FIELDS, () => ['string']) },
  },
};

/** The plugin's name in an AdmissionConfiguration. */
const PLUGIN = 'PodSecurity';

/**
 * Reads the file that holds the configuration: this one, or the one to which its AdmissionConfiguration points.
 * @throws {UserError} if a file cannot be read or is no configuration
 */
export async function readPodSecuritySource(file: string): Promise<Source> {
  const source = await readSource(file);
  const node = source.text === '' ? undefined : firstDocument(source);
  if (!node || !isOfKind(node, ADMISSION_CONFIGURATION)) return source;
  const { path } = pluginConfigurationOf(node, PLUGIN);
  return path === undefined ? source : await readSource(resolve(dirname(file), path));
}

/**
 * Makes the configuration in a text ready for decisions; an empty text means the defaults.
 * @throws {UserError} that tells, line by line, what is wrong and where
 */
export function parsePodSecurity(source: Source): PodSecurity {
  const node = findConfiguration(source);
  return node ? podSecurityOf(node) : createPodSecurity(DEFAULT_CONFIGURATION);
}

/** Where the configuration stands in a text; `undefined` if none is given. */
export function findConfiguration(source: Source): ConfigNode | undefined {
  if (source.text === '') return undefined;
  const root = firstDocument(source);
  const node = isOfKind(root, ADMISSION_CONFIGURATION) ? pluginConfigurationOf(root, PLUGIN).inline : root;
  if (node) requireKind(node, [POD_SECURITY_CONFIGURATION]);
  return node;
}

/**
 * Makes a configuration that is part of a document ready for decisions; there, apiVersion and kind may be left out.
 * @throws {UserError} that tells, line by line, what is wrong and where
 */
export function podSecurityOf(node: ConfigNode): PodSecurity {
  const configuration = decodeConfiguration(node);
  const { errors } = completeDefaults(configuration.defaults);
  if (errors.length > 0) {
    const issues = errors.map(({ field, detail }) => ({ message: `${field}: ${detail}`, path: ['defaults', field] }));
    throw userError(node, 'configuration error: ', issues);
  }
  const invalid = validateConfiguration(configuration);
  if (invalid.length > 0) {
    const issues = invalid.map((error) => ({ message: printFieldError(error), path: parsePath(error.path) }));
    throw userError(node, 'invalid configuration: ', issues);
  }
  return createPodSecurity(configuration);
}

/**
 * Decodes a configuration and fills in what it leaves out; its values are not judged.
 * @throws {UserError} for wrong types, unknown fields, and keys that are given twice
 */
export function decodeConfiguration(node: ConfigNode): PodSecurityConfiguration {
  const types = typeIssues(node.value, POD_SECURITY_STRUCT);
  if (types.length > 0) throw userError(node, '', types);
  const strict = strictIssues(node, POD_SECURITY_STRUCT);
  if (strict.length > 0) throw userError(node, 'strict decoding error: ', strict);
  const own = isObject(node.value) && (node.value.apiVersion != null || node.value.kind != null);
  if (own) requireKind(node, [POD_SECURITY_CONFIGURATION]);
  return {
    defaults: recordOf(
      DEFAULTS_FIELDS,
      // An empty text counts as none.
      (field) => (childOf(node, ['defaults', field]).value as Text) || DEFAULT_CONFIGURATION.defaults[field],
    ),
    exemptions: recordOf(EXEMPTIONS_FIELDS, (field) => {
      const names = childOf(node, ['exemptions', field]).value as readonly Text[] | null | undefined;
      return names?.map((name) => name ?? '') ?? [];
    }),
  };
}

/** As the types have been verified. */
type Text = string | null | undefined;

function recordOf<Key extends string, Value>(keys: readonly Key[], valueOf: (key: Key) => Value): Record<Key, Value> {
  return Object.fromEntries(keys.map((key) => [key, valueOf(key)])) as Record<Key, Value>;
}
