/**
 * Each check against two sets of fixtures: `pss-checks/<id>.yaml` has cases with the full message, and `pss/` has pods
 * that comply with a level and version, or violate one check of it only.
 */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import type { FieldError } from '../../../src/kube/field-error.ts';
import type { PodLike } from '../../../src/kube/types.ts';
import {
  checkFix,
  checks,
  compareVersions,
  createEvaluator,
  evaluatePod,
  parseVersion,
  type Level,
  type Version,
} from '../../../src/policy/pss/index.ts';

const FIXTURES = join(import.meta.dirname, '../../fixtures');
const CHECKS = join(import.meta.dirname, '../../../src/policy/pss/checks');

interface CheckCase {
  readonly name: string;
  /** Default: `latest`. */
  readonly version?: Version;
  readonly pod: PodLike;
  /** The reason with the detail in parentheses; empty if the pod passes. */
  readonly expected: string;
  /** The offending fields, each as type, path and value in JSON. */
  readonly fields?: readonly string[];
}

for (const check of checks) {
  const { evaluatePod: evaluate } = createEvaluator([check]);
  const file = `pss-checks/${check.id}.yaml`;
  const exists = existsSync(join(FIXTURES, file));
  test(file, () => assert.ok(exists, `missing ${file}`));
  const cases = exists ? (readYaml(file) as readonly CheckCase[]) : [];
  for (const { name, version = 'latest', pod, expected, fields } of cases) {
    test(`${check.id} ${version}: ${name}`, () => {
      const result = evaluate(pod, { level: check.level, version, fields: true });
      assert.equal(result.detail, expected);
      assert.equal(result.allowed, expected === '');
      if (fields) assert.deepEqual(result.violations.flatMap((violation) => violation.fields ?? []).map(print), fields);
    });
  }
}

function readYaml(file: string): unknown {
  return parse(readFileSync(join(FIXTURES, file), 'utf8'));
}

function print({ type, path, value }: FieldError): string {
  return `${type} ${path} ${JSON.stringify(value)}`;
}

describe('each revision of each check has pods that pass and pods that fail', () => {
  for (const { id, level, versions } of checks) {
    for (const { since } of versions) {
      for (const verdict of ['pass', 'fail']) {
        const file = `pss/${level}/${since}/${verdict}/${id}-1.yaml`;
        test(file, () => assert.ok(existsSync(join(FIXTURES, file)), `missing ${file}`));
      }
    }
  }
});

describe('each pod passes its level and version, or fails by its check alone', () => {
  for (const file of globSync('pss/**/*.yaml', { cwd: FIXTURES })) {
    const [, level = '', version = '', verdict = '', name = ''] = file.split('/');
    const id = name.replace(/-\d+\.yaml$/, '');
    test(file, () => {
      const check = checks.find((candidate) => candidate.id === id && candidate.level === level);
      assert.ok(
        check?.versions.some(({ since }) => since === version),
        'belongs to no revision of a registered check',
      );
      const { violations } = evaluatePod(readYaml(file) as PodLike, {
        level: level as Level,
        version: version as Version,
      });
      assert.deepEqual(
        violations.map((violation) => violation.check),
        verdict === 'pass' ? [] : [id],
      );
    });
  }
});

test('each file of a check has the name of the check, exports one check, and is registered once', async () => {
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

test('each check has a fix of one sentence', () => {
  for (const { id, fix } of checks) assert.match(fix ?? '', /^[A-Z].{20,130}\.$/, id);
  assert.match(checkFix('decode'), /^[A-Z].*\.$/);
  assert.equal(checkFix('constructor'), '');
});
