import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compareKubeletVersions, parseKubeletVersion, parseVersion } from '../../../src/policy/kubelet/version.ts';

describe('invalid versions', () => {
  const cases: readonly (readonly [text: string, error: string])[] = [
    ['', 'Version string empty'],
    ['v', 'Version string empty'],
    ['bogus', 'No Major.Minor.Patch elements found'],
    ['v1.30', 'No Major.Minor.Patch elements found'],
    ['vv1.30.0', 'Invalid character(s) found in major number "v1"'],
    ['V1.30.0', 'Invalid character(s) found in major number "V1"'],
    ['1.x.0', 'Invalid character(s) found in minor number "x"'],
    ['1.30.0.1', 'Invalid character(s) found in patch number "0.1"'],
    ['01.30.0', 'Major number must not contain leading zeroes "01"'],
    ['1..0', 'strconv.ParseUint: parsing "": invalid syntax'],
    ['1.30.18446744073709551616', 'strconv.ParseUint: parsing "18446744073709551616": value out of range'],
    ['1.30.0-', 'Prerelease is empty'],
    ['1.30.0-rc..1', 'Prerelease is empty'],
    ['1.30.0-01', 'Numeric PreRelease version must not contain leading zeroes "01"'],
    ['1.30.0-rc_1', 'Invalid character(s) found in prerelease "rc_1"'],
    [`1.30.0-${'9'.repeat(21)}`, `strconv.ParseUint: parsing "${'9'.repeat(21)}": value out of range`],
    ['1.30.0+', 'Build meta data is empty'],
    ['1.30.0+a_b', 'Invalid character(s) found in build meta data "a_b"'],
  ];
  for (const [text, error] of cases) {
    test(JSON.stringify(text.slice(0, 30)), () => assert.deepEqual(parseKubeletVersion(text), { error }));
  }

  test('parseVersion accepts no prefix', () => {
    const error = 'Invalid character(s) found in major number "v1"';
    assert.deepEqual(parseVersion('v1.30.0'), { error });
  });
});

test('pre-releases and builds do not count', () => {
  for (const text of [
    '1.30.0',
    'v1.30.0',
    'v1.30.0-rc.1',
    'v1.30.0+k3s1',
    'v1.30.0-alpha.1+dirty',
    'v1.30.0-eks-a55',
  ]) {
    const parsed = parseKubeletVersion(text);
    assert.equal('value' in parsed && parsed.value.join('.'), '1.30.0', text);
  }
});

test('versions are compared by number', () => {
  const order = ['1.9.0', '1.29.8', '1.30.0', '1.30.1', '1.30.10', '1.100.0', '2.0.0', '2.0.18446744073709551615'];
  const versions = order
    .map((text) => parseVersion(text))
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
