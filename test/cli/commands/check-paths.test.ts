/**
 * Tests which files commands read as manifests, including paths as operands, excluded paths, other files, and
 * kustomizations.
 */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { runProgram } from '../../support/memory-io.ts';

const POD =
  'apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {hostPID: true, containers: [{name: c, image: i}]}\n';
/** A kustomization can add the selector. */
const UNSELECTED =
  'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}\n';
const CHART = 'apiVersion: v2\nname: web\nversion: 0.1.0\n';
const COMPONENT = 'apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n';
const OTHER_FILES = {
  '.github/workflows/ci.yaml': 'on: push\n',
  'chart/Chart.yaml': CHART,
  'docker-compose.yml': 'services: {web: {image: web}}\n',
  'node_modules/a/pod.yaml': POD,
  'package.json': '{"name": "web", "version": "1.0.0"}',
  'playbook.yaml': '- hosts: all\n  tasks: []\n',
  'rules.json': '[\n  {\n    "kind": "a"\n  }\n]\n',
  'stack.yaml': 'Resources:\n  a: !Ref b\n  c: {{ d }}\n',
  'tsconfig.json': '{ // comment\n  "compilerOptions": {} }',
};
const SKIPPED =
  'skipped: 7 files without Kubernetes objects: chart/Chart.yaml, docker-compose.yml, package.json, playbook.yaml, rules.json and 2 more\n';

interface Case {
  readonly name: string;
  readonly files: Readonly<Record<string, string>>;
  readonly args: readonly string[];
  readonly code: number;
  /** The last line on standard output. */
  readonly summary?: string;
  readonly stderr?: string;
}

const UNBUILT = '. To skip this kind, set --skip-kind=';
const NOT_BUILT = 'not evaluated, because a kustomization changes the manifests that it lists. Check its result with:';
const BUILD = `${NOT_BUILT} kubectl kustomize`;
const KUSTOMIZATION = `| portcullis check -f -${UNBUILT}Kustomization.kustomize.config.k8s.io\n`;
const COMPONENT_ERROR = `not evaluated, because a component changes the manifests of the kustomizations that list it. Check the result of each kustomization with: kubectl kustomize DIR | portcullis check -f -${UNBUILT}Component.kustomize.config.k8s.io\n`;
const INPUT = 'that a kustomization uses as a patch or another input';
const SKIP_KUSTOMIZATIONS = '--skip-kind=Kustomization.kustomize.config.k8s.io,Component.kustomize.config.k8s.io';

const CASES: readonly Case[] = [
  { name: 'a path is read', files: { 'a/p.yaml': POD }, args: ['a'], code: 1, summary: '0 passed, 1 failed' },
  {
    name: 'paths are read before and after options',
    files: { 'a.yaml': POD, 'b.yaml': POD, 'c.yaml': POD },
    args: ['a.yaml', '-f', 'b.yaml', '-o', 'table', 'c.yaml'],
    code: 1,
    summary: '0 passed, 3 failed',
  },
  {
    name: 'paths after two hyphens may begin with a hyphen or contain a comma',
    files: { '-o.yaml': POD, 'b,c.yaml': POD },
    args: ['--', '-o.yaml', 'b,c.yaml'],
    code: 1,
    summary: '0 passed, 2 failed',
  },
  {
    name: 'files that contain no Kubernetes objects are skipped in directories',
    files: { ...OTHER_FILES, 'deploy/pod.yaml': POD },
    args: ['.', '--level=privileged'],
    code: 0,
    summary: '1 passed, 0 failed',
    stderr: SKIPPED,
  },
  {
    name: 'a directory that contains only files without Kubernetes objects is an error',
    files: OTHER_FILES,
    args: ['.'],
    code: 2,
    stderr: `${SKIPPED}error: no objects in .\n`,
  },
  {
    name: 'a named file that contains no Kubernetes objects is an error',
    files: OTHER_FILES,
    args: ['package.json'],
    code: 2,
    summary: '0 passed, 0 failed, 1 unreadable',
    stderr: "error: package.json:1:1: Object 'Kind' is missing\n",
  },
  ...[
    ['apiVersion: v1\nmetadata: {name: a}\n', "1:1: Object 'Kind' is missing"],
    ['kind: Pod\nspec: {}\n', "1:1: Object 'apiVersion' is missing"],
    [`${POD}---\na: 1\n`, "6:1: Object 'Kind' is missing"],
    ['kind: Pod\nspec: [\n', '3:1: did not find expected node content'],
    ['{"kind": "Pod", "spec": ]', '1:25: did not find expected node content'],
  ].map(([text = '', error = '']) => ({
    name: `a part of an object in a directory is an error: ${error}`,
    files: { 'a.yaml': text },
    args: ['.', '--level=privileged'],
    code: 2,
    stderr: `error: a.yaml:${error}\n`,
  })),
  {
    name: '--exclude accepts names and paths',
    files: { 'a/p.yaml': POD, 'b/p.yaml': POD, 'b/c/p.yaml': POD, 'd/e/q.yaml': POD, 'p.yaml': POD },
    args: ['.', '--exclude', 'a', '--exclude=b/*/p.yaml', '--exclude', '*q.y{a,}ml', '--exclude=./b/p.yaml/'],
    code: 1,
    summary: '0 passed, 1 failed',
  },
  {
    name: '--exclude accepts paths from the current directory and paths at any depth',
    files: { 'a/b/c/p.yaml': POD, 'a/d/p.yaml': POD, 'a/e/f/g/p.yaml': POD },
    args: ['-f', 'a', '--exclude=a/d', '--exclude=**/g'],
    code: 1,
    summary: '0 passed, 1 failed',
  },
  {
    name: '--exclude also applies to named files',
    files: { 'a.yaml': POD, 'b.yaml': POD },
    args: ['a.yaml', 'b.yaml', '--exclude=a.*'],
    code: 1,
    summary: '0 passed, 1 failed',
  },
  {
    name: 'a directory in which --exclude matches all files is an error',
    files: { 'a.yaml': POD },
    args: ['.', '--exclude=*.yaml'],
    code: 2,
    stderr: 'error: no .yaml, .yml or .json file in . that no --exclude pattern matches\n',
  },
  {
    name: 'a directory that is excluded by default is read if it is an argument',
    files: { 'node_modules/a/pod.yaml': POD },
    args: ['node_modules/'],
    code: 1,
    summary: '0 passed, 1 failed',
  },
  {
    name: 'a Helm chart is not read, and is an error',
    files: { 'a b/Chart.yaml': CHART, 'a b/templates/p.yaml': 'kind: {{ a }}', 'p.yaml': POD },
    args: ['.', '--level=privileged'],
    code: 2,
    summary: '1 passed, 0 failed, 1 unreadable',
    stderr:
      "error: a b/Chart.yaml: a Helm chart must be rendered first: helm template 'a b' | portcullis check -f -, or skip it with --exclude='a b'\n",
  },
  {
    name: 'an excluded Helm chart is not an error',
    files: { 'a/Chart.yaml': CHART, 'a/templates/p.yaml': 'kind: {{ a }}', 'p.yaml': POD },
    args: ['.', '--level=privileged', '--exclude=a'],
    code: 0,
    summary: '1 passed, 0 failed',
  },
  {
    name: 'a Helm chart in the arguments is an error',
    files: { 'a/Chart.yaml': CHART },
    args: ['a/Chart.yaml', 'a'],
    code: 2,
    summary: '0 passed, 0 failed, 1 unreadable',
    stderr: 'error: a/Chart.yaml: a Helm chart must be rendered first: helm template a | portcullis check -f -\n',
  },
  {
    name: 'kustomizations and components are errors, and their inputs are skipped',
    files: {
      'base/kustomization.yaml': 'resources: [p.yaml]\n',
      'base/p.yaml': POD,
      'components/a/kustomization.yaml': `${COMPONENT}patches: [{path: patch.yaml}]\n`,
      'components/a/patch.yaml': POD,
      'overlay/Kustomization': 'resources: [../base]\ncomponents: [../components/a]\ntransformers: [t]\n',
      'overlay/t/p.yaml': POD,
    },
    args: ['.', '--level=privileged'],
    code: 2,
    summary: '1 passed, 0 failed, 3 not evaluated',
    stderr: [
      `skipped: 2 files ${INPUT}: components/a/patch.yaml, overlay/t/p.yaml\n`,
      `error: base/kustomization.yaml:1:1: ${BUILD} base ${KUSTOMIZATION}`,
      `error: components/a/kustomization.yaml:1:1: ${COMPONENT_ERROR}`,
      `error: overlay/Kustomization:1:1: ${BUILD} overlay ${KUSTOMIZATION}`,
    ].join(''),
  },
  {
    name: 'every kind of kustomization input is skipped',
    files: {
      'k/kustomization.yml': `
patches: [{path: patch.json, target: {kind: Pod}}, {patch: "- op: remove\\n  path: /a"}]
patchesStrategicMerge: [a.yaml, "kind: Pod\\nspec: {}"]
patchesJson6902: [{path: b.yaml}]
replacements: [{path: c.yaml}]
configMapGenerator: [{name: a, files: [d.yaml, e=sub/e.yaml], envs: [f.yaml]}]
secretGenerator: [{name: a, files: [g.yaml], env: h.yaml}]
configurations: [i.yaml]
crds: [j.yaml]
generators: [k.yaml]
validators: [l.yaml]
openapi: {path: m.json}
helmCharts: [{name: a, valuesFile: n.yaml, additionalValuesFiles: [o.yaml]}]
resources: [used-twice.yaml]
transformers: [used-twice.yaml]
`,
      ...Object.fromEntries(
        'a b c d f g h i j k l n o sub/e used-twice'.split(' ').map((name) => [`k/${name}.yaml`, POD] as const),
      ),
      'k/patch.json': '[{"op": "remove", "path": "/spec"}]',
      'k/m.json': '{}',
    },
    args: ['k', SKIP_KUSTOMIZATIONS],
    code: 1,
    summary: '0 passed, 1 failed, 1 of other kinds',
    stderr: `skipped: 16 files ${INPUT}: k/a.yaml, k/b.yaml, k/c.yaml, k/d.yaml, k/f.yaml and 11 more\n`,
  },
  {
    name: 'a directory is not skipped as an input of a kustomization in it',
    files: {
      'a/b/kustomization.yaml': 'crds: [., ..]\ntransformers: [../../a]\n',
      'a/b/p.yaml': POD,
      'a/p.yaml': POD,
    },
    args: ['a', '--level=baseline'],
    code: 2,
    summary: '0 passed, 2 failed, 1 not evaluated',
    stderr: `error: a/b/kustomization.yaml:1:1: ${BUILD} a/b ${KUSTOMIZATION}`,
  },
  {
    name: 'validation errors are reported only outside the directories of kustomizations',
    files: { 'a/kustomization.yaml': 'resources: [b/d.yaml]\n', 'a/b/d.yaml': UNSELECTED, 'd.yaml': UNSELECTED },
    args: ['.', '--level=privileged', SKIP_KUSTOMIZATIONS],
    code: 1,
    summary: '1 passed, 1 failed, 1 of other kinds',
  },
  {
    name: 'a named patch is skipped, because pre-commit passes each file by name',
    files: { 'a/kustomization.yaml': 'patchesStrategicMerge: [b/c/patch.yaml]\n', 'a/b/c/patch.yaml': POD },
    args: ['--', 'a/b/c/patch.yaml'],
    code: 0,
    summary: '0 passed, 0 failed',
    stderr: `skipped: 1 file ${INPUT}: a/b/c/patch.yaml\n`,
  },
];

/** Runs a test in a directory with the given files. */
async function withFiles(context: TestContext, files: Case['files']): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-paths-'));
  const before = process.cwd();
  context.after(async () => {
    process.chdir(before);
    await rm(folder, { recursive: true });
  });
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
  process.chdir(folder);
  return folder;
}

describe('check reads paths:', () => {
  for (const { name, files, args, code, summary, stderr = '' } of CASES) {
    test(name, async (context) => {
      await withFiles(context, files);
      const result = await runProgram(['check', ...args]);
      const last = result.stdout.split('\n').at(-2);
      assert.deepEqual([result.code, result.stderr, summary && last], [code, stderr, summary]);
    });
  }

  test('--fix does not change skipped files', async (context) => {
    const files = { 'kustomization.yaml': 'patches: [{path: patch.yaml}]\n', 'patch.yaml': POD, 'package.json': '{}' };
    const folder = await withFiles(context, { ...files, 'pod.yaml': POD });
    const { code, stderr } = await runProgram(['check', '.', '--fix', '--level=baseline', SKIP_KUSTOMIZATIONS]);
    const fixed = 'fixed: pod.yaml:4:8: hostNamespaces: spec.hostPID set to false\n';
    assert.equal(
      stderr.slice(0, stderr.indexOf('verify')),
      `skipped: 1 file without Kubernetes objects: package.json\nskipped: 1 file ${INPUT}: patch.yaml\n${fixed}`,
    );
    assert.equal(code, 0);
    assert.equal(await readFile(join(folder, 'patch.yaml'), 'utf8'), POD);
  });
});

test('other commands list the kustomizations that are not built', async (context) => {
  await withFiles(context, { 'a/kustomization.yaml': 'resources: [d.yaml]\n', 'a/d.yaml': UNSELECTED });
  for (const command of ['explain a --offline', 'scc plan a', 'rollout plan a']) {
    const { stdout } = await runProgram(command.split(' '));
    assert.match(stdout, /; no changes by kustomizations: a\/kustomization\.yaml[;.]/);
  }
});

describe('other commands read paths', () => {
  const files = { 'deploy/web.yaml': POD, 'deploy/package.json': '{}', 'pod/p/p.yaml': POD };
  for (const [command, output] of [
    ['explain deploy --offline', /^Pod default\/p: /],
    ['explain deploy/web.yaml --offline', /^Pod default\/p: /],
    ['explain pod/p deploy --offline', /^Pod default\/p: /],
    ['explain ./pod/p --offline', /^Pod default\/p: /],
    ['scc plan deploy', /^default /m],
    ['rollout plan deploy', /^default /m],
    ['report deploy', /^<!doctype html>/i],
  ] as const) {
    test(command, async (context) => {
      await withFiles(context, files);
      const { stdout, stderr } = await runProgram(command.split(' '));
      assert.match(stdout, output);
      const isFolder = / deploy(?: |$)/.test(command);
      assert.equal(stderr, isFolder ? 'skipped: 1 file without Kubernetes objects: deploy/package.json\n' : '');
    });
  }
});
