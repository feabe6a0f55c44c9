import { setTimeout as pause } from 'node:timers/promises';
import type { ApiClient } from '../api-client.ts';

const PERIOD_MS = 200;

interface Namespace {
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly spec?: { readonly finalizers?: readonly string[] };
  readonly status?: { readonly phase?: string };
}

/** What an API server alone does not do, and scenarios need: service accounts `default`, and the end of namespaces. */
export function startStandIn(admin: ApiClient): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const { signal } = stopping;
  const known = new Set<string>();
  const turn = async (): Promise<void> => {
    const { status, body } = await admin.send('GET', '/api/v1/namespaces');
    if (status !== 200) return;
    for (const namespace of (body as { readonly items: readonly Namespace[] }).items) {
      if (namespace.status?.phase === 'Terminating') await finalize(admin, namespace);
      else if (!known.has(namespace.metadata.uid)) {
        const answer = await createAccount(admin, namespace.metadata.name);
        if (answer === 201 || answer === 409) known.add(namespace.metadata.uid);
      }
    }
  };
  const loop = async (): Promise<void> => {
    while (!signal.aborted) {
      // While the API server is away there is nothing to do.
      await turn().catch(() => undefined);
      await pause(PERIOD_MS, undefined, { signal }).catch(() => undefined);
    }
  };
  const ended = loop();
  return {
    async stop() {
      stopping.abort();
      await ended;
    },
  };
}

async function createAccount(admin: ApiClient, namespace: string): Promise<number> {
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default' } };
  return (await admin.send('POST', `/api/v1/namespaces/${namespace}/serviceaccounts`, account)).status;
}

const CONTENTS = [
  '/api/v1/%/pods',
  '/api/v1/%/services',
  '/api/v1/%/secrets',
  '/api/v1/%/serviceaccounts',
  '/apis/apps/v1/%/deployments',
  '/apis/coordination.k8s.io/v1/%/leases',
];

/** Deletes what scenarios put into namespaces, and lets the namespace go. */
async function finalize(admin: ApiClient, namespace: Namespace): Promise<void> {
  const { name } = namespace.metadata;
  for (const path of CONTENTS) {
    const collection = path.replace('%', `namespaces/${name}`);
    // Services cannot be deleted as a collection by every server.
    await admin.send('DELETE', `${collection}?gracePeriodSeconds=0`);
  }
  await admin.send('PUT', `/api/v1/namespaces/${name}/finalize`, { ...namespace, spec: { finalizers: [] } });
}
