import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, test } from 'node:test';
import { checkFix, evaluatePod, checks, type Level, type Version } from '../../../src/policy/pss/index.ts';
import { parsePod } from './cases.ts';

const FIXTURES = join(import.meta.dirname, '../../fixtures/pss');
const CHECKS = join(import.meta.dirname, '../../../src/policy/pss/checks');

describe('each revision of each check has pods that pass and pods that fail', () => {
  for (const { id, level, versions } of checks) {
    for (const { since } of versions) {
      for (const verdict of ['pass', 'fail']) {
        const file = join(FIXTURES, level, since, verdict, `${id}-1.yaml`);
        test(`${level}/${since}/${verdict}/${id}`, () => assert.ok(existsSync(file), `missing ${file}`));
      }
    }
  }
});

describe('each fixture passes its level and version, or fails by its check alone', () => {
  for (const file of globSync('**/*.yaml', { cwd: FIXTURES })) {
    const [level = '', version = '', verdict = '', name = ''] = file.split('/');
    const id = name.replace(/-\d+\.yaml$/, '');
    test(file, () => {
      const check = checks.find((candidate) => candidate.id === id && candidate.level === level);
      assert.ok(
        check?.versions.some(({ since }) => since === version),
        'is of no revision of a registered check',
      );
      const pod = parsePod(readFileSync(join(FIXTURES, file), 'utf8'));
      const { violations } = evaluatePod(pod, { level: level as Level, version: version as Version });
      assert.deepEqual(
        violations.map((violation) => violation.check),
        verdict === 'pass' ? [] : [id],
      );
    });
  }
});

test('each file with a check is registered once', async () => {
  const files = globSync('*.ts', { cwd: CHECKS }).filter((file) => file !== 'index.ts');
  for (const file of files) {
    const exports = Object.values((await import(join(CHECKS, file))) as Record<string, unknown>);
    const registered = checks.filter((check) => exports.includes(check));
    assert.equal(registered.length, 1, `${file} exports one check, and checks/index.ts lists it once`);
  }
  assert.equal(checks.length, files.length);
});

test('each file is named as its check, and has a test', () => {
  const letters = (text: string): string => text.replaceAll(/[-_]/g, '').toLowerCase();
  const files = globSync('*.ts', { cwd: CHECKS }).map((file) => basename(file, '.ts'));
  for (const { id } of checks) {
    const file = files.find((candidate) => letters(candidate) === letters(id));
    assert.ok(file, `no file is named as ${id}`);
    assert.ok(existsSync(join(import.meta.dirname, 'checks', `${file}.test.ts`)), `${file} has no test`);
  }
});

test('each check has a fix of one sentence', () => {
  for (const { id, fix } of checks) assert.match(fix ?? '', /^[A-Z].{20,130}\.$/, id);
  assert.match(checkFix('decode'), /^[A-Z].*\.$/);
  assert.equal(checkFix('constructor'), '');
});
