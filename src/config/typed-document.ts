import { quote } from '../kube/quote.ts';
import { isObject } from '../kube/types.ts';
import { readDocuments } from './manifests.ts';
import type { Source } from './source.ts';
import { rootOf, typeIssues, userError, type ConfigNode } from './strict.ts';
import { UserError } from './user-error.ts';

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
