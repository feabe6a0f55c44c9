import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test, type TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { readSource, watchFile } from '../../src/config/files.ts';
import {
  createObservable,
  createSettings,
  type CurrentSettings,
  loadSettings,
  type Observable,
  selectObservable,
  type Settings,
  watchSettings,
} from '../../src/config/settings.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { eventually } from '../support/eventually.ts';

suite('an observable', () => {
  test('calls every listener after a change, even if a listener fails', () => {
    const errors: unknown[] = [];
    const calls: string[] = [];
    const observable = createObservable(1, (error) => errors.push(error));
    observable.subscribe(() => {
      throw new Error('listener failed');
    });
    const unsubscribe = observable.subscribe((value) => calls.push(`second ${value}, current ${observable.value}`));
    observable.set(2);
    observable.set(2);
    unsubscribe();
    observable.set(3);
    assert.deepEqual(calls, ['second 2, current 2']);
    assert.deepEqual(errors.map(String), ['Error: listener failed', 'Error: listener failed']);
  });

  test('can be derived from another observable, and then notifies only if the selected value changes', () => {
    const source = createObservable({ a: 1, b: 1 });
    const calls: number[] = [];
    const selected = selectObservable(source, ({ a }) => a);
    selected.subscribe((value) => calls.push(value));
    source.set({ a: 1, b: 2 });
    source.set({ a: 2, b: 2 });
    assert.deepEqual(calls, [2]);
    assert.equal(selected.value, 2);
  });
});

const DECODE = { controllers: [], namespace: 'portcullis' };

function configuration(phase: string, namespace: string, mode = 'report'): string {
  return [
    'apiVersion: config.portcullis.dev/v1alpha1',
    'kind: PortcullisConfiguration',
    'spec:',
    `  podSecurity: { exemptions: { namespaces: [${namespace}] } }`,
    `  rollout: { phase: ${phase} }`,
    `  scc: { mode: "${mode}" }`,
  ].join('\n');
}

interface Fixture {
  readonly file: string;
  readonly settings: CurrentSettings;
  /** Completes the preparation of settings, which the test delays. */
  readonly release: (() => void)[];
  /** Returns 1 after a successful load, and 0 after a failed load. */
  lastReload(): Promise<number | undefined>;
}

/** Settings from a file. The preparation of settings with SCC mode `enforce` waits for the test. */
async function watchedSettings(t: TestContext, text: string): Promise<Fixture> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
  const file = join(folder, 'config.yaml');
  await writeFile(file, text);
  const ending = new AbortController();
  t.after(async () => {
    ending.abort();
    await rm(folder, { recursive: true });
  });
  const metrics = createMetrics({ version: '0' });
  const loaded = await loadSettings(file, DECODE);
  const release: (() => void)[] = [];
  const settings = createSettings({
    initial: loaded.settings,
    prepare: ({ scc }) =>
      scc.mode === 'enforce' ? new Promise((resolve) => void release.push(resolve)) : Promise.resolve(),
    logger: createLogger({ level: 'silent', format: 'json' }).logger,
    metrics: metrics.config,
  });
  watchSettings({ file, loaded, decode: DECODE, settings, signal: ending.signal, intervalMs: 5 });
  const lastReload = async (): Promise<number | undefined> =>
    (await metrics.config.lastReloadSuccessful.get()).values[0]?.value;
  return { file, settings, release, lastReload };
}

async function next(settings: Observable<Settings>): Promise<Settings> {
  return new Promise((resolve) => {
    const unsubscribe = settings.subscribe((value) => {
      unsubscribe();
      resolve(value);
    });
  });
}

suite('settings in force', { timeout: 10_000 }, () => {
  test('follow the file and keep the last valid value after an error', async (t) => {
    const { file, settings, lastReload } = await watchedSettings(t, configuration('Disabled', 'one'));
    assert.deepEqual(settings.value.podSecurity.configuration.exemptions.namespaces, ['one']);
    await writeFile(file, configuration('Nonsense', 'two'));
    const problem = /spec\.rollout\.phase: Unsupported value: "Nonsense"/;
    await eventually(() => assert.match(settings.status().problem ?? '', problem));
    assert.equal(await lastReload(), 0);
    assert.deepEqual(settings.value.podSecurity.configuration.exemptions.namespaces, ['one']);
    const changed = next(settings);
    await writeFile(file, configuration('Enforce', 'two', 'off'));
    const { rollout, podSecurity, scc } = await changed;
    assert.deepEqual([rollout.phase, scc.mode], ['Enforce', 'off']);
    assert.deepEqual(podSecurity.configuration.exemptions.namespaces, ['two']);
    assert.equal(await lastReload(), 1);
    assert.deepEqual(settings.status(), {});
  });

  test('are replaced after a preparation, unless a later document was loaded in the meantime', async (t) => {
    const { file, settings, release } = await watchedSettings(t, configuration('Disabled', 'one'));
    const read = async (mode: string) =>
      (await loadSettings(file, DECODE).then(({ settings: value }) => ({
        ...value,
        scc: { ...value.scc, mode },
      }))) as Settings;
    const [enforce, report] = [await read('enforce'), await read('report')];
    void settings.load(() => enforce, { generation: 1 });
    assert.deepEqual([settings.value.scc.mode, settings.status()], ['report', {}]);
    void settings.load(() => report, { generation: 2 });
    await settings.loaded;
    release.pop()?.();
    await setImmediate();
    assert.deepEqual([settings.value.scc.mode, settings.status()], ['report', { generation: 2 }]);
    void settings.load(() => enforce, { generation: 3 });
    release.pop()?.();
    await setImmediate();
    assert.deepEqual([settings.value.scc.mode, settings.status()], ['enforce', { generation: 3 }]);
  });

  test('are replaced after a preparation even if a later document is invalid', async (t) => {
    const { file, settings, release, lastReload } = await watchedSettings(t, configuration('Disabled', 'one'));
    const { settings: value } = await loadSettings(file, DECODE);
    const enforce: Settings = { ...value, scc: { ...value.scc, mode: 'enforce' } };
    void settings.load(() => enforce, { generation: 1 });
    void settings.load(
      () => {
        throw new Error('invalid');
      },
      { generation: 2 },
    );
    release.pop()?.();
    await settings.loaded;
    assert.equal(settings.value.scc.mode, 'enforce');
    assert.deepEqual(settings.status(), { generation: 1, problem: 'invalid' });
    assert.equal(await lastReload(), 0);
  });
});

suite('watchFile', { timeout: 10_000 }, () => {
  let folder = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
  });
  after(() => rm(folder, { recursive: true }));

  /** Watches a file with the content `one` during an action. Returns the reported contents and errors. */
  async function watch(file: string, act: (reported: readonly string[]) => Promise<void>): Promise<readonly string[]> {
    const reported: string[] = [];
    const ending = new AbortController();
    const watching = watchFile({
      read: () => readSource(file),
      initial: { file, text: 'one' },
      onChange: ({ text }) => reported.push(text),
      onError: (error) => reported.push(String(error).replace(/^UserError: ([^:]+).*$/, '$1')),
      signal: ending.signal,
      intervalMs: 5,
    });
    await act(reported);
    ending.abort();
    await watching;
    return reported;
  }

  test('follows the swapped links of a mounted ConfigMap', async () => {
    for (const [version, text] of [
      ['..1', 'one'],
      ['..2', 'two'],
    ] as const) {
      await mkdir(join(folder, version));
      await writeFile(join(folder, version, 'config.yaml'), text);
    }
    await symlink('..1', join(folder, '..data'));
    await symlink(join('..data', 'config.yaml'), join(folder, 'config.yaml'));
    const reported = await watch(join(folder, 'config.yaml'), async (seen) => {
      await symlink('..2', join(folder, '..data_tmp'));
      await rename(join(folder, '..data_tmp'), join(folder, '..data'));
      await eventually(() => assert.equal(seen.length, 1));
    });
    assert.deepEqual(reported, ['two']);
  });

  test('reads the file again after it was temporarily a named pipe', async () => {
    const file = join(folder, 'pipe');
    execFileSync('mkfifo', [file]);
    const reported = await watch(file, async (seen) => {
      await eventually(() => assert.equal(seen.length, 1));
      await writeFile(join(folder, 'new'), 'two');
      await rename(join(folder, 'new'), file);
      await eventually(() => assert.equal(seen.length, 2));
    });
    assert.deepEqual(reported, [`cannot read ${file}`, 'two']);
  });
});

suite('watchFile, which reads the file repeatedly, reports', () => {
  const gone = new Error('gone');
  /** Results of successive reads of a file that contained `one`. The content `late` is rejected twice. */
  const CASES: readonly (readonly [name: string, reads: readonly (string | Error)[], reported: readonly string[]])[] = [
    ['nothing if the content does not change', ['one', 'one'], []],
    ['new content as soon as it is stable', ['two', 'two', 'two'], ['two']],
    ['no content that is not stable', ['two', 'three', 'four'], []],
    ['only the new content of a file that is emptied and then written', ['', 'two', 'two'], ['two']],
    ['only the final content of a file that grows', ['t', 'tw', 'two', 'two'], ['two']],
    ['nothing if the content before the change returns', ['two', 'one', 'one'], []],
    ['empty content only if the file remains empty', ['', ''], ['']],
    ['an error, and then the content of a missing file that is created again', [gone, 'one', 'one'], ['gone', 'one']],
    [
      'an error, and then the content of a file that is missing while it is written',
      ['two', gone, 'two', 'two'],
      ['gone', 'two'],
    ],
    ['each error only once', [gone, gone, new Error('locked'), gone], ['gone', 'locked', 'gone']],
    [
      'a rejection once, and the content after it is accepted',
      ['late', 'late', 'late', 'late', 'late'],
      ['rejected', 'late'],
    ],
    ['the previous content again after a rejection', ['late', 'late', 'one', 'one'], ['rejected', 'one']],
  ];
  for (const [name, reads, expected] of CASES) {
    test(name, async () => {
      const left = [...reads];
      const reported: string[] = [];
      let rejections = 0;
      const ending = new AbortController();
      await watchFile({
        read() {
          const text = left.shift();
          if (text === undefined) ending.abort();
          return text instanceof Error ? Promise.reject(text) : Promise.resolve(text ?? 'the end');
        },
        initial: 'one',
        onChange(text) {
          if (text === 'late' && rejections++ < 2) throw new Error('rejected');
          reported.push(text);
        },
        onError: (error) => reported.push((error as Error).message),
        signal: ending.signal,
        intervalMs: 0,
      });
      assert.deepEqual(reported, expected);
    });
  }
});
