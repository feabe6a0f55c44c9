import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { references } from '../scripts/docs/references.ts';
import { COMMANDS } from '../src/cli/program.ts';
import { CONTROLLER_NAMES } from '../src/controllers/index.ts';
import { WEBHOOK_REGISTRATIONS } from '../src/server/webhooks/index.ts';

for (const [file, expected] of await references()) {
  test(`${file} is generated from the current sources`, async () => {
    assert.equal(await readFile(file, 'utf8'), expected, `${file} is out of date: npm run docs`);
  });
}

const reference = await readFile('docs/reference.md', 'utf8');

for (const { name } of COMMANDS) {
  test(`docs/reference.md has a row for the command ${name}`, () => {
    const [first = '', second = ''] = name.split(' ');
    assert.match(reference, new RegExp(`^\\| \`portcullis ${first}[ \`][^\`]*${second}.* \\|$`, 'm'));
  });
}

for (const path of new Set(WEBHOOK_REGISTRATIONS.map((webhook) => webhook.path))) {
  test(`docs/reference.md has a row for the endpoint ${path}`, () => {
    assert.match(reference, new RegExp(`^\\| .*\`POST ${path}\`.* \\|$`, 'm'));
  });
}

for (const name of CONTROLLER_NAMES) {
  test(`docs/reference.md describes the controller ${name}`, () => assert.ok(reference.includes(`**\`${name}\`**`)));
}
