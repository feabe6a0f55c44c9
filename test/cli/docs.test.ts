import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { runProgram } from '../support/memory-io.ts';

// Examples in documents are run where users run them.
process.chdir(join(import.meta.dirname, '../..'));

/** Commands of the program in a document, each with its output and, if the document contains it, its exit code. */
const BLOCK = /```console\n\$ portcullis (.*)\n([^]*?)(?:\$ echo \$\?\n(\d)\n)?```/g;

for (const file of (await readdir('docs')).filter((name) => name.endsWith('.md'))) {
  const text = await readFile(join('docs', file), 'utf8');
  const blocks = [...text.matchAll(BLOCK)];
  if (blocks.length === 0) continue;
  describe(`docs/${file} shows the output of the program`, () => {
    for (const [, command = '', output, code] of blocks) {
      test(`portcullis ${command}`, async () => {
        const outcome = await runProgram(command.split(' '));
        assert.equal(outcome.stdout, output);
        if (code !== undefined) assert.equal(outcome.code, Number(code));
      });
    }
  });
}
