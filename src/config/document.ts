import { isObject } from '../kube/types.ts';
import { jsonTypeName, unmarshalError } from '../kube/field-error.ts';
import { type ManifestDocument, type Path, readDocuments } from './yaml.ts';
import { UserError, type Source } from './files.ts';
import { quote } from '../kube/text.ts';

/** A part of a document that was read from a file: the whole of it, where the path is empty. */
export interface ConfigNode {
  readonly document: ManifestDocument;
  readonly path: Path;
  readonly value: unknown;
}

/** What is wrong with a field; the path begins at the node. */
export interface Issue {
  readonly message: string;
  readonly path: Path;
}

/** The whole of a document. */
function rootOf(document: ManifestDocument): ConfigNode {
  return { document, path: [], value: document.value };
}

/** A part of a node; its value is `undefined` where there is none. */
export function childNode(node: ConfigNode, path: Path): ConfigNode {
  return { document: node.document, path: [...node.path, ...path], value: path.reduce(valueAt, node.value) };
}

function valueAt(value: unknown, step: string | number): unknown {
  if (typeof step === 'number') return Array.isArray(value) ? (value[step] as unknown) : undefined;
  return isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined;
}

/** One line for each issue: what is wrong, and in brackets where: file, line, column and the path of the field. */
export function userError(node: ConfigNode, prefix: string, issues: readonly Issue[]): UserError {
  const lines = issues.map(({ message, path }) => `${prefix}${message} (${placeOf(childNode(node, path))})`);
  return new UserError(lines.join('\n'));
}

function placeOf({ document, path }: ConfigNode): string {
  const { line, column } = document.positionOf(path);
  const place = `${document.file}:${line}:${column}`;
  return path.length === 0 ? place : `${place}, ${printPath(path)}`;
}

/** `exemptions.namespaces[1]` */
function printPath(path: Path): string {
  return path.map((step, index) => (typeof step === 'number' ? `[${step}]` : index === 0 ? step : `.${step}`)).join('');
}

/** The steps of a printed path; names with dots or brackets cannot be told apart. */
export function parsePath(path: string): Path {
  return [...path.matchAll(/\[(\d+)\]|[^.[\]]+/g)].map(([name, index]) => (index === undefined ? name : Number(index)));
}

/** The type of a field: a struct names all its fields; `anything` is not looked into. */
type Shape = Scalar | 'anything' | readonly [Shape] | Struct;

/** By their names in JSON, and as Go names them. */
const SCALARS = { string: 'string', boolean: 'bool', number: 'number' } as const;
type Scalar = keyof typeof SCALARS;

export interface Struct {
  /** The name of the Go type, for messages. */
  readonly type: string;
  readonly fields: Readonly<Record<string, Shape>>;
}

/** The fields with a wrong type, in the words of the API server's decoder; null fits every type. */
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

/** Fields that no struct has, and keys that an object has twice. */
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
 * The first document of a text, as configuration files are read: what follows it does not count.
 * @throws {UserError} if there is none or it cannot be read
 */
export function firstDocument({ file, text }: Source): ConfigNode {
  const { documents, errors } = readDocuments(text, file);
  const [document] = documents;
  const [error] = errors;
  if (error && (!document || error.line < document.line)) {
    const place = `${file}:${error.line}:${error.column}`;
    throw new UserError(`error converting YAML to JSON: yaml: ${error.message} (${place})`);
  }
  if (!document) throw new UserError(`Object 'Kind' is missing in 'null' (${file}:1:1)`);
  return rootOf(document);
}

/** The versions in which a kind of a configuration file exists. */
export interface ConfigKind {
  readonly kind: string;
  readonly apiVersions: readonly string[];
}

/** True if the document says that it is of that kind, in whatever version. */
export function isOfKind({ value }: ConfigNode, { kind }: ConfigKind): boolean {
  return isObject(value) && value.kind === kind;
}

/**
 * Makes sure that a document is of one of these kinds.
 * @throws {UserError} with the API server's text if it is not
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
