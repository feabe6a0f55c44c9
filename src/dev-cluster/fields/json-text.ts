/**
 * What JSON.parse does not tell: Go's words for a syntax error, and fields that an object has twice.
 * @see https://github.com/golang/go/blob/go1.26.0/src/encoding/json/scanner.go
 */
import { quote } from '../../kube/text.ts';
import { scanToken } from './json-token.ts';

export interface JsonScan {
  /** `invalid character '}' looking for beginning of value`, `unexpected end of JSON input`, …; absent for good JSON. */
  readonly error?: string;
  /** Paths of fields that come again, such as `spec.containers[0].name`; each once. */
  readonly duplicates: readonly string[];
}

/** Go's own limit is 10000; ours keeps recursion over what was read well away from the end of the stack. */
const MAX_DEPTH = 1000;

/** What may come next. */
type Expectation = 'value' | 'item or end' | 'key' | 'key or end' | 'colon' | 'comma or end' | 'end of text';

/** An object or list that is being read. */
interface Container {
  /** Of an object, those that have been. */
  readonly keys: Set<string> | undefined;
  readonly path: string;
  /** Of the member that is being read. */
  key: string;
  index: number;
}

interface State {
  readonly text: string;
  at: number;
  expected: Expectation;
  readonly open: Container[];
  readonly duplicates: Set<string>;
}

/** Reads a text from end to end without recursion and without keeping its values. */
export function scanJson(text: string): JsonScan {
  const state: State = { text, at: 0, expected: 'value', open: [], duplicates: new Set() };
  for (;;) {
    skipSpace(state);
    const char = text.charAt(state.at);
    if (char === '' && state.expected === 'end of text') return { duplicates: [...state.duplicates] };
    const error = char === '' ? syntaxError(state, '') : STEPS[state.expected](state, char);
    if (error !== undefined) return { error, duplicates: [] };
  }
}

/** What to do with the next character; each returns the error where it may not come. */
const STEPS: Readonly<Record<Expectation, (state: State, char: string) => string | undefined>> = {
  value: readValue,
  'item or end': (state, char) => (char === ']' ? close(state) : readValue(state, char)),
  key: readKey,
  'key or end': (state, char) => (char === '}' ? close(state) : readKey(state, char)),
  colon(state, char) {
    if (char !== ':') return syntaxError(state, 'after object key');
    return advance(state, 'value');
  },
  'comma or end'(state, char) {
    const inner = state.open.at(-1);
    const isObject = inner?.keys !== undefined;
    if (char === (isObject ? '}' : ']')) return close(state);
    if (char !== ',') return syntaxError(state, isObject ? 'after object key:value pair' : 'after array element');
    if (inner) inner.index++;
    return advance(state, isObject ? 'key' : 'value');
  },
  'end of text': (state) => syntaxError(state, 'after top-level value'),
};

function readValue(state: State, char: string): string | undefined {
  if (char === '{' || char === '[') return open(state, char);
  const token = scanToken(state.text, state.at);
  if ('context' in token) return syntaxError({ ...state, at: token.at }, token.context);
  state.at = token.end;
  state.expected = afterValue(state);
  return undefined;
}

function readKey(state: State, char: string): string | undefined {
  const inner = state.open.at(-1);
  if (char !== '"' || !inner) return syntaxError(state, 'looking for beginning of object key string');
  const token = scanToken(state.text, state.at);
  if ('context' in token) return syntaxError({ ...state, at: token.at }, token.context);
  inner.key = JSON.parse(state.text.slice(state.at, token.end)) as string;
  if (inner.keys?.has(inner.key)) state.duplicates.add(pathOf(inner));
  inner.keys?.add(inner.key);
  state.at = token.end;
  state.expected = 'colon';
  return undefined;
}

function open(state: State, char: '{' | '['): string | undefined {
  if (state.open.length >= MAX_DEPTH) return 'exceeded max depth';
  const path = pathOf(state.open.at(-1));
  state.open.push({ keys: char === '{' ? new Set() : undefined, path, key: '', index: 0 });
  return advance(state, char === '{' ? 'key or end' : 'item or end');
}

function close(state: State): string | undefined {
  state.open.pop();
  return advance(state, afterValue(state));
}

function afterValue({ open: containers }: State): Expectation {
  return containers.length === 0 ? 'end of text' : 'comma or end';
}

function advance(state: State, expected: Expectation): string | undefined {
  state.at++;
  state.expected = expected;
  return undefined;
}

function pathOf(container: Container | undefined): string {
  if (!container) return '';
  const { keys, path, key, index } = container;
  if (!keys) return `${path}[${index}]`;
  return path === '' ? key : `${path}.${key}`;
}

function skipSpace(state: State): void {
  while (state.at < state.text.length && ' \t\r\n'.includes(state.text.charAt(state.at))) state.at++;
}

function syntaxError({ text, at }: Pick<State, 'text' | 'at'>, context: string): string {
  if (at >= text.length) return 'unexpected end of JSON input';
  return `invalid character ${printByte(text, at)} ${context}`;
}

/** Go reads bytes: of a character that has several, it prints the first as if it were one of its own. */
function printByte(text: string, at: number): string {
  const [byte = 0] = Buffer.from(String.fromCodePoint(text.codePointAt(at) ?? 0));
  const char = String.fromCharCode(byte);
  if (char === "'") return "'\\''";
  return char === '"' ? "'\"'" : `'${quote(char).slice(1, -1)}'`;
}
