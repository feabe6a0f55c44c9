import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { openSync } from 'node:fs';
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { Registry } from 'prom-client';
import { LIMITS } from '../../src/kube/limits.ts';
import { createCounterCells, createTimings } from '../../src/telemetry/counters.ts';
import { createLogger, type Logger, type LoggerOptions } from '../../src/telemetry/logger.ts';

async function writeLog(t: TestContext, options: LoggerOptions, write: (logger: Logger) => void): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-log-'));
  t.after(() => rm(folder, { recursive: true }));
  const path = join(folder, 'log');
  const output = createLogger(options, openSync(path, 'w'));
  write(output.logger);
  await output.close();
  return readFile(path, 'utf8');
}

suite('createLogger', () => {
  test('writes JSON', async (t) => {
    const text = await writeLog(t, { level: 'info', format: 'json' }, (logger) => {
      logger.debug('below the level');
      logger.child({ logger: 'x' }).warn({ uid: '1', err: new TypeError('broken') }, 'constant message');
    });
    const { ts, err, ...line } = JSON.parse(text) as { ts: string; err: { type: string; message: string } };
    assert.match(ts, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.deepEqual([err.type, err.message], ['TypeError', 'broken']);
    assert.deepEqual(line, { level: 'warn', logger: 'x', uid: '1', msg: 'constant message' });
  });

  test('writes text', async (t) => {
    const text = await writeLog(t, { level: 'debug', format: 'text' }, (logger) => {
      logger.info({ port: 8443, path: '/validate/pods', reason: 'two words' }, 'listening');
    });
    assert.match(text, /^\S+ INFO {2}listening port=8443 path=\/validate\/pods reason="two words"\n$/);
  });

  test('writes nothing at the silent level', async (t) => {
    assert.equal(await writeLog(t, { level: 'silent', format: 'json' }, (logger) => logger.error('x')), '');
  });
});

const LOGGER = new URL('../../src/telemetry/logger.ts', import.meta.url).href;

/** Starts a process that logs to its standard output. */
function startWriter(body: string): ChildProcess {
  const setup = `import { createLogger } from ${JSON.stringify(LOGGER)};
    const { logger, close } = createLogger({ level: 'info', format: 'json' }, 1);
    const write = (count) => { for (let line = 0; line < count; line++) logger.info({ line, text: 'x'.repeat(1000) }, 'm'); };`;
  return spawn(process.execPath, ['--input-type=module', '-e', `${setup}${body}`], {
    stdio: ['pipe', 'pipe', 'pipe'],
  });
}

interface LogLine {
  readonly line?: number;
  readonly lines?: number;
  readonly msg: string;
}

function parseLines(text: string): readonly LogLine[] {
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as LogLine);
}

suite('the log of a process', () => {
  test('contains every line in order, even if the reader is slow when the process ends', async () => {
    const child = startWriter('write(400); await close();');
    let text = '';
    for await (const chunk of child.stdout ?? []) {
      text += String(chunk);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    assert.deepEqual(
      parseLines(text).map(({ line }) => line),
      Array.from({ length: 400 }, (_, line) => line),
    );
  });

  test('limits its memory while nothing reads it, and then reports the dropped lines', async () => {
    const child = startWriter(
      `write(10_000); process.stderr.write(String(process.memoryUsage().rss < 150e6)); setInterval(() => {}, 1000);`,
    );
    child.stdout?.pause();
    const isBounded = await new Promise((resolve) => {
      child.stderr?.once('data', (chunk: Buffer) => resolve(chunk.toString()));
    });
    assert.equal(isBounded, 'true');
    let text = '';
    for await (const chunk of child.stdout ?? []) {
      text += String(chunk);
      if (text.includes('log lines dropped') && text.endsWith('\n')) child.kill('SIGKILL');
    }
    const lines = parseLines(text);
    const written = lines.filter(({ msg }) => msg === 'm');
    assert.deepEqual(
      written.filter(({ line }, index) => line !== index),
      [],
    );
    const dropped = lines.find(({ msg }) => msg === 'log lines dropped: the destination did not accept them');
    assert.equal(dropped?.lines, 10_000 - written.length);
  });

  test('does not keep the process alive while nothing reads it', async () => {
    const child = startWriter('write(1000); await close();');
    child.stdout?.pause();
    const code = await Promise.race([
      new Promise((resolve) => child.once('exit', resolve)),
      new Promise((resolve) => setTimeout(resolve, 10_000, 'still running').unref()),
    ]);
    child.kill('SIGKILL');
    assert.equal(code, 0);
  });

  test('survives a full disk', async () => {
    const full = await open('/dev/full', 'w');
    const child = spawn(
      process.execPath,
      [
        '--input-type=module',
        '-e',
        `import { createLogger } from ${JSON.stringify(LOGGER)};
         const { logger, close } = createLogger({ level: 'info', format: 'json' }, 3);
         logger.info('x'); await close(); process.stdout.write('survived');`,
      ],
      { stdio: ['ignore', 'pipe', 'inherit', full.fd] },
    );
    let text = '';
    for await (const chunk of child.stdout ?? []) text += String(chunk);
    await full.close();
    assert.equal(text, 'survived');
  });
});

suite('createCounterCells', () => {
  test('exposes the current counts of its cells', async () => {
    const registry = new Registry();
    const tally = createCounterCells({ name: 'x_total', help: 'X.', labelNames: ['a', 'b'], registers: [registry] });
    const cell = tally.cell({ b: '2', a: '1' });
    assert.equal(tally.cell({ a: '1', b: '2' }), cell);
    cell.count += 2;
    tally.cell({ a: '"quoted"', b: '' });
    const series = async (): Promise<string[]> =>
      (await registry.metrics()).split('\n').filter((line) => line.startsWith('x_total'));
    assert.deepEqual(await series(), ['x_total{b="2",a="1"} 2', 'x_total{a="\\"quoted\\"",b=""} 0']);
    cell.count++;
    assert.deepEqual(await series(), ['x_total{b="2",a="1"} 3', 'x_total{a="\\"quoted\\"",b=""} 0']);
  });

  test('finds a series without serializing its labels', (t) => {
    const tally = createCounterCells({ name: 'x_total', help: 'X.', labelNames: ['a', 'b'], registers: [] });
    const labels = { a: '1', b: '2' };
    const cell = tally.cell(labels);
    const serialize = t.mock.method(JSON, 'stringify');
    assert.equal(tally.cell(labels), cell);
    assert.notEqual(tally.cell({ a: '12', b: '' }), tally.cell({ a: '1', b: '2' }));
    assert.equal(serialize.mock.callCount(), 0);
  });

  test('counts labels above the limit in one series, which also counts labels whose values are all "other"', () => {
    const tally = createCounterCells({ name: 'x_total', help: 'X.', labelNames: ['a', 'b'], registers: [] });
    const other = tally.cell({ a: 'other', b: 'other' });
    for (let i = 0; i < LIMITS.counterSeries - 1; i++) tally.cell({ a: String(i), b: '' });
    assert.equal(tally.cell({ a: 'x', b: '' }), other);
    assert.equal([...tally.all()].length, LIMITS.counterSeries);
  });
});

suite('createTimings', () => {
  test('exposes a histogram', async () => {
    const registry = new Registry();
    const timings = createTimings(
      { name: 'y_seconds', help: 'Y.', labelNames: ['hook'], registers: [registry] },
      [0.1, 1],
    );
    const timing = timings('/a');
    for (const seconds of [0.05, 0.1, 0.5, 7]) timing.observe(seconds);
    assert.equal(
      await registry.metrics(),
      `# HELP y_seconds Y.
# TYPE y_seconds histogram
y_seconds_bucket{le="0.1",hook="/a"} 2
y_seconds_bucket{le="1",hook="/a"} 3
y_seconds_bucket{le="+Inf",hook="/a"} 4
y_seconds_sum{hook="/a"} 7.65
y_seconds_count{hook="/a"} 4
`,
    );
  });
});
