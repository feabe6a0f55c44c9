import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/** A process that serves until it is stopped. */
export interface Daemon {
  readonly pid: number;
  /** True once the process has ended. */
  ended(): boolean;
  /** Ends it, in peace if it can, and resolves when it has ended. */
  stop(): Promise<void>;
}

/** How long a process may take to end when it is asked to, in milliseconds. */
const PATIENCE_MS = 10_000;

/** Starts a process that writes its log to a file; it does not outlive this one. */
export function startDaemon(command: string, args: readonly string[], logFile: string): Daemon {
  const log = createWriteStream(logFile, { flags: 'a' });
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  child.stdout.pipe(log, { end: false });
  child.stderr.pipe(log, { end: false });
  let ended = false;
  const closed = new Promise<void>((resolve) => {
    child.once('error', (error) => log.write(`${error.message}\n`));
    child.once('close', () => {
      ended = true;
      log.end();
      process.off('exit', kill);
      resolve();
    });
  });
  const kill = (): void => void child.kill('SIGKILL');
  process.on('exit', kill);
  return {
    pid: child.pid ?? 0,
    ended: () => ended,
    async stop() {
      if (ended) return;
      child.kill('SIGTERM');
      const timer = setTimeout(kill, PATIENCE_MS);
      await closed;
      clearTimeout(timer);
    },
  };
}

/** Asks again and again until the answer is yes; rejects with the end of the log if the process ends or time is up. */
export async function untilReady(
  daemon: Daemon,
  name: string,
  logFile: string,
  isReady: () => Promise<boolean>,
): Promise<void> {
  const deadline = Date.now() + 90_000;
  while (!daemon.ended() && Date.now() < deadline) {
    if (await isReady().catch(() => false)) return;
    await pause(100);
  }
  await daemon.stop();
  throw new Error(`${name} does not get ready:\n${(await readFile(logFile, 'utf8')).slice(-4000)}`);
}

/** Ports of loopback that nobody listens on, all different. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer().listen(0, '127.0.0.1');
      await once(server, 'listening');
      return server;
    }),
  );
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
