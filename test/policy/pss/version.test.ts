import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { compareVersions, isLevel, parseVersion, type Version } from '../../../src/policy/pss/index.ts';

const VERSIONS: readonly [text: string, valid: boolean][] = [
  ['latest', true],
  ['v1.0', true],
  ['v1.30', true],
  ['v1.999', true],
  ['v1.9223372036854775807', true],
  ['v1.9223372036854775808', false],
  ['v1.10000000000000000000', false],
  ['v1.05', false],
  ['v1.00', false],
  ['1.25', false],
  ['v1', false],
  ['v1.', false],
  ['v1.-1', false],
  ['v1.25.3', false],
  ['v2.0', false],
  ['V1.25', false],
  ['Latest', false],
  ['v1.25 ', false],
  ['v1.25\n', false],
  ['v1.٣', false],
  ['', false],
];

for (const [text, valid] of VERSIONS) {
  test(`${JSON.stringify(text)} is ${valid ? 'a version' : 'no version'}`, () => {
    assert.equal(parseVersion(text), valid ? text : undefined);
  });
}

const RISING: readonly Version[] = [
  'v1.0',
  'v1.9',
  'v1.10',
  'v1.37',
  'v1.9223372036854775806',
  'v1.9223372036854775807',
  'latest',
];

test('versions compare by number, and latest is the newest', () => {
  RISING.forEach((a, i) =>
    RISING.forEach((b, j) => assert.equal(Math.sign(compareVersions(a, b)), Math.sign(i - j), `${a} and ${b}`)),
  );
});

test('versions compare as their numbers do', () => {
  const version = fc.nat().map((minor): Version => `v1.${minor}`);
  fc.assert(
    fc.property(version, version, (a, b) => {
      const numbers = Number(a.slice(3)) - Number(b.slice(3));
      assert.equal(Math.sign(compareVersions(a, b)), Math.sign(numbers));
    }),
  );
});

const LEVELS: readonly [value: unknown, valid: boolean][] = [
  ['privileged', true],
  ['baseline', true],
  ['restricted', true],
  ['Restricted', false],
  ['restricted ', false],
  ['', false],
  ['constructor', false],
  [undefined, false],
  [null, false],
];

for (const [value, valid] of LEVELS) {
  test(`${JSON.stringify(value)} is ${valid ? 'a level' : 'no level'}`, () => assert.equal(isLevel(value), valid));
}
