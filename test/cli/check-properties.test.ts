import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { checkManifests } from '../../src/cli/check/manifests.ts';
import { FINDING_FORMATS, printFindingTable } from '../../src/cli/output/findings.ts';
import type { Manifests } from '../../src/config/manifests.ts';
import { manifestObjects } from '../../src/config/objects.ts';
import { readDocuments } from '../../src/config/yaml.ts';

const FIELDS =
  `name namespace labels annotations generateName template jobTemplate spec metadata containers initContainers
  ephemeralContainers volumes securityContext hostNetwork hostPID hostUsers os sysctls ports hostPort privileged capabilities add
  drop runAsUser runAsNonRoot seccompProfile appArmorProfile seLinuxOptions type user role procMount windowsOptions hostProcess
  hostPath emptyDir livenessProbe httpGet host lifecycle postStart resources limits __proto__ constructor`.split(/\s+/);

/** Generates values of every type for the fields of pods and workloads. */
const hostile = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(null, true, 0, -1, '', 'x', '__proto__'),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...FIELDS), tie('value'), { maxKeys: 5 }),
  ),
})).value;

function readManifests(text: string): Manifests {
  const { documents, errors } = readDocuments(text, 'f');
  return { documents, errors, objects: documents.flatMap((document) => manifestObjects(document).objects) };
}

test('any object is checked and printed without an exception', () => {
  const kinds = fc.constantFrom(['v1', 'Pod'], ['v1', 'Namespace'], ['apps/v1', 'Deployment'], ['batch/v1', 'CronJob']);
  const settings = {
    level: 'restricted',
    version: 'latest',
    namespaceLabels: {},
    namespace: 'default',
    failOn: 'enforce',
    skippedKinds: [],
    at: new Date(0),
  } as const;
  fc.assert(
    fc.property(kinds, hostile, hostile, ([apiVersion, kind], metadata, spec) => {
      const report = checkManifests(readManifests(JSON.stringify({ apiVersion, kind, metadata, spec })), settings);
      for (const print of Object.values(FINDING_FORMATS)) print(report);
      printFindingTable(report, (_tone, text) => text);
      for (const { fields } of report.objects.flatMap(({ findings }) => findings)) assert.ok(fields.length > 0);
    }),
    { numRuns: 500 },
  );
});
