/** Runs the server under test, a process that serves a generated world over TLS. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Kind } from '../../src/kube/kinds.ts';
import { objectPath, resourcePath } from '../../src/kube/resources.ts';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { newestVersion } from '../../src/policy/pss/index.ts';
import { hashSpec } from '../../src/views/exceptions.ts';
import { post, type Response } from '../support/https.ts';
import { connect } from '../support/kubeconfig.ts';
import { readUsage } from '../support/process-usage.ts';
import { formatSettings, serve } from '../support/serve-process.ts';
import { formatManifests, type World } from './world.ts';

/** The objects in the server's cluster that decisions read. */
export type Stored = ReadonlyMap<Kind, readonly JsonObject[]>;

export interface FuzzServer {
  readonly stored: Stored;
  post(path: string, body: string | Buffer, contentType?: string): Promise<Response>;
  /** Returns the resident memory of the process. */
  residentMiB(): Promise<number>;
  /** Stops the server. Resolves to its exit code and error lines. */
  stop(): Promise<{ readonly code: number | null; readonly errors: readonly string[] }>;
}

/** The heap is small, so a leak crashes the process. */
const ENVIRONMENT = { NODE_OPTIONS: '--max-old-space-size=256' };

/** Error lines in the log, and the output of a crash. */
const BAD_LINE =
  /^\{"level":"(error|fatal)"(?!.*"msg":"log lines dropped)|^\s+at |^[A-Za-z]*Error|^FATAL|out of memory/;

/** The kinds that decisions read. */
const KINDS: readonly Kind[] = [
  ...(['Namespace', 'SecurityContextConstraints', 'Pod'] as const),
  ...(['ClusterRole', 'ClusterRoleBinding', 'Role', 'RoleBinding', 'PodSecurityException'] as const),
];

export const POD_SECURITY = { emulationVersion: newestVersion, exceptions: { mode: 'approved' } } as const;
const MERGE = { 'content-type': 'application/merge-patch+json' };
export const SCC = { mode: 'enforce', exemptNamespaces: ['kube-system'] } as const;

export async function startFuzzServer(world: World): Promise<FuzzServer> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-fuzz-'));
  const manifests = join(folder, 'cluster.yaml');
  const config = join(folder, 'config.yaml');
  await writeFile(manifests, formatManifests(world));
  await writeFile(config, formatSettings({ podSecurity: POD_SECURITY, scc: SCC }));
  const running = await serve([`--manifests=${manifests}`, `--config=${config}`], ENVIRONMENT);
  const client = await connect(running);
  for (const { metadata: { name = '', namespace = '' } = {}, spec } of world.approved) {
    const path = `${objectPath('PodSecurityException', name, namespace)}/status`;
    const body = { status: { approval: { specHash: hashSpec(spec) } } };
    const { status, text } = await client.send('PATCH', path, body, MERGE);
    if (status !== 200) throw new Error(`the exception ${name} is not approved: ${text}`);
  }
  const objects = new Map<Kind, readonly JsonObject[]>();
  for (const kind of KINDS) {
    const { body } = await client.send('GET', resourcePath(kind));
    objects.set(kind, isObject(body) && Array.isArray(body['items']) ? (body['items'] as readonly JsonObject[]) : []);
  }
  client.close();
  const endpoint = { port: running.port, ca: await running.authority() };
  const agent = new Agent({ keepAlive: true });
  const errors: string[] = [];
  // Only error lines are kept, because the log contains a line for each review.
  let rest = '';
  running.child.stderr?.removeAllListeners('data').on('data', (chunk: Buffer) => {
    const lines = (rest + chunk.toString()).split('\n');
    rest = lines.pop() ?? '';
    errors.push(...lines.filter((line) => BAD_LINE.test(line)));
  });
  return {
    stored: objects,
    post: (path, body, contentType = 'application/json') => post(endpoint, path, body, contentType, agent),
    residentMiB: async () => (await readUsage(running.child.pid ?? 0)).rssMiB,
    async stop() {
      agent.destroy();
      const { code } = await running.stop();
      await rm(folder, { recursive: true, force: true });
      return { code, errors };
    },
  };
}
