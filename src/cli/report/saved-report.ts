/** Reads reports that `portcullis report -o json` wrote. */
import { existsSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { compileSchema } from '../../config/ajv.ts';
import { readSource } from '../../config/files.ts';
import { compareBytes, quote } from '../../kube/text.ts';
import { UserError } from '../../kube/user-error.ts';
import type { ReportData } from '../../web/report-data.ts';
import schema from './report.schema.json' with { type: 'json' };

/** JSON schema of a report. It permits additional fields, which later versions may add. */
export const REPORT_SCHEMA = schema;

let check: ReturnType<typeof compileSchema> | undefined;

/**
 * Returns the files, and the `.json` files of the directories, in order. Rejects with a UserError if a path does not
 * exist, or if a directory contains no such file.
 */
export async function listReports(paths: readonly string[]): Promise<readonly string[]> {
  const files = await Promise.all(
    paths.map(async (path) => {
      if (path === '-') return [path];
      if (!existsSync(path)) throw new UserError(`the path ${quote(path)} does not exist`);
      if (!statSync(path).isDirectory()) return [path];
      const names = (await readdir(path)).filter((name) => name.endsWith('.json')).sort(compareBytes);
      if (names.length === 0) throw new UserError(`the directory ${quote(path)} contains no .json file`);
      return names.map((name) => join(path, name));
    }),
  );
  return [...new Set(files.flat())];
}

/** Rejects with a UserError if the file does not contain a report. */
export async function readReport(file: string): Promise<ReportData> {
  const { text } = await readSource(file);
  const problem = (message: string, cause?: unknown): UserError =>
    new UserError(`${file} is not the output of portcullis report -o json: ${message}`, { cause });
  let report: unknown;
  try {
    report = JSON.parse(text.replace(/^\ufeff/, ''));
  } catch (error) {
    throw problem(error instanceof Error ? error.message : String(error), error);
  }
  check ??= compileSchema(schema);
  const error = check(report);
  if (error !== undefined) throw problem(error);
  return report as ReportData;
}
