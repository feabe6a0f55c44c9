/** Reads the API server's version, which determines the meaning of `latest` in a Pod Security policy. */
import { createObservable, type Observable } from '../config/settings.ts';
import type { JsonObject } from '../kube/types.ts';
import { parseVersion, type Version } from '../policy/pss/index.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type Clock, sleep } from './clock.ts';
import type { Connection } from './connection.ts';

/**
 * Reads the API server version. Resolves to `undefined` for builds that report no version. An API server that emulates
 * an older version also evaluates Pod Security at that version.
 */
export async function readServerVersion(
  { request }: Pick<Connection, 'request'>,
  signal?: AbortSignal,
): Promise<Version | undefined> {
  return parseServerVersion(await request({ method: 'GET', path: '/version', ...(signal ? { signal } : {}) }));
}

/** Parses the document at `/version`. Returns `undefined` for builds that report no version. */
export function parseServerVersion(document: JsonObject): Version | undefined {
  return minorVersion(document, 'emulationMajor', 'emulationMinor') ?? minorVersion(document, 'major', 'minor');
}

function minorVersion(document: JsonObject, major: string, minor: string): Version | undefined {
  // Accepts a plus sign, which some providers append to the minor version.
  const [, digits] = /^(\d+)\+?$/.exec(String(document[minor])) ?? [];
  return document[major] === '1' && digits !== undefined ? parseVersion(`v1.${digits}`) : undefined;
}

/** Interval between reads. The version is also read after a broken connection has been re-established. */
const INTERVAL_MS = 60_000;

export interface ServerVersion extends Observable<Version | undefined> {
  /** Reads the version now and periodically until the signal is aborted. */
  follow(signal: AbortSignal): Promise<void>;
  /** Reads the version now. Concurrent calls share a request. */
  refresh(): Promise<void>;
}

/**
 * Creates the observable version of an API server, which is unknown until the first read. Failures keep the last known
 * version.
 */
export function createServerVersion(
  connection: Pick<Connection, 'request'>,
  { clock, logger }: { readonly clock: Clock; readonly logger?: Logger | undefined },
): ServerVersion {
  const version = createObservable<Version | undefined>(undefined);
  let isFailing = false;
  let refreshing: Promise<void> | undefined;
  const refresh = async (signal: AbortSignal | undefined): Promise<void> => {
    try {
      const current = await readServerVersion(connection, signal);
      isFailing = false;
      if (current === version.value) return;
      logger?.info({ kubernetesVersion: current, before: version.value }, 'API server version');
      version.set(current);
    } catch (err) {
      if (signal?.aborted === true) return;
      if (!isFailing) logger?.warn({ err }, 'failed to read the API server version, keeping the last known version');
      isFailing = true;
    }
  };
  return {
    get value() {
      return version.value;
    },
    subscribe: (listener) => version.subscribe(listener),
    refresh: () => (refreshing ??= refresh(undefined).finally(() => (refreshing = undefined))),
    async follow(signal) {
      while (!signal.aborted) {
        await refresh(signal);
        await sleep(clock, INTERVAL_MS, signal);
      }
    },
  };
}
