/** Tests each check with the cases of `test/fixtures/pss-checks/<id>.yaml`, which contain the full message. */
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import type { FieldError } from '../../../src/kube/field-error.ts';
import type { PodLike } from '../../../src/kube/types.ts';
import { minorVersion } from '../../../src/policy/pss/cel-policy.ts';
import {
  checkFix,
  checks,
  compareVersions,
  createEvaluator,
  parseVersion,
  type Version,
} from '../../../src/policy/pss/library.ts';
import { readFixture } from '../../support/fixtures.ts';

const CHECKS = join(import.meta.dirname, '../../../src/policy/pss/checks');

interface CheckCase {
  readonly name: string;
  /** Default: `latest`. */
  readonly version?: Version;
  readonly pod: PodLike;
  /** The expected reason with the detail in parentheses. Empty if the pod passes. */
  readonly expected: string;
  /** The violating fields, each as type, path and value in JSON. */
  readonly fields?: readonly string[];
}

function readCases(id: string): readonly CheckCase[] {
  return readFixture(`pss-checks/${id}.yaml`);
}

for (const check of checks) {
  const { evaluatePod } = createEvaluator([check]);
  for (const { name, version = 'latest', pod, expected, fields } of readCases(check.id)) {
    test(`${check.id} ${version}: ${name}`, () => {
      const result = evaluatePod(pod, { level: check.level, version, fields: true });
      assert.equal(result.detail, expected);
      assert.equal(result.allowed, expected === '');
      if (fields) assert.deepEqual(result.violations.flatMap((violation) => violation.fields ?? []).map(print), fields);
    });
  }
}

function print({ type, path, value }: FieldError): string {
  return `${type} ${path} ${JSON.stringify(value)}`;
}

test('the example pods of a check distinguish its revisions', () => {
  for (const check of checks) {
    const { evaluatePod } = createEvaluator([check]);
    for (const { since } of check.versions) {
      const minor = minorVersion(since);
      const differs = readCases(check.id).some(({ pod }) => {
        const evaluate = (version: Version): string => evaluatePod(pod, { level: check.level, version }).detail;
        return minor === 0 ? evaluate(since) !== '' : evaluate(since) !== evaluate(`v1.${minor - 1}`);
      });
      assert.ok(differs, `${check.id}: no pod has another result since ${since}`);
    }
  }
});

test('each check file exports and registers the check with the name of the file', async () => {
  const letters = (text: string): string => text.replaceAll(/[-_]/g, '').toLowerCase();
  const files = globSync('*.ts', { cwd: CHECKS }).filter((file) => file !== 'index.ts');
  for (const file of files) {
    const exports = Object.values((await import(join(CHECKS, file))) as Record<string, unknown>);
    const registered = checks.filter((check) => exports.includes(check));
    assert.deepEqual(
      registered.map(({ id }) => letters(id)),
      [letters(basename(file, '.ts'))],
      file,
    );
  }
  assert.equal(checks.length, files.length);
});

test('the checks do not contradict each other', () => {
  const levels = new Map(checks.map(({ id, level }) => [id, level]));
  assert.equal(levels.size, checks.length);
  for (const { id, level, versions } of checks) {
    const starts = versions.map(({ since }) => since);
    assert.ok(starts.length > 0 && starts.every((since) => since !== 'latest' && parseVersion(since) === since), id);
    assert.deepEqual(starts, [...new Set(starts)].sort(compareVersions), id);
    for (const other of versions.flatMap(({ overrides = [] }) => overrides)) {
      assert.deepEqual([level, levels.get(other)], ['restricted', 'baseline'], id);
    }
  }
});

test('each check has a one-sentence fix', () => {
  for (const { id, fix } of checks) assert.match(fix, /^[A-Z].{20,130}\.$/, id);
  assert.match(checkFix('decode'), /^[A-Z].*\.$/);
  assert.equal(checkFix('constructor'), '');
});
