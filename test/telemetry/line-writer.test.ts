import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { suite, test } from 'node:test';
import { promisify } from 'node:util';

const WRITER = new URL('../../src/telemetry/logger.ts', import.meta.url).href;

/** A process that writes lines to its standard output. */
const script = (body: string): string[] => [
  '--input-type=module',
  '-e',
  `import { createLineWriter } from ${JSON.stringify(WRITER)}; const writer = createLineWriter(1); ${body}`,
];

suite('line writer', () => {
  test('every line arrives, in order, whatever the size of the batches', async () => {
    const body = `
      for (let index = 0; index < 5000; index++) {
        writer.write(index + ' ' + 'é'.repeat(index % 97) + '\\n');
        if (index % 500 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
      }
      await new Promise((resolve) => setTimeout(resolve, 300));`;
    const { stdout } = await promisify(execFile)(process.execPath, script(body), { maxBuffer: 1e8 });
    const expected = Array.from({ length: 5000 }, (_, index) => `${index} ${'é'.repeat(index % 97)}\n`).join('');
    assert.ok(stdout === expected);
  });

  test('lines longer than a block, and lines that just fill one, arrive whole and in their place', async () => {
    const lengths = [10, 65_535, 3, 21_845, 21_846, 40_000, 1, 300_000, 64_000, 1_534, 2];
    const body = `
      for (const length of ${JSON.stringify(lengths)}) writer.write('é'.repeat(length % 2) + 'x'.repeat(length - length % 2) + '\\n');
      await new Promise((resolve) => setTimeout(resolve, 300));`;
    const { stdout } = await promisify(execFile)(process.execPath, script(body), { maxBuffer: 1e8 });
    const expected = lengths
      .map((length) => `${'é'.repeat(length % 2)}${'x'.repeat(length - (length % 2))}\n`)
      .join('');
    assert.ok(stdout === expected);
  });

  test('a line is written without being followed by another', async () => {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      script(`writer.write('alone\\n'); await new Promise((resolve) => setTimeout(resolve, 250));`),
    );
    assert.equal(stdout, 'alone\n');
  });

  test('flush at the end of the process', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, script(`writer.write('last\\n'); writer.flush();`));
    assert.equal(stdout, 'last\n');
  });

  test('a reader that has stopped holds up nobody, and memory is bounded', async () => {
    const child = spawn(
      process.execPath,
      script(`
        const line = 'x'.repeat(1023) + '\\n';
        for (let index = 0; index < 40000; index++) writer.write(line);
        await new Promise((resolve) => setTimeout(resolve, 200));
        process.stderr.write(String(process.memoryUsage().rss < 250e6));`),
      { stdio: ['ignore', 'pipe', 'pipe'] },
    );
    child.stdout.pause();
    const verdict = await new Promise((resolve) => {
      child.stderr.once('data', (chunk: Buffer) => resolve(chunk.toString()));
    });
    child.kill('SIGKILL');
    assert.equal(verdict, 'true');
  });

  test('a reader that comes back gets whole lines, and is told how many are missing', async () => {
    const child = spawn(
      process.execPath,
      script(`
        for (let index = 0; index < 40000; index++) writer.write(index + ' ' + 'x'.repeat(1000) + '\\n');
        process.stdin.once('data', () => writer.write('after\\n'));`),
      { stdio: ['pipe', 'pipe', 'ignore'] },
    );
    await new Promise((resolve) => setTimeout(resolve, 500));
    let text = '';
    for await (const chunk of child.stdout) {
      text += String(chunk);
      if (text.endsWith('}\n')) child.stdin.write('go on');
      if (text.endsWith('after\n')) child.kill('SIGKILL');
    }
    const lines = text.split('\n').slice(0, -1);
    const at = lines.findIndex((line) => line.startsWith('{'));
    assert.deepEqual(
      lines.slice(0, at).filter((line, index) => line !== `${index} ${'x'.repeat(1000)}`),
      [],
    );
    assert.deepEqual(lines.slice(at), [
      `{"level":"error","msg":"log lines dropped: nobody reads them","lines":${40_000 - at}}`,
      'after',
    ]);
  });

  test('a reader that has stopped does not keep the process from ending', async () => {
    const child = spawn(
      process.execPath,
      script(`
        process.stdout.on('error', () => {});
        for (let index = 0; index < 1000; index++) writer.write('x'.repeat(1023) + '\\n');
        await new Promise((resolve) => setTimeout(resolve, 200));
        writer.flush();`),
      { stdio: ['ignore', 'pipe', 'ignore'] },
    );
    child.stdout.pause();
    const code = await Promise.race([
      new Promise((resolve) => child.once('exit', resolve)),
      new Promise((resolve) => setTimeout(resolve, 5000, 'still alive').unref()),
    ]);
    child.kill('SIGKILL');
    assert.equal(code, 0);
  });

  test('at the end of the process, what a slow reader cannot take at once arrives all the same', async () => {
    const child = spawn(
      process.execPath,
      script(`
        process.stdout.on('error', () => {});
        for (let index = 0; index < 400; index++) writer.write(index + ' ' + 'x'.repeat(1000) + '\\n');
        writer.flush();`),
      { stdio: ['ignore', 'pipe', 'ignore'] },
    );
    let text = '';
    for await (const chunk of child.stdout) {
      text += String(chunk);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    // What was under way when the end came may be there twice.
    const numbers = new Set(text.split('\n').map((line) => line.split(' ')[0]));
    assert.deepEqual(
      Array.from({ length: 400 }, (_, index) => String(index)).filter((number) => !numbers.has(number)),
      [],
    );
  });
});
