/** Prints tables, JSON, YAML, colors and the progress line for all commands. */
import { setImmediate } from 'node:timers/promises';
import { styleText } from 'node:util';
import { printIndented, printYaml } from '../../config/yaml.ts';
import type { PodFieldChange } from '../../kube/pod-changes.ts';
import { objectName } from '../../kube/resources.ts';
import { CONTROL_CHARACTERS, printable } from '../../kube/text.ts';
import type { KubeObject, Namespace } from '../../kube/types.ts';
import type { Io, Output } from '../command.ts';
import { flag, oneOf, type Option, option, type Values } from '../options.ts';

export { CONTROL_CHARACTERS, printable };

type DataFormat = 'json' | 'yaml';

/** Formats a value as indented JSON or as a YAML document. */
export function printData(format: DataFormat, value: unknown): string {
  return format === 'yaml' ? printYaml([value]) : printIndented(value);
}

export type Tone = 'bold' | 'dim' | 'red' | 'yellow';

/** Adds emphasis to text on color terminals. Returns the text unchanged for other outputs. */
export type Style = (tone: Tone, text: string) => string;

const PLAIN: Style = (_tone, text) => text;
const COLORED: Style = (tone, text) => styleText(tone, text, { validateStream: false });

/** Returns the style of standard output. `NO_COLOR` turns colors off. @see https://no-color.org */
export function outputStyle({ stdout, env }: Pick<Io, 'stdout' | 'env'>): Style {
  return stdout.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb' ? COLORED : PLAIN;
}

/** A cell of a table, optionally with emphasis. */
export type Cell = string | readonly [text: string, tone: Tone];

interface TableOptions {
  readonly style?: Style;
  /** Prefix of each line. */
  readonly indent?: string;
  /** Separator between columns. */
  readonly gap?: string;
}

/** Formats rows in aligned columns. Control characters in cells are escaped. */
export function printTable(
  rows: readonly (readonly Cell[])[],
  { style = PLAIN, indent = '', gap = '   ' }: TableOptions = {},
): string {
  const lines = rows.map((row) => row.map((cell) => printable(typeof cell === 'string' ? cell : cell[0])));
  const widths: number[] = [];
  for (const line of lines) {
    for (const [column, text] of line.entries()) widths[column] = Math.max(widths[column] ?? 0, text.length);
  }
  return rows
    .map((row, index) => {
      const texts = lines[index] ?? [];
      const end = texts.findLastIndex((text) => text !== '');
      const cells = row.slice(0, end + 1).map((cell, column) => {
        const text = texts[column] ?? '';
        const padding = column === end ? '' : ' '.repeat((widths[column] ?? 0) - text.length);
        return `${typeof cell === 'string' ? text : style(cell[1], text)}${padding}`;
      });
      return `${indent}${cells.join(gap)}\n`;
    })
    .join('');
}

/** Output formats of most commands. */
export const DATA_AND_TABLE = ['table', 'json', 'yaml'] as const;

/** Defines the `-o` option. The first format is the default. */
export function outputOption<const F extends readonly [string, ...string[]]>(formats: F): Option<F[number]> {
  const parse = oneOf<F[number]>(formats);
  return option('FORMAT', parse, formats[0] as F[number], { short: 'o', help: 'Output format' });
}

/** The `-o` option of commands that write objects. By default, they print the changes. */
export const writtenOutputOption = option('FORMAT', oneOf(['name', 'json', 'yaml'] as const), undefined, {
  short: 'o',
  help: 'Print the written objects in this format',
});

/** Prints objects as kubectl does. */
export function printObjects(
  { stdout }: Pick<Io, 'stdout'>,
  output: 'name' | DataFormat,
  objects: readonly KubeObject[],
): void {
  const [first] = objects;
  if (output === 'yaml') stdout.write(printYaml(objects));
  else if (output === 'json') {
    const list = { apiVersion: 'v1', kind: 'List', items: objects };
    stdout.write(printData('json', objects.length === 1 ? first : list));
  } else for (const object of objects) stdout.write(`${referenceName(object)}\n`);
}

/** Returns the name of an object as kubectl prints it, such as `rolebinding.rbac.authorization.k8s.io/web`. */
export function referenceName({ apiVersion = '', kind = '', metadata }: KubeObject): string {
  const [group = ''] = apiVersion.includes('/') ? apiVersion.split('/') : [''];
  return `${kind.toLowerCase()}${group === '' ? '' : `.${group}`}/${metadata?.name ?? ''}`;
}

export const headersOption = { 'no-headers': flag({ help: 'Print tables without headers' }) };

/** Options of all commands that list objects. */
export const listOptions = { ...headersOption, output: outputOption([...DATA_AND_TABLE, 'wide', 'name']) };

interface ListedObject {
  readonly kind: string;
  readonly name: string;
}

/** Prints a list as a report, or as unique names such as `pod/web`. */
export function printListing(
  io: Io,
  output: Parameters<typeof printReport>[1] | 'name',
  { data, objects }: { readonly data: object; readonly objects: readonly ListedObject[] },
  blocks: (style: Style) => readonly string[],
): void {
  if (output !== 'name') printReport(io, output, data, blocks);
  else {
    const names = new Set(objects.map(({ kind, name }) => printable(`${kind.toLowerCase()}/${name}`)));
    for (const name of names) io.stdout.write(`${name}\n`);
  }
}

/** Returns the table rows, with a header unless `--no-headers` is set. */
export function withHeader(
  header: readonly string[],
  rows: readonly (readonly Cell[])[],
  { 'no-headers': isHeaderless }: Values<typeof headersOption>,
): readonly (readonly Cell[])[] {
  return isHeaderless ? rows : [header, ...rows];
}

/** Prints data as JSON or YAML, or as blocks of text separated by blank lines. */
export function printReport(
  io: Io,
  output: DataFormat | 'table' | 'wide',
  data: object,
  blocks: (style: Style) => readonly string[],
): void {
  const isText = output === 'table' || output === 'wide';
  if (isText) io.text.write(blocks(outputStyle(io)).join('\n'));
  else io.stdout.write(printData(output, data));
}

/** Returns the blocks that describe the source of the settings and the assumptions of a command, if there are any. */
export function assumptionBlocks(assumptions: readonly string[], settingsSource?: string): readonly string[] {
  return [
    ...(settingsSource === undefined ? [] : [`Settings: ${printable(settingsSource)}.\n`]),
    ...(assumptions.length === 0 ? [] : [`Assumed: ${printable(assumptions.join('; '))}.\n`]),
  ];
}

const CLEAR_LINE = '\r\u001b[K';

/**
 * Runs a long operation. On a terminal, `show` prints the progress on one line, which is cleared when the operation
 * ends.
 */
export async function withProgress<T>(output: Output, work: (show: (text: string) => void) => Promise<T>): Promise<T> {
  let isShown = false;
  const show = (text: string): void => {
    isShown = true;
    if (output.isTTY === true) output.write(`${CLEAR_LINE}${text}`);
  };
  try {
    return await work(show);
  } finally {
    if (isShown) show('');
  }
}

/** Evaluates namespaces one at a time and shows the progress. Rejects if the signal is aborted. */
export async function mapNamespaces<T>(
  namespaces: readonly Namespace[],
  step: (namespace: Namespace) => T,
  { verb, io }: { readonly verb: string; readonly io: Pick<Io, 'stderr' | 'signal'> },
): Promise<T[]> {
  return await withProgress(io.stderr, async (show) => {
    const results: T[] = [];
    for (const [index, namespace] of namespaces.entries()) {
      show(`${verb} ${printable(objectName(namespace))} (${index + 1} of ${namespaces.length})`);
      results.push(step(namespace));
      // Yields to the event loop, because Node handles signals only while the command awaits.
      await setImmediate(undefined, { signal: io.signal });
    }
    return results;
  });
}

const SECURITY_CONTEXT = /^(?:.*\.)?securityContext\./;

/**
 * Returns the changes to a pod, with one line for each security context, such as `spec.securityContext: fsGroup=1
 * seccompProfile.type="RuntimeDefault"`.
 */
export function printChanges(changes: readonly PodFieldChange[]): readonly string[] {
  const byOwner = Map.groupBy(changes, ({ path }) => SECURITY_CONTEXT.exec(path)?.[0] ?? '');
  return [...byOwner].flatMap(([owner, owned]) =>
    owner === ''
      ? owned.map((change) => printChange(change))
      : [`${owner.slice(0, -1)}: ${owned.map((change) => printChange(change, owner.length)).join(' ')}`],
  );
}

function printChange({ path, before, after }: PodFieldChange, from = 0): string {
  const name = path.slice(from);
  if (after === undefined) return `${name} removed (was ${JSON.stringify(before)})`;
  return `${name}=${JSON.stringify(after)}${before === undefined ? '' : ` (was ${JSON.stringify(before)})`}`;
}
