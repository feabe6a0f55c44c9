import { join, relative } from 'node:path';
import { run } from 'node:test';
import { spec as Spec } from 'node:test/reporters';
import type { Row } from './tables.ts';

export interface RunResults {
  /** True if no test, suite or file failed. */
  readonly success: boolean;
  readonly passed: number;
  readonly failed: number;
  readonly skips: readonly Skip[];
  readonly failures: readonly Failure[];
  /** The number of passed tests by path. Does not contain failed files. */
  readonly passedFiles: ReadonlyMap<string, number>;
  readonly failedFiles: ReadonlySet<string>;
  /** The rows that tests printed with `t.diagnostic('| … | … |')`. */
  readonly rows: readonly Row[];
}

/** A skipped test or suite. */
export interface Skip {
  readonly file: string;
  readonly name: string;
  readonly reason: string;
}

/** A failed test, or a suite or file that failed outside its tests. */
export interface Failure {
  readonly file: string;
  readonly name: string;
  readonly message: string;
}

/**
 * Runs test files in the working directory, prints their output, and resolves to the results.
 * @param timeout maximum duration of a file in milliseconds
 */
export async function runFiles(
  files: readonly string[],
  concurrency: number,
  timeout = 20 * 60_000,
): Promise<RunResults> {
  if (files.length === 0) throw new Error('there are no test files');
  const passedFiles = new Map<string, number>();
  const failedFiles = new Set<string>();
  const skips: Skip[] = [];
  const failures: Failure[] = [];
  const rows: Row[] = [];
  const totals = { success: false, passed: 0, failed: 0 };
  const relativePath = (file = ''): string => relative(process.cwd(), file);
  const stream = run({ files: files.map((file) => join(process.cwd(), file)), concurrency, timeout });
  stream.on('test:diagnostic', ({ message }) => {
    if (message.startsWith('| ')) rows.push(message.slice(2, -2).split(' | '));
  });
  stream.on('test:fail', ({ file, name, details: { error } }) => {
    failedFiles.add(relativePath(file));
    const { failureType, cause } = error as Error & { readonly failureType?: string };
    if (failureType === 'subtestsFailed') return;
    failures.push({ file: relativePath(file), name, message: cause instanceof Error ? cause.message : String(cause) });
  });
  stream.on('test:pass', ({ file, name, skip, details }) => {
    const path = relativePath(file);
    const isSkipped = skip !== undefined && skip !== false;
    if (isSkipped) skips.push({ file: path, name, reason: String(skip) });
    const isTest = details.type !== 'suite' && !isSkipped;
    passedFiles.set(path, (passedFiles.get(path) ?? 0) + (isTest ? 1 : 0));
  });
  stream.on('test:summary', ({ file, success, counts }) => {
    // Each file also has a summary.
    if (file !== undefined) return;
    totals.success = success;
    totals.passed = counts.passed;
    totals.failed = counts.tests - counts.passed - counts.skipped - counts.todo;
  });
  for await (const text of stream.compose(new Spec()) as AsyncIterable<unknown>) process.stdout.write(String(text));
  for (const file of failedFiles) passedFiles.delete(file);
  return { ...totals, skips, failures, passedFiles, failedFiles, rows };
}
