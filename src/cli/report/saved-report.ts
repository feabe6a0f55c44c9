/** Reads reports that `portcullis report -o json` wrote. */
import { existsSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { compileSchema } from '../../config/ajv.ts';
import { readSource } from '../../config/files.ts';
import { LIMITS } from '../../kube/limits.ts';
import { compareBytes, quote } from '../../kube/text.ts';
import { isObject } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import type { ReportData, UnreadReport } from '../../web/report-data.ts';
import schema from './report.schema.json' with { type: 'json' };

/** JSON schema of a report. It permits additional fields, which later versions may add. */
export const REPORT_SCHEMA = schema;

let check: Readonly<Record<'one' | 'list', ReturnType<typeof compileSchema>>> | undefined;

/** Kind of the document for a list of reports. */
export const REPORT_LIST = 'ReportList';

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

/** A report, or the reason why it is missing. */
export type SavedReport = ReportData | UnreadReport;

/** Reads a report. Rejects with a UserError if the file does not contain exactly one report. */
export async function readReport(file: string): Promise<ReportData> {
  const [report, ...others] = await readReports(file);
  if (report && !('error' in report) && others.length === 0) return report;
  throw new UserError(`${file} does not contain the report of one cluster`);
}

/** Reads a report or a list of reports. Rejects with a UserError if the file contains neither. */
export async function readReports(file: string): Promise<readonly SavedReport[]> {
  const { text } = await readSource(file);
  const problem = (message: string, cause?: unknown): UserError =>
    new UserError(`${file} is not the output of portcullis report -o json: ${message}`, { cause });
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\ufeff/, ''));
  } catch (error) {
    throw problem(error instanceof Error ? error.message : String(error), error);
  }
  const items = isObject(value) && value['kind'] === REPORT_LIST ? value['items'] : undefined;
  check ??= { one: compileSchema(schema), list: compileSchema({ ...schema.$defs.reportList, $defs: schema.$defs }) };
  const error = items === undefined ? check.one(value) : check.list(value);
  if (error !== undefined) throw problem(error);
  const reports = (items ?? [value]) as readonly SavedReport[];
  for (const [index, report] of items === undefined ? [] : reports.entries()) {
    const invalid = 'error' in report ? undefined : check.one(report);
    if (invalid !== undefined) throw problem(`items.${index}: ${invalid}`);
  }
  // Checks the depth of the settings, which `--reference` compares. The schema permits any settings, but all other
  // fields have a fixed depth.
  if (reports.some((report) => 'spec' in report && isDeeper(report.spec, LIMITS.nestingLevels)))
    throw problem(`spec is nested more than ${LIMITS.nestingLevels} levels deep`);
  return reports;
}

function isDeeper(value: unknown, maxLevels: number): boolean {
  let values = [value];
  for (let level = 0; level <= maxLevels; level++) {
    values = values.flatMap((one): unknown[] => (isObject(one) || Array.isArray(one) ? Object.values(one) : []));
  }
  return values.length > 0;
}
