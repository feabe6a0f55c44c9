import { isObject } from '../kube/types.ts';
import { jsonTypeName, unmarshalError } from '../kube/field-error.ts';
import { type ManifestDocument, type Path, readDocuments } from './yaml.ts';
import { UserError, type Source } from './files.ts';
import { quote } from '../kube/text.ts';

/** A node of a configuration document; the whole document if the path is empty. */
export interface ConfigNode {
  readonly document: ManifestDocument;
  readonly path: Path;
  readonly value: unknown;
}

/** An error of a field. The path is relative to the node. */
export interface Issue {
  readonly message: string;
  readonly path: Path;
}

function rootOf(document: ManifestDocument): ConfigNode {
  return { document, path: [], value: document.value };
}

/** Returns the node at a path below a node. The value of a missing node is `undefined`. */
export function childNode(node: ConfigNode, path: Path): ConfigNode {
  return { document: node.document, path: [...node.path, ...path], value: path.reduce(valueAt, node.value) };
}

function valueAt(value: unknown, step: string | number): unknown {
  if (typeof step === 'number') return Array.isArray(value) ? (value[step] as unknown) : undefined;
  return isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined;
}

/** Creates the error for the issues of a node: one line each, with file, line, column and the path of the field. */
export function userError(node: ConfigNode, prefix: string, issues: readonly Issue[]): UserError {
  const lines = issues.map(({ message, path }) => `${prefix}${message} (${formatLocation(childNode(node, path))})`);
  return new UserError(lines.join('\n'));
}

function formatLocation({ document, path }: ConfigNode): string {
  const { line, column } = document.positionOf(path);
  const location = `${document.file}:${line}:${column}`;
  return path.length === 0 ? location : `${location}, ${printPath(path)}`;
}

/** Formats a path: `exemptions.namespaces[1]`. */
function printPath(path: Path): string {
  return path.map((step, index) => (typeof step === 'number' ? `[${step}]` : index === 0 ? step : `.${step}`)).join('');
}

/** Parses a formatted path. Names must not contain dots or brackets. */
export function parsePath(path: string): Path {
  return [...path.matchAll(/\[(\d+)\]|[^.[\]]+/g)].map(([name, index]) => (index === undefined ? name : Number(index)));
}

/** The schema of a field. A struct lists all its fields; `anything` is not validated. */
type Shape = Scalar | 'anything' | readonly [Shape] | Struct;

/** The scalar types with their names in Go. */
const SCALARS = { string: 'string', boolean: 'bool', number: 'number' } as const;
type Scalar = keyof typeof SCALARS;

export interface Struct {
  /** The name of the Go type, for messages. */
  readonly type: string;
  readonly fields: Readonly<Record<string, Shape>>;
}

/** Returns the values of wrong types, in the words of the decoder of the API server. Null is valid for every type. */
export function typeIssues(value: unknown, shape: Shape): Issue[] {
  return mismatches(value, shape, [], '');
}

function mismatches(value: unknown, shape: Shape, path: Path, owner: string): Issue[] {
  if (value == null || shape === 'anything') return [];
  if (jsonTypeName(value) !== jsonTypeFor(shape)) {
    const field = owner === '' ? '' : `${owner}.${printPath(path.filter((step) => typeof step === 'string'))}`;
    return [{ message: unmarshalError(value, field, printShape(shape)), path }];
  }
  if (isScalar(shape)) return [];
  if (isStruct(shape)) {
    return Object.entries(value).flatMap(([key, member]) =>
      mismatches(member, fieldOf(shape, key) ?? 'anything', [...path, key], shape.type),
    );
  }
  return (value as unknown[]).flatMap((item, index) => mismatches(item, shape[0], [...path, index], owner));
}

function jsonTypeFor(shape: Shape): string {
  if (isStruct(shape)) return 'object';
  return typeof shape === 'string' ? (isScalar(shape) ? SCALARS[shape] : shape) : 'array';
}

function isScalar(shape: Shape): shape is Scalar {
  return typeof shape === 'string' && Object.hasOwn(SCALARS, shape);
}

/** Returns unknown fields and duplicate keys. */
export function strictIssues(node: ConfigNode, shape: Shape): Issue[] {
  return [...duplicates(node), ...unknownFields(node.value, shape, [])];
}

function unknownFields(value: unknown, shape: Shape, path: Path): Issue[] {
  if (Array.isArray(value) && Array.isArray(shape)) {
    return value.flatMap((item, index) => unknownFields(item, shape[0] as Shape, [...path, index]));
  }
  if (!isObject(value) || !isStruct(shape)) return [];
  return Object.entries(value).flatMap(([key, member]) => {
    const field = fieldOf(shape, key);
    const here = [...path, key];
    return field ? unknownFields(member, field, here) : [{ message: `unknown field "${printPath(here)}"`, path: here }];
  });
}

function duplicates({ document, path }: ConfigNode): Issue[] {
  return document.duplicateKeys
    .filter((duplicate) => path.every((step, index) => duplicate.path[index] === step))
    .map((duplicate) => ({
      message: `key "${String(duplicate.path.at(-1))}" already set in map`,
      path: duplicate.path.slice(path.length),
    }));
}

function fieldOf(struct: Struct, key: string): Shape | undefined {
  return Object.hasOwn(struct.fields, key) ? struct.fields[key] : undefined;
}

function isStruct(shape: Shape): shape is Struct {
  return typeof shape === 'object' && !Array.isArray(shape);
}

function printShape(shape: Shape): string {
  if (isStruct(shape)) return shape.type;
  if (isScalar(shape)) return SCALARS[shape];
  return typeof shape === 'string' ? shape : `[]${printShape(shape[0])}`;
}

/**
 * Parses the first document of a configuration file. Later documents are ignored, as by the API server.
 * @throws {UserError} if there is no document, or for a syntax error
 */
export function firstDocument({ file, text }: Source): ConfigNode {
  const { documents, errors } = readDocuments(text, file);
  const [document] = documents;
  const [error] = errors;
  if (error && (!document || error.line < document.line)) {
    const location = `${file}:${error.line}:${error.column}`;
    throw new UserError(`error converting YAML to JSON: yaml: ${error.message} (${location})`);
  }
  if (!document) throw new UserError(`Object 'Kind' is missing in 'null' (${file}:1:1)`);
  return rootOf(document);
}

/** A kind of configuration file and its versions. */
export interface ConfigKind {
  readonly kind: string;
  readonly apiVersions: readonly string[];
}

/** Returns true if the document has that kind, in any version. */
export function isOfKind({ value }: ConfigNode, { kind }: ConfigKind): boolean {
  return isObject(value) && value.kind === kind;
}

/**
 * Checks that a document has one of these kinds and versions.
 * @throws {UserError} with the message of the API server
 */
export function requireKind(node: ConfigNode, kinds: readonly ConfigKind[]): void {
  const issues = typeIssues(node.value, { type: 'TypeMeta', fields: { apiVersion: 'string', kind: 'string' } });
  if (issues.length > 0) throw userError(node, "couldn't get version/kind; json parse error: ", issues);
  const { apiVersion, kind } = node.value as { readonly apiVersion?: string | null; readonly kind?: string | null };
  if (!kind) throw missing(node, 'Kind');
  if (!apiVersion) throw missing(node, 'apiVersion');
  if (kinds.some((known) => known.kind === kind && known.apiVersions.includes(apiVersion))) return;
  const message = `no kind ${quote(kind)} is registered for version ${quote(apiVersion)}`;
  throw userError(node, '', [
    { message, path: kinds.some((known) => known.kind === kind) ? ['apiVersion'] : ['kind'] },
  ]);
}

function missing(node: ConfigNode, field: string): UserError {
  return userError(node, '', [
    { message: `Object '${field}' is missing in '${JSON.stringify(node.value)}'`, path: [] },
  ]);
}
