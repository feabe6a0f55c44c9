import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { ApiClient } from '../api-client.ts';

const PERIOD_MS = 200;
/** Roles change seldom: they are looked at every so many turns. */
const ROLES_EVERY = 10;

interface Namespace {
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly spec?: { readonly finalizers?: readonly string[] };
  readonly status?: { readonly phase?: string };
}

/**
 * What an API server alone does not do, and scenarios need: service accounts `default`, the end of namespaces, and the
 * rules of roles that gather those of others.
 */
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
    for (let turns = 0; !signal.aborted; turns++) {
      // While the API server is away there is nothing to do.
      await turn().catch(() => undefined);
      if (turns % ROLES_EVERY === 0) await aggregate(admin).catch(() => undefined);
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

const CLUSTER_ROLES = '/apis/rbac.authorization.k8s.io/v1/clusterroles';

interface ClusterRole {
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly rules?: readonly unknown[] | null;
  readonly aggregationRule?: {
    readonly clusterRoleSelectors?: readonly { readonly matchLabels?: Readonly<Record<string, string>> }[];
  };
}

/** Gathers rules by labels; roles that gather may be gathered in a later turn. */
async function aggregate(admin: ApiClient): Promise<void> {
  const { status, body } = await admin.send('GET', CLUSTER_ROLES);
  if (status !== 200) return;
  const roles = (body as { readonly items: readonly ClusterRole[] }).items;
  for (const { metadata, rules, aggregationRule } of roles) {
    const selectors = aggregationRule?.clusterRoleSelectors ?? [];
    if (selectors.length === 0) continue;
    const gathered = roles
      .filter((role) => selectors.some(({ matchLabels = {} }) => hasLabels(role, matchLabels)))
      .flatMap((role) => role.rules ?? []);
    if (isDeepStrictEqual(gathered, rules ?? [])) continue;
    const type = { 'content-type': 'application/merge-patch+json' };
    await admin.send('PATCH', `${CLUSTER_ROLES}/${metadata.name}`, { rules: gathered }, type);
  }
}

function hasLabels({ metadata }: ClusterRole, wanted: Readonly<Record<string, string>>): boolean {
  return Object.entries(wanted).every(([key, value]) => metadata.labels?.[key] === value);
}
