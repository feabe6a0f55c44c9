import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeKubeconfig } from '../../../src/dev-cluster/index.ts';
import type { KeyPair } from '../../../src/tls/certificate-pair.ts';
import { createAuthority, createClient, createServing } from '../../../src/tls/issue.ts';
import { createApiClient, type ApiClient } from '../api-client.ts';

/** The certificates of a control plane, and the folder in which they and all else of it lie. */
export interface Credentials {
  readonly folder: string;
  readonly authority: KeyPair;
  readonly serving: KeyPair;
  /** Writes a file into the folder, readable by its owner only, and returns its path. */
  write(name: string, text: string): Promise<string>;
  clientOf(user: string, groups: readonly string[]): KeyPair;
  kubeconfigFor(server: string, user: string, groups: readonly string[]): Promise<string>;
  administrator(port: number): ApiClient;
  remove(): Promise<void>;
}

/** Makes certificates for a server on loopback, and a folder for it. */
export async function createCredentials(): Promise<Credentials> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-control-plane-'));
  const validity = { now: new Date(), days: 2 };
  const authority = createAuthority(validity);
  const names = { dnsNames: ['localhost', 'kubernetes.default.svc'], ipAddresses: ['127.0.0.1'] };
  const clientOf = (username: string, groups: readonly string[]): KeyPair =>
    createClient(authority, { username, groups }, validity);
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
    clientOf,
    async kubeconfigFor(server, user, groups) {
      const path = join(folder, 'kubeconfigs', String(kubeconfigs++));
      await writeKubeconfig(path, { server, authority: authority.cert, client: clientOf(user, groups) });
      return path;
    },
    administrator: (port) =>
      createApiClient({ port, authority: authority.cert, client: clientOf('admin', ['system:masters']) }),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
