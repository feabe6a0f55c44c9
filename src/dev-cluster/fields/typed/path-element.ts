/**
 * One step of a field path, in the form in which `managedFields` spell it: `f:name`, `k:{"name":"c"}` for the item of a
 * list with keys, `v:"x"` for the item of a set.
 * @see https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.2/fieldpath/serialize-pe.go
 */
import { compareBytes, quote } from '../../../kube/text.ts';
import { isObject } from '../../../kube/types.ts';
import type { ListType } from '../types.ts';
import { zeroOf } from '../zero.ts';

export type PathElement = string;

export function fieldElement(name: string): PathElement {
  return `f:${name}`;
}

/** The element of a list item: by its keys, or by its value in a set; an `error` where it has none of the keys. */
export function itemElement(type: ListType, item: unknown): { element: PathElement } | { error: string } {
  return type.listType === 'map' ? keyElement(type, item) : valueElement(item);
}

function keyElement(type: ListType, item: unknown): { element: PathElement } | { error: string } {
  if (item === null) return { error: 'associative list with keys may not have a null element' };
  if (!isObject(item)) return { error: 'associative list with keys may not have non-map elements' };
  const pairs = type.keys.toSorted(compareBytes).flatMap((key): [string, unknown][] => {
    const value = Object.hasOwn(item, key) ? item[key] : defaultOf(type, key);
    return value === undefined ? [] : [[key, value]];
  });
  if (pairs.length === 0) {
    const keys = type.keys.map(quote).join(' ');
    return {
      error: `associative list with keys has an element that omits all key fields [${keys}] (and doesn't have default values for any key fields)`,
    };
  }
  return { element: `k:${JSON.stringify(Object.fromEntries(pairs))}` };
}

/** A key that is left out has its default; a string or number that is always written has its zero value. */
function defaultOf(type: ListType, key: string): unknown {
  const field = type.items.kind === 'object' ? type.items.fields.get(key) : undefined;
  if (field?.default !== undefined || !field?.always || field.pointer) return field?.default;
  return zeroOf(field.type);
}

function valueElement(item: unknown): { element: PathElement } | { error: string } {
  if (item === null) return { error: "associative list without keys has an element that's an explicit null" };
  if (Array.isArray(item)) return { error: 'not supported: associative list with lists as elements' };
  if (typeof item === 'object') return { error: "associative list without keys has an element that's a map type" };
  return { element: `v:${JSON.stringify(item)}` };
}

/** As error messages print it: `.name`, `[name="c"]`, `[="x"]`. */
export function printElement(element: PathElement): string {
  const content = element.slice(2);
  switch (element.charAt(0)) {
    case 'f':
      return `.${content}`;
    case 'k':
      return `[${Object.entries(JSON.parse(content) as object)
        .map(([key, value]) => `${key}=${printScalar(value)}`)
        .join(',')}]`;
    case 'v':
      return `[=${printScalar(JSON.parse(content))}]`;
    default:
      return `[${content}]`;
  }
}

function printScalar(value: unknown): string {
  return typeof value === 'string' ? quote(value) : JSON.stringify(value);
}

/** Fields come before keys, keys before values, values before indexes. */
export function compareElements(a: PathElement, b: PathElement): number {
  return KINDS.indexOf(a.charAt(0)) - KINDS.indexOf(b.charAt(0)) || compareBytes(a, b);
}

const KINDS = 'fkvi';

/** The element in its one spelling; `undefined` where the text is none. */
export function parseElement(text: string): PathElement | undefined {
  const content = text.slice(2);
  if (text.charAt(1) !== ':') return undefined;
  switch (text.charAt(0)) {
    case 'f':
      return text;
    case 'i':
      return /^\d+$/.test(content) ? text : undefined;
    case 'k': {
      const keys = parseJson(content);
      if (!isObject(keys)) return undefined;
      return `k:${JSON.stringify(Object.fromEntries(Object.entries(keys).sort(([a], [b]) => compareBytes(a, b))))}`;
    }
    case 'v': {
      const value = parseJson(content);
      return value === undefined ? undefined : `v:${JSON.stringify(value)}`;
    }
    default:
      return undefined;
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
