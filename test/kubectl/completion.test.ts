/** Tests completion, and the names of the program as a kubectl plugin. */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { hasKubectl } from '../support/kubectl.ts';
import { runProgram } from '../support/memory-io.ts';

const MAIN = join(import.meta.dirname, '../../src/main.ts');

describe('the __complete command prints the candidates for', () => {
  /** The words after the program name, and the candidates. The `:0` directive enables file completion. */
  const cases: readonly (readonly [words: readonly string[], candidates: readonly string[], directive?: string])[] = [
    [['ro'], ['rollout']],
    [
      ['rollout', ''],
      ['status', 'plan'],
    ],
    [
      ['scc', 'p'],
      ['plan', 'pods'],
    ],
    [['nothing', ''], []],
    [
      ['break-glass', 'o'],
      ['on', 'off'],
    ],
    [
      ['scc', 'plan', '-o', ''],
      ['table', 'json', 'yaml', 'wide', 'name'],
    ],
    [['scc', 'plan', '--output', '=', 'j'], ['json']],
    [
      ['scc', 'plan', '--output', '='],
      ['table', 'json', 'yaml', 'wide', 'name'],
    ],
    [['scc', 'plan', '--output=y'], ['--output=yaml']],
    [['scc', 'grant', '--user', ''], []],
    [['scc', 'grant', 'anyuid', '--se'], ['--serviceaccount']],
    [['check', '-f', ''], [], ':0'],
    [['check', '--filename='], [], ':0'],
    [['check', ''], [], ':0'],
    [['check', 'deploy/', ''], [], ':0'],
    [['check', '--exclude', ''], []],
    [['scc', 'plan', ''], [], ':0'],
    [['explain', ''], [], ':0'],
    [['install', ''], []],
  ];
  for (const [words, candidates, directive = ':4'] of cases) {
    test(words.join(' '), async () => {
      const { code, stdout, stderr } = await runProgram(['__complete', ...words]);
      assert.deepEqual([code, stderr], [0, '']);
      const lines = stdout.trimEnd().split('\n');
      assert.deepEqual([lines.slice(0, -1).map((line) => line.split('\t')[0]), lines.at(-1)], [candidates, directive]);
    });
  }
});

describe('in a shell,', () => {
  let folder: string;
  let env: NodeJS.ProcessEnv;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-completion-'));
    for (const name of ['portcullis', 'kubectl-portcullis', 'kubectl-scc', 'kubectl_complete-scc']) {
      const link = join(folder, `link-${name}`, name);
      await mkdir(dirname(link));
      await symlink(MAIN, link);
      const script = `#!/bin/sh\nexec '${process.execPath}' '${link}' "$@"\n`;
      await writeFile(join(folder, name), script, { mode: 0o755 });
    }
    env = { ...process.env, KUBECONFIG: '', HOME: folder, PATH: `${folder}:${process.env['PATH'] ?? ''}` };
  });
  after(() => rm(folder, { recursive: true }));
  const run = async (file: string, args: readonly string[]) =>
    (await promisify(execFile)(file, args, { env, cwd: folder })).stdout;

  const words: readonly (readonly [words: string, completed: string])[] = [
    ['portcullis scc who', 'who-can'],
    ['portcullis scc plan --output = j', 'json'],
    ['portcullis check -f link-portc', 'link-portcullis'],
    ['portcullis nothing x', ''],
  ];
  test('bash completes the words of a command line', async () => {
    for (const [line, completed] of words) {
      const parts = line.split(' ');
      const script = `source <(portcullis completion bash); COMP_WORDS=(${line}); COMP_CWORD=${parts.length - 1}; _portcullis; echo "\${COMPREPLY[*]}"`;
      assert.equal(await run('bash', ['-c', script]), `${completed}\n`, line);
    }
  });

  for (const shell of ['zsh', 'fish']) {
    const isInstalled = spawnSync(shell, ['--version']).status === 0;
    test(`${shell} accepts its script`, { skip: !isInstalled && `no ${shell}` }, async () => {
      const file = join(folder, `script.${shell}`);
      await writeFile(file, await run('portcullis', ['completion', shell]));
      await run(shell, ['-n', file]);
    });
  }

  test('kubectl uses the completion plugins', { skip: !hasKubectl && 'no kubectl' }, async () => {
    const own = await run('portcullis', ['scc', 'who-can', '--help']);
    const asPlugin = own
      .replace('Usage: portcullis ', 'Usage: kubectl portcullis ')
      .replaceAll('  portcullis scc', '  kubectl portcullis scc');
    assert.equal(await run('kubectl', ['portcullis', 'scc', 'who-can', '--help']), asPlugin);
    assert.equal(
      await run('kubectl', ['scc', 'who-can', '--help']),
      asPlugin.replaceAll('kubectl portcullis scc', 'kubectl scc'),
    );
    assert.match(await run('kubectl', ['__complete', 'scc', 'rev']), /^review\t.*\nrevoke\t.*\n:4\n/);
  });

  const messages: readonly (readonly [file: string, args: readonly string[], message: string])[] = [
    ['kubectl-scc', ['plann'], "unknown command 'plann'\n(Did you mean plan?)\nSee 'kubectl scc --help' for usage."],
    [
      'kubectl-portcullis',
      ['check'],
      "-f is required: files, directories, URLs, or - for standard input\nSee 'kubectl portcullis check --help' for usage.",
    ],
  ];
  for (const [file, args, message] of messages) {
    test(`${file} prints its own name in the help`, async () => {
      assert.deepEqual(await runProgram(args, { file }), { code: 2, stdout: '', stderr: `error: ${message}\n` });
    });
  }
});
