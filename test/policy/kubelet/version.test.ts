import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  compareKubeletVersions,
  parseKubeletVersion,
  parseSemanticVersion,
} from '../../../src/policy/kubelet/version.ts';

const LONG = '9'.repeat(21);

/** Invalid versions that the recorded cases do not contain. */
const INVALID: readonly (readonly [text: string, error: string])[] = [
  ['v', 'Version string empty'],
  ['1.30.18446744073709551616', 'strconv.ParseUint: parsing "18446744073709551616": value out of range'],
  [`1.30.0-${LONG}`, `strconv.ParseUint: parsing "${LONG}": value out of range`],
];

for (const [text, error] of INVALID) {
  test(`parseKubeletVersion rejects ${text}`, () => assert.deepEqual(parseKubeletVersion(text), { error }));
}

test('kubelet versions are compared numerically', () => {
  const order = ['1.9.0', '1.29.8', '1.30.0', '1.30.1', '1.30.10', '1.100.0', '2.0.0', '2.0.18446744073709551615'];
  const versions = order
    .map((text) => parseSemanticVersion(text))
    .flatMap((parsed) => ('value' in parsed ? [parsed.value] : []));
  assert.equal(versions.length, order.length);
  assert.deepEqual(
    versions
      .toReversed()
      .sort(compareKubeletVersions)
      .map((version) => version.join('.')),
    order,
  );
});
