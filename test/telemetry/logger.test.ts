import assert from 'node:assert/strict';
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
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

  test('silent: nothing', async (t) => {
    assert.equal(await logged(t, { level: 'silent', format: 'json' }, (logger) => logger.error('x')), '');
  });
});
