import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { INSTALLATION } from '../../../src/api/names.ts';
import { isObject, type JsonObject, type KubeObject } from '../../../src/kube/types.ts';
import { objectMetadata } from '../answers.ts';
import { type Backend, type Balancer, startBalancer } from '../balancer.ts';
import { eventually } from '../eventually.ts';
import { type FinishedProcess, readLog, start, waitForLog } from '../serve-process.ts';
import { apply, localObjects, replicaArguments } from './installation.ts';
import { freePorts } from './process.ts';
import type { ControlPlane, RecordedCall } from './index.ts';

export interface ReplicaOptions {
  /** Host name of the process, which is used instead of a pod name. */
  readonly name?: string;
  /** Port of the webhooks. Defaults to a free port. */
  readonly port?: number;
  /** Additional arguments of `serve`, which take precedence. */
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** The script to run. Defaults to the sources. */
  readonly main?: string;
  /** Defaults to a kubeconfig for the installation's service account, which has the permissions in the manifests. */
  readonly kubeconfig?: string;
}

/** A server replica in its own process. */
export interface Replica {
  readonly name: string;
  readonly pid: number;
  readonly host: string;
  readonly port: number;
  /** URL for probes, such as `http://127.0.0.1:8081`. */
  readonly probes: string;
  /** Returns the HTTP status and text of a probe. Default: `/readyz?verbose`. */
  probe(path?: string): Promise<{ readonly status: number; readonly text: string }>;
  /** Waits until the replica is ready. Rejects with the failed checks. */
  ready(timeoutMs?: number): Promise<void>;
  log(): Record<string, unknown>[];
  /** Waits for a log line with the message. */
  logged(message: string): Promise<Record<string, unknown>>;
  readonly finished: Promise<FinishedProcess>;
  /** Stops the process. SIGINT skips the shutdown delay. */
  stop(signal?: NodeJS.Signals): Promise<FinishedProcess>;
}

const { namespace, name: ACCOUNT } = INSTALLATION;

/** The replicas' user in the cluster, and its groups. */
export const REPLICA_USER = `system:serviceaccount:${namespace}:${ACCOUNT}`;
const REPLICA_GROUPS = ['system:serviceaccounts', `system:serviceaccounts:${namespace}`];

let started = 0;

/** Replaces the arguments whose flags the replacements also set, because each flag is accepted only once. */
function replaceFlags(args: readonly string[], replacements: readonly string[]): readonly string[] {
  const flags = new Set(replacements.map((arg) => arg.split('=')[0]));
  return [...args.filter((arg) => !flags.has(arg.split('=')[0])), ...replacements];
}

/** Starts a replica for a control plane and waits until it listens, which may be before it is ready. */
export async function startReplica(plane: ControlPlane, options: ReplicaOptions = {}): Promise<Replica> {
  const { name = `portcullis-${started++}`, port = 0, args = [], env = {} } = options;
  const kubeconfig = options.kubeconfig ?? (await plane.kubeconfigFor(REPLICA_USER, REPLICA_GROUPS));
  const defaults = [
    `--kubeconfig=${kubeconfig}`,
    `--namespace=${namespace}`,
    `--secure-port=${port}`,
    '--health-probe-bind-address=127.0.0.1:0',
    '--tls-extra-names=localhost,127.0.0.1',
  ];
  const program = start(replaceFlags(defaults, args), { HOSTNAME: name, ...env }, options.main);
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
          throw new Error(`${name} does not become ready: ${text}\n${program.output().stderr.slice(-4000)}`);
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

/** Verbs that occur in no request. RBAC requires the replicas to have them in order to grant them to other subjects. */
const HELD_ONLY = new Set(['use']);

/** Returns the distinct requests of replicas that RBAC denied, as text. */
export function refusedCalls(calls: readonly RecordedCall[]): string[] {
  const refused = calls.filter(({ user, isAuthorized }) => user === REPLICA_USER && !isAuthorized);
  return [...new Set(refused.map(printCall))].sort();
}

/** Returns the permissions in the manifests that no replica used, as text. */
export function unusedPermissions(objects: readonly JsonObject[], calls: readonly RecordedCall[]): string[] {
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
                  (call.verb === verb || (verb === 'create' && call.verb === 'patch' && call.code === 201)) &&
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

/** Returns the roles of the replicas. Roles for users are not bound. */
function roles(objects: readonly JsonObject[]): { readonly namespace?: string; readonly rules: readonly Rule[] }[] {
  return objects
    .filter(({ kind }) => kind === 'Role' || kind === 'ClusterRole')
    .filter(({ kind, metadata }) =>
      objects.some(
        (one) =>
          one['kind'] === `${String(kind)}Binding` && objectMetadata(one)['name'] === (metadata as JsonObject)['name'],
      ),
    )
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

/** An installation with objects in a control plane, and replicas behind a load balancer. */
export interface System {
  readonly plane: ControlPlane;
  /** Port of the load balancer, which is started with the first replica. */
  readonly port: number;
  /** The objects of the installation. */
  readonly objects: readonly JsonObject[];
  readonly replicas: readonly Replica[];
  /** Applies all objects and returns the paths of changed objects. */
  install(): Promise<readonly string[]>;
  /** Starts additional replicas, which may not be ready yet. */
  start(more: number, options?: ReplicaOptions): Promise<readonly Replica[]>;
  /** Starts additional replicas and waits until the load balancer uses all replicas. */
  add(more: number, options?: ReplicaOptions): Promise<readonly Replica[]>;
  /** Sends new connections to these servers instead of the replicas until the replicas change. */
  route(backends: readonly Backend[]): void;
  /** Stops replicas with SIGTERM and removes them from the load balancer. Defaults to all replicas. */
  retire(...retired: readonly Replica[]): Promise<void>;
  /** Replaces the spec of the PortcullisConfiguration. */
  configure(spec: JsonObject): Promise<void>;
  /** Waits until the load balancer uses the given number of replicas. */
  settled(count: number): Promise<void>;
  stop(): Promise<void>;
}

/** Arguments that shorten the delays of replicas for tests. */
const QUICK = ['--leader-elect-lease-duration=3s', '--shutdown-delay-duration=1s'];

export interface SystemOptions {
  /** Address of the load balancer. Defaults to 127.0.0.1. */
  readonly host?: string;
  /** Port of the load balancer. Defaults to a free port. */
  readonly port?: number;
  /** Additional arguments of each replica. Defaults to short delays. */
  readonly args?: readonly string[];
  /** Creates the objects for a port. Defaults to this version's manifests. */
  objectsFor?(port: number): readonly JsonObject[];
}

/** Creates an installation without objects and replicas. The caller stops the control plane. */
export async function createSystem(plane: ControlPlane, options: SystemOptions = {}): Promise<System> {
  const port = options.port ?? (await freePorts(1))[0] ?? 0;
  const objects = (options.objectsFor ?? localObjects)(port);
  const args = [...replicaArguments(objects), ...(options.args ?? QUICK)];
  let balancer: Balancer | undefined;
  let replicas: readonly Replica[] = [];
  const use = (these: readonly Replica[]): void => {
    replicas = these;
    balancer?.use(these);
  };
  const settled = async (count: number): Promise<void> => {
    await Promise.all(replicas.map((replica) => replica.ready()));
    await balancer?.waitForReady(count);
  };
  const start: System['start'] = async (more, given = {}) => {
    balancer ??= await startBalancer([], { host: options.host ?? '127.0.0.1', port });
    const all = { ...given, args: replaceFlags(args, given.args ?? []) };
    const started = await Promise.all(Array.from({ length: more }, () => startReplica(plane, all)));
    use([...replicas, ...started]);
    return started;
  };
  return {
    plane,
    port,
    objects,
    get replicas() {
      return replicas;
    },
    install: () => apply(plane.admin, objects),
    start,
    async add(more, given) {
      const started = await start(more, given);
      await settled(replicas.length);
      return started;
    },
    route: (backends) => balancer?.use(backends),
    async retire(...named) {
      const retired = named.length === 0 ? replicas : named;
      await Promise.all(retired.map((replica) => replica.stop('SIGTERM')));
      use(replicas.filter((replica) => !retired.includes(replica)));
      // Their connections are closed, so the next review is sent to another replica.
      await pause(50);
    },
    async configure(spec) {
      const path = '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations';
      await eventually(async () => {
        const type = { apiVersion: 'config.portcullis.dev/v1alpha1', kind: 'PortcullisConfiguration' };
        const found = await plane.admin.send('GET', `${path}/cluster`);
        const { metadata } = (found.status === 200 ? found.body : { metadata: { name: 'cluster' } }) as KubeObject;
        const [method, target] = found.status === 200 ? ['PUT', `${path}/cluster`] : ['POST', path];
        const { status, text } = await plane.admin.send(method, target, { ...type, metadata, spec });
        assert.ok(status < 300, text);
      });
    },
    settled,
    async stop() {
      await Promise.all(replicas.map((replica) => replica.stop()));
      await balancer?.stop();
    },
  };
}
