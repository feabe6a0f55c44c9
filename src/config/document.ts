import { unmarshalError } from '../kube/field-error.ts';
import { type FieldShape, type FieldShapes, findShapeErrors, isList } from '../kube/field-shape.ts';
import { quote } from '../kube/text.ts';
import { isObject, valueAt } from '../kube/types.ts';
import { UserError } from '../kube/user-error.ts';
import type { TextFile } from './files.ts';
import { type ManifestDocument, type Path, readDocuments } from './yaml.ts';

/** A node in a configuration document. An empty path refers to the whole document. */
export interface ConfigNode {
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
export function childNode(node: ConfigNode, path: Path): ConfigNode {
  return { document: node.document, path: [...node.path, ...path], value: valueAt(node.value, path) };
}

/** Creates an error that lists each issue in a node on its own line with file, line, column and field path. */
export function userError(node: ConfigNode, prefix: string, issues: readonly Issue[]): UserError {
  const lines = issues.map(({ message, path }) => `${prefix}${message} (${formatLocation(childNode(node, path))})`);
  return new UserError(lines.join('\n'));
}

function formatLocation({ document, path }: ConfigNode): string {
  const { line, column } = document.locate(path);
  const location = `${document.file}:${line}:${column}`;
  return path.length === 0 ? location : `${location}, ${printPath(path)}`;
}

/** Formats a path as `exemptions.namespaces[1]`. */
function printPath(path: Path): string {
  return path.map((step, index) => (typeof step === 'number' ? `[${step}]` : index === 0 ? step : `.${step}`)).join('');
}

/** The fields of a document, and the Go type names of its objects by path without indexes. The root's path is empty. */
export interface DocumentShape {
  readonly fields: FieldShapes;
  readonly types: Readonly<Record<string, string>>;
}

/**
 * Checks the types of all fields, and then checks for unknown fields and duplicate keys. Null is valid for every type.
 * @throws {UserError} with the messages of the API server's decoder
 */
export function checkFields(node: ConfigNode, shape: DocumentShape): void {
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
export function findDuplicateKeys({ document, path }: ConfigNode): Issue[] {
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
export function firstDocument({ file, text }: TextFile): ConfigNode {
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

/** A configuration file kind and its versions. */
export interface ConfigKind {
  readonly kind: string;
  readonly apiVersions: readonly string[];
}

/** Returns true if the document has the kind, in any version. */
export function isOfKind({ value }: ConfigNode, { kind }: ConfigKind): boolean {
  return isObject(value) && value.kind === kind;
}

/**
 * Checks that the document has the kind in a known version.
 * @throws {UserError} with the API server's message
 */
export function requireKind(node: ConfigNode, known: ConfigKind): void {
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
