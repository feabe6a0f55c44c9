import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { suite, test } from 'node:test';
import { promisify } from 'node:util';

const WRITER = new URL('../../src/telemetry/line-writer.ts', import.meta.url).href;

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
});
