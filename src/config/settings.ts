/**
 * The settings in force: the values of the configuration file and of the policy flags. Webhooks and controllers
 * read the current value from one observable, so that a change of the file takes effect without polling or a restart.
 */
import { DEFAULT_ROLLOUT, type RolloutSettings } from '../policy/rollout/settings.ts';
import type { PodSecurity } from '../policy/psa/configuration.ts';
import type { SccSettings } from '../policy/scc/mode.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { parseConfiguration, type Configuration, readPodSecuritySource } from './configuration.ts';
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

export interface Settings {
  /** Defaults and exemptions of Pod Security Admission. */
  readonly podSecurity: PodSecurity;
  readonly rollout: RolloutSettings;
  /** Mode, exempt namespaces and compatibility of SCC admission; set by flags. */
  readonly scc: SccSettings;
}

/** A configuration and the text that it was parsed from. */
export interface LoadedConfiguration extends Configuration {
  readonly source: Source;
}

const NO_FILE: Source = { file: '', text: '' };

/**
 * Reads a configuration file. Without a file, returns the defaults.
 * @param optionNames the command line options that the file may set
 * @throws {UserError} with file, line and column of each error
 */
export async function loadConfiguration(
  file: string | undefined,
  optionNames: readonly string[],
): Promise<LoadedConfiguration> {
  const source = file === undefined ? NO_FILE : await readPodSecuritySource(file);
  return { ...parseConfiguration(source, optionNames), source };
}

interface SettingsOptions {
  /** The configuration file; without one, the settings never change. */
  readonly file: string | undefined;
  readonly loaded: LoadedConfiguration;
  readonly optionNames: readonly string[];
  readonly scc: SccSettings;
  readonly logger: Logger;
  readonly metrics: Metrics['config'];
  /** Ends the watch of the file. */
  readonly signal: AbortSignal;
  /** Interval between two reads of the file; 500 if absent. */
  readonly intervalMs?: number;
}

/**
 * Creates the settings in force and watches the configuration file. A content with errors is logged, and the last valid
 * settings stay in force. A rollout that is disabled at start stays disabled, because its kinds are not watched.
 */
export function createSettings(options: SettingsOptions): Observable<Settings> {
  const { file, loaded, optionNames, metrics, signal, intervalMs } = options;
  const log = options.logger.child({ logger: 'config', file });
  const settings = createObservable(settingsFrom(loaded, options), (err) =>
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
    const next = parseConfiguration(source, optionNames);
    settings.set(settingsFrom(next, options));
    reportSuccess();
    log.info('configuration loaded');
    if (printOptions(next) !== printOptions(loaded)) log.warn('changed options take effect after a restart');
    if (next.rollout.phase !== 'Disabled' && loaded.rollout.phase === 'Disabled')
      log.warn('the rollout was disabled at start; it takes effect after a restart');
  };
  reportSuccess();
  if (file !== undefined) {
    const read = (): Promise<Source> => readPodSecuritySource(file);
    const interval = intervalMs === undefined ? {} : { intervalMs };
    void watchFile({ read, initial: loaded.source, onChange, onError, signal, ...interval });
  }
  return settings;
}

function settingsFrom(
  { podSecurity, rollout }: Configuration,
  { loaded, scc }: Pick<SettingsOptions, 'loaded' | 'scc'>,
): Settings {
  return { podSecurity, rollout: loaded.rollout.phase === 'Disabled' ? DEFAULT_ROLLOUT : rollout, scc };
}

function printOptions({ options }: Configuration): string {
  return JSON.stringify([...options].sort());
}
