/** Recorded results of the end-to-end tests for each minor version of Kubernetes. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export const RESULTS = join(import.meta.dirname, 'results.json');

export interface FileResult {
  readonly passed: number;
  /** The reasons for skipped tests, keyed by test name. */
  readonly skipped: Readonly<Record<string, string>>;
}

export interface VersionResult {
  /** Version of kube-apiserver, such as `v1.30.14`. */
  readonly version: string;
  /** The date of the last run. */
  readonly date: string;
  /** Results by file name without `.test.ts`. */
  readonly files: Readonly<Record<string, FileResult>>;
}

/** Reads the recorded results by minor version, such as `1.30`. */
export function readResults(): Record<string, VersionResult> {
  return JSON.parse(readFileSync(RESULTS, 'utf8')) as Record<string, VersionResult>;
}

/** Matches reasons for skips that depend on missing programs rather than on the version. */
const ENVIRONMENT = /\b(?:kubectl|helm)\b|port \d+/;

/** Returns the result without the tests that are skipped because a program is missing. */
export function withoutEnvironment({ passed, skipped }: FileResult): FileResult {
  return {
    passed,
    skipped: Object.fromEntries(Object.entries(skipped).filter(([, reason]) => !ENVIRONMENT.test(reason))),
  };
}

/** Returns the skipped tests that the recorded results of the version do not contain. */
export function findNewSkips(
  recorded: VersionResult | undefined,
  results: ReadonlyMap<string, FileResult>,
): readonly string[] {
  if (recorded === undefined) return [];
  return [...results].flatMap(([file, result]) =>
    Object.entries(withoutEnvironment(result).skipped)
      .filter(([name]) => recorded.files[file]?.skipped[name] === undefined)
      .map(([name, reason]) => `${file}: "${name}" is skipped, but was not before: ${reason}`),
  );
}
