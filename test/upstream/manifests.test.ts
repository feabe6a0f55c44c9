/** Compares the reader of manifests with kubectl's reader, which the program in `manifests/` contains. Requires Go. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { suite, test } from 'node:test';
import { readSteps } from '../../src/config/yaml.ts';
import { createTexts } from './manifest-texts.ts';

const COUNT = 2000;

const hasGo = spawnSync('go', ['version'], { stdio: 'ignore' }).status === 0;

/** The values before the first error, and the error, if any. */
interface Reading {
  readonly values: readonly unknown[];
  readonly error?: string;
}

function readWithKubectl(texts: readonly string[]): readonly Reading[] {
  const { status, stdout, stderr } = spawnSync('go', ['run', './manifests'], {
    cwd: import.meta.dirname,
    input: texts.map((text) => JSON.stringify(text)).join('\n'),
    encoding: 'utf8',
    maxBuffer: 256 * 1024 * 1024,
  });
  assert.equal(status, 0, stderr);
  const lines = stdout.trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as Reading);
}

function readHere(text: string): Reading {
  const values: unknown[] = [];
  for (const { document, error } of readSteps(text, 'text')) {
    if (error) return { values, error: error.message };
    if (document) values.push(document.value);
  }
  return { values };
}

suite('readDocuments and kubectl', { skip: !hasGo && 'Go is not installed' }, () => {
  for (const seed of [1, randomInt(2 ** 31)]) {
    test(`give the same result for ${COUNT} generated texts (seed ${seed})`, () => {
      const texts = createTexts(COUNT, seed);
      const expected = readWithKubectl(texts);
      const differences = texts.flatMap((text, index) => {
        const [kubectl, here] = [expected[index] ?? assert.fail(), readHere(text)];
        return formatOutcome(kubectl) === formatOutcome(here) ? [] : [{ text, kubectl, here }];
      });
      assert.deepEqual(differences, []);
    });
  }
});

/** Formats the values with sorted keys, and whether there is an error. JSON does not distinguish -0 from 0. */
function formatOutcome({ values, error }: Reading): string {
  return `${JSON.stringify(values.map(sortKeys))}${error === undefined ? '' : ' and an error'}`;
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== 'object' || value === null) return value;
  const sorted = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(sorted.map(([key, member]) => [key, sortKeys(member)]));
}
