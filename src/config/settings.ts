/**
 * The settings in force, read from the configuration file. Webhooks and controllers read the current value from one
 * observable, so that a change of the file takes effect without a restart.
 */
import { deepEqual } from '../kube/equality.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { parseSettings, readPodSecuritySource } from './configuration.ts';
import type { DecodeOptions, Settings } from './portcullis-configuration.ts';

export type { Settings } from './portcullis-configuration.ts';

import { type Source, UserError, watchFile } from './files.ts';

/** A value that changes over time. Readers take the current value at each use and may subscribe to changes. */
export interface Observable<T> {
  readonly value: T;
  /** Calls the listener after each change, not with the current value. Returns a function that ends the subscription. */
  subscribe(listener: (value: T) => void): () => void;
}

/** An observable and the means to change it. */
interface ObservableValue<T> extends Observable<T> {
  /** Replaces the value and calls the listeners. The same value again (`Object.is`) is not a change. */
  set(value: T): void;
}

/**
 * Creates an observable value. An error thrown by a listener is passed to `onError` and does not affect the other
 * listeners or the caller of `set`.
 */
export function createObservable<T>(initial: T, onError: (error: unknown) => void = () => {}): ObservableValue<T> {
  let current = initial;
  const listeners = new Set<(value: T) => void>();
  return {
    get value() {
      return current;
    },
    set(value) {
      if (Object.is(value, current)) return;
      current = value;
      for (const listener of [...listeners]) {
        try {
          listener(value);
        } catch (error) {
          onError(error);
        }
      }
    },
    subscribe(listener) {
      // A wrapper makes each subscription distinct, even if one listener subscribes twice.
      const own = (value: T): void => listener(value);
      listeners.add(own);
      return () => void listeners.delete(own);
    },
  };
}

/** Derives an observable: its value is selected from the source, and listeners are called only if the selection changes. */
export function select<T, U>(source: Observable<T>, project: (value: T) => U): Observable<U> {
  return {
    get value() {
      return project(source.value);
    },
    subscribe(listener) {
      let last = project(source.value);
      return source.subscribe((value) => {
        const next = project(value);
        if (Object.is(next, last)) return;
        last = next;
        listener(next);
      });
    },
  };
}

/** Settings and the file that they were parsed from; an empty text without a file. */
export interface LoadedSettings {
  readonly settings: Settings;
  readonly source: Source;
}

const NO_FILE: Source = { file: '', text: '' };

/**
 * Reads a configuration file. Without a file, returns the defaults.
 * @throws {UserError} with file, line and column of each error
 */
export async function loadSettings(file: string | undefined, options: DecodeOptions): Promise<LoadedSettings> {
  const source = file === undefined ? NO_FILE : await readPodSecuritySource(file);
  return { settings: parseSettings(source, options), source };
}

interface SettingsOptions {
  /** The configuration file; without one, the settings never change. */
  readonly file: string | undefined;
  readonly loaded: LoadedSettings;
  readonly decode: DecodeOptions;
  readonly logger: Logger;
  readonly metrics: Metrics['config'];
  /** Ends the watch of the file. */
  readonly signal: AbortSignal;
  /** Interval between two reads of the file; 500 if absent. */
  readonly intervalMs?: number;
}

/**
 * Creates the settings in force and watches the configuration file. A content with errors is logged, and the last valid
 * settings stay in force. A feature that is off at start stays off, because its kinds are not watched.
 */
export function createSettings(options: SettingsOptions): Observable<Settings> {
  const { file, loaded, decode, metrics, signal, intervalMs } = options;
  const log = options.logger.child({ logger: 'config', file });
  const settings = createObservable(loaded.settings, (err) =>
    log.error({ err }, 'failed to apply a change of the configuration'),
  );
  const reportSuccess = (): void => {
    metrics.lastReloadSuccessful.set(1);
    metrics.lastReloadSuccess.setToCurrentTime();
  };
  const onError = (error: unknown): void => {
    metrics.lastReloadSuccessful.set(0);
    const reason = error instanceof Error ? error.message : String(error);
    log.error({ reason }, 'configuration not loaded; the last valid configuration stays in force');
  };
  const onChange = (source: Source): void => {
    // At start an empty file means the defaults. Later it is more likely a truncated file, and the defaults enforce nothing.
    if (source.text === '') throw new UserError(`${source.file} is empty`);
    const next = parseSettings(source, decode);
    const { settings: inForce, changed } = keepFixed(next, loaded.settings);
    settings.set(inForce);
    reportSuccess();
    log.info('configuration loaded');
    if (changed.length > 0) log.warn({ changed }, 'changes take effect after a restart');
  };
  reportSuccess();
  if (file !== undefined) {
    const read = (): Promise<Source> => readPodSecuritySource(file);
    const interval = intervalMs === undefined ? {} : { intervalMs };
    void watchFile({ read, initial: loaded.source, onChange, onError, signal, ...interval });
  }
  return settings;
}

/** Replaces the settings that are read once, at start. Returns the names of those that differ in the document. */
function keepFixed(next: Settings, start: Settings): { readonly settings: Settings; readonly changed: string[] } {
  const { scc, ranges, disabledControllers } = start;
  const rollout = start.rollout.phase === 'Disabled' ? start.rollout : next.rollout;
  const settings = { ...next, scc, ranges, disabledControllers, rollout };
  const names = { scc: 'scc', ranges: 'namespaceRanges', disabledControllers: 'controllers', rollout: 'rollout' };
  const keys = Object.keys(names) as (keyof typeof names)[];
  return { settings, changed: keys.filter((key) => !deepEqual(next[key], settings[key])).map((key) => names[key]) };
}
