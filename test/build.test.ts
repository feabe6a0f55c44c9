import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import ts from 'typescript';

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

/** A program that passes models of client-node, which may be instances of its classes. */
const CLIENT_NODE_CONSUMER = `
import { V1Namespace, V1Pod, type V1ClusterRole, type V1RoleBinding } from '@kubernetes/client-node';
import { evaluatePod } from 'portcullis/pss';
import { psaLevel } from 'portcullis/psa';
import { createAuthorizer } from 'portcullis/rbac';
import { assignScc, type SccInput, type SecurityContextConstraints } from 'portcullis/scc';

declare const model: { pod: V1Pod; namespace: V1Namespace; role: V1ClusterRole; binding: V1RoleBinding };
declare const scc: SecurityContextConstraints;
declare const input: Omit<SccInput, 'object' | 'namespace'>;
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

describe('built package', () => {
  let folder = '';
  const packaged = (...path: string[]): string => join(folder, 'node_modules/portcullis', ...path);

  before(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), 'portcullis-')));
    const source = join(folder, 'source');
    await mkdir(source);
    await copyFile('package.json', join(source, 'package.json'));
    await run(process.execPath, ['scripts/build.ts', join(source, 'dist')]);
    await writeFile(join(folder, 'package.json'), '{"type":"module"}');
    await writeFile(join(folder, 'consumer.ts'), CONSUMER);
    await run('npm', ['pack', '--offline', '--ignore-scripts', '--pack-destination', folder], { cwd: source });
    const [file = ''] = (await readdir(folder)).filter((name) => name.endsWith('.tgz'));
    await run('npm', ['install', '--offline', '--ignore-scripts', '--no-audit', `./${file}`], { cwd: folder });
  });
  after(() => rm(folder, { recursive: true }));

  test('exports resolve by name', async () => {
    const { stdout } = await run(process.execPath, ['consumer.ts'], { cwd: folder });
    assert.deepEqual(JSON.parse(stdout), {
      allowed: false,
      violations: [{ check: 'hostNamespaces', reason: 'host namespaces', detail: 'hostNetwork=true' }],
      reason: 'host namespaces',
      detail: 'host namespaces (hostNetwork=true)',
      access: true,
    });
  });

  test('the installation has no other packages', async () => {
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

  test('exports have types, which need no other package', () => {
    assert.deepEqual(compile('consumer.ts', false), []);
  });

  test('models of client-node are accepted', async () => {
    await mkdir(join(folder, 'node_modules/@kubernetes'));
    const target = 'node_modules/@kubernetes/client-node';
    await symlink(resolve(target), join(folder, target));
    await writeFile(join(folder, 'client-node.ts'), CLIENT_NODE_CONSUMER);
    assert.deepEqual(compile('client-node.ts', true), []);
    const { stdout } = await run(process.execPath, ['client-node.ts'], { cwd: folder });
    assert.equal(stdout, 'host namespaces (hostNetwork=true)\n');
    await rm(join(folder, 'node_modules/@kubernetes'), { recursive: true });
  });

  test('libraries have no imports', async () => {
    for (const name of ['pss.js', 'rbac.js']) {
      assert.doesNotMatch(await readFile(packaged('dist', name), 'utf8'), /^import\b|\bimport\(|\brequire\(/m);
    }
  });

  test('the program runs without packages', async () => {
    const { version } = JSON.parse(await readFile('package.json', 'utf8')) as { version: string };
    const { stdout } = await run(packaged('dist/main.js'), ['version'], {
      cwd: folder,
      env: { ...process.env, PATH: `${resolve('node_modules/.bin')}:${process.env['PATH'] ?? ''}` },
    });
    assert.equal(stdout, `portcullis v${version}\n`);
  });

  test('contains the licenses of bundled packages', async () => {
    const licenses = await readFile(packaged('dist/LICENSES.txt'), 'utf8');
    for (const line of [/^yaml \d/m, /^preact \d/m, /^@codemirror\/view \d/m]) assert.match(licenses, line);
  });
});
