/** Tests Pod Security labels and annotations without effect, in `check` and `explain namespace`. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { runProgram } from '../../support/memory-io.ts';

const PREFIX = 'pod-security.kubernetes.io';
const ALL = `Use enforce, enforce-version, audit, audit-version, warn, warn-version after ${PREFIX}/, or remove the key.`;
const ONLY_NAMESPACES = (kind: string): string =>
  `Set the label "${PREFIX}/enforce" of the namespace, because ${kind} objects have no Pod Security level.`;

function namespace(metadata: string): string {
  return `apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, ${metadata}}\n`;
}

function deployment(metadata: string, template: string): string {
  return `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, ${metadata}}
spec: {template: {metadata: {${template}labels: {a: b}}, spec: {containers: [{ name: c, image: i }]}}, selector: {matchLabels: {a: b}}}
`;
}

describe('check reviews Pod Security labels and annotations of', () => {
  const cases: readonly (readonly [name: string, text: string, finding: string | undefined])[] = [
    [
      'a Namespace with valid labels, without a warning',
      namespace(`labels: {${PREFIX}/enforce: baseline, ${PREFIX}/warn-version: v1.30}`),
      undefined,
    ],
    [
      'a Namespace with a key that has another prefix, without a warning',
      namespace('annotations: {security.kubernetes.io/enforce: baseline}'),
      undefined,
    ],
    [
      'a Namespace with an annotation instead of a label, with a warning',
      namespace(`annotations: {${PREFIX}/enforce: baseline}`),
      `3:38 annotation without effect ("${PREFIX}/enforce") Set it as the label "${PREFIX}/enforce", because API servers do not read annotations.`,
    ],
    [
      'a Namespace with an unknown label, with a warning',
      namespace(`labels: {${PREFIX}/level: baseline}`),
      `3:33 label without effect ("${PREFIX}/level") ${ALL}`,
    ],
    [
      'a Namespace with a label in other capitalization, with a warning',
      namespace(`labels: {${PREFIX}/Enforce: baseline}`),
      `3:33 label without effect ("${PREFIX}/Enforce") Write "${PREFIX}/enforce".`,
    ],
    [
      'a Namespace with a misspelled prefix, with a warning',
      namespace('labels: {podsecurity.kubernetes.io/enforce: baseline}'),
      `3:33 label without effect ("podsecurity.kubernetes.io/enforce") Write "${PREFIX}/enforce".`,
    ],
    [
      'a workload with a label, with a warning',
      deployment(`labels: {${PREFIX}/enforce: privileged}`, ''),
      `3:49 label without effect ("${PREFIX}/enforce") ${ONLY_NAMESPACES('Deployment')}`,
    ],
    [
      'a pod template with an annotation, with a warning',
      deployment('', `annotations: {${PREFIX}/enforce: privileged}, `),
      `4:44 annotation without effect ("${PREFIX}/enforce") ${ONLY_NAMESPACES('Deployment')}`,
    ],
    [
      'a Project with an unknown label, with a warning',
      namespace(`labels: {${PREFIX}/enforced: baseline}`).replace(
        'v1\nkind: Namespace',
        'project.openshift.io/v1\nkind: Project',
      ),
      `3:33 label without effect ("${PREFIX}/enforced") Write "${PREFIX}/enforce".`,
    ],
  ];
  for (const [name, stdin, finding] of cases) {
    test(name, async () => {
      const { code, stdout } = await runProgram(['check', '-f', '-', '-o', 'json', '--level=privileged'], { stdin });
      const { objects } = JSON.parse(stdout) as {
        readonly objects: readonly { readonly findings: readonly Readonly<Record<string, string>>[] }[];
      };
      const found = objects.flatMap((object) => object.findings);
      assert.deepEqual(
        found.map(({ mode, check, reason, detail, fix, fields }) => {
          const [{ line, column } = {}] = fields as unknown as readonly Readonly<Record<string, number>>[];
          return `${mode} ${check} ${line}:${column} ${reason} (${detail}) ${fix}`;
        }),
        finding === undefined ? [] : [`warn labels ${finding}`],
      );
      assert.equal(code, 0);
    });
  }
});

const PROJECT = `apiVersion: project.openshift.io/v1
kind: Project
metadata:
  name: shop
  labels: {${PREFIX}/enforce: baseline, ${PREFIX}/exempt: "true"}
  annotations: {${PREFIX}/audit: restricted}
`;

test('a Project sets the levels of its namespace', async () => {
  const pod =
    'apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop}\nspec: {hostPID: true, containers: [{ name: c, image: i }]}\n';
  const { code, stdout } = await runProgram(['check', '-f', '-', '-o', 'json'], { stdin: `${PROJECT}---\n${pod}` });
  const { objects } = JSON.parse(stdout) as { readonly objects: readonly { readonly policies: object }[] };
  assert.deepEqual(objects[1]?.policies, {
    enforce: 'baseline:latest',
    audit: 'privileged:latest',
    warn: 'baseline:latest',
  });
  assert.equal(code, 1);
});

test('explain namespace prints the labels that have no effect', async () => {
  const { code, stdout } = await runProgram(['explain', 'namespace/shop', '-f', '-'], { stdin: PROJECT });
  assert.match(stdout, /^Namespace shop: enforces baseline:latest\n/);
  const lines = stdout.split('\n').filter((line) => line.startsWith('  No effect'));
  assert.deepEqual(lines, [
    `  No effect   metadata.labels[${PREFIX}/exempt]: ${ALL}`,
    `  No effect   metadata.annotations[${PREFIX}/audit]: Set it as the label "${PREFIX}/audit", because API servers do not read annotations.`,
  ]);
  assert.equal(code, 0);
});
