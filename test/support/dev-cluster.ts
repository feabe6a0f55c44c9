/** Development clusters for tests, on free ports and with their own certificates. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  createApiServer,
  createDevCluster,
  createHttpsCaller,
  type DevCluster,
  writeKubeconfig,
} from '../../src/dev-cluster/index.ts';
import type { KeyPair } from '../../src/tls/certificate-pair.ts';
import { createAuthority, issueClient, createServing } from '../../src/tls/issue.ts';
import { type ApiClient, createApiClient } from './api-client.ts';

export interface TestCluster {
  readonly cluster: DevCluster;
  readonly port: number;
  /** Certificate authority of the cluster in PEM. */
  readonly authority: string;
  /** Sends requests as an administrator of `system:masters`. */
  readonly admin: ApiClient;
  /** Sends requests as another user, or as the anonymous user if no name is given. */
  as(username?: string, groups?: readonly string[]): ApiClient;
  /** Writes a kubeconfig for the administrator or another user. `stop` removes it. */
  kubeconfig(username?: string): Promise<string>;
  /** Unexpected errors, which are bugs in the server. */
  readonly errors: unknown[];
  stop(): Promise<void>;
}

/** Starts a cluster with the default objects and the controllers, and serves its API. */
export async function startCluster(): Promise<TestCluster> {
  const started = await startEmptyCluster();
  const onError = (error: unknown): void => void started.errors.push(error);
  await started.cluster.start({ rootCertificate: started.authority, onError });
  return started;
}

/** Starts an empty cluster without controllers, and serves its API. */
export async function startEmptyCluster(clock = (): Date => new Date()): Promise<TestCluster> {
  const validity = { now: new Date(), days: 1 };
  const ca = createAuthority(validity);
  const serving = createServing(ca, { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] }, validity);
  const client = (username: string, groups: readonly string[]): KeyPair =>
    issueClient(ca, { username, groups }, validity);
  const errors: unknown[] = [];
  const caller = createHttpsCaller(() => undefined);
  const cluster = createDevCluster({ clock, call: caller.call });
  const server = createApiServer({
    cluster,
    tls: { ...serving, clientAuthority: ca.cert },
    onError: (error) => errors.push(error),
  });
  const port = await server.listen(0);
  const clients: ApiClient[] = [];
  const connect = (pair?: KeyPair): ApiClient => {
    const made = createApiClient({ port, authority: ca.cert, ...(pair ? { client: pair } : {}) });
    clients.push(made);
    return made;
  };
  const administrator = client('admin', ['system:masters']);
  const folders: string[] = [];
  return {
    cluster,
    port,
    authority: ca.cert,
    admin: connect(administrator),
    as: (username, groups = []) => connect(username === undefined ? undefined : client(username, groups)),
    async kubeconfig(username) {
      const folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
      folders.push(folder);
      const path = join(folder, 'kubeconfig');
      const user = username === undefined ? administrator : client(username, []);
      await writeKubeconfig(path, { server: `https://127.0.0.1:${port}`, authority: ca.cert, client: user });
      return path;
    },
    errors,
    async stop() {
      for (const made of clients) made.close();
      cluster.stop();
      await server.close();
      caller.close();
      await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true })));
    },
  };
}
