/** Finds the objects of an installation that its settings no longer require. */
import { COMPONENT_LABEL, PART_OF, PART_OF_LABEL } from '../../api/names.ts';
import { CONFIGURATION_KINDS } from '../../api/webhooks.ts';
import type { ClusterClient } from '../../cluster/client.ts';
import {
  buildManifests,
  type Manifest,
  type ManifestSettings,
  PREREQUISITES,
  staticWebhookConfigurations,
} from '../../install/index.ts';
import type { Kind } from '../../kube/kinds.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { kubectl, type ShellCommand } from '../output/shell.ts';

const ROLE_KINDS = ['ClusterRoleBinding', 'ClusterRole', 'RoleBinding', 'Role'] as const;
const POLICY_KINDS = ['ValidatingAdmissionPolicyBinding', 'ValidatingAdmissionPolicy'] as const;

/**
 * Returns roles, policies, bindings and webhook configurations that the settings do not require, such as
 * `clusterroles/portcullis-olm`, in deletion order. Roles come first, because the leader cannot restore webhooks
 * without them.
 */
export async function findObsolete(client: ClusterClient, settings: ManifestSettings): Promise<readonly string[]> {
  const manifests = [...buildManifests(settings), ...staticWebhookConfigurations(settings)];
  const names = new Set(manifests.map(({ kind, metadata: { name } }) => `${kind} ${name}`));
  const isNeeded = (kind: Kind, name: string): boolean => names.has(`${kind} ${name}`);
  const list = async (kind: Kind, labels: string): Promise<readonly string[]> => {
    const { namespace } = settings;
    const objects = await client.list(RESOURCES[kind], { namespace, labels });
    const obsolete = objects.filter(({ metadata: { name } }) => !isNeeded(kind, name));
    return obsolete.map(({ metadata: { name } }) => `${RESOURCES[kind].resource}/${name}`);
  };
  const own = `${PART_OF_LABEL}=${PART_OF}`;
  const lists = [
    ...ROLE_KINDS.map((kind) => list(kind, own)),
    // The label excludes the policies of the leader and of installations without a server.
    ...POLICY_KINDS.map((kind) => list(kind, `${own},${COMPONENT_LABEL}=${PREREQUISITES}`)),
    ...CONFIGURATION_KINDS.map((kind) => list(kind, own)),
  ];
  return (await Promise.all(lists)).flat();
}

/** Returns the command that deletes obsolete objects. The leader may already have deleted some of them. */
export function deleteObsolete(namespace: string, obsolete: readonly string[]): ShellCommand {
  const scope = obsolete.some((name) => name.startsWith('role')) ? ['-n', namespace] : [];
  return kubectl(...scope, 'delete', '--ignore-not-found', ...obsolete);
}

export function objectPathName({ kind, metadata: { name, namespace } }: Pick<Manifest, 'kind' | 'metadata'>): string {
  return namespace === undefined ? `${kind}/${name}` : `${kind}/${namespace}/${name}`;
}
