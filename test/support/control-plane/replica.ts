import { setTimeout as pause } from 'node:timers/promises';
import { INSTALLATION } from '../../../src/kube/well-known.ts';
import { readLog, waitForLog, start, type Finished } from '../serve-process.ts';
import type { ControlPlane, RecordedCall } from './index.ts';
import { isObject, type JsonObject } from '../../../src/kube/types.ts';

export interface ReplicaOptions {
  /** As the pod of the replica would be called; the host name of its process. */
  readonly name?: string;
  /** Port of reviews; absent: a free one. */
  readonly port?: number;
  /** More flags of `serve`; they come last, so they win. */
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** The script to run; absent: that of the sources. */
  readonly main?: string;
  /** Absent: that of the installation's service account, so that the rights of the manifests count. */
  readonly kubeconfig?: string;
}

/** One replica of the server, a process of its own. */
export interface Replica {
  readonly name: string;
  readonly pid: number;
  readonly host: string;
  readonly port: number;
  /** Such as `http://127.0.0.1:8081`. */
  readonly probes: string;
  /** HTTP status and text of a probe; `/readyz?verbose` by default. */
  probe(path?: string): Promise<{ readonly status: number; readonly text: string }>;
  /** Waits until it wants reviews; rejects with what keeps it from it. */
  ready(timeoutMs?: number): Promise<void>;
  log(): Record<string, unknown>[];
  /** Waits for a log line with that message. */
  logged(message: string): Promise<Record<string, unknown>>;
  readonly finished: Promise<Finished>;
  /** Ends the process; SIGINT spares the delay of a shutdown. */
  stop(signal?: NodeJS.Signals): Promise<Finished>;
}

const { namespace, name: ACCOUNT } = INSTALLATION;

/** The user that a replica is in a cluster, and its groups. */
export const REPLICA_USER = `system:serviceaccount:${namespace}:${ACCOUNT}`;
const REPLICA_GROUPS = ['system:serviceaccounts', `system:serviceaccounts:${namespace}`];

let started = 0;

/** Starts a replica that works for this control plane, and waits until it listens; it may not be ready yet. */
export async function startReplica(plane: ControlPlane, options: ReplicaOptions = {}): Promise<Replica> {
  const { name = `portcullis-${started++}`, port = 0, args = [], env = {} } = options;
  const kubeconfig = options.kubeconfig ?? (await plane.kubeconfigFor(REPLICA_USER, REPLICA_GROUPS));
  const program = start(
    [
      `--kubeconfig=${kubeconfig}`,
      `--namespace=${namespace}`,
      `--secure-port=${port}`,
      '--health-probe-bind-address=127.0.0.1:0',
      '--tls-extra-names=localhost,127.0.0.1',
      ...args,
    ],
    { HOSTNAME: name, ...env },
    options.main,
  );
  const { child, finished } = program;
  const kill = (): void => void child.kill('SIGKILL');
  process.on('exit', kill);
  void finished.then(() => process.off('exit', kill));
  const listening = await waitForLog(program, 'serving');
  const probes = `http://127.0.0.1:${String(listening['probesPort'])}`;
  const probe = async (path = '/readyz?verbose'): Promise<{ status: number; text: string }> => {
    const response = await fetch(`${probes}${path}`, { signal: AbortSignal.timeout(5_000) });
    return { status: response.status, text: await response.text() };
  };
  return {
    name,
    pid: child.pid ?? 0,
    host: '127.0.0.1',
    port: Number(listening['port']),
    probes,
    probe,
    async ready(timeoutMs = 30_000) {
      const deadline = Date.now() + timeoutMs;
      for (;;) {
        const { status, text } = await probe().catch((error: unknown) => ({ status: 0, text: String(error) }));
        if (status === 200) return;
        if (child.exitCode !== null || Date.now() > deadline) {
          throw new Error(`${name} does not get ready: ${text}\n${program.output().stderr.slice(-4000)}`);
        }
        await pause(50);
      }
    },
    log: () => readLog(program),
    logged: (message) => waitForLog(program, message),
    finished,
    async stop(signal = 'SIGINT') {
      child.kill(signal);
      return finished;
    },
  };
}

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

/** No request is ever made with these: what somebody may pass on is compared with what they have. */
const HELD_ONLY = new Set(['use']);

/** What replicas asked for and were refused, in words; each once. */
export function refusedCalls(calls: readonly RecordedCall[]): string[] {
  const refused = calls.filter(({ user, isAuthorized }) => user === REPLICA_USER && !isAuthorized);
  return [...new Set(refused.map(printCall))].sort();
}

/** The rights that the manifests give and no replica has used, in words. */
export function unusedRights(objects: readonly JsonObject[], calls: readonly RecordedCall[]): string[] {
  const used = calls.filter(({ user, isAuthorized }) => user === REPLICA_USER && isAuthorized);
  return roles(objects).flatMap(({ namespace, rules }) =>
    rules.flatMap(({ apiGroups, resources, verbs, resourceNames }) =>
      apiGroups.flatMap((group) =>
        resources.flatMap((name) =>
          verbs
            .filter((verb) => !HELD_ONLY.has(verb))
            .filter((verb) => {
              const [resource = '', subresource = ''] = name.split('/');
              return !used.some(
                (call) =>
                  call.verb === verb &&
                  call.group === group &&
                  call.resource === resource &&
                  call.subresource === subresource &&
                  (namespace === undefined || call.namespace === namespace) &&
                  (resourceNames === undefined || resourceNames.includes(call.name)),
              );
            })
            .map((verb) => printRight(verb, name, group, resourceNames)),
        ),
      ),
    ),
  );
}

/** The roles of the replicas; those that people get have a label that aggregates them. */
function roles(objects: readonly JsonObject[]): { readonly namespace?: string; readonly rules: readonly Rule[] }[] {
  return objects
    .filter(({ kind }) => kind === 'Role' || kind === 'ClusterRole')
    .filter(({ metadata }) => !JSON.stringify(metadata).includes('aggregate-to-'))
    .map(({ metadata, rules }) => {
      const namespace = isObject(metadata) ? metadata['namespace'] : undefined;
      return { ...(typeof namespace === 'string' ? { namespace } : {}), rules: rules as readonly Rule[] };
    });
}

function printCall({ verb, resource, subresource, group, namespace, name }: RecordedCall): string {
  const what = subresource === '' ? resource : `${resource}/${subresource}`;
  return `${printRight(verb, what, group, name === '' ? undefined : [name])}${namespace === '' ? '' : ` in ${namespace}`}`;
}

function printRight(verb: string, resource: string, group: string, names: readonly string[] | undefined): string {
  const what = group === '' ? resource : `${resource}.${group}`;
  if (names === undefined) return `${verb} ${what}`;
  return `${verb} ${what} named ${names.length > 1 ? `${names[0] ?? ''}, …` : (names[0] ?? '')}`;
}
