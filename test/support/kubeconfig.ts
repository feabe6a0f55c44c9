import { readFile } from 'node:fs/promises';
import { type ApiClient, createApiClient } from './api-client.ts';
import { readKubeconfig } from './api-upstream.ts';
import type { RunningServer } from './serve-process.ts';

/** Creates a client for a running server's cluster, using the server's kubeconfig. */
export async function connect(running: RunningServer): Promise<ApiClient> {
  const { server, client } = readKubeconfig(await readFile(running.kubeconfig, 'utf8'));
  const authority = await running.authority();
  return createApiClient({ port: Number(new URL(server).port), authority, ...(client ? { client } : {}) });
}
