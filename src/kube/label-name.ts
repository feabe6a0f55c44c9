import { dnsSubdomainErrors } from './dns-name.ts';

const KEY = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]';
const VALUE = `(${KEY})?`;
const IS_KEY = new RegExp(`^${KEY}$`);
const IS_VALUE = new RegExp(`^${VALUE}$`);
const MAX_BYTES = 63;
const RULE = "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const KEY_RULE = `must consist of ${RULE} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '${KEY}')`;
const VALUE_RULE = `a valid label must be an empty string or consist of ${RULE} (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '${VALUE}')`;

/**
 * What is wrong with the key of a label or an annotation, in the API server's words; empty if nothing is.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/api/validate/content/kube.go
 */
export function labelKeyErrors(key: string): string[] {
  const [first = '', second, ...more] = key.split('/');
  if (more.length > 0) {
    return [`a valid label key ${KEY_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`];
  }
  if (second === undefined) return nameErrors(first);
  const prefix = first === '' ? ['must be non-empty'] : dnsSubdomainErrors(first);
  return [...prefix.map((error) => `prefix part ${error}`), ...nameErrors(second)];
}

/** What is wrong with the value of a label. */
export function labelValueErrors(value: string): string[] {
  return [...lengthErrors(value), ...(IS_VALUE.test(value) ? [] : [VALUE_RULE])];
}

function nameErrors(name: string): string[] {
  const length = name === '' ? ['must be non-empty'] : lengthErrors(name);
  const errors = IS_KEY.test(name) ? length : [...length, KEY_RULE];
  return errors.map((error) => `name part ${error}`);
}

function lengthErrors(text: string): string[] {
  return new TextEncoder().encode(text).length > MAX_BYTES ? [`must be no more than ${MAX_BYTES} bytes`] : [];
}
