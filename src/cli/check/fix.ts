/** Applies the fixes of `check --fix` to the manifest files, or prints them as a diff or as patches. */
import { readFile, realpath, stat } from 'node:fs/promises';
import { parse, relative, resolve, sep } from 'node:path';
import { diffLines } from 'diff';
import { decodeText, failureReason, isUtf16, replaceFile } from '../../config/files.ts';
import { type FieldChange, type FindViolations, type FixedText, fixText } from '../../config/fix.ts';
import type { Manifests } from '../../config/manifests.ts';
import { moveFields } from '../../config/misplaced-fields.ts';
import { manifestNamespace, type ManifestObject, manifestObjects } from '../../config/objects.ts';
import { printYaml, readDocuments } from '../../config/yaml.ts';
import { defined } from '../../kube/defined.ts';
import { diff } from '../../kube/json-patch.ts';
import { printCount, plural } from '../../kube/text.ts';
import { isObject, type JsonObject, objectMember, valueAt } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import { printFieldPath } from '../../policy/pod/index.ts';
import type { Output } from '../command.ts';
import { printPosition } from '../output/findings.ts';
import { printable } from '../output/print.ts';

/** `write` changes the files. The other modes only print the changes. */
export const FIX_MODES = ['write', 'diff', 'patch'] as const;

/** The text of a manifest file before and after the fixes. */
type Fix = FixedText & { readonly before: string };

/** The fixes by file. */
type Fixes = ReadonlyMap<string, Fix>;

interface FixOptions {
  /** Patch targets, for patches only. If set, objects without a target remain unchanged. */
  readonly targets: PatchTargets | undefined;
  isSkipped(object: ManifestObject): boolean;
}

export function fixTexts(
  texts: ReadonlyMap<string, string>,
  findViolations: FindViolations,
  { targets, isSkipped }: FixOptions,
): Fixes {
  const refuse = (object: ManifestObject): string | undefined => {
    const target = targets?.get(documentKey(object));
    return typeof target === 'string' ? target : undefined;
  };
  return new Map(
    Array.from(texts, ([file, before]) => [
      file,
      { before, ...fixText(before, file, findViolations, { refuse, moveFields, isSkipped }) },
    ]),
  );
}

/** Returns the objects in the fixed texts. Files that cannot be read keep their original errors. */
export function fixedManifests(fixes: Fixes, { errors }: Manifests): Manifests {
  const read = Array.from(fixes, ([file, { text }]) => readDocuments(text, file));
  const documents = read.flatMap((file) => file.documents);
  const objects = documents.map(manifestObjects);
  return {
    documents,
    objects: objects.flatMap((object) => object.objects),
    errors: [
      ...errors.filter(({ file }) => !fixes.has(file)),
      ...read.flatMap((file) => file.errors),
      ...objects.flatMap((object) => object.errors),
    ],
  };
}

/**
 * Replaces each changed file atomically, and then prints its changes. For a symbolic link, replaces its target.
 * @throws {UserError} for a file that cannot be written or that has changed since it was read
 */
export async function writeFixes(fixes: Fixes, stderr: Output): Promise<void> {
  for (const [file, fix] of fixes) {
    if (fix.text !== fix.before) await writeFile(file, fix);
    printFixes(stderr, new Map([[file, fix]]));
  }
}

async function writeFile(file: string, { before, text }: Fix): Promise<void> {
  try {
    const path = await realpath(file);
    const bytes = await readFile(path);
    const current = decodeText(bytes);
    // Several paths may refer to the same file.
    if (current === text) return;
    if (current !== before) throw new Error('it has changed since it was read, so run the command again');
    await replaceFile(path, Buffer.from(text, isUtf16(bytes) ? 'utf16le' : 'utf8'), (await stat(path)).mode);
  } catch (error) {
    throw new UserError(`cannot write ${file}: ${failureReason(error)}`, { cause: error });
  }
}

/** Returns the changes as unified diffs, which `git apply` and `patch -p1` accept. */
export function printDiffs(fixes: Fixes): string {
  return Array.from(fixes, ([file, fix]) => {
    if (fix.changedLines.length === 0) return '';
    const name = diffPath(file);
    return `--- ${quotePath(`a/${name}`)}\n+++ ${quotePath(`b/${name}`)}\n${formatHunks(diffFix(fix))}`;
  }).join('');
}

/**
 * Returns the path of a file in a diff, which is relative to the working directory. A file outside the working directory
 * has its path from the root directory, because `git apply` and `patch` reject paths that contain `..`.
 */
function diffPath(file: string): string {
  const inside = relative('', file);
  const path = inside.split(sep)[0] === '..' ? resolve(file) : inside;
  return path.slice(parse(path).root.length).replaceAll(sep, '/');
}

/** Quotes a path as git does, because `patch` otherwise reads it only up to the first space. */
function quotePath(path: string): string {
  const quoted = path
    .replaceAll(/["\\]/g, '\\$&')
    .replaceAll(/\p{Cc}/gu, (character) =>
      Array.from(Buffer.from(character), (byte) => `\\${byte.toString(8).padStart(3, '0')}`).join(''),
    );
  return /\p{Cc}/u.test(path) ? `"${quoted}"` : path.includes(' ') ? `${path}\t` : path;
}

/** Patch targets by `documentKey`. An object that kustomize cannot match has a string that explains what to change. */
type PatchTargets = ReadonlyMap<string, JsonObject | string>;

/**
 * Returns the targets of patches. A target without a namespace matches objects in all namespaces, and kustomize treats
 * objects without a namespace as objects in `default`.
 */
export function patchTargets({ objects }: Manifests): PatchTargets {
  const named = Map.groupBy(objects, ({ apiVersion, kind, value }) =>
    JSON.stringify([apiVersion, kind, objectMember(value, 'metadata')['name']]),
  );
  const targets = new Map<string, JsonObject | string>();
  for (const object of objects) {
    const { apiVersion, kind, value, document, path } = object;
    const { name } = objectMember(value, 'metadata');
    const item = valueAt(document.value, path);
    const others = (named.get(JSON.stringify([apiVersion, kind, name])) ?? []).filter((other) => other !== object);
    const namespace = patchNamespace(object);
    const same = others.find((other) => patchNamespace(other) === namespace);
    const [version = '', group] = apiVersion.split('/').reverse();
    const target = {
      ...defined({ group }),
      version,
      kind,
      // Escapes dots, because kustomize treats the name as a regular expression.
      name: String(name).replaceAll('.', '\\.'),
      ...(manifestNamespace(value) === undefined && others.length === 0 ? {} : { namespace }),
    };
    targets.set(
      documentKey(object),
      typeof name !== 'string' || name === ''
        ? 'set metadata.name, because kustomize rejects objects without a name'
        : isObject(item) && item['kind'] == null
          ? 'set apiVersion and kind of the list item, because kustomize rejects items without them'
          : same === undefined
            ? target
            : `rename one of the objects or check them separately, because kustomize cannot distinguish this object from the object at ${printPosition({ file: same.document.file, ...same.locate([]) })}`,
    );
  }
  return targets;
}

function patchNamespace({ value }: ManifestObject): string {
  return manifestNamespace(value) ?? 'default';
}

/** Returns the changes as kustomize `patches`, with a JSON patch for each changed object. */
export function printPatches(manifests: Manifests, fixed: Manifests, targets: PatchTargets): string {
  const after = new Map(fixed.objects.map((object) => [documentKey(object), object]));
  const patches = manifests.objects.flatMap((object) => {
    const key = documentKey(object);
    const operations = diff(object.value, after.get(key)?.value ?? object.value);
    return operations.length === 0 ? [] : [{ target: targets.get(key), patch: printYaml([operations]) }];
  });
  return patches.length === 0 ? '' : printYaml([{ patches }]);
}

function documentKey({ document: { file, index }, path }: ManifestObject): string {
  return JSON.stringify([file, index, path]);
}

/** Maximum number of additional line numbers printed after a condition. */
const MAX_LINES = 5;

/**
 * Prints a line for each change, each condition to verify, and each finding that the user must resolve. If a file has
 * several changes or findings, also prints their counts.
 */
export function printFixes(stderr: Output, fixes: Fixes): void {
  const line = (title: string, { object, field }: Pick<FieldChange, 'object' | 'field'>, text: string): string =>
    `${title}: ${printPosition({ file: object.document.file, ...object.locate(field) })}: ${text}`;
  for (const [file, { changes, unfixed }] of fixes) {
    const fixed = changes.map((change) =>
      line('fixed', change, `${change.check}: ${printFieldPath(change.field)} ${change.change}`),
    );
    const notes = Array.from(
      Map.groupBy(
        changes.filter(({ note }) => note !== undefined),
        ({ note = '', explicit, object, path }) =>
          explicit ? JSON.stringify([documentKey(object), path, note]) : note,
      ),
      ([, [first, ...others]]) => {
        if (first?.note === undefined) return '';
        const rest = [...new Set(others.map(({ object }) => object.line))].filter(
          (otherLine) => otherLine !== first.object.line,
        );
        const shown = rest.slice(0, MAX_LINES).join(', ');
        const hidden = rest.length > MAX_LINES ? ` and ${rest.length - MAX_LINES} more` : '';
        const also = rest.length === 0 ? '' : ` (also ${plural(rest.length, 'line')} ${shown}${hidden})`;
        return line('verify', first.explicit ? first : { ...first, field: [] }, first.note) + also;
      },
    );
    const remaining = unfixed.map((violation) => {
      const choices =
        violation.choices.length === 1 ? violation.choices.join() : `choose: ${violation.choices.join('; ')}`;
      return line('not fixed', violation, `${violation.check}: ${violation.detail}: ${choices}`);
    });
    const count = { fixed: fixed.length, remaining: new Set(remaining).size };
    const counts = `${file}: ${printCount(count.fixed, 'field')} fixed, ${count.remaining} not fixed`;
    const all = new Set([...fixed, ...notes, ...remaining, ...(count.fixed + count.remaining > 1 ? [counts] : [])]);
    for (const line of all) stderr.write(`${printable(line)}\n`);
  }
}

/**
 * Returns the lines of both texts, each prefixed with its marker. Compares only the changed lines, because the
 * comparison time is quadratic in the number of changes.
 */
function diffFix({ before, changedLines }: Fix): readonly string[] {
  const lines: string[] = [];
  let position = 0;
  const keep = (end: number): void => {
    for (const line of splitLines(before.slice(position, end))) lines.push(` ${line}`);
    position = end;
  };
  for (const { start, end, text } of changedLines) {
    keep(start);
    for (const line of diffTexts(before.slice(start, end), text)) lines.push(line);
    position = end;
  }
  keep(before.length);
  return lines;
}

function diffTexts(before: string, after: string): readonly string[] {
  return diffLines(before, after).flatMap(({ value, added, removed }) => {
    const mark = added ? '+' : removed ? '-' : ' ';
    return splitLines(value).map((line) => mark + line);
  });
}

function splitLines(text: string): readonly string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

/** Number of unchanged context lines around a change. */
const CONTEXT = 4;

function formatHunks(lines: readonly string[]): string {
  const hunks: { start: number; end: number }[] = [];
  for (const [index, line] of lines.entries()) {
    const last = hunks.at(-1);
    if (line.startsWith(' ')) continue;
    const end = Math.min(index + 1 + CONTEXT, lines.length);
    if (last && index - CONTEXT <= last.end) last.end = end;
    else hunks.push({ start: Math.max(index - CONTEXT, 0), end });
  }
  const counts = { old: 0, new: 0 };
  let position = 0;
  const count = (side: 'old' | 'new', from: number, to: number): number =>
    lines.slice(from, to).filter((line) => !line.startsWith(side === 'old' ? '+' : '-')).length;
  return hunks
    .map(({ start, end }) => {
      const ranges = (['old', 'new'] as const).map((side) => {
        const first = counts[side] + count(side, position, start);
        const length = count(side, start, end);
        counts[side] = first + length;
        return `${length === 0 ? first : first + 1},${length}`;
      });
      position = end;
      const text = lines.slice(start, end).map((line) => (line.endsWith('\n') ? line : `${line}\n${NO_LINE_END}\n`));
      return `@@ -${ranges.join(' +')} @@\n${text.join('')}`;
    })
    .join('');
}

const NO_LINE_END = '\\ No newline at end of file';
