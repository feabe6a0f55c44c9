/** Tests the executable for Windows in the archive of the release. The test needs no packages. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, suite, test } from 'node:test';
import packageJson from '../../package.json' with { type: 'json' };

const FILE = resolve('portcullis.exe');
const POD = [
  'apiVersion: v1',
  'kind: Pod',
  'metadata: {name: web}',
  'spec:',
  '  hostPID: true',
  '  containers: [{name: web}]',
  '',
];
const ENVIRONMENT = { ...process.env, HOME: '', USERPROFILE: 'C:\\absent', KUBECONFIG: '' };

suite('the executable for Windows', { skip: process.platform !== 'win32' && 'runs on Windows only' }, () => {
  let folder = '';
  /** Runs the program in the folder and returns its exit code and output. */
  const execute = (args: readonly string[], file = FILE) =>
    new Promise<{ code: unknown; stdout: string; stderr: string }>((done) => {
      execFile(file, args, { cwd: folder, env: ENVIRONMENT }, (error, stdout, stderr) =>
        done({ code: error?.code ?? 0, stdout, stderr }),
      );
    });

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
    await mkdir(join(folder, 'deploy'));
    await writeFile(join(folder, 'deploy/crlf.yaml'), POD.join('\r\n'));
    await writeFile(join(folder, 'deploy/utf-16.yaml'), Buffer.from(`\ufeff${POD.join('\r\n')}`, 'utf16le'));
    await mkdir(join(folder, 'chart'));
    await writeFile(join(folder, 'chart/Chart.yaml'), 'name: web\n');
  });
  after(() => rm(folder, { recursive: true }));

  test('prints its version', async () => {
    const stdout = `portcullis v${packageJson.version}\n`;
    assert.deepEqual(await execute(['version']), { code: 0, stdout, stderr: '' });
  });

  test('is a kubectl plugin under its other names', async () => {
    const file = join(folder, 'kubectl-scc.exe');
    await copyFile(FILE, file);
    assert.match((await execute(['--help'], file)).stdout, /^Usage: kubectl scc /);
  });

  const denied = (file: string, indent: string): string => `Pod default/web violates PodSecurity "baseline:latest"
  ${file}:5:3  hostNamespaces  host namespaces (hostPID=true)
${indent}Fix: Remove hostNetwork, hostPID and hostIPC from the pod spec, or set them to false.

`;

  test('checks files that match a pattern, and files in UTF-16', async () => {
    const stdout = `${denied('deploy\\crlf.yaml', ' '.repeat(40))}${denied('deploy\\utf-16.yaml', ' '.repeat(42))}0 passed, 2 failed\n`;
    const outcome = await execute(['check', '--level=baseline', '-f', 'deploy\\*.yaml']);
    assert.deepEqual(outcome, { code: 1, stdout, stderr: '' });
  });

  const unreadable: readonly (readonly [path: string, message: string])[] = [
    ['C:\\absent.yaml', 'the path "C:\\absent.yaml" does not exist'],
    ['absent*.yaml', 'the path "absent*.yaml" does not exist'],
    ['chart', 'chart\\Chart.yaml: a Helm chart must be rendered first: helm template chart | portcullis check -f -'],
  ];
  for (const [path, message] of unreadable) {
    test(`prints an error for ${path}`, async () => {
      const { code, stderr } = await execute(['check', '-f', path]);
      assert.deepEqual([code, stderr], [2, `error: ${message}\n`]);
    });
  }

  test('prints paths with slashes in SARIF and in diffs', async () => {
    const check = ['check', '--level=baseline', '-f', 'deploy\\crlf.yaml'];
    assert.match((await execute([...check, '-o', 'sarif'])).stdout, /"uri": "deploy\/crlf\.yaml"/);
    assert.match(
      (await execute([...check, '--fix=diff'])).stdout,
      /^--- a\/deploy\/crlf\.yaml\n\+\+\+ b\/deploy\/crlf/,
    );
  });

  test('fixes a file and keeps its line endings', async () => {
    const file = join(folder, 'deploy/crlf.yaml');
    assert.deepEqual(await execute(['check', '--level=baseline', '-f', file, '--fix']), {
      code: 0,
      stdout: '1 passed, 0 failed\n',
      stderr: `fixed: ${file}:5:3: hostNamespaces: spec.hostPID set to false\n`,
    });
    assert.equal(await readFile(file, 'utf8'), POD.join('\r\n').replace('true', 'false'));
  });

  test('writes complete reports to a pipe', async () => {
    const { code, stdout } = await execute(['report', '-f', 'deploy']);
    assert.equal(code, 0);
    assert.match(stdout, /<\/html>\s*$/);
  });

  test('ends without an error when the reader of its output exits', async () => {
    const child = spawn(FILE, ['report', '-f', 'deploy'], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.destroy();
    const [stderr] = await Promise.all([text(child.stderr), once(child, 'exit')]);
    assert.equal(stderr, '');
  });

  test('finds the kubeconfig in the home directory of the user', async () => {
    const stderr = 'error: no cluster to read: there is no C:\\absent\\.kube\\config; set --kubeconfig\n';
    assert.deepEqual(await execute(['rollout', 'plan']), { code: 2, stdout: '', stderr });
  });

  test('serves the development cluster', { timeout: 60_000 }, async () => {
    const args = ['serve', '--dev-cluster', '--secure-port=0', '--cluster-port=0', '--cert-dir=certs'];
    const child = spawn(FILE, args, { cwd: folder, stdio: ['ignore', 'pipe', 'ignore'] });
    await once(child.stdout, 'data');
    const { code, stdout } = await execute(['rollout', 'plan', '--kubeconfig=certs\\kubeconfig']);
    child.kill();
    assert.match(stdout, /payments/);
    assert.equal(code, 1, stdout);
  });
});
