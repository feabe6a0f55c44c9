import { parseConfiguration, type Configuration } from '../../config/configuration.ts';
import { readPodSecuritySource } from '../../config/pod-security.ts';
import type { Source } from '../../config/source.ts';
import { UserError } from '../../config/user-error.ts';
import { watchFile } from '../../config/watch-file.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { serveOptions } from './options.ts';

/** A configuration and what it was read from. */
export interface LoadedConfiguration extends Configuration {
  readonly source: Source;
}

const NO_FILE: Source = { file: '', text: '' };

/** Reads the configuration file; without one, the defaults. Rejects with a UserError that says what is wrong and where. */
export async function loadConfiguration(file: string | undefined): Promise<LoadedConfiguration> {
  const source = file === undefined ? NO_FILE : await readPodSecuritySource(file);
  return { ...parse(source), source };
}

export interface FollowOptions {
  readonly file: string | undefined;
  readonly loaded: LoadedConfiguration;
  readonly logger: Logger;
  readonly metrics: Metrics['config'];
  readonly signal: AbortSignal;
}

/** Follows the file and returns what is in force: the last content that was right. */
export function followConfiguration({ file, loaded, logger, metrics, signal }: FollowOptions): () => Configuration {
  let current: Configuration = loaded;
  const log = logger.child({ logger: 'config', file });
  const refuse = (error: unknown): void => {
    metrics.lastReloadSuccessful.set(0);
    log.error(
      { reason: error instanceof Error ? error.message : String(error) },
      'configuration not loaded, the last good one stays',
    );
  };
  const accept = (next: Configuration): void => {
    current = next;
    metrics.lastReloadSuccessful.set(1);
    metrics.lastReloadSuccess.setToCurrentTime();
  };
  const onChange = (source: Source): void => {
    try {
      // At start an empty file asks for the defaults. Later it is a file that was lost, and the defaults ask for nothing.
      if (source.text === '') throw new UserError(`${source.file} is empty`);
      const next = parse(source);
      const sameOptions = printOptions(next) === printOptions(loaded);
      accept(next);
      log.info('configuration loaded');
      if (!sameOptions) log.warn('options have changed; they take effect with the next start');
      if (next.rollout.phase !== 'Disabled' && loaded.rollout.phase === 'Disabled')
        log.warn('the rollout was disabled when the server started; it takes effect with the next start');
    } catch (error) {
      refuse(error);
    }
  };
  accept(loaded);
  if (file !== undefined) {
    const read = (): Promise<Source> => readPodSecuritySource(file);
    void watchFile({ read, initial: loaded.source, onChange, onError: refuse, signal });
  }
  return () => current;
}

function parse(source: Source): Configuration {
  return parseConfiguration(
    source,
    Object.keys(serveOptions).filter((name) => name !== 'config'),
  );
}

function printOptions({ options }: Configuration): string {
  return JSON.stringify([...options].sort());
}
