/** The conformance data: cases that upstream and OpenShift have answered. `PORTCULLIS_CONFORMANCE` is its folder. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';

const FOLDER = process.env['PORTCULLIS_CONFORMANCE'] ?? '../shared/conformance';

/** The `skip` option of tests that need the data. */
export const skip = existsSync(FOLDER) ? false : `no conformance data in ${FOLDER}`;

/** Reads a JSON file of the data. Without the data it returns the fallback. */
export function readCases<T>(file: string, fallback: T): T {
  return skip === false ? (JSON.parse(readFileSync(join(FOLDER, file), 'utf8')) as T) : fallback;
}

/** Reads a file with one JSON document per line, compressed if its name ends in `.gz`. Without the data it is empty. */
export function readLines<T>(file: string): readonly T[] {
  if (skip !== false) return [];
  const bytes = readFileSync(join(FOLDER, file));
  const text = (file.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString('utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as T);
}

/** One test for all lines of a file. */
export function testLines<T>(file: string, verify: (given: T) => void): void {
  test(file, { skip }, () => {
    for (const given of readLines<T>(file)) verify(given);
  });
}

/** One case of an area. `productExpect` replaces `expect` where Portcullis deviates from the original. */
export interface Case {
  readonly area: string;
  readonly name: string;
  readonly input: unknown;
  readonly expect: unknown;
  readonly productExpect?: unknown;
}

/** Compares an internal step of the original with the corresponding function of Portcullis. */
export type Area = (given: Case) => void;

/** Creates an area from a check of the typed input and result of its cases. */
export function area<Input, Expect>(check: (input: Input, expect: Expect) => void): Area {
  return ({ input, expect, productExpect }) => check(input as Input, (productExpect ?? expect) as Expect);
}

/** One suite per area, with one test per case. A case of an area without a check fails. */
export function testAreas(cases: readonly Case[], areas: Readonly<Record<string, Area>>): void {
  for (const [name, inArea] of Map.groupBy(cases, (one) => one.area)) {
    test(`${name}: ${inArea.length} cases`, async (t) => {
      const check = areas[name];
      if (check === undefined) throw new Error(`no check of area ${name}`);
      for (const one of inArea) await t.test(one.name, () => check(one));
    });
  }
}
