/**
 * Reads the server configuration file, which is a PortcullisConfiguration or upstream's PodSecurityConfiguration,
 * either standalone or embedded in an AdmissionConfiguration. Decoding is strict, so a file that contains any error is
 * rejected as a whole.
 */
import { dirname, resolve } from 'node:path';
import { formatFieldError, unmarshalError } from '../kube/field-error.ts';
import { type FieldShape, type FieldShapes, findShapeErrors, isList } from '../kube/field-shape.ts';
import { quote } from '../kube/text.ts';
import { type PortcullisConfiguration, isObject, valueAt } from '../kube/types.ts';
import { UserError } from '../kube/user-error.ts';
import {
  completeDefaults,
  createPodSecurity,
  DEFAULT_CONFIGURATION,
  DEFAULTS_FIELDS,
  EXEMPTIONS_FIELDS,
  type PodSecurity,
  type PodSecurityConfiguration,
  validateConfiguration,
} from '../policy/psa/index.ts';
import { readSource, type TextFile } from './files.ts';
import {
  createDefaultSettings,
  type DecodeOptions,
  decodeSettings,
  type Settings,
} from './portcullis-configuration.ts';
import { parsePath, type ManifestDocument, type Path, readDocuments } from './yaml.ts';

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

/** Configuration of a plugin, either inline or in a file at a path relative to this file. Both may be absent. */
interface PluginConfiguration {
  readonly inline?: ConfigNode;
  readonly path?: string;
}

/**
 * Finds the configuration of a plugin in a file for the API server's `--admission-control-config-file` flag.
 * @throws {UserError} if the file is invalid or does not contain the plugin
 */
function findPluginConfiguration(node: ConfigNode, name: string): PluginConfiguration {
  requireKind(node, ADMISSION_CONFIGURATION);
  checkFields(node, ADMISSION_SHAPE);
  const plugins = childNode(node, ['plugins']).value ?? [];
  const index = (plugins as readonly (PluginEntry | null)[]).findIndex((plugin) => plugin?.name === name);
  if (index < 0) {
    throw userError(node, '', [{ message: `no plugin "${name}" in the AdmissionConfiguration`, path: ['plugins'] }]);
  }
  const inline = childNode(node, ['plugins', index, 'configuration']);
  // As in the API server, the inline configuration takes precedence over the path.
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

/** Name of the plugin in an AdmissionConfiguration. */
const PLUGIN = 'PodSecurity';

/**
 * Reads the configuration file, or the file to which its AdmissionConfiguration refers.
 * @throws {UserError} if a file cannot be read or is not a configuration
 */
export async function readPodSecuritySource(file: string): Promise<TextFile> {
  const source = await readSource(file);
  const node = source.text === '' ? undefined : firstDocument(source);
  if (!node || !isOfKind(node, ADMISSION_CONFIGURATION)) return source;
  const { path } = findPluginConfiguration(node, PLUGIN);
  return path === undefined ? source : await readSource(resolve(dirname(file), path));
}

/**
 * Parses a PodSecurityConfiguration. Returns the defaults for empty text.
 * @throws {UserError} with the file, line and column of each error
 */
export function parsePodSecurity(source: TextFile): PodSecurity {
  const node = findConfiguration(source);
  if (!node) return createPodSecurity(DEFAULT_CONFIGURATION);
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

/** Finds the PodSecurityConfiguration in a text. */
export function findConfiguration(source: TextFile): ConfigNode | undefined {
  if (source.text === '') return undefined;
  const root = firstDocument(source);
  const node = isOfKind(root, ADMISSION_CONFIGURATION) ? findPluginConfiguration(root, PLUGIN).inline : root;
  if (node) requireKind(node, POD_SECURITY_CONFIGURATION);
  return node;
}

/**
 * Decodes a configuration and sets defaults. Does not validate the values.
 * @throws {UserError} for wrong types, unknown fields and duplicate keys
 */
export function decodeConfiguration(node: ConfigNode): PodSecurityConfiguration {
  checkFields(node, POD_SECURITY_SHAPE);
  return {
    defaults: createRecord(
      DEFAULTS_FIELDS,
      // Treats an empty string as absent.
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

const PORTCULLIS_CONFIGURATION: ConfigKind = {
  kind: 'PortcullisConfiguration',
  apiVersions: ['config.portcullis.dev/v1alpha1'],
};

/**
 * Parses a configuration file. Returns the defaults for an empty file.
 * @throws {UserError} with the file, line and column of each error
 */
export function parseSettings(source: TextFile, options: DecodeOptions): Settings {
  const root = source.text === '' ? undefined : firstDocument(source);
  if (!root || !isOfKind(root, PORTCULLIS_CONFIGURATION)) {
    return { ...createDefaultSettings(options), podSecurity: parsePodSecurity(source) };
  }
  requireKind(root, PORTCULLIS_CONFIGURATION);
  const duplicates = findDuplicateKeys(root);
  if (duplicates.length > 0) throw userError(root, 'strict decoding error: ', duplicates);
  const decoded = decodeSettings(root.value, options);
  if ('settings' in decoded) return decoded.settings;
  const issues = decoded.errors.map((error) => ({ message: formatFieldError(error), path: parsePath(error.path) }));
  throw userError(root, 'invalid configuration: ', issues);
}

/**
 * Returns the settings that replicas apply. They come from the object's spec or, if it is invalid, from the last valid
 * spec in its status. Returns the defaults if the object does not exist.
 * @throws {UserError} with all errors if there is no valid spec
 */
export function settingsInForce(
  object: PortcullisConfiguration | undefined,
  options: DecodeOptions,
): { readonly settings: Settings; readonly isLastValid: boolean } {
  const applied = lastValidObject(object);
  const isLastValid = applied !== undefined && !isValid(object, options) && isValid(applied, options);
  return { settings: settingsFromObject(isLastValid ? applied : object, options), isLastValid };
}

function isValid(object: PortcullisConfiguration | undefined, options: DecodeOptions): boolean {
  return object === undefined || 'settings' in decodeSettings(object, options);
}

/** Returns the object with the last valid spec if the status records one. */
export function lastValidObject(object: PortcullisConfiguration | undefined): PortcullisConfiguration | undefined {
  const applied = object?.status?.applied;
  return applied && { metadata: { ...object?.metadata, generation: applied.generation }, spec: applied.spec };
}

/**
 * Decodes a cluster's PortcullisConfiguration. Returns the defaults if the object does not exist.
 * @throws {UserError} with all errors
 */
export function settingsFromObject(object: PortcullisConfiguration | undefined, options: DecodeOptions): Settings {
  if (!object) return createDefaultSettings(options);
  const decoded = decodeSettings(object, options);
  if ('settings' in decoded) return decoded.settings;
  const name = object.metadata?.name ?? '';
  throw new UserError(
    `PortcullisConfiguration ${quote(name)} is invalid: ${decoded.errors.map(formatFieldError).join('; ')}`,
  );
}

/** A node in a configuration document. An empty path refers to the whole document. */
interface ConfigNode {
  readonly document: ManifestDocument;
  readonly path: Path;
  readonly value: unknown;
}

/** An error in a field, with a path relative to the node. */
interface Issue {
  readonly message: string;
  readonly path: Path;
}

/** Returns the node at a path below a node. The value of a missing node is `undefined`. */
function childNode(node: ConfigNode, path: Path): ConfigNode {
  return { document: node.document, path: [...node.path, ...path], value: valueAt(node.value, path) };
}

/** Creates an error that lists each issue in a node on its own line with file, line, column and field path. */
function userError(node: ConfigNode, prefix: string, issues: readonly Issue[]): UserError {
  const lines = issues.map(({ message, path }) => `${prefix}${message} (${formatLocation(childNode(node, path))})`);
  return new UserError(lines.join('\n'));
}

function formatLocation({ document, path }: ConfigNode): string {
  const { line, column } = document.locate(path);
  const location = `${document.file}:${line}:${column}`;
  return path.length === 0 ? location : `${location}, ${printPath(path)}`;
}

/** Formats a path, for example as `exemptions.namespaces[1]`. */
function printPath(path: Path): string {
  return path.map((step, index) => (typeof step === 'number' ? `[${step}]` : index === 0 ? step : `.${step}`)).join('');
}

/**
 * The fields of a document, and the Go type names of its objects by path without indexes. The path of the root is
 * empty.
 */
interface DocumentShape {
  readonly fields: FieldShapes;
  readonly types: Readonly<Record<string, string>>;
}

/**
 * Checks the types of all fields, and then checks for unknown fields and duplicate keys. Null is valid for every type.
 * @throws {UserError} with the messages of the API server's decoder
 */
function checkFields(node: ConfigNode, shape: DocumentShape): void {
  const mistyped = typeIssues(node.value, shape);
  if (mistyped.length > 0) throw userError(node, '', mistyped);
  const unknown = findShapeErrors(node.value, shape.fields).map(({ path }) => ({
    message: `unknown field "${printPath(path)}"`,
    path,
  }));
  const strict = [...findDuplicateKeys(node), ...unknown];
  if (strict.length > 0) throw userError(node, 'strict decoding error: ', strict);
}

function typeIssues(document: unknown, { fields, types }: DocumentShape): Issue[] {
  const goType = (shape: FieldShape, names: Path): string => {
    if (isList(shape)) return `[]${goType(shape[0], names)}`;
    return typeof shape === 'string' ? shape.replace('boolean', 'bool') : (types[names.join('.')] ?? '');
  };
  return findShapeErrors(document, fields).flatMap((error) => {
    if ('known' in error) return [];
    const names = error.path.filter((step) => typeof step === 'string');
    const owner = types[names.slice(0, -1).join('.')] ?? '';
    const field = names.length === 0 ? '' : `${owner}.${names.join('.')}`;
    return [{ message: unmarshalError(error.value, field, goType(error.shape, names)), path: error.path }];
  });
}

/** Returns an error for each duplicate key. */
function findDuplicateKeys({ document, path }: ConfigNode): Issue[] {
  return document.repetitions
    .filter(({ isMerged = false }) => !isMerged)
    .filter((duplicate) => path.every((step, index) => duplicate.path[index] === step))
    .map((duplicate) => ({
      message: `key "${String(duplicate.path.at(-1))}" already set in map`,
      path: duplicate.path.slice(path.length),
    }));
}

/**
 * Parses the first document in a configuration file. As in the API server, later documents are ignored.
 * @throws {UserError} if there is no document or it has a syntax error
 */
function firstDocument({ file, text }: TextFile): ConfigNode {
  const { documents, errors } = readDocuments(text, file);
  const [document] = documents;
  const [error] = errors;
  if (error && (!document || error.line < document.line)) {
    const location = `${file}:${error.line}:${error.column}`;
    throw new UserError(`error converting YAML to JSON: yaml: ${error.message} (${location})`);
  }
  if (!document) throw new UserError(`Object 'Kind' is missing in 'null' (${file}:1:1)`);
  return { document, path: [], value: document.value };
}

/** A kind of configuration file, and its versions. */
interface ConfigKind {
  readonly kind: string;
  readonly apiVersions: readonly string[];
}

/** Returns true if the document has the kind, in any version. */
function isOfKind({ value }: ConfigNode, { kind }: ConfigKind): boolean {
  return isObject(value) && value.kind === kind;
}

/**
 * Checks that the document has the given kind in a known version.
 * @throws {UserError} with the API server's message
 */
function requireKind(node: ConfigNode, known: ConfigKind): void {
  const issues = typeIssues(node.value, {
    types: { '': 'TypeMeta' },
    fields: { apiVersion: 'string', kind: 'string' },
  });
  if (issues.length > 0) throw userError(node, "couldn't get version/kind; json parse error: ", issues);
  const { apiVersion, kind } = node.value as { readonly apiVersion?: string | null; readonly kind?: string | null };
  if (!kind) throw missing(node, 'Kind');
  if (!apiVersion) throw missing(node, 'apiVersion');
  if (kind === known.kind && known.apiVersions.includes(apiVersion)) return;
  const message = `no kind ${quote(kind)} is registered for version ${quote(apiVersion)}`;
  throw userError(node, '', [{ message, path: [kind === known.kind ? 'apiVersion' : 'kind'] }]);
}

function missing(node: ConfigNode, field: string): UserError {
  return userError(node, '', [
    { message: `Object '${field}' is missing in '${JSON.stringify(node.value)}'`, path: [] },
  ]);
}
