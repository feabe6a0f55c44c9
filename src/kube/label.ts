import { dnsSubdomainErrors } from './dns-name.ts';

const NAME = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]';
const IS_NAME = new RegExp(`^${NAME}$`);
const IS_VALUE = new RegExp(`^(${NAME})?$`);
const MAX_BYTES = 63;

const NAME_RULE = `must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '${NAME}')`;
const VALUE_RULE = `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(${NAME})?')`;

/**
 * What is wrong with a qualified name: the key of a label or an annotation, the name of a finalizer. In the API server's
 * words; empty if nothing is.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/api/validate/content/kube.go
 */
export function labelKeyErrors(key: string): string[] {
  const parts = key.split('/');
  if (parts.length > 2) {
    return [`a valid label key ${NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`];
  }
  const name = parts.at(-1) ?? '';
  return [...(parts.length === 2 ? prefixErrors(parts[0] ?? '') : []), ...nameErrors(name)];
}

/** What is wrong with the value of a label, in the API server's words. */
export function labelValueErrors(value: string): string[] {
  return [
    ...(bytes(value) > MAX_BYTES ? [`must be no more than ${MAX_BYTES} bytes`] : []),
    ...(IS_VALUE.test(value) ? [] : [VALUE_RULE]),
  ];
}

function prefixErrors(prefix: string): string[] {
  if (prefix === '') return ['prefix part must be non-empty'];
  return dnsSubdomainErrors(prefix).map((error) => `prefix part ${error}`);
}

function nameErrors(name: string): string[] {
  const errors: string[] = [];
  if (name === '') errors.push('name part must be non-empty');
  else if (bytes(name) > MAX_BYTES) errors.push(`name part must be no more than ${MAX_BYTES} bytes`);
  if (!IS_NAME.test(name)) errors.push(`name part ${NAME_RULE}`);
  return errors;
}

function bytes(text: string): number {
  return new TextEncoder().encode(text).length;
}
