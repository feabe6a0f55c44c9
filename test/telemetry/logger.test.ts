import assert from 'node:assert/strict';
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { createLine } from '../../src/telemetry/line.ts';
import { createLogger, type Logger, type LoggerOptions } from '../../src/telemetry/logger.ts';

async function logged(t: TestContext, options: LoggerOptions, write: (logger: Logger) => void): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-log-'));
  t.after(() => rm(folder, { recursive: true }));
  const path = join(folder, 'log');
  const file = await open(path, 'w');
  const output = createLogger(options, file.fd);
  write(output.logger);
  output.flush();
  await file.close();
  return readFile(path, 'utf8');
}

suite('logger', () => {
  test('json: time, level and message under the names that collectors expect', async (t) => {
    const text = await logged(t, { level: 'info', format: 'json' }, (logger) => {
      logger.debug('not this');
      logger.child({ logger: 'x' }).warn({ uid: '1', err: new TypeError('broken') }, 'constant message');
    });
    const { ts, err, ...line } = JSON.parse(text) as { ts: string; err: { type: string; message: string } };
    assert.match(ts, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.deepEqual([err.type, err.message], ['TypeError', 'broken']);
    assert.deepEqual(line, { level: 'warn', logger: 'x', uid: '1', msg: 'constant message' });
  });

  test('text: one line for people', async (t) => {
    const text = await logged(t, { level: 'debug', format: 'text' }, (logger) => {
      logger.info({ port: 8443, path: '/psa/validate', reason: 'two words' }, 'listening');
    });
    assert.match(text, /^\S+ INFO {2}listening port=8443 path=\/psa\/validate reason="two words"\n$/);
  });

  const FACTS = { uid: 'a"\\b\u0001é😀', durationMs: 0.012, dryRun: true, reason: undefined, long: 'x'.repeat(200) };
  for (const format of ['json', 'text'] as const) {
    for (const facts of [FACTS, {}]) {
      test(`${format}: a line of ${Object.keys(facts).length} facts is the same when it is written often`, async (t) => {
        const text = await logged(t, { level: 'info', format }, (logger) => {
          const log = logger.child({ logger: 'webhook', webhook: '/x' });
          log.info(facts, 'reviewed "it"');
          createLine(log, 'reviewed "it"')(facts);
        });
        const [pinos, ours] = text.split('\n').map((line) => line.replace(/\d{4}-\S+:[\d.]+Z/, ''));
        assert.equal(ours, pinos);
        assert.match(ours ?? '', /reviewed/);
      });
    }
  }

  test('a line below the level is not written, however often', async (t) => {
    assert.equal(await logged(t, { level: 'warn', format: 'json' }, (logger) => createLine(logger, 'x')({ a: 1 })), '');
  });

  test('silent: nothing', async (t) => {
    assert.equal(await logged(t, { level: 'silent', format: 'json' }, (logger) => logger.error('x')), '');
  });
});
