/**
 * The settings in force. Webhooks and controllers read the current value from one observable, so that a change of the
 * PortcullisConfiguration or of the configuration file takes effect without a restart.
 */
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { parseSettings, readPodSecuritySource } from './configuration.ts';
import type { JsonObject } from '../kube/types.ts';
import { type Source, UserError, watchFile } from './files.ts';
import type { DecodeOptions, Settings } from './portcullis-configuration.ts';

export type {
  FloorSettings,
  KubeletSettings,
  OlmSettings,
  Settings,
  WebhookManagement,
} from './portcullis-configuration.ts';

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

/** The last document, and the one in force. */
export interface SettingsStatus {
  /** The `metadata.generation` of the document in force; absent for a file, for the defaults, and before the first load. */
  readonly generation?: number | undefined;
  /** The spec of the object in force. */
  readonly spec?: JsonObject | undefined;
  /** Why the last document is not in force. */
  readonly problem?: string | undefined;
}

/** An object that settings are read from. */
type SettingsObject = Pick<SettingsStatus, 'generation' | 'spec'>;

/** The settings in force, and the means to replace them. */
export interface CurrentSettings extends Observable<Settings> {
  status(): SettingsStatus;
  /**
   * Reads a document and puts its settings in force once they are prepared, unless a later document was loaded in between.
   * If `read` throws, the error is logged and the last valid settings stay in force.
   */
  load(read: () => Settings, object?: SettingsObject): Promise<void>;
  /** Resolves when a document is in force for the first time. */
  readonly loaded: Promise<void>;
}

interface SettingsOptions {
  /** The value until a document is loaded. */
  readonly initial: Settings;
  /** Prepares the process for the settings, for example by reading the kinds of objects that they need. */
  prepare(next: Settings): Promise<void>;
  readonly logger: Logger;
  readonly metrics: Metrics['config'];
}

export function createSettings({ initial, prepare, logger, metrics }: SettingsOptions): CurrentSettings {
  const log = logger.child({ logger: 'config' });
  const settings = createObservable(initial, (err) =>
    log.error({ err }, 'failed to apply a change of the configuration'),
  );
  const first = Promise.withResolvers<undefined>();
  let inForce: SettingsObject = {};
  let problem: string | undefined;
  /** The number of valid documents. An invalid one does not replace settings that are still being prepared. */
  let loads = 0;
  return {
    get value() {
      return settings.value;
    },
    subscribe: (listener) => settings.subscribe(listener),
    status: () => ({ ...inForce, ...(problem === undefined ? {} : { problem }) }),
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
        metrics.lastReloadSuccess.setToCurrentTime();
        log.info({ generation: object.generation }, 'configuration loaded');
        first.resolve(undefined);
      } catch (error) {
        problem = error instanceof Error ? error.message : String(error);
        metrics.lastReloadSuccessful.set(0);
        log.error({ reason: problem }, 'configuration not loaded; the last valid configuration stays in force');
      }
    },
  };
}

interface FileOptions {
  readonly file: string;
  /** The content in force. */
  readonly loaded: LoadedSettings;
  readonly decode: DecodeOptions;
  readonly settings: CurrentSettings;
  /** Ends the watch of the file. */
  readonly signal: AbortSignal;
  /** Interval between two reads of the file; 500 if absent. */
  readonly intervalMs?: number;
}

/** Loads each change of a configuration file. */
export function watchSettings({ file, loaded, decode, settings, signal, ...interval }: FileOptions): void {
  const fail = (error: unknown): void =>
    void settings.load(() => {
      throw error;
    });
  const onChange = (source: Source): void => {
    void settings.load(() => {
      // At start an empty file means the defaults. Later it is more likely a truncated file, and the defaults enforce nothing.
      if (source.text === '') throw new UserError(`${source.file} is empty`);
      return parseSettings(source, decode);
    });
  };
  const read = (): Promise<Source> => readPodSecuritySource(file);
  void watchFile({ read, initial: loaded.source, onChange, onError: fail, signal, ...interval });
}
