import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { runProgram } from '../support/memory-io.ts';

// Examples in documents are run where users run them.
process.chdir(join(import.meta.dirname, '../..'));

/** Commands of the program in a document, each with what it prints and, where that is shown, its exit code. */
const BLOCK = /```console\n\$ portcullis (.*)\n([^]*?)(?:\$ echo \$\?\n(\d)\n)?```/g;

describe('docs/check.md shows what the program prints', async () => {
  const text = await readFile('docs/check.md', 'utf8');
  for (const [, command = '', output, code] of text.matchAll(BLOCK)) {
    test(`portcullis ${command}`, async () => {
      const outcome = await runProgram(command.split(' '));
      assert.equal(outcome.stdout, output);
      if (code !== undefined) assert.equal(outcome.code, Number(code));
    });
  }
});
