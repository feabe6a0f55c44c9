import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { similarTo } from '../../../src/cli/check/judge.ts';

const FIELDS = ['allowHostNetwork', 'allowHostPorts', 'allowHostPID', 'allowHostIPC', 'users', 'uid', 'min', 'max'];

const cases: readonly (readonly [name: string, expected: string | undefined])[] = [
  ['allowHostNetworks', 'allowHostNetwork'],
  ['AllowHostNetwork', 'allowHostNetwork'],
  ['allowhostpid', 'allowHostPID'],
  ['allowHostPort', 'allowHostPorts'],
  ['alowHostPort', 'allowHostPorts'],
  ['user', 'users'],
  ['uids', 'uid'],
  ['mim', 'min'],
  ['mi', undefined],
  ['', undefined],
  ['colour', undefined],
  ['__proto__', undefined],
  ['x'.repeat(1_000_000), undefined],
];

describe('what was probably meant', () => {
  for (const [name, expected] of cases) {
    test(name.slice(0, 40), () => assert.equal(similarTo(name, FIELDS), expected));
  }
});
