import { readDocuments } from '../../config/yaml.ts';
import { quote } from '../../kube/text.ts';
import { scanJson } from './json-text.ts';

/** Parsed text: its value, or why there is none, and the complaints about fields that come twice. */
export interface Parsed {
  readonly value: unknown;
  readonly error?: string;
  readonly duplicates: readonly string[];
}

/** Parses JSON; the error is Go's. */
export function parseJson(text: string): Parsed {
  const { error, duplicates } = scanJson(text);
  if (error !== undefined) return { value: undefined, error, duplicates: [] };
  return { value: JSON.parse(text) as unknown, duplicates: duplicates.map((path) => `duplicate field ${quote(path)}`) };
}

/** Parses the first YAML document of a text, which may as well be JSON. */
export function parseYaml(text: string): Parsed {
  const { documents, errors } = readDocuments(text, '');
  const [error] = errors;
  if (error) {
    return {
      value: undefined,
      error: `error converting YAML to JSON: yaml: line ${error.line}: ${error.message}`,
      duplicates: [],
    };
  }
  const keys = (documents[0]?.duplicateKeys ?? []).map(
    ({ line, path }) => `  line ${line}: key ${quote(String(path.at(-1)))} already set in map`,
  );
  const duplicates = keys.length === 0 ? [] : [['yaml: unmarshal errors:', ...keys].join('\n')];
  return { value: documents[0]?.value ?? null, duplicates };
}
