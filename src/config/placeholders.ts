/** Finds the placeholders of template languages in text, such as `{{ .Values.uid }}` and `${UID}`. */
import { truncate } from '../kube/text.ts';

/** Advice for placeholders of an unknown template language. */
const OTHER_TOOL = 'render the manifest with the tool that replaces it, and check the result: portcullis check -f -';
const ENVSUBST = 'envsubst < FILE | portcullis check -f -';

/** Placeholders by their delimiters, with the command that renders them. The first matching pattern applies. */
const DELIMITED: readonly (readonly [open: string, close: string, command: string])[] = [
  ['${{', '}}', 'oc process -f FILE | portcullis check -f -'],
  ['{{', '}}', 'helm template CHART | portcullis check -f -'],
  ['${', '}', ENVSUBST],
  ['$(', ')', 'kubectl kustomize DIR | portcullis check -f -'],
  ['<%', '%>', OTHER_TOOL],
  ['#{', '}', OTHER_TOOL],
  ['@@', '@@', OTHER_TOOL],
];

/** Placeholders that are recognized only if they are the whole value. */
const WHOLE = /^(?:\$[a-z_]\w*|%[a-z_]\w*%|@[a-z_][\w.-]*@|<[a-z_][\w.-]*>|__\w+__|\(\(.+\)\)|\[\[[^[\]]+\]\])$/i;

/** A placeholder, and the command that renders it or advice on how to render it. */
export interface Placeholder {
  readonly text: string;
  readonly command: string;
}

/** Returns the first placeholder in a value, or `undefined` if there is none. */
export function findPlaceholder(value: string): Placeholder | undefined {
  for (const [open, close, command] of DELIMITED) {
    const start = value.indexOf(open);
    const end = start < 0 ? -1 : value.indexOf(close, start + open.length);
    if (end > start + open.length) return { text: shorten(value.slice(start, end + close.length)), command };
  }
  const whole = value.trim();
  if (!WHOLE.test(whole)) return undefined;
  return { text: shorten(whole), command: whole.startsWith('$') ? ENVSUBST : OTHER_TOOL };
}

function shorten(placeholder: string): string {
  return truncate(placeholder.replaceAll('\n', ' '), 80);
}

/** Describes how to render a placeholder. */
export function describeRendering({ command }: Placeholder): string {
  return command === OTHER_TOOL ? `To evaluate it, ${command}` : `Render it first: ${command}`;
}

/** Matches statements of template languages, which can be anywhere in a text. */
const STATEMENT = /^[ \t]*(?:- )?(?:\{\{|<%)/m;
/** Delimiters of statements and expressions. */
const TEMPLATES = [
  ['{{', '}}'],
  ['<%', '%>'],
] as const;

/**
 * Returns the placeholder that probably makes the text invalid YAML. This is the placeholder on the line with the error
 * or, if that line has none, the first template statement or else the first template expression. `isInvalid` returns
 * true if a text has the same error, which templates in strings do not cause.
 */
export function findUnrenderedText(
  text: string,
  errorAt: number,
  isInvalid: (rendered: string) => boolean,
): Placeholder | undefined {
  const line = lineAt(text, errorAt);
  // The whole value at the end of a line can be a placeholder.
  const own =
    findPlaceholder(line) ?? findPlaceholder(line.slice(line.lastIndexOf(': ') + 1).replace(/[,}\]][^]*/, ''));
  if (own) return own;
  const statement = STATEMENT.exec(text);
  const start = statement ? statement.index : text.indexOf('{{');
  if (start < 0 || isInvalid(TEMPLATES.reduce(renderTemplates, text))) return undefined;
  return findPlaceholder(lineAt(text, start + (statement?.[0].length ?? 0)));
}

/** Replaces statements on separate lines with comments, and expressions with words of the same length. */
function renderTemplates(text: string, [open, close]: readonly [open: string, close: string]): string {
  const parts: string[] = [];
  const lineEnd = /[ \t\r]*(?:\n|$)/y;
  let position = 0;
  for (let start = text.indexOf(open); start >= 0; start = text.indexOf(open, position)) {
    const end = text.indexOf(close, start);
    if (end < 0) break;
    const before = text.slice(position, start);
    const isLineStart =
      before.slice(before.lastIndexOf('\n') + 1).trim() === '' && (position === 0 || before.includes('\n'));
    position = end + close.length;
    lineEnd.lastIndex = position;
    const isLine = isLineStart && lineEnd.test(text);
    parts.push(before, (isLine ? '#' : 'x').padEnd(position - start, 'x'));
  }
  return parts.join('') + text.slice(position);
}

function lineAt(text: string, offset: number): string {
  const end = text.indexOf('\n', offset);
  return text.slice(text.lastIndexOf('\n', offset - 1) + 1, end < 0 ? text.length : end);
}
