/** Tests checks of SCCs, SCC modes of namespaces, and unknown fields. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { printYaml } from '../../../src/config/yaml.ts';
import { STANDARD_SCCS } from '../../../src/policy/scc/index.ts';
import { runProgram } from '../../support/memory-io.ts';

describe('check accepts or reports the SCC mode label of a namespace with', () => {
  const rule = 'must be one of enforce, report, off';
  const fix = '                        Fix: Use one of enforce, report, off, in lower case.\n\n';
  const title = 'Namespace a has an invalid SCC mode (warn)\n  stdin:6:5  scc-label  invalid label';
  const unknown = `label portcullis.dev/scc: unknown mode "Report", using "enforce"; ${rule}`;
  const mistyped = `Namespace a is invalid
  stdin:6:5  decode  wrong type (metadata.labels[portcullis.dev/scc]: Invalid value: false: must be a string)
                     Fix: Put the value in quotes.
`;
  const cases: readonly (readonly [name: string, label: string, code: number, stdout: string])[] = [
    ['a valid mode', '"off"', 0, '1 passed, 0 failed\n'],
    [
      'an invalid mode, for which Portcullis uses enforce',
      'Report',
      0,
      `${title} (${unknown})\n${fix}0 passed, 0 failed, 1 with warnings\n`,
    ],
    ['a mode of a type that the API server rejects', 'off', 1, `${mistyped}\n0 passed, 1 failed\n`],
  ];
  for (const [name, label, code, stdout] of cases) {
    test(name, async () => {
      const stdin = `apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels:\n    portcullis.dev/scc: ${label}\n`;
      assert.deepEqual(await runProgram(['check', '-f', '-'], { stdin }), { code, stdout, stderr: '' });
    });
  }
});

test('the standard SCCs have no findings', async () => {
  const stdin = printYaml(STANDARD_SCCS.map(({ scc }) => scc));
  const { code, stdout } = await runProgram(['check', '-f', '-'], { stdin });
  assert.equal(stdout, `${STANDARD_SCCS.length} passed, 0 failed\n`);
  assert.equal(code, 0);
});

const SCC = '{"apiVersion":"security.openshift.io/v1","kind":"SecurityContextConstraints","metadata":{"name":"a"}';
const RIGHT = '"runAsUser":{"type":"RunAsAny"},"seLinuxContext":{"type":"RunAsAny"}';

const UNUSABLE = `${SCC},"runAsUser":{"type":"MustRunAs"},"seLinuxContext":{"type":"RunAsAny"}}`;

const codes: readonly (readonly [name: string, scc: string, code: number, ...args: string[]])[] = [
  ['a valid SCC', `${SCC},${RIGHT}}`, 0],
  ['an SCC with an unknown field', `${SCC},${RIGHT},"x":null}`, 1],
  ['an SCC with the key __proto__', `${SCC},${RIGHT},"__proto__":{}}`, 1],
  ['an SCC with a field of the wrong type', `${SCC},${RIGHT},"users":"a"}`, 1],
  ['an SCC with a number that does not fit in 32 bits', `${SCC},${RIGHT},"priority":3000000000}`, 1],
  ['an SCC without a required field', `${SCC},"seLinuxContext":{"type":"RunAsAny"}}`, 1],
  ['an SCC that admits no pod', UNUSABLE, 0],
  ['an SCC that admits no pod, with --fail-on=warn', UNUSABLE, 1, '--fail-on=warn'],
  [
    'an SCC with fields that are null',
    `${SCC},${RIGHT},"priority":null,"fsGroup":null,"allowHostPID":null,"users":null}`,
    0,
  ],
  ['an SCC without a name', `${SCC.replace('"name":"a"', '')},${RIGHT}}`, 1],
];

test('an SCC with the largest 64-bit ID is valid', async () => {
  const uidRange = '"runAsUser":{"type":"MustRunAsRange","uidRangeMin":1,"uidRangeMax":9223372036854775807}';
  const stdin = `${SCC},${uidRange},"seLinuxContext":{"type":"RunAsAny"}}`;
  const { code, stdout } = await runProgram(['check', '-f', '-'], { stdin });
  assert.deepEqual([code, /invalid/.test(stdout)], [0, false], stdout);
});

describe('the exit code of check', () => {
  for (const [name, scc, code, ...args] of codes) {
    test(`is ${code} for ${name}`, async () => {
      const outcome = await runProgram(['check', '-f', '-', ...args], { stdin: scc });
      assert.equal(outcome.code, code, outcome.stdout);
    });
  }
});

test('check warns about SCC values that match nothing', async () => {
  const lists =
    '"volumes":["secret","configmap","disk"],"allowedCapabilities":["CAP_NET_ADMIN"],"seccompProfiles":["RuntimeDefault"]';
  const stdin = `${SCC},${RIGHT},${lists},"users":["system:serviceaccount:payments"]}`;
  const { code, stdout } = await runProgram(['check', '-f', '-'], { stdin });
  assert.equal(code, 0);
  assert.equal(
    stdout.replaceAll(/^ +stdin:1:\d+ +/gm, '').replaceAll(/^ +Fix/gm, 'Fix'),
    `SecurityContextConstraints a has values that match nothing (warn)
mistyped  mistyped value (volumes[1]: "configmap" is not a volume type)
Fix: Write "configMap".
mistyped  mistyped value (volumes[2]: "disk" is not a volume type)
Fix: Use a pod volume type.
mistyped  mistyped value (allowedCapabilities[0]: "CAP_NET_ADMIN" is not a capability name)
Fix: Write "NET_ADMIN".
mistyped  mistyped value (seccompProfiles[0]: "RuntimeDefault" is not a seccomp profile)
Fix: Write "runtime/default".
mistyped  mistyped value (users[0]: "system:serviceaccount:payments" is not a service account (system:serviceaccount:NAMESPACE:NAME))
Fix: Use the namespace and the name of the service account.

0 passed, 0 failed, 1 with warnings
`,
  );
});

describe('check suggests a similar field for an unknown SCC field', () => {
  const drop = 'Correct the name or remove the field: API servers may drop it silently.';
  const cases: readonly (readonly [name: string, suggestion: string | undefined])[] = [
    ['allowHostNetworks', 'allowHostNetwork'],
    ['AllowHostNetwork', 'allowHostNetwork'],
    ['allowHostPort', 'allowHostPorts'],
    ['alowHostPorts', 'allowHostPorts'],
    ['user', 'users'],
    ['colour', undefined],
    ['__proto__', undefined],
    ['x'.repeat(100_000), undefined],
  ];
  for (const [name, suggestion] of cases) {
    test(name.slice(0, 40), async () => {
      const stdin = `{"apiVersion":"security.openshift.io/v1","kind":"SecurityContextConstraints","metadata":{"name":"a"},${JSON.stringify(name)}:1}`;
      const { stdout } = await runProgram(['check', '-f', '-', '-o', 'json'], { stdin });
      const report = JSON.parse(stdout) as { objects: { findings: { check: string; fix: string }[] }[] };
      const findings = report.objects.flatMap(({ findings }) => findings);
      const fixes = findings.filter(({ check }) => check === 'unknownField').map(({ fix }) => fix);
      assert.deepEqual(fixes, [suggestion === undefined ? drop : `Write "${suggestion}".`]);
    });
  }
});
