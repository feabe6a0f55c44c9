import { compareBytes, quote } from '../../kube/text.ts';
import { isObject } from '../../kube/types.ts';

/** A JSON value as Go prints it with `%v`: `map[a:1 b:[x y]]`. */
export function goFormat(value: unknown): string {
  if (value == null) return '<nil>';
  if (Array.isArray(value)) return `[${value.map(goFormat).join(' ')}]`;
  if (!isObject(value)) return typeof value === 'string' ? value : JSON.stringify(value);
  const members = Object.entries(value).sort(([a], [b]) => compareBytes(a, b));
  return `map[${members.map(([key, member]) => `${key}:${goFormat(member)}`).join(' ')}]`;
}

/** The Go type that a decoded JSON value has, as printed with `%T`. */
export function goTypeOf(value: unknown): string {
  if (value == null) return '<nil>';
  if (Array.isArray(value)) return '[]interface {}';
  if (isObject(value)) return 'map[string]interface {}';
  if (typeof value === 'number') return Number.isInteger(value) ? 'int64' : 'float64';
  return typeof value === 'boolean' ? 'bool' : 'string';
}

/** A JSON value as Go prints it with `%#v`: `map[string]interface {}{"a":1}`. */
export function goSyntax(value: unknown): string {
  if (value == null) return 'interface {}(nil)';
  if (typeof value === 'string') return quote(value);
  if (Array.isArray(value)) return `${goTypeOf(value)}{${value.map(goSyntax).join(', ')}}`;
  if (!isObject(value)) return JSON.stringify(value);
  const members = Object.entries(value).sort(([a], [b]) => compareBytes(a, b));
  return `${goTypeOf(value)}{${members.map(([key, member]) => `${quote(key)}:${goSyntax(member)}`).join(', ')}}`;
}
