/** Prints generated files, or writes them to a directory. */
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { failureReason } from '../../config/files.ts';
import { UserError } from '../../kube/user-error.ts';
import type { Io } from '../command.ts';
import { printable } from '../output/print.ts';

export interface OutputFile {
  /** Path relative to the output directory. */
  readonly path: string;
  /** Describes where to install the file. */
  readonly purpose: string;
  readonly text: string;
}

/** Prints the files with their paths and purposes. */
export function printFiles(files: readonly OutputFile[], { stdout }: Pick<Io, 'stdout'>): void {
  stdout.write(files.map(({ path, purpose, text }) => `# ${path}: ${purpose}\n${text}`).join('---\n'));
}

/**
 * Writes the files, and prints their paths and purposes.
 * @throws {UserError} if a file cannot be written
 */
export async function writeFiles(
  files: readonly OutputFile[],
  folder: string,
  { stdout }: Pick<Io, 'stdout'>,
): Promise<void> {
  try {
    for (const { path, purpose, text } of files) {
      await mkdir(dirname(join(folder, path)), { recursive: true });
      await writeFile(join(folder, path), text);
      stdout.write(`${printable(join(folder, path))}: ${purpose}\n`);
    }
  } catch (error) {
    throw new UserError(`cannot write to ${folder}: ${failureReason(error)}`, { cause: error });
  }
}
