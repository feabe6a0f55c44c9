/**
 * Holds the effective settings. Webhooks and controllers read the current value from an observable, so changes to the
 * PortcullisConfiguration or the configuration file take effect without a restart.
 */
import { defined } from '../kube/defined.ts';
import type { JsonObject } from '../kube/types.ts';
import { UserError } from '../kube/user-error.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { parseSettings, readPodSecuritySource } from './configuration.ts';
import { type TextFile, watchFile } from './files.ts';
import type { DecodeOptions, Settings } from './portcullis-configuration.ts';

export type { KubeletSettings, OlmSettings, Settings } from './portcullis-configuration.ts';

/** A value that changes over time. Readers get the current value with each read, and can subscribe to changes. */
export interface Observable<T> {
  readonly value: T;
  /** Calls the listener after each change, but not for the current value. Returns a function that unsubscribes it. */
  subscribe(listener: (value: T) => void): () => void;
}

/** An observable that can be changed. */
interface ObservableValue<T> extends Observable<T> {
  /** Replaces the value and calls the listeners. Does nothing if the value is identical (`Object.is`). */
  set(value: T): void;
}

/**
 * Creates an observable value. An exception from a listener is passed to `onError`, and affects neither other listeners
 * nor the caller of `set`.
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
      // The listener is wrapped so that each subscription is distinct, even if a listener subscribes twice.
      const own = (value: T): void => listener(value);
      listeners.add(own);
      return () => void listeners.delete(own);
    },
  };
}

/**
 * Derives an observable by selecting a value from the source. Its listeners are called only if the selected value
 * changes.
 */
export function selectObservable<T, U>(source: Observable<T>, project: (value: T) => U): Observable<U> {
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

/** Settings, and the text from which they were parsed. The text is empty if there is no file. */
export interface LoadedSettings {
  readonly settings: Settings;
  readonly source: TextFile;
}

const NO_FILE: TextFile = { file: '', text: '' };

/**
 * Reads a configuration file. Returns the defaults if no file is given.
 * @throws {UserError} with the file, line and column of each error
 */
export async function loadSettings(file: string | undefined, options: DecodeOptions): Promise<LoadedSettings> {
  const source = file === undefined ? NO_FILE : await readPodSecuritySource(file);
  return { settings: parseSettings(source, options), source };
}

/** The last loaded document, and the document in force. */
export interface SettingsStatus {
  /** `metadata.generation` of the document in force. Absent for files, for the defaults, and until the first load. */
  readonly generation?: number | undefined;
  /** Spec of the object in force. */
  readonly spec?: JsonObject | undefined;
  /** Reason why the last document is not in force. */
  readonly problem?: string | undefined;
}

/** The object that contains the settings. */
type SettingsObject = Pick<SettingsStatus, 'generation' | 'spec'>;

/** The settings in force, and the function that replaces them. */
export interface CurrentSettings extends Observable<Settings> {
  status(): SettingsStatus;
  /**
   * Reads a document and applies its settings once they are prepared, unless a later document is loaded in the
   * meantime. If `read` throws, logs the error and keeps the last valid settings.
   */
  load(read: () => Settings, object?: SettingsObject): Promise<void>;
  /** Resolves once a document is in force for the first time. */
  readonly loaded: Promise<void>;
}

interface SettingsOptions {
  /** Settings that apply until a document is loaded. */
  readonly initial: Settings;
  /** Called before settings apply, to prepare for them, for example by reading the kinds that they require. */
  prepare(next: Settings): Promise<void>;
  readonly logger: Logger;
  readonly metrics: Metrics['config'];
}

export function createSettings({ initial, prepare, logger, metrics }: SettingsOptions): CurrentSettings {
  const log = logger.child({ logger: 'config' });
  const settings = createObservable(initial, (err) => log.error({ err }, 'failed to apply a configuration change'));
  const first = Promise.withResolvers<undefined>();
  let inForce: SettingsObject = {};
  let problem: string | undefined;
  /** Number of valid documents so far. An invalid document does not replace settings that are still being prepared. */
  let loads = 0;
  return {
    get value() {
      return settings.value;
    },
    subscribe: (listener) => settings.subscribe(listener),
    status: () => ({ ...inForce, ...defined({ problem }) }),
    loaded: first.promise,
    async load(read, object = {}) {
      try {
        const next = read();
        const load = ++loads;
        problem = undefined;
        await prepare(next);
        if (load !== loads) return;
        inForce = object;
        settings.set(next);
        metrics.lastReloadSuccessful.set(problem === undefined ? 1 : 0);
        log.info({ generation: object.generation }, 'configuration loaded');
        first.resolve(undefined);
      } catch (error) {
        problem = error instanceof Error ? error.message : String(error);
        metrics.lastReloadSuccessful.set(0);
        log.error({ reason: problem }, 'failed to load the configuration, keeping the last valid configuration');
      }
    },
  };
}

interface FileOptions {
  readonly file: string;
  /** Content in force. */
  readonly loaded: LoadedSettings;
  readonly decode: DecodeOptions;
  readonly settings: CurrentSettings;
  /** Stops the watch of the file when it is aborted. */
  readonly signal: AbortSignal;
  /** Interval between reads of the file in milliseconds. Defaults to 500. */
  readonly intervalMs?: number;
}

/** Loads each change to a configuration file. */
export function watchSettings({ file, loaded, decode, settings, signal, ...interval }: FileOptions): void {
  const fail = (error: unknown): void =>
    void settings.load(() => {
      throw error;
    });
  const onChange = (source: TextFile): void => {
    void settings.load(() => {
      // At startup, an empty file represents the defaults. Later, it has more likely been truncated, and the defaults
      // would enforce nothing.
      if (source.text === '') throw new UserError(`${source.file} is empty`);
      return parseSettings(source, decode);
    });
  };
  const read = (): Promise<TextFile> => readPodSecuritySource(file);
  void watchFile({ read, initial: loaded.source, onChange, onError: fail, signal, ...interval });
}
