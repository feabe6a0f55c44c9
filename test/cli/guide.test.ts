/** The program without arguments. */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { runProgram } from '../support/memory-io.ts';

const KUBECONFIG = `
apiVersion: v1
kind: Config
current-context: dev
contexts: [{ name: dev, context: { cluster: dev, user: dev } }]
clusters: [{ name: dev, cluster: { server: 'https://192.0.2.1:6443' } }]
users: [{ name: dev, user: { token: t } }]
`;
const POD = 'apiVersion: v1\nkind: Pod # a pod\n';
const CLUSTER: readonly string[] = [
  'portcullis rollout plan show what enforcement would deny at https://192.0.2.1:6443',
  'portcullis report > report.html write a report with fixes',
];
const NOTHING: readonly string[] = [
  'portcullis serve --dev-cluster try it with an in-memory cluster',
  'portcullis check -f FILE --fix fix manifests: docs/how-to/check.md',
];

const CASES: readonly (readonly [
  name: string,
  files: Readonly<Record<string, string>>,
  expected: readonly string[],
  kubeconfig?: string,
])[] = [
  ['nothing', {}, NOTHING],
  ['an invalid kubeconfig', {}, NOTHING, 'clusters: 5'],
  [
    'YAML without workloads',
    { 'compose.yaml': 'kind: Other', '.hidden/a.yaml': POD, 'node_modules/a.yaml': POD },
    NOTHING,
  ],
  ['a manifest', { 'my pod.yaml': POD }, ["portcullis check -f 'my pod.yaml' --fix fix the manifests"]],
  [
    'several manifests',
    { 'a.yml': POD, 'b.yaml': `kind: A\n---\n${POD}` },
    ['portcullis check -f . --fix fix the manifests'],
  ],
  [
    'subdirectories',
    { 'deploy/a.yaml': POD, 'deploy/b.yaml': POD, 'chart/Chart.yaml': 'name: c', 'deep/er/a.yaml': POD },
    [
      'helm template chart | portcullis check -f - check the rendered manifests',
      'portcullis check -f deploy --fix fix the manifests',
    ],
  ],
  [
    'a chart and a kubeconfig',
    { 'Chart.yaml': 'name: c', 'a.yaml': POD },
    ['helm template . | portcullis check -f - check the rendered manifests', ...CLUSTER],
    KUBECONFIG,
  ],
  [
    'a kustomization',
    { 'kustomization.yaml': 'resources: []' },
    ['kubectl kustomize . | portcullis check -f - check the rendered manifests'],
  ],
  ['a kubeconfig', {}, CLUSTER, KUBECONFIG],
];

let folder = '';
const start = process.cwd();
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
});
after(async () => {
  process.chdir(start);
  await rm(folder, { recursive: true });
});

for (const [index, [name, files, expected, kubeconfig]] of CASES.entries()) {
  test(name, async () => {
    const here = join(folder, String(index), 'here');
    await mkdir(here, { recursive: true });
    for (const [file, content] of Object.entries(files)) {
      await mkdir(dirname(join(here, file)), { recursive: true });
      await writeFile(join(here, file), content);
    }
    if (kubeconfig !== undefined) await writeFile(join(folder, String(index), 'config'), kubeconfig);
    process.chdir(here);
    const outcome = await runProgram([], { env: { KUBECONFIG: join(folder, String(index), 'config') } });
    const [title, found, ...lines] = outcome.stdout.split('\n').filter((line) => line !== '');
    const isNothing = expected === NOTHING;
    assert.deepEqual(
      { ...outcome, stdout: [title, found, ...lines.map((line) => line.trim().replaceAll(/ {3,}/g, ' '))] },
      {
        code: 0,
        stdout: [
          'Shows what Pod Security would deny, fixes it, and enforces it.',
          isNothing ? 'There are no manifests here, and no kubeconfig. Next commands:' : 'Next commands:',
          ...expected,
          'portcullis --help list all commands',
        ],
        stderr: '',
      },
    );
  });
}
