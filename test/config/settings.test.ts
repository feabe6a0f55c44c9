import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile, mkdir, rename, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test, type TestContext, after, before } from 'node:test';
import { execFileSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  createObservable,
  select,
  type Observable,
  createSettings,
  loadConfiguration,
  type Settings,
} from '../../src/config/settings.ts';
import type { SccSettings } from '../../src/policy/scc/mode.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { readSource, watchFile } from '../../src/config/files.ts';

suite('an observable', () => {
  test('calls every listener after a change, also after an error of another listener', () => {
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

  test('is selected from another: only a change of the selection is a change', () => {
    const source = createObservable({ a: 1, b: 1 });
    const calls: number[] = [];
    const selected = select(source, ({ a }) => a);
    selected.subscribe((value) => calls.push(value));
    source.set({ a: 1, b: 2 });
    source.set({ a: 2, b: 2 });
    assert.deepEqual(calls, [2]);
    assert.equal(selected.value, 2);
  });
});

const SCC: SccSettings = {
  mode: 'enforce',
  exemptNamespaces: [],
  compatibility: 'openshift',
  preferUserNamespaces: false,
};

const OPTION_NAMES = ['log-level'];

function configuration(phase: string, namespace: string): string {
  return [
    'apiVersion: config.portcullis.dev/v1alpha1',
    'kind: PortcullisConfiguration',
    `podSecurity: { exemptions: { namespaces: [${namespace}] } }`,
    `rollout: { phase: ${phase} }`,
  ].join('\n');
}

interface Fixture {
  readonly file: string;
  readonly settings: Observable<Settings>;
  /** 1 after a successful load, 0 after a failed one. */
  lastReload(): Promise<number | undefined>;
}

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
  const settings = createSettings({
    file,
    loaded: await loadConfiguration(file, OPTION_NAMES),
    optionNames: OPTION_NAMES,
    scc: SCC,
    logger: createLogger({ level: 'silent', format: 'json' }).logger,
    metrics: metrics.config,
    signal: ending.signal,
    intervalMs: 5,
  });
  const lastReload = async (): Promise<number | undefined> =>
    (await metrics.config.lastReloadSuccessful.get()).values[0]?.value;
  return { file, settings, lastReload };
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
  test('change with the file, and keep the last valid value after an error', async (t) => {
    const { file, settings, lastReload } = await watchedSettings(t, configuration('Evaluate', 'one'));
    assert.deepEqual(settings.value.podSecurity.configuration.exemptions.namespaces, ['one']);
    assert.equal(settings.value.scc, SCC);
    await writeFile(file, configuration('Nonsense', 'two'));
    while ((await lastReload()) !== 0) await new Promise((resolve) => setTimeout(resolve, 5));
    assert.deepEqual(settings.value.podSecurity.configuration.exemptions.namespaces, ['one']);
    const changed = next(settings);
    await writeFile(file, configuration('Enforce', 'two'));
    const { rollout, podSecurity } = await changed;
    assert.equal(rollout.phase, 'Enforce');
    assert.deepEqual(podSecurity.configuration.exemptions.namespaces, ['two']);
    assert.equal(await lastReload(), 1);
  });

  test('leave the rollout disabled if it was disabled at start', async (t) => {
    const { file, settings } = await watchedSettings(t, configuration('Disabled', 'one'));
    const changed = next(settings);
    await writeFile(file, configuration('Enforce', 'two'));
    const { rollout, podSecurity } = await changed;
    assert.equal(rollout.phase, 'Disabled');
    assert.deepEqual(podSecurity.configuration.exemptions.namespaces, ['two']);
  });
});

interface Watched {
  /** The reported texts, and errors by their first word, in order. */
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

/** Waits for the number of reports; fails after two seconds. */
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

  test('reports each new content once', async () => {
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

  test('reports once that the file is missing, and its content when it exists again', async () => {
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

  test('continues after the file was a named pipe', { timeout: 10_000 }, async () => {
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

  test('reports nothing after its end', async () => {
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
  /** The results of successive reads of a file that contained `one`. */
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

suite('reports of repeated reads', () => {
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
