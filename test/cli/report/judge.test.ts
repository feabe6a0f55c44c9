import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { manifestObjects, type Manifests } from '../../../src/config/manifests.ts';
import { readDocuments } from '../../../src/config/yaml.ts';
import { parseFieldPath, judge } from '../../../src/cli/check/judge.ts';
import { FORMATS, printTable } from '../../../src/cli/commands/check.ts';
import { PLAIN } from '../../../src/cli/output/print.ts';

function manifestsOf(text: string): Manifests {
  const { documents, errors } = readDocuments(text, 'f');
  return { documents, errors, objects: documents.flatMap((document) => manifestObjects(document).objects) };
}

const SETTINGS = {
  level: 'restricted',
  version: 'latest',
  namespaceLabels: {},
  namespace: 'default',
  failOn: 'enforce',
} as const;

const paths: readonly (readonly [path: string, expected: readonly (string | number)[]])[] = [
  ['', []],
  ['spec', ['spec']],
  ['spec.containers[0].ports[12].hostPort', ['spec', 'containers', 0, 'ports', 12, 'hostPort']],
  [
    'metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]',
    ['metadata', 'annotations', 'container.apparmor.security.beta.kubernetes.io/c'],
  ],
  ['metadata.annotations[__proto__]', ['metadata', 'annotations', '__proto__']],
];

describe('parseFieldPath', () => {
  for (const [path, expected] of paths) {
    test(JSON.stringify(path), () => assert.deepEqual(parseFieldPath(path), expected));
  }
});

const FIELDS =
  `name namespace labels annotations generateName template jobTemplate spec metadata containers initContainers
  ephemeralContainers volumes securityContext hostNetwork hostPID hostUsers os sysctls ports hostPort privileged capabilities add
  drop runAsUser runAsNonRoot seccompProfile appArmorProfile seLinuxOptions type user role procMount windowsOptions hostProcess
  hostPath emptyDir livenessProbe httpGet host lifecycle postStart resources limits __proto__ constructor`.split(/\s+/);

/** Values of every type in the places where pods and workloads have theirs. */
const hostile = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(null, true, 0, -1, '', 'x', '__proto__'),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...FIELDS), tie('value'), { maxKeys: 5 }),
  ),
})).value;

describe('judge', () => {
  test('never fails, whatever an object holds', () => {
    const kind = fc.constantFrom(
      ['v1', 'Pod'],
      ['v1', 'Namespace'],
      ['apps/v1', 'Deployment'],
      ['batch/v1', 'CronJob'],
    );
    fc.assert(
      fc.property(kind, hostile, hostile, ([apiVersion, kind], metadata, spec) => {
        const report = judge(manifestsOf(JSON.stringify({ apiVersion, kind, metadata, spec })), SETTINGS);
        for (const print of Object.values(FORMATS)) print(report);
        printTable(report, PLAIN);
        for (const { fields } of report.judgements.flatMap(({ findings }) => findings)) assert.ok(fields.length > 0);
      }),
      { numRuns: 500 },
    );
  });
});
