import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { readSource, watchFile } from '../../src/config/files.ts';

interface Watched {
  /** What was told, in order: texts, and errors by their first word. */
  readonly told: string[];
  stop(): Promise<void>;
}

async function watch(file: string): Promise<Watched> {
  const told: string[] = [];
  const ending = new AbortController();
  const watching = watchFile({
    read: () => readSource(file),
    initial: await readSource(file),
    onChange: ({ text }) => told.push(text),
    onError: (error) => told.push(String(error).replace(/^UserError: ([^:]+).*$/, '$1')),
    signal: ending.signal,
    intervalMs: 5,
  });
  return {
    told,
    async stop() {
      ending.abort();
      await watching;
    },
  };
}

/** Waits until so much was told; fails after two seconds. */
async function until(told: readonly string[], count: number): Promise<void> {
  for (let waited = 0; told.length < count && waited < 2000; waited += 5) await sleep(5);
  assert.ok(told.length >= count, `told ${JSON.stringify(told)}`);
}

suite('watching a file', () => {
  let folder = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
  });
  after(() => rm(folder, { recursive: true }));

  test('tells each new content once', async () => {
    const file = join(folder, 'a.yaml');
    await writeFile(file, 'one');
    const { told, stop } = await watch(file);
    await sleep(30);
    assert.deepEqual(told, []);
    await writeFile(join(folder, 'new'), 'two');
    await rename(join(folder, 'new'), file);
    await until(told, 1);
    await sleep(30);
    await stop();
    assert.deepEqual(told, ['two']);
  });

  test('follows the swapped links of a mounted ConfigMap', async () => {
    const mount = join(folder, 'mount');
    await mkdir(join(mount, '..1'), { recursive: true });
    await mkdir(join(mount, '..2'));
    await writeFile(join(mount, '..1', 'config.yaml'), 'one');
    await writeFile(join(mount, '..2', 'config.yaml'), 'two');
    await symlink('..1', join(mount, '..data'));
    await symlink(join('..data', 'config.yaml'), join(mount, 'config.yaml'));
    const { told, stop } = await watch(join(mount, 'config.yaml'));
    await symlink('..2', join(mount, '..data_tmp'));
    await rename(join(mount, '..data_tmp'), join(mount, '..data'));
    await until(told, 1);
    await stop();
    assert.deepEqual(told, ['two']);
  });

  test('tells once that the file is gone, and when it is back, changed or not', async () => {
    const file = join(folder, 'b.yaml');
    await writeFile(file, 'one');
    const { told, stop } = await watch(file);
    await rm(file);
    await until(told, 1);
    await sleep(30);
    await writeFile(join(folder, 'new'), 'one');
    await rename(join(folder, 'new'), file);
    await until(told, 2);
    await stop();
    assert.deepEqual(told, [`cannot read ${file}`, 'one']);
  });

  test('goes on after a named pipe stood there, into which nobody wrote', { timeout: 10_000 }, async () => {
    const file = join(folder, 'pipe.yaml');
    await writeFile(file, 'one');
    const { told, stop } = await watch(file);
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    await rename(join(folder, 'pipe'), file);
    await until(told, 1);
    await writeFile(join(folder, 'new'), 'two');
    await rename(join(folder, 'new'), file);
    await until(told, 2);
    await stop();
    assert.deepEqual(told, [`cannot read ${file}`, 'two']);
  });

  test('is silent once it has ended', async () => {
    const file = join(folder, 'c.yaml');
    await writeFile(file, 'one');
    const { told, stop } = await watch(file);
    await stop();
    await writeFile(file, 'two');
    await sleep(30);
    assert.deepEqual(told, []);
  });
});

interface Reads {
  readonly name: string;
  /** What is read, time after time, of a file that held `one` before. */
  readonly reads: readonly (string | Error)[];
  readonly told: readonly string[];
}

const READS: readonly Reads[] = [
  { name: 'nothing new', reads: ['one', 'one'], told: [] },
  { name: 'another content, once it stays', reads: ['two', 'two', 'two'], told: ['two'] },
  { name: 'another content that does not stay', reads: ['two', 'three', 'four'], told: [] },
  { name: 'a file that is emptied and written again', reads: ['', 'two', 'two'], told: ['two'] },
  { name: 'a file that grows', reads: ['t', 'tw', 'two', 'two'], told: ['two'] },
  { name: 'what it was before', reads: ['two', 'one', 'one'], told: [] },
  { name: 'a file that stays empty', reads: ['', ''], told: [''] },
  { name: 'gone, and back as it was', reads: [new Error('gone'), 'one', 'one'], told: ['gone', 'one'] },
  { name: 'gone while it is written', reads: ['two', new Error('gone'), 'two', 'two'], told: ['gone', 'two'] },
  {
    name: 'each reason once',
    reads: [new Error('gone'), new Error('gone'), new Error('locked'), new Error('gone')],
    told: ['gone', 'locked', 'gone'],
  },
];

suite('what is told of a file that is read again and again', () => {
  for (const { name, reads, told } of READS) {
    test(name, async () => {
      const left = [...reads];
      const heard: string[] = [];
      const ending = new AbortController();
      await watchFile({
        read() {
          const text = left.shift();
          if (text === undefined) ending.abort();
          return text instanceof Error ? Promise.reject(text) : Promise.resolve({ file: 'f', text: text ?? '' });
        },
        initial: { file: 'f', text: 'one' },
        onChange: ({ text }) => heard.push(text),
        onError: (error) => heard.push((error as Error).message),
        signal: ending.signal,
        intervalMs: 0,
      });
      assert.deepEqual(heard, told);
    });
  }
});
