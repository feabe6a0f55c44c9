import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { references } from '../scripts/docs/references.ts';

for (const [file, expected] of await references()) {
  test(`${file} is generated from the current sources`, async () => {
    assert.equal(await readFile(file, 'utf8'), expected, `${file} is out of date: npm run docs`);
  });
}
