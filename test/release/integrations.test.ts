/**
 * Tests the files through which other tools use the program, which are the GitHub action, the pre-commit hook,
 * workflows and the krew plugin.
 */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, suite, test } from 'node:test';
import packageJson from '../../package.json' with { type: 'json' };
import { PLATFORMS } from '../../scripts/docs/krew.ts';
import { isReserved } from '../../src/cli/command.ts';
import { readDocuments } from '../../src/config/yaml.ts';
import { hasKubectl } from '../support/kubectl.ts';
import { TOOLS } from '../tools/index.ts';

async function readYaml<T>(file: string): Promise<T> {
  const { documents, errors } = readDocuments(await readFile(file, 'utf8'), file);
  assert.deepEqual([errors, documents.length], [[], 1]);
  return documents[0]?.value as T;
}

/** Runs a program, or a script as GitHub runners do. */
function execute(
  file: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cwd: string = process.cwd(),
) {
  const path = `${resolve('node_modules/.bin')}:${process.env['PATH'] ?? ''}`;
  return new Promise<{ code: unknown; stdout: string; stderr: string }>((done) => {
    execFile(file, args, { cwd, env: { ...process.env, ...env, PATH: path } }, (error, stdout, stderr) =>
      done({ code: error?.code ?? 0, stdout, stderr }),
    );
  });
}

interface Step {
  readonly id?: string;
  readonly name?: string;
  readonly run?: string;
  readonly uses?: string;
}

interface Action {
  readonly inputs: Readonly<Record<string, object>>;
  readonly runs: { readonly steps: readonly Step[] };
}

suite('the GitHub action', () => {
  let folder = '';
  before(async () => void (folder = await mkdtemp(join(tmpdir(), 'portcullis-action-'))));
  after(() => rm(folder, { recursive: true }));

  /** Runs the step that checks the manifests, followed by the step that sets the result. */
  async function runAction(inputs: Readonly<Record<string, string>>, cwd?: string) {
    const { runs } = await readYaml<Action>('action.yml');
    const script = (match: (step: Step) => boolean): string => runs.steps.find(match)?.run ?? assert.fail('no step');
    const output = join(folder, 'output');
    await writeFile(output, '');
    const env = {
      PROGRAM: resolve('src/main.ts'),
      GITHUB_OUTPUT: output,
      RUNNER_TEMP: folder,
      ARGUMENTS: '',
      ...inputs,
    };
    const bash = (text: string, variables: object) =>
      execute('bash', ['--noprofile', '--norc', '-eo', 'pipefail', '-c', text], { ...env, ...variables }, cwd);
    const { code, stdout, stderr } = await bash(
      script(({ id }) => id === 'check'),
      {},
    );
    const values = Object.fromEntries(
      [...(await readFile(output, 'utf8')).matchAll(/^(\w+)=(.*)$/gm)].map(([, ...pair]) => pair),
    ) as Record<string, string>;
    const result = await bash(
      script(({ name }) => name === 'Result'),
      { CODE: values['code'] },
    );
    return { code, stdout, stderr, sarif: values['sarif'] ?? '', result: result.code };
  }

  test('fails for violations, with annotations and SARIF', async () => {
    const inputs = { FILES: 'examples/check/backup.yaml\nexamples/pods/restricted.yaml\n', LEVEL: 'baseline' };
    const { code, stdout, sarif, result } = await runAction(inputs);
    assert.match(stdout, /^::error file=examples\/check\/backup\.yaml,line=27,/);
    assert.deepEqual([code, result], [0, 1]);
    const { version, runs } = JSON.parse(await readFile(sarif, 'utf8')) as { version: string; runs: { results: [] }[] };
    assert.deepEqual([version, runs[0]?.results.length], ['2.1.0', 1]);
  });

  test('passes without violations', async () => {
    const inputs = { FILES: 'examples/pods/restricted.yaml', LEVEL: 'restricted', ARGUMENTS: '--fail-on=audit\n' };
    const { code, result } = await runAction(inputs);
    assert.deepEqual([code, result], [0, 0]);
  });

  for (const name of ['-nx.yaml', '--level=privileged.yaml', 'restricted.yaml,restricted.yaml']) {
    test(`checks a file with the name ${name}`, async () => {
      await cp('examples/pods', folder, { recursive: true });
      await cp('examples/pods/privileged.yaml', join(folder, name));
      const { code, stdout, result } = await runAction({ FILES: name, LEVEL: 'restricted' }, folder);
      assert.match(stdout, /^::error /);
      assert.deepEqual([code, result], [0, 1]);
    });
  }

  test('fails for unreadable files', async () => {
    const { code, stderr } = await runAction({ FILES: 'absent; echo injected', LEVEL: 'restricted' });
    assert.deepEqual([code, stderr], [2, 'error: the path "absent; echo injected" does not exist\n']);
  });
});

suite('the pre-commit hook', () => {
  let folder = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-hook-'));
    await cp('examples/pods', folder, { recursive: true });
    for (const name of ['-nx.yaml', '-frestricted.yaml', '--level=privileged.yaml', 'restricted.yaml,restricted.yaml'])
      await cp('examples/pods/privileged.yaml', join(folder, name));
  });
  after(() => rm(folder, { recursive: true }));

  /** Runs the hook as pre-commit does, with the arguments of the hook or of the user, followed by the files. */
  async function runHook(files: readonly string[], userArgs?: readonly string[]) {
    const [hook] =
      await readYaml<readonly { readonly entry: string; readonly args: readonly string[] }[]>('.pre-commit-hooks.yaml');
    const [program, ...words] = hook?.entry.split(' ') ?? [];
    assert.equal(program, 'portcullis');
    const args = [resolve('src/main.ts'), ...words, ...(userArgs ?? hook?.args ?? []), ...files];
    return await execute(process.execPath, args, {}, folder);
  }

  test('checks the files of a commit', async () => {
    const passed = await runHook(['restricted.yaml']);
    assert.deepEqual([passed.code, passed.stdout], [0, '1 passed, 0 failed\n']);
    const failed = await runHook(['restricted.yaml', 'privileged.yaml'], ['--level=baseline', '--']);
    assert.equal(failed.code, 1);
    assert.match(failed.stdout, /\n1 passed, 1 failed\n$/);
  });

  for (const name of ['-nx.yaml', '-frestricted.yaml', '--level=privileged.yaml', 'restricted.yaml,restricted.yaml']) {
    test(`checks a file with the name ${name}`, async () => {
      const { code, stdout } = await runHook([name, 'restricted.yaml']);
      assert.equal(code, 1);
      assert.match(stdout, /\n1 passed, 1 failed\n$/);
    });
  }

  test('fails for a file name that begins with a hyphen unless the arguments of the user end with --', async () => {
    const { code, stderr } = await runHook(['-nx.yaml', 'restricted.yaml'], ['--level=baseline']);
    assert.equal(code, 2);
    assert.match(stderr, /^error: invalid argument "x\.yaml" for "-n, --namespace" flag: /m);
  });
});

const hasPreCommit = spawnSync('pre-commit', ['--version']).status === 0;

suite('the pre-commit program', { skip: !hasPreCommit && 'there is no pre-commit' }, () => {
  let folder = '';
  before(async () => void (folder = await mkdtemp(join(tmpdir(), 'portcullis-pre-commit-'))));
  after(() => rm(folder, { recursive: true }));

  /** Runs git in a folder. Returns its output. */
  const git = (cwd: string, ...args: readonly string[]): string => {
    const identity = ['-c', 'user.name=test', '-c', 'user.email=test@example.com'];
    const { status, stdout, stderr } = spawnSync('git', [...identity, ...args], { cwd, encoding: 'utf8' });
    assert.equal(status, 0, stderr);
    return stdout;
  };

  /** Creates a repository with the files of this repository. Returns its commit. */
  async function cloneSources(target: string): Promise<string> {
    for (const file of git('.', 'ls-files', '-z').split('\0'))
      if (file !== '' && existsSync(file)) await cp(file, join(target, file));
    git(target, 'init', '--quiet');
    git(target, 'add', '--all');
    git(target, 'commit', '--quiet', '--message=test');
    return git(target, 'rev-parse', 'HEAD').trim();
  }

  test('installs the hook from the repository and runs it', async () => {
    const [sources, project, path] = ['sources', 'project', 'bin'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    const revision = await cloneSources(sources);
    await mkdir(path);
    // nodeenv prefers the program `nodejs` to `node`.
    for (const name of ['node', 'nodejs']) await symlink(process.execPath, join(path, name));
    await cp('examples/pods', join(project, 'deploy'), { recursive: true });
    git(project, 'init', '--quiet');
    const hook = 'id: portcullis-check, args: [--level=baseline, --], language_version: system';
    const config = `repos: [{ repo: ${sources}, rev: ${revision}, hooks: [{ ${hook} }] }]\n`;
    await writeFile(join(project, '.pre-commit-config.yaml'), config);
    git(project, 'add', '--all');
    const env = { ...process.env, PATH: `${path}:${process.env['PATH'] ?? ''}`, PRE_COMMIT_HOME: join(folder, 'home') };
    const run = (file: string) =>
      spawnSync('pre-commit', ['run', '--files', file], { cwd: project, env, encoding: 'utf8' });
    const passed = run('deploy/restricted.yaml');
    assert.match(passed.stdout, /^Pod Security Standards\.+Passed$/m, passed.stdout + passed.stderr);
    const failed = run('deploy/privileged.yaml');
    assert.match(failed.stdout, /- exit code: 1\n\nPod default\/privileged violates PodSecurity "baseline:latest"\n/);
    assert.match(failed.stdout, /\n0 passed, 1 failed\n/);
  });
});

interface Workflow {
  readonly jobs: Readonly<
    Record<
      string,
      {
        readonly steps?: readonly Step[];
        readonly strategy?: { readonly matrix: Readonly<Record<string, readonly string[]>> };
      }
    >
  >;
}

suite('the workflows', async () => {
  for (const file of (await readdir('.github/workflows')).map((name) => `.github/workflows/${name}`)) {
    test(`${file} uses existing scripts and pinned actions`, async () => {
      const jobs = Object.values((await readYaml<Workflow>(file)).jobs);
      for (const script of jobs.flatMap(({ strategy }) => strategy?.matrix['suite'] ?? [])) {
        assert.ok(Object.hasOwn(packageJson.scripts, script), script);
      }
      for (const { run = '', uses = './' } of jobs.flatMap(({ steps = [] }) => steps)) {
        for (const [, script = ''] of run.matchAll(/npm run ([\w:-]+)/g))
          assert.ok(Object.hasOwn(packageJson.scripts, script), script);
        assert.match(uses, /^\.\/|@[\da-f]{40}$/);
      }
    });
  }

  test('build the executables of all platforms', async () => {
    const { jobs } = await readYaml<Workflow>('.github/workflows/release.yml');
    const platforms = jobs['executables']?.strategy?.matrix['runner']?.flatMap((runner) => {
      if (runner.startsWith('macos')) return runner.endsWith('-intel') ? 'darwin-amd64' : 'darwin-arm64';
      return runner.endsWith('-arm') ? 'linux-arm64' : ['linux-amd64', 'windows-amd64'];
    });
    assert.deepEqual(platforms, PLATFORMS);
  });
});

test('kubectl is not older than the tested versions', { skip: !hasKubectl && 'there is no kubectl' }, () => {
  const { stdout } = spawnSync('kubectl', ['version', '--client'], { encoding: 'utf8' });
  const minor = (text: string): number => Number(/v1\.(\d+)/.exec(text)?.[1]);
  assert.ok(minor(stdout) >= minor(TOOLS['kubectl-1.32'].version), stdout);
});

suite('all links refer to existing hosts', () => {
  const cases: readonly (readonly [url: string, reserved: boolean])[] = [
    ['https://github.example.com/portcullis/portcullis', true],
    ['https://git.example/portcullis', true],
    ['https://portcullis.invalid', true],
    ['http://localhost:8080/portcullis', true],
    ['https://github.com/example.com/portcullis', false],
    ['https://example.company/portcullis', false],
    ['https://git.myexample.com/portcullis', false],
  ];
  for (const [url, reserved] of cases) test(url, () => assert.equal(isReserved(url), reserved));
});

test('no file links to a page that does not exist', async () => {
  const files = ['README.md', 'action.yml', 'CHANGELOG.md', 'webhook-config/helm/portcullis/values.yaml'];
  for (const file of files) assert.doesNotMatch(await readFile(file, 'utf8'), /https?:\/\/portcullis\.dev/, file);
});
