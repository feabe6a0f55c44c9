import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { writeKubeconfig } from '../../../src/dev-cluster/index.ts';
import type { KeyPair } from '../../../src/tls/certificate-pair.ts';
import { createAuthority, issueClient, createServing } from '../../../src/tls/issue.ts';
import { type ApiClient, createApiClient } from '../api-client.ts';

/** A server process. */
export interface Daemon {
  readonly pid: number;
  /** Returns true once the process has ended. */
  ended(): boolean;
  /** Sends SIGTERM, then SIGKILL after a timeout. Resolves when the process has ended. */
  stop(): Promise<void>;
}

/** Time between SIGTERM and SIGKILL. */
const GRACE_MS = 10_000;

/**
 * Starts a process that writes its log to a file. `niceness` lowers its priority. The process is killed when this
 * process exits.
 */
export function startDaemon(command: string, args: readonly string[], logFile: string, niceness = 0): Daemon {
  const log = createWriteStream(logFile, { flags: 'a' });
  const [file, ...rest] = niceness === 0 ? [command] : ['nice', '-n', String(niceness), command];
  const child = spawn(file, [...rest, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  child.stdout.pipe(log, { end: false });
  child.stderr.pipe(log, { end: false });
  let [ended, isStopping] = [false, false];
  const closed = new Promise<void>((resolve) => {
    child.once('error', (error) => log.write(`${error.message}\n`));
    child.once('close', (code, signal) => {
      ended = true;
      if (!isStopping) reportCrash(`${command} ended with ${signal ?? String(code)}`, logFile);
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
      isStopping = true;
      child.kill('SIGTERM');
      const timer = setTimeout(kill, GRACE_MS);
      await closed;
      clearTimeout(timer);
    },
  };
}

/**
 * Prints the end of the log if a server crashes, because tests only observe lost connections, and the log is removed
 * with the control plane.
 */
function reportCrash(event: string, logFile: string): void {
  const log = existsSync(logFile) ? readFileSync(logFile, 'utf8') : '';
  const start = log.search(/^(?:fatal error|panic): /m);
  console.error(`${event}:\n${start < 0 ? log.slice(-4000) : log.slice(start, start + 8000)}`);
}

/** Polls until the process is ready. Rejects with the end of the log if the process ends, or after a timeout. */
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
  throw new Error(`${name} does not become ready:\n${(await readFile(logFile, 'utf8')).slice(-4000)}`);
}

/** Finds free loopback ports. */
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

/** The certificates and the folder of a control plane. */
export interface Credentials {
  readonly folder: string;
  readonly authority: KeyPair;
  readonly serving: KeyPair;
  /** Writes a file that only its owner can read to the folder, and returns its path. */
  write(name: string, text: string): Promise<string>;
  issueClientCertificate(user: string, groups: readonly string[]): KeyPair;
  kubeconfigFor(server: string, user: string, groups: readonly string[]): Promise<string>;
  administrator(port: number): ApiClient;
  remove(): Promise<void>;
}

/** Creates the folder and the certificates of a server on loopback. */
export async function createCredentials(): Promise<Credentials> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-control-plane-'));
  const validity = { now: new Date(), days: 2 };
  const authority = createAuthority(validity);
  const names = { dnsNames: ['localhost', 'kubernetes.default.svc'], ipAddresses: ['127.0.0.1'] };
  const issueClientCertificate = (username: string, groups: readonly string[]): KeyPair =>
    issueClient(authority, { username, groups }, validity);
  await mkdir(join(folder, 'kubeconfigs'));
  let kubeconfigs = 0;
  return {
    folder,
    authority,
    serving: createServing(authority, names, validity),
    async write(name, text) {
      const path = join(folder, name);
      await writeFile(path, text, { mode: 0o600 });
      return path;
    },
    issueClientCertificate,
    async kubeconfigFor(server, user, groups) {
      const path = join(folder, 'kubeconfigs', String(kubeconfigs++));
      await writeKubeconfig(path, { server, authority: authority.cert, client: issueClientCertificate(user, groups) });
      return path;
    },
    administrator: (port) =>
      createApiClient({ port, authority: authority.cert, client: issueClientCertificate('admin', ['system:masters']) }),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
