/** A control plane with the controllers and the scheduler of Kubernetes, and nodes that kwok simulates. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonObject } from '../../src/kube/types.ts';
import { responseItems } from '../support/answers.ts';
import { ASSETS, type ControlPlane, startControlPlane } from '../support/control-plane/index.ts';
import { create } from '../support/control-plane/installation.ts';
import { type Daemon, freePorts, startDaemon, untilReady } from '../support/control-plane/process.ts';
import { eventually } from '../support/eventually.ts';

const PROGRAMS = ['kube-apiserver', 'etcd', 'kube-controller-manager', 'kube-scheduler', 'kwok'];

/** Reason to skip the tests, or false if all programs are available. */
export const missingPrograms = findMissing();

function findMissing(): string | false {
  const folder = ASSETS;
  if (folder === undefined) return 'KUBEBUILDER_ASSETS is not set';
  const missing = PROGRAMS.filter((name) => !existsSync(join(folder, name)));
  return missing.length > 0 && `KUBEBUILDER_ASSETS has no ${missing.join(', ')}`;
}

export interface FullCluster {
  readonly plane: ControlPlane;
  stop(): Promise<void>;
}

/** Starts all programs of the control plane and waits until its nodes are ready. */
export async function startFullCluster(nodes: number, { hasZones = true } = {}): Promise<FullCluster> {
  const plane = await startControlPlane({ controllers: 'none' });
  const daemons: Daemon[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(daemons.map((daemon) => daemon.stop()));
    await plane.stop();
  };
  const startProgram = async (name: string, args: readonly string[], health?: string): Promise<void> => {
    const log = join(plane.folder, `${name}.log`);
    const daemon = startDaemon(join(String(ASSETS), name), args, log);
    daemons.push(daemon);
    if (health !== undefined) await untilReady(daemon, name, log, async () => (await plainGet(health)) === 200);
  };
  try {
    const [manager = 0, scheduler = 0, kwok = 0] = await freePorts(3);
    await Promise.all([
      startProgram('kube-controller-manager', await controllerManagerArgs(plane, manager)),
      startProgram('kube-scheduler', await componentArgs(plane, 'system:kube-scheduler', scheduler)),
      startProgram('kwok', await kwokArgs(plane, kwok), `http://127.0.0.1:${kwok}/healthz`),
    ]);
    await createNodes(plane, nodes, hasZones);
  } catch (error) {
    await stop();
    throw error;
  }
  return { plane, stop };
}

async function plainGet(url: string): Promise<number> {
  return (await fetch(url, { signal: AbortSignal.timeout(5_000) })).status;
}

async function componentArgs(plane: ControlPlane, user: string, port: number): Promise<readonly string[]> {
  const kubeconfig = await plane.kubeconfigFor(user, []);
  return [
    `--kubeconfig=${kubeconfig}`,
    '--bind-address=127.0.0.1',
    `--secure-port=${port}`,
    `--cert-dir=${plane.folder}`,
    '--leader-elect=false',
    '--kube-api-qps=500',
    '--kube-api-burst=1000',
  ];
}

async function controllerManagerArgs(plane: ControlPlane, port: number): Promise<readonly string[]> {
  return [
    ...(await componentArgs(plane, 'system:kube-controller-manager', port)),
    '--use-service-account-credentials',
    `--service-account-private-key-file=${join(plane.folder, 'accounts.key')}`,
    `--root-ca-file=${join(plane.folder, 'ca.crt')}`,
    // On a busy machine, simulated nodes renew their Leases late, and their pods would be marked as not ready.
    '--node-monitor-grace-period=1h',
    // Resource quotas and volume attachments are not relevant here.
    '--controllers=*,-attachdetach,-resourcequota',
  ];
}

async function kwokArgs(plane: ControlPlane, port: number): Promise<readonly string[]> {
  return [
    `--kubeconfig=${await plane.kubeconfigFor('kwok', ['system:masters'])}`,
    `--config=${join(import.meta.dirname, 'stages.yaml')}`,
    '--manage-all-nodes=true',
    `--server-address=127.0.0.1:${port}`,
    '--node-ip=127.0.0.1',
    '--node-lease-duration-seconds=40',
  ];
}

const ZONES = 3;

/** Returns the zone label of a node. */
export function zoneLabels(index: number): Readonly<Record<string, string>> {
  return { 'topology.kubernetes.io/zone': `zone-${index % ZONES}` };
}

async function createNodes({ admin }: ControlPlane, count: number, hasZones: boolean): Promise<void> {
  for (let start = 0; start < count; start += 50) {
    const batch = Array.from({ length: Math.min(50, count - start) }, (_, index) => node(start + index, hasZones));
    await Promise.all(batch.map((object) => create(admin, object)));
  }
  await eventually(async () => {
    const nodes = responseItems(await admin.send('GET', '/api/v1/nodes?resourceVersion=0'));
    // The scheduler does not use a node until the node controller has removed its taint, shortly after it is ready.
    const ready = nodes.filter(
      (object) =>
        JSON.stringify(object).includes('"reason":"KubeletReady"') && !JSON.stringify(object).includes('"taints"'),
    );
    if (ready.length !== count) throw new Error(`${ready.length} of ${count} nodes are ready`);
  }, 120_000);
}

function node(index: number, hasZones: boolean): JsonObject {
  const name = `node-${index}`;
  const labels = {
    'kubernetes.io/hostname': name,
    'kubernetes.io/os': 'linux',
    'kubernetes.io/arch': 'amd64',
    ...(hasZones ? zoneLabels(index) : {}),
  };
  const resources = { cpu: '32', memory: '256Gi', pods: '110' };
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels },
    status: { allocatable: resources, capacity: resources },
  };
}
