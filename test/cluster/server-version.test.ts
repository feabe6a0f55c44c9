/** Tests how the version of an API server is read from /version, and how upgrades are detected. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { createServerVersion, parseServerVersion } from '../../src/cluster/server-version.ts';
import { eventually } from '../support/eventually.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { createRecorder } from '../support/recorder.ts';
import { json, refusal, type ScriptedServer, startScriptedServer } from '../support/scripted-server.ts';

const DOCUMENTS: readonly (readonly [document: object, version: string | undefined])[] = [
  [{ major: '1', minor: '36', gitVersion: 'v1.36.1' }, 'v1.36'],
  [{ major: '1', minor: '30+', gitVersion: 'v1.30.2-eks-1de2ab1' }, 'v1.30'],
  [{ major: '1', minor: '36', emulationMajor: '1', emulationMinor: '35' }, 'v1.35'],
  [{ major: '', minor: '', gitVersion: 'v0.0.0-master+$Format:%H$' }, undefined],
  [{ major: '', minor: '', emulationMajor: '1', emulationMinor: '37' }, 'v1.37'],
  [{ major: '2', minor: '0' }, undefined],
  [{}, undefined],
];

suite('parseServerVersion reads the version from', () => {
  for (const [document, version] of DOCUMENTS) {
    test(JSON.stringify(document), () =>
      assert.equal(parseServerVersion(document as Record<string, unknown>), version),
    );
  }
});

const MINUTE = 60_000;
const version = (minor: string) => json({ major: '1', minor });

suite('the version of the API server', () => {
  let server: ScriptedServer;
  before(async () => void (server = await startScriptedServer()));
  after(() => server.stop());

  test('is read at startup, every minute and on request, and is kept after failed requests', async () => {
    server.respond(version('35'), refusal(403, 'no'), refusal(403, 'no'), version('36'), version('37'));
    const clock = createFakeClock();
    const { logger, log } = createRecorder('info');
    const current = createServerVersion(await server.connect(), { clock, logger });
    const seen: unknown[] = [];
    current.subscribe((value) => seen.push(value));
    const stopping = new AbortController();
    const following = current.follow(stopping.signal);
    const afterReads = (count: number): Promise<void> =>
      eventually(() => assert.deepEqual([server.requests.length, clock.pending()], [count, 1]));
    assert.equal(current.value, undefined);
    await afterReads(1);
    assert.deepEqual(seen, ['v1.35']);
    for (const count of [2, 3, 4]) {
      clock.advance(MINUTE);
      await afterReads(count);
    }
    assert.deepEqual(seen, ['v1.35', 'v1.36']);
    await Promise.all([current.refresh(), current.refresh()]);
    assert.equal(server.requests.length, 5);
    assert.deepEqual(seen, ['v1.35', 'v1.36', 'v1.37']);
    assert.deepEqual(
      log.map(({ level, msg, kubernetesVersion }) => [level, msg, kubernetesVersion]),
      [
        [30, 'API server version', 'v1.35'],
        [40, 'failed to read the API server version, keeping the last known version', undefined],
        [30, 'API server version', 'v1.36'],
        [30, 'API server version', 'v1.37'],
      ],
    );
    stopping.abort();
    await following;
    assert.equal(clock.pending(), 0);
  });
});
