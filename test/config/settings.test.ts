import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
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
