/** Reads the recorded cases in test/conformance/data. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';

const FOLDER = join(import.meta.dirname, '../../conformance/data');

function read(file: string): string {
  return gunzipSync(readFileSync(join(FOLDER, `${file}.gz`))).toString('utf8');
}

/** Reads a JSON document. */
export function readCases<T>(file: string): T {
  return JSON.parse(read(file)) as T;
}

/** Reads a file with one JSON document per line. */
export function readLines<T>(file: string): readonly T[] {
  return read(file)
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as T);
}

/** Adds a test for all lines of a file. */
export function testLines<T>(file: string, verify: (given: T) => void): void {
  test(file, () => {
    for (const given of readLines<T>(file)) verify(given);
  });
}

/** A case in an area. `productExpect` replaces `expect` where Portcullis deviates from the upstream program. */
export interface Case {
  readonly area: string;
  readonly name: string;
  readonly input: unknown;
  readonly expect: unknown;
  readonly productExpect?: unknown;
}

/** Compares an internal step of the upstream program with the corresponding function in Portcullis. */
export type Area = (given: Case) => void;

/** Creates an area from a check that takes the typed input and result of a case. */
export function area<Input, Expect>(check: (input: Input, expect: Expect) => void): Area {
  return ({ input, expect, productExpect }) => check(input as Input, (productExpect ?? expect) as Expect);
}

/** Adds a suite for each area, with a test for each case. A case in an area without a check fails. */
export function testAreas(cases: readonly Case[], areas: Readonly<Record<string, Area>>): void {
  for (const [name, inArea] of Map.groupBy(cases, (one) => one.area)) {
    test(`${name}: ${inArea.length} cases`, async (t) => {
      const check = areas[name];
      if (check === undefined) throw new Error(`no check of area ${name}`);
      for (const one of inArea) await t.test(one.name, () => check(one));
    });
  }
}

/** The Kubernetes version of the recorded Pod Security verdicts, which `latest` refers to in the cases. */
export const RECORDED_VERSION = 'v1.37';
