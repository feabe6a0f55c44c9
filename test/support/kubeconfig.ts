import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';
import { createApiClient, type ApiClient } from './api-client.ts';
import type { Running } from './serve-process.ts';

/** Creates a client of the cluster of a running server, with the credentials of its kubeconfig. */
export async function connect(running: Running): Promise<ApiClient> {
  const { client, cluster } = readKubeconfig(await readFile(running.kubeconfig, 'utf8'));
  return createApiClient({ port: Number(new URL(cluster).port), authority: await running.authority(), client });
}

function readKubeconfig(text: string): { client: { cert: string; key: string }; cluster: string } {
  const config = parse(text) as {
    readonly clusters: readonly [{ readonly cluster: { readonly server: string } }];
    readonly users: readonly [
      { readonly user: { readonly 'client-certificate-data': string; readonly 'client-key-data': string } },
    ];
  };
  const { user } = config.users[0];
  const decode = (data: string): string => Buffer.from(data, 'base64').toString();
  return {
    client: { cert: decode(user['client-certificate-data']), key: decode(user['client-key-data']) },
    cluster: config.clusters[0].cluster.server,
  };
}
