import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
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

describe('built package', () => {
  let folder = '';
  const packaged = (...path: string[]): string => join(folder, 'node_modules/portcullis', ...path);

  before(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), 'portcullis-')));
    await mkdir(packaged(), { recursive: true });
    await mkdir(join(folder, 'node_modules/@kubernetes'));
    await copyFile('package.json', packaged('package.json'));
    await writeFile(join(folder, 'package.json'), '{"type":"module"}');
    await writeFile(join(folder, 'consumer.ts'), CONSUMER);
    // The declarations refer to its types.
    await symlink(
      resolve('node_modules/@kubernetes/client-node'),
      join(folder, 'node_modules/@kubernetes/client-node'),
    );
    await run(process.execPath, ['scripts/build.ts', packaged('dist')]);
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

  test('exports have types', () => {
    const program = ts.createProgram([join(folder, 'consumer.ts')], {
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      strict: true,
      exactOptionalPropertyTypes: true,
      noEmit: true,
      types: ['node'],
      typeRoots: [resolve('node_modules/@types')],
    });
    const diagnostics = ts
      .getPreEmitDiagnostics(program)
      .filter(({ file }) => file?.fileName.startsWith(folder) ?? true);
    assert.deepEqual(
      diagnostics.map(
        ({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`,
      ),
      [],
    );
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
    assert.match(await readFile(packaged('dist/LICENSES.txt'), 'utf8'), /^yaml \d/m);
  });
});
