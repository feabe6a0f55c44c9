import type { Connection } from '../../cluster/connect.ts';
import { INSTALLATION, REPLICA, COMPONENT_LABEL } from '../../kube/installation.ts';
import { RESOURCES } from '../../kube/resources.ts';
import type { Lease } from '../../kube/types.ts';
import { ifThere } from '../installation/connect.ts';
import { listObjects } from '../installation/resource.ts';
import type { Where } from './find.ts';
import { PODS } from './stages.ts';

const PREFIX = `${INSTALLATION.name}-replica-`;

/**
 * The hosts of replicas that live, by their Leases, and are no pods: nothing that is done to the cluster ends them.
 * Rejects as `request` does.
 */
export async function findProcesses(
  connection: Connection,
  { namespace, signal }: Where,
  now: Date,
): Promise<readonly string[]> {
  const labels = `${COMPONENT_LABEL}=${REPLICA}`;
  const [leases = [], pods = []] = await Promise.all([
    ifThere(() => listObjects(connection, RESOURCES.Lease, { namespace, labels, signal })),
    ifThere(() => listObjects(connection, PODS, { namespace, signal })),
  ]);
  const ours = new Set(pods.map(({ metadata }) => metadata.name));
  return leases
    .filter((lease) => isFresh(lease, now))
    .map(({ metadata: { name } }) => (name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name))
    .filter((host) => !ours.has(host));
}

function isFresh({ spec }: Lease, now: Date): boolean {
  return Date.parse(spec?.renewTime ?? '') + (spec?.leaseDurationSeconds ?? 0) * 1000 >= now.getTime();
}
