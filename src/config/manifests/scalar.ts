/** What a scalar can mean; dates stay strings. */
export type ScalarValue = string | number | boolean | null;

const WORDS: ReadonlyMap<string, boolean | null> = new Map<string, boolean | null>([
  ...entries('y Y yes Yes YES true True TRUE on On ON', true),
  ...entries('n N no No NO false False FALSE off Off OFF', false),
  ...entries('~ null Null NULL', null),
  ['', null],
]);
const INFINITY = /^[-+]?\.(?:inf|Inf|INF)$/;
const NOT_A_NUMBER = /^\.(?:nan|NaN|NAN)$/;
const FRACTION = /^\.[0-9]+(?:[eE][-+]?[0-9]+)?$/;
const FLOAT = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/;
const WITH_BASE = /^([-+]?)(?:0[oO]?([0-7]+)|(0[xX][0-9a-fA-F]+|0[bB][01]+))$/;

/**
 * What a scalar without quotes and tag means to kubectl: YAML 1.1, where `yes` and `on` are booleans and `0777` is
 * octal, but `1:30` and dates are strings.
 * @see https://github.com/yaml/go-yaml/blob/v2.4.0/resolve.go
 */
export function resolvePlain(text: string): ScalarValue {
  const word = WORDS.get(text);
  if (word !== undefined) return word;
  if (INFINITY.test(text)) return text.startsWith('-') ? -Infinity : Infinity;
  if (NOT_A_NUMBER.test(text)) return NaN;
  if (text.startsWith('.')) return FRACTION.test(text) ? Number(text) : text;
  return /^[-+0-9]/.test(text) ? resolveNumber(text) : text;
}

function resolveNumber(text: string): number | string {
  const digits = text.replaceAll('_', '');
  const [matched, sign, octal = '', literal] = WITH_BASE.exec(digits) ?? [];
  if (matched !== undefined) return signed(sign, Number(literal ?? `0o${octal}`));
  const number = FLOAT.test(digits) ? Number(digits) : NaN;
  if (!Number.isFinite(number)) return text;
  // There is no integer -0.
  return /^-0+$/.test(digits) ? 0 : number;
}

function signed(sign: string | undefined, value: number): number {
  return sign === '-' ? 0 - value : value;
}

const CORE_TAG = 'tag:yaml.org,2002:';
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** What a scalar with a tag means, quotes or not; `undefined` if the text does not fit the tag. */
export function resolveTagged(tag: string, text: string): ScalarValue | undefined {
  const value = resolvePlain(text);
  switch (tag) {
    case `${CORE_TAG}null`:
      return value === null ? null : undefined;
    case `${CORE_TAG}bool`:
      return typeof value === 'boolean' ? value : undefined;
    case `${CORE_TAG}int`:
      return Number.isInteger(value) ? value : undefined;
    case `${CORE_TAG}float`:
      return typeof value === 'number' ? value : undefined;
    case `${CORE_TAG}binary`:
      return decodeBase64(text.replaceAll(/\s/g, ''));
    default:
      return text;
  }
}

function decodeBase64(text: string): string | undefined {
  return BASE64.test(text) ? Buffer.from(text, 'base64').toString() : undefined;
}

/** A key as JSON has it; `undefined` for null, which cannot be a key. */
export function printKey(value: ScalarValue): string | undefined {
  if (value === null) return undefined;
  if (typeof value !== 'number' || Number.isFinite(value)) return String(value);
  return Number.isNaN(value) ? '.nan' : `${value < 0 ? '-' : ''}.inf`;
}

function entries<T>(words: string, value: T): [string, T][] {
  return words.split(' ').map((word) => [word, value]);
}
