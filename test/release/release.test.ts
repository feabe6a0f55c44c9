/**
 * Tests the build and the release files, which are the image, the package, the executable and the chart. All files are
 * built once.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { after, before, describe, suite, test } from 'node:test';
import { promisify } from 'node:util';
import { Ajv } from 'ajv';
import ts from 'typescript';
import packageJson from '../../package.json' with { type: 'json' };
import { readDocuments } from '../../src/config/yaml.ts';
import { type Instruction, instructions, parseCopy, readDockerfile, type Stage } from '../support/dockerfile.ts';
import { runHelm, withoutHelm } from '../support/helm.ts';
import { post } from '../support/https.ts';
import { podReview } from '../support/reviews.ts';
import { serve } from '../support/serve-process.ts';

const run = promisify(execFile);

/** A program that imports the package. The tests compile and run it. */
const CONSUMER = `
import { evaluatePod, type Evaluation, type Level } from 'portcullis/pss';
import { createAuthorizer, type Action, type RbacObjects } from 'portcullis/rbac';

declare const console: { log(text: string): void };
const level: Level = 'baseline';
const evaluation: Evaluation = evaluatePod({ spec: { hostNetwork: true, containers: [] } }, { level, version: 'v1.30' });
const objects: RbacObjects = {
  roles: [],
  clusterRoles: [{ metadata: { name: 'view' }, rules: [{ verbs: ['get'], apiGroups: [''], resources: ['pods'] }] }],
  roleBindings: [],
  clusterRoleBindings: [
    { subjects: [{ kind: 'User', name: 'alice' }], roleRef: { kind: 'ClusterRole', name: 'view' } },
  ],
};
const action: Action = { verb: 'get', resource: 'pods', namespace: 'shop' };
const access: boolean = createAuthorizer(objects)({ username: 'alice', groups: [] }, action);
console.log(JSON.stringify({ ...evaluation, access }));
`;

/** A program that passes client-node models, which may also be instances of client-node classes. */
const CLIENT_NODE_CONSUMER = `
import { V1Namespace, V1Pod, type V1ClusterRole, type V1RoleBinding } from '@kubernetes/client-node';
import { evaluatePod } from 'portcullis/pss';
import { psaLevel } from 'portcullis/psa';
import { createAuthorizer } from 'portcullis/rbac';
import { assignScc, type SccRequest, type SecurityContextConstraints } from 'portcullis/scc';

declare const model: { pod: V1Pod; namespace: V1Namespace; role: V1ClusterRole; binding: V1RoleBinding };
declare const scc: SecurityContextConstraints;
declare const input: Omit<SccRequest, 'object' | 'namespace'>;
/** As in kubernetes-types, whose members are mutable and whose times are strings. */
declare const typed: { apiVersion: 'v1'; kind: 'Pod'; metadata?: { creationTimestamp?: string }; spec?: { containers: { name: string }[] } };
const generated = { kind: 'Pod', metadata: { creationTimestamp: null }, spec: { containers: [] } } as const;
/** Only compiled. */
export const compiled = (): unknown => {
  const decision = assignScc({ ...input, object: generated, namespace: { metadata: { name: 'shop', creationTimestamp: null } } });
  const admittedBy: string | undefined = decision.allowed ? decision.facts?.scc : decision.status.message;
  // @ts-expect-error A denied pod has no SCC.
  const deniedBy: string | undefined = decision.allowed ? undefined : decision.facts.scc;
  // @ts-expect-error The level has no default.
  return [admittedBy, deniedBy, evaluatePod(typed, { level: 'baseline', version: 'latest' }), evaluatePod(generated, {})];
};
export const results = (): unknown[] => [
  evaluatePod(model.pod, { level: 'baseline', version: 'latest' }),
  evaluatePod(model.pod.spec === undefined ? {} : { spec: model.pod.spec }, { level: 'baseline', version: 'latest' }),
  assignScc({ ...input, object: model.pod, namespace: model.namespace }),
  psaLevel(scc, model.namespace, { profile: 'accurate' }),
  createAuthorizer({ roles: [], clusterRoles: [model.role], roleBindings: [model.binding], clusterRoleBindings: [] }),
];
const pod = new V1Pod();
pod.metadata = { name: 'p', creationTimestamp: new Date(0) };
pod.spec = { hostNetwork: true, containers: [] };
console.log(evaluatePod(pod, { level: 'baseline', version: 'latest' }).detail);
`;

const { version } = packageJson;
const [build, image] = readDockerfile(await readFile('Dockerfile', 'utf8')).stages as [Stage, Stage];

/** Reads a page, and returns its data and its script. */
const PAGE =
  /<script type="application\/octet-stream" id="data">[^]*<script type="module">[^]{20000,}<\/script>\n<\/body>/;

/** Reads YAML with one document. */
function readOne<T>(text: string): T {
  const { documents, errors } = readDocuments(text, 'file');
  assert.deepEqual([errors, documents.length], [[], 1]);
  return documents[0]?.value as T;
}

/** Runs a program and returns its exit code and output. */
function execute(file: string, args: readonly string[], options: object = {}) {
  return new Promise<{ code: unknown; stdout: string; stderr: string }>((done) => {
    execFile(file, args, options, (error, stdout, stderr) => done({ code: error?.code ?? 0, stdout, stderr }));
  });
}

let root = '';
let printed = '';
const sources = (): string => join(root, 'src');
const released = (name: string): string => join(sources(), 'dist/release', name);

async function copy(one: Instruction, into: string): Promise<void> {
  const { sources: named, target } = parseCopy(one);
  for (const source of named) {
    const from = one.flags.has('from') ? source.replace(/^\/src/, sources()) : resolve(source);
    const to = target.endsWith('/') ? join(into, target, basename(source)) : join(into, target);
    await mkdir(dirname(to), { recursive: true });
    await cp(from, to, { recursive: true });
  }
}

before(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'portcullis-release-')));
  for (const one of instructions('COPY', build)) await copy(one, sources());
  // Replaces `npm ci`, which requires network access.
  await symlink(resolve('node_modules'), join(sources(), 'node_modules'));
  await run('npm', ['run', 'build'], { cwd: sources() });
  for (const one of instructions('COPY', image)) await copy(one, join(root, 'image'));
  for (const name of ['CHANGELOG.md', 'LICENSE', 'README.md', 'docs', 'examples', 'webhook-config'])
    await cp(name, join(sources(), name), { recursive: true });
  const options = ['--image=registry.example.com/portcullis:0.1.0-rc.1'];
  ({ stdout: printed } = await run(process.execPath, ['scripts/release.ts', ...options], { cwd: sources() }));
});
after(() => rm(root, { recursive: true }));

describe('the image', () => {
  const main = (): string => join(root, 'image/dist/main.js');

  test('contains the program, the examples and the licenses', async () => {
    assert.deepEqual((await readdir(join(root, 'image'))).sort(), ['LICENSE', 'dist', 'examples', 'package.json']);
    assert.deepEqual((await readdir(dirname(main()))).sort(), ['LICENSES.txt', 'chunks', 'main.js']);
  });

  test('serves the development cluster without packages', async () => {
    const server = await serve([], {}, main());
    assert.equal((await fetch(`${server.probes}/readyz`)).status, 200);
    const { code, stderr } = await server.stop('SIGINT');
    assert.equal(code, 0, stderr);
  });
});

describe('the package', () => {
  let folder = '';
  const packaged = (...path: string[]): string => join(folder, 'node_modules/portcullis', ...path);
  const program = (...args: readonly string[]) => {
    // The programs are scripts that use the Node executable on the PATH.
    const env = { PATH: `${resolve('node_modules/.bin')}:${process.env['PATH'] ?? ''}` };
    return execute(join(folder, 'node_modules/.bin/portcullis'), args, { cwd: folder, env });
  };

  before(async () => {
    folder = join(root, 'consumer');
    await mkdir(folder);
    await writeFile(join(folder, 'package.json'), '{"type":"module"}');
    await writeFile(join(folder, 'consumer.ts'), CONSUMER);
    const file = released(`portcullis-${version}.tgz`);
    await run('npm', ['install', '--offline', '--ignore-scripts', '--no-audit', file], { cwd: folder });
  });

  test('has exports that can be imported by name', async () => {
    const { stdout } = await run(process.execPath, ['consumer.ts'], { cwd: folder });
    assert.deepEqual(JSON.parse(stdout), {
      allowed: false,
      violations: [{ check: 'hostNamespaces', reason: 'host namespaces', detail: 'hostNetwork=true' }],
      reason: 'host namespaces',
      detail: 'host namespaces (hostNetwork=true)',
      access: true,
    });
  });

  test('installs no other packages', async () => {
    const names = await readdir(join(folder, 'node_modules'));
    assert.deepEqual(
      names.filter((name) => !name.startsWith('.')),
      ['portcullis'],
    );
  });

  const compile = (file: string, skipLibCheck: boolean): readonly string[] => {
    const program = ts.createProgram([join(folder, file)], {
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      strict: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck,
      noEmit: true,
      types: skipLibCheck ? ['node'] : [],
      typeRoots: [resolve('node_modules/@types')],
    });
    return ts.getPreEmitDiagnostics(program).map(({ file: { fileName } = { fileName: '' }, messageText }) => {
      return `${fileName}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`;
    });
  };

  test('exports types that compile without other packages', () => {
    assert.deepEqual(compile('consumer.ts', false), []);
  });

  test('accepts the models of client-node', async () => {
    await mkdir(join(folder, 'node_modules/@kubernetes'));
    const target = 'node_modules/@kubernetes/client-node';
    await symlink(resolve(target), join(folder, target));
    await writeFile(join(folder, 'client-node.ts'), CLIENT_NODE_CONSUMER);
    assert.deepEqual(compile('client-node.ts', true), []);
    const { stdout } = await run(process.execPath, ['client-node.ts'], { cwd: folder });
    assert.equal(stdout, 'host namespaces (hostNetwork=true)\n');
    await rm(join(folder, 'node_modules/@kubernetes'), { recursive: true });
  });

  test('contains libraries without dependencies', async () => {
    for (const name of ['pss.js', 'rbac.js']) {
      assert.doesNotMatch(await readFile(packaged('dist', name), 'utf8'), /^import\b|\bimport\(|\brequire\(/m);
    }
  });

  test('installs the commands of the program', async () => {
    const names = (await readdir(join(folder, 'node_modules/.bin'))).sort();
    assert.deepEqual(names, Object.keys(packageJson.bin).sort());
    assert.deepEqual(await program('version'), { code: 0, stdout: `portcullis v${version}\n`, stderr: '' });
  });

  test('checks the examples in the package', async () => {
    const { code, stdout } = await program('check', '-f', packaged('examples/check/backup.yaml'));
    assert.match(stdout, /^CronJob shop\/backup violates PodSecurity "restricted:latest"\n[^]*\n0 passed, 1 failed\n$/);
    assert.equal(code, 1);
  });

  test('writes reports', async () => {
    const { code, stdout } = await program('report', '-f', packaged('examples/pods'));
    assert.match(stdout, PAGE);
    assert.equal(code, 0);
  });

  test('serves the development cluster', async () => {
    const server = await serve(['--dev-cluster'], {}, packaged('dist/main.js'));
    assert.equal((await fetch(`${server.probes}/readyz`)).status, 200);
    const { code, stderr } = await server.stop();
    assert.equal(code, 0, stderr);
  });

  test('contains documents, manifests and the licenses of bundled packages', async () => {
    for (const path of [
      'docs/how-to/runbook.md',
      'webhook-config/install.yaml',
      'CHANGELOG.md',
      'README.md',
      'LICENSE',
    ])
      assert.notEqual(await readFile(packaged(path), 'utf8'), '', path);
    const licenses = await readFile(packaged('dist/LICENSES.txt'), 'utf8');
    for (const line of [/^yaml \d/m, /^preact \d/m, /^@codemirror\/view \d/m]) assert.match(licenses, line);
  });
});

describe('the integrations of the release', () => {
  let folder = '';
  const path = `${dirname(process.execPath)}:${process.env['PATH'] ?? ''}`;
  const tarball = `portcullis-${version}.tgz`;

  before(async () => {
    folder = join(root, 'integrations');
    await mkdir(folder);
  });

  test('include a GitHub action that installs the package of the release', async () => {
    const requests: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      requests.push(request.url);
      void readFile(released(tarball)).then((content) => response.end(content));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const output = join(folder, 'output');
    await writeFile(output, '');
    const repository = { url: `git+http://127.0.0.1:${port}/owner/portcullis.git` };
    await writeFile(join(folder, 'package.json'), JSON.stringify({ ...packageJson, repository }));
    const action = readOne<{
      readonly runs: { readonly steps: readonly { readonly id?: string; readonly run: string }[] };
    }>(await readFile('action.yml', 'utf8'));
    const script = action.runs.steps.find(({ id }) => id === 'install')?.run ?? '';
    const env = { PATH: path, ACTION: folder, RUNNER_TEMP: folder, GITHUB_OUTPUT: output, NODE_ENV: 'production' };
    const { code, stderr } = await execute('bash', ['--noprofile', '--norc', '-eo', 'pipefail', '-c', script], { env });
    server.close();
    assert.equal(code, 0, stderr);
    assert.deepEqual([...new Set(requests)], [`/owner/portcullis/releases/download/v${version}/${tarball}`]);
    const [, program = ''] = /^program=(.*)$/m.exec(await readFile(output, 'utf8')) ?? [];
    const { stdout } = await run(process.execPath, [program, 'version']);
    assert.equal(stdout, `portcullis v${version}\n`);
    const packages = await readdir(join(folder, 'portcullis/node_modules'));
    assert.deepEqual(
      packages.filter((name) => !name.startsWith('.')),
      ['portcullis'],
    );
  });

  test('include a GitLab job that writes its findings to a JUnit report and to the log', async () => {
    const { portcullis: job } = readOne<{
      readonly portcullis: {
        readonly variables: Readonly<Record<string, string>>;
        readonly script: readonly string[];
        readonly artifacts: { readonly reports: { readonly junit: string } };
      };
    }>(await readFile('examples/integrations/gitlab-ci.yaml', 'utf8'));
    assert.match(job.variables['PACKAGE'] ?? '', new RegExp(`/v${version}/${tarball}$`));
    const variables = {
      ...job.variables,
      PACKAGE: released(tarball),
      MANIFESTS: resolve('examples/pods/privileged.yaml'),
    };
    const prefix = join(folder, 'global');
    const env = { ...variables, npm_config_prefix: prefix, PATH: `${prefix}/bin:${path}` };
    const { code, stdout, stderr } = await execute('sh', ['-ec', job.script.join('\n')], { env, cwd: folder });
    assert.equal(code, 1, stderr);
    assert.match(
      stdout,
      /\nPod default\/privileged violates PodSecurity "restricted:latest"\n[^]*\n0 passed, 1 failed\n$/,
    );
    const report = await readFile(join(folder, job.artifacts.reports.junit), 'utf8');
    assert.match(report, /<testsuites name="portcullis check" tests="1" failures="1" errors="0">/);
  });

  test('include manifests for Argo CD, Flux and Terraform that install the version of the release', async () => {
    const validate = new Ajv({ strict: false, formats: { date: true } }).compile(
      JSON.parse(await readFile(released('values.schema.json'), 'utf8')) as object,
    );
    const read = async <T>(file: string): Promise<readonly T[]> => {
      const { documents, errors } = readDocuments(await readFile(`examples/integrations/${file}`, 'utf8'), file);
      assert.deepEqual(errors, []);
      return documents.map(({ value }) => (value as { readonly spec: T }).spec);
    };
    const [application] = await read<{
      readonly source: {
        readonly chart: string;
        readonly targetRevision: string;
        readonly helm: { readonly valuesObject: object };
      };
    }>('argo-cd.yaml');
    const [repository, release] = await read<{
      readonly url: string;
      readonly ref: { readonly tag: string };
      readonly values: object;
    }>('flux.yaml');
    assert.deepEqual([application?.source.chart, application?.source.targetRevision], ['portcullis', version]);
    assert.deepEqual([repository?.url, repository?.ref.tag], ['oci://ghcr.io/OWNER/charts/portcullis', version]);
    const terraform = await readFile('examples/many-clusters/terraform.tf', 'utf8');
    assert.match(terraform, new RegExp(`\\n  version += "${version.replaceAll('.', '\\.')}"\\n`));
    for (const values of [application?.source.helm.valuesObject, release?.values])
      assert.ok(validate(values), JSON.stringify(validate.errors));
  });
});

describe('the executable', () => {
  let folder = '';
  const file = (): string => join(folder, 'portcullis');
  const native = `${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}`;
  const extract = async (platform: string): Promise<string> => {
    const target = join(root, `executable-${platform}`);
    await mkdir(target);
    await run('tar', ['-xzf', released(`portcullis-${platform}.tar.gz`), '-C', target]);
    return target;
  };

  before(async () => {
    folder = await extract(native);
  });

  test('is packed with the licenses of the program, its packages and Node', async () => {
    const names = ['LICENSE', 'LICENSE-node.txt', 'LICENSES.txt', 'portcullis'];
    assert.deepEqual((await readdir(folder)).sort(), names);
    assert.match(await readFile(join(folder, 'LICENSE-node.txt'), 'utf8'), /^Node\.js is licensed/);
  });

  test('for Windows has no signature', { skip: native !== 'linux-amd64' && 'built on linux-amd64' }, async () => {
    const target = await extract('windows-amd64');
    const names = ['LICENSE', 'LICENSE-node.txt', 'LICENSES.txt', 'portcullis.exe'];
    assert.deepEqual((await readdir(target)).sort(), names);
    const content = await readFile(join(target, 'portcullis.exe'));
    const header = content.readUInt32LE(0x3c);
    assert.equal(content.toString('latin1', header, header + 6), 'PE\0\0\x64\x86');
    assert.equal(content.readBigUInt64LE(header + 24 + 144), 0n);
    assert.ok(content.includes('NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2:1'));
  });

  test('prints its version without Node on the PATH', async () => {
    const outcome = await execute(file(), ['version'], { env: {} });
    assert.deepEqual(outcome, { code: 0, stdout: `portcullis v${version}\n`, stderr: '' });
  });

  test('checks manifests', async () => {
    const { code, stdout } = await execute(file(), ['check', '-f', 'examples/check/backup.yaml'], { env: {} });
    assert.match(stdout, /^CronJob shop\/backup violates PodSecurity "restricted:latest"\n/);
    assert.equal(code, 1);
    const { code: absent, stderr } = await execute(file(), ['check', '-f', 'absent.yaml']);
    assert.deepEqual([absent, stderr], [2, 'error: the path "absent.yaml" does not exist\n']);
  });

  test('writes reports', async () => {
    const { code, stdout } = await execute(file(), ['report', '-f', 'examples/pods'], { env: {} });
    assert.match(stdout, PAGE);
    assert.equal(code, 0);
  });

  test('is a kubectl plugin under its other names', async () => {
    await symlink(file(), join(folder, 'kubectl-scc'));
    const { stdout } = await execute(join(folder, 'kubectl-scc'), ['--help'], { env: {} });
    assert.match(stdout, /^Usage: kubectl scc /);
  });

  test('serves the development cluster with its examples', async () => {
    const server = await serve(['--dev-cluster'], {}, file());
    const spec = { hostNetwork: true, containers: [{ name: 'web', image: 'web:1', args: ['x'.repeat(300_000)] }] };
    // A worker thread reads large reviews.
    const review = JSON.stringify(podReview({ namespace: 'shop', spec }));
    const endpoint = { port: server.port, ca: await server.authority() };
    const { status, body } = await post(endpoint, '/validate/pods', review, 'application/json');
    assert.deepEqual([status, /"allowed":(true|false)/.test(body)], [200, true], body.slice(0, 1000));
    const { code, stderr } = await server.stop();
    assert.equal(code, 0, stderr);
    assert.match(stderr, /"namespace":"payments"/);
  });
});

describe('the files of a release', () => {
  test('have checksums', async () => {
    const names = (await readdir(released('.'))).sort();
    const sums = (await readFile(released('SHA256SUMS'), 'utf8')).trim().split('\n');
    assert.deepEqual(
      sums.map((line) => line.slice(66)),
      names.filter((name) => name !== 'SHA256SUMS'),
    );
    for (const line of sums) {
      const hash = createHash('sha256').update(await readFile(released(line.slice(66))));
      assert.equal(hash.digest('hex'), line.slice(0, 64), line);
    }
    assert.deepEqual(
      names.filter((name) => !name.startsWith('portcullis-')),
      [
        ...[
          'LICENSES.txt',
          'RELEASE_NOTES.md',
          'SHA256SUMS',
          'alerts.yaml',
          'crds.yaml',
          'dashboard-clusters.json',
          'dashboard.json',
        ],
        ...[
          'install-scc.yaml',
          'install.yaml',
          'playground.html',
          'report.schema.json',
          'sbom.cdx.json',
          'values.schema.json',
        ],
      ],
    );
  });

  test('include a bill of materials that lists the bundled packages and Node', async () => {
    const licenses = await readFile(released('LICENSES.txt'), 'utf8');
    const packages = [...licenses.matchAll(/(?:^|-{80}\n\n)(\S+) (\S+)\n/g)].map(([, name, one]) => `${name}@${one}`);
    const materials = JSON.parse(await readFile(released('sbom.cdx.json'), 'utf8')) as {
      readonly bomFormat: string;
      readonly metadata: { readonly component: { readonly name: string } };
      readonly components: readonly {
        readonly 'bom-ref': string;
        readonly licenses?: readonly unknown[];
        readonly hashes?: readonly unknown[];
      }[];
    };
    const incomplete = materials.components.filter(({ licenses, hashes }) => !licenses?.length || !hashes?.length);
    assert.deepEqual(incomplete, []);
    const found = materials.components.map((one) => one['bom-ref']);
    const nodes = ['linux-amd64', 'windows-amd64'].map((platform) => `node@${process.versions.node}-${platform}`);
    assert.deepEqual(found.toSorted(), [...new Set(packages), ...nodes].toSorted());
    assert.deepEqual([materials.bomFormat, materials.metadata.component.name], ['CycloneDX', 'portcullis']);
  });

  test('include manifests with the image of the release', async () => {
    const manifests = await readFile(released('install.yaml'), 'utf8');
    assert.match(manifests, /^ +image: registry\.example\.com\/portcullis:0\.1\.0-rc\.1$/m);
    assert.match(await readFile(released('crds.yaml'), 'utf8'), /^kind: CustomResourceDefinition$/m);
    assert.match(await readFile(released('alerts.yaml'), 'utf8'), /^kind: PrometheusRule$/m);
    const dashboard = JSON.parse(await readFile(released('dashboard.json'), 'utf8')) as { readonly uid: string };
    assert.equal(dashboard.uid, 'portcullis');
  });

  test('include a chart that is a Helm package', { skip: withoutHelm }, () => {
    const chart = released(`portcullis-chart-${version}.tgz`);
    const { status, stdout, stderr } = runHelm(['template', 'any', chart, '--kube-version=1.36.0']);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /^ +image: "registry\.example\.com\/portcullis:0\.1\.0-rc\.1"$/m);
  });

  test('can be published and installed with the printed commands', async () => {
    const [, commands = ''] = printed.split('\nNothing is published. --publish=npm,image,chart,github executes:\n');
    const notes = await readFile(released('RELEASE_NOTES.md'), 'utf8');
    assert.match(notes, /^helm install portcullis oci:\/\/registry\.example\.com\/charts\/portcullis --version=/m);
    const repository = 'https://github.example.com/portcullis/portcullis';
    assert.equal(
      commands.replace(/(REVISION|SOURCE_DATE_EPOCH)=\w+/g, '$1=X').replace(/(RELEASE_NOTES\.md).*/, '$1'),
      `
npm:
  npm publish dist/release/portcullis-${version}.tgz --access=public

image:
  docker buildx build --platform=linux/amd64,linux/arm64 --sbom=true --provenance=mode=max --build-arg=REVISION=X --build-arg=SOURCE_DATE_EPOCH=X --label=org.opencontainers.image.source=${repository} --tag=registry.example.com/portcullis:0.1.0-rc.1 --metadata-file=dist/image.json --push .

chart:
  helm push dist/release/portcullis-chart-${version}.tgz oci://registry.example.com/charts

github:
  gh release create v${version} --verify-tag --notes-file=dist/release/RELEASE_NOTES.md
`,
    );
  });
});

suite('a release is not built with', () => {
  const repository =
    'package.json: repository.url is an example: set it to the URL of your repository, and run npm run manifests';
  const cases: readonly (readonly [args: readonly string[], message: string])[] = [
    [['--publish=pypi'], '--publish=pypi: must be a list of npm, image, chart, github'],
    [['--publish=npm'], repository],
    [['--publish=image'], '--publish of the image or the chart requires --image=REGISTRY/NAME:TAG'],
    [['--image=portcullis'], '--image=portcullis: must be REGISTRY/NAME:TAG'],
  ];
  for (const [args, message] of cases) {
    test(args.join(' '), { concurrency: true }, async () => {
      const outcome = await execute(process.execPath, ['scripts/release.ts', ...args]);
      assert.deepEqual(outcome, { code: 2, stdout: '', stderr: `error: ${message}\n` });
    });
  }
});
