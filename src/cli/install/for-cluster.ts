/** Prints the manifests of an installation for a cluster, for `install` and `upgrade`. */
import { INSTALLATION } from '../../api/names.ts';
import { printNewlyClosed } from '../../api/webhooks.ts';
import type { ClusterClient } from '../../cluster/client.ts';
import { listSettings } from '../../config/setting-paths.ts';
import { printYaml } from '../../config/yaml.ts';
import { createFailsClosed } from '../../controllers/required-webhooks.ts';
import { buildManifests, decodePolicy, type ManifestSettings, type PolicySettings } from '../../install/index.ts';
import { deepEqual } from '../../kube/equality.ts';
import { objectName, RESOURCES } from '../../kube/resources.ts';
import { valueAt } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import { WEBHOOK_REGISTRATIONS } from '../../server/webhooks/index.ts';
import { ignoreApiError, withCluster } from '../cluster.ts';
import { EXIT, type Io, VERSION } from '../command.ts';
import { findIncompatibility } from '../installation/deployment.ts';
import {
  divideSettings,
  type Installation,
  readInstallation,
  readUpgradeProblem,
} from '../installation/installation.ts';
import { deleteObsolete, findObsolete } from '../installation/obsolete-objects.ts';
import {
  readRolloutState,
  checkWeakenings,
  findLostSccs,
  findWeakenings,
  findWeakerThanPolicies,
} from '../installation/weakening.ts';
import type { Sources } from '../options.ts';
import { printable } from '../output/print.ts';
import { getClusterFlags, printCommand } from '../output/shell.ts';
import { readClusterFacts, planForCluster, type PlanValues } from './plan.ts';
import { checkPolicyOptions, printPolicies } from './without-server.ts';

interface Upgrade {
  readonly sources: Sources;
  /** Returns the image of the new version. */
  findImage(installation: Installation): string;
}

const POLICIES_REMAIN =
  'policies: they remain in force. Once the server enforces at least as much, portcullis doctor prints the command that deletes them';

/** Prints the manifests to stdout, and the assumptions and the commands to run afterwards to stderr. */
export async function printForCluster(options: PlanValues, io: Io, upgrade?: Upgrade): Promise<number> {
  return await withCluster(options, io, async (client) => {
    const installation = await readInstallation(client, options.namespace);
    const { deployment, policySettings } = installation;
    if (upgrade && !deployment && policySettings) {
      checkPolicyOptions(options, upgrade.sources);
      await printPolicies(client, options, io);
      return EXIT.passed;
    }
    const image = upgrade?.findImage(installation) ?? options.image;
    const problem = findIncompatibility(deployment, upgrade !== undefined);
    if (problem !== undefined) throw new UserError(problem);
    // Without a Deployment, the policies enforce their own settings, and an existing PortcullisConfiguration is not
    // used.
    const carried = deployment ? [] : listSettings(policySettings?.spec ?? {});
    const values = { ...options, image, set: [...carried, ...options.set] };
    const plan = planForCluster(await readClusterFacts(client), installation.settings, values);
    const { policy, features } = plan.settings;
    const { namespace } = options;
    const current = installation.settings.policy;
    const installed = { namespace, policy: current ?? policy, features: installation.settings.features ?? features };
    checkWeakenings(
      [
        ...(deployment || !policySettings ? findWeakenings(installed, plan.settings) : []),
        ...(await findEndedSccs(client, installed, plan.settings)),
        ...(policySettings ? findWeakerThanPolicies(namespace, policySettings.spec, policy) : []),
      ],
      options['allow-weaker'],
    );
    const changes = values.set.filter(({ path, value }) => !deepEqual(valueAt(current ?? {}, path), value));
    const { initial, object, removal } = divideSettings(installation, changes);
    const manifests = buildManifests({ ...plan.settings, ...(deployment ? { initial } : {}) });
    const obsolete = await findObsolete(client, plan.settings);
    const closed = deployment && current ? await findNewlyClosed(client, plan.settings, installed) : [];
    // The command prints the manifests even if the user may not read this object.
    const legacy = upgrade && (await readUpgradeProblem(client).catch(ignoreApiError));
    const clusterFlags = getClusterFlags(options);
    const lines = [
      ...plan.notes.map((note) => `Note: ${note}`),
      ...(closed.length === 0 ? [] : [`Note: ${printNewlyClosed(closed)}`]),
      ...(legacy === undefined ? [] : [`Note: PSAEnforcementConfig cluster: Upgradeable is False: ${legacy}`]),
      ...(policySettings ? [POLICIES_REMAIN] : []),
      ...(removal ? [`settings: ${printCommand(removal, clusterFlags)}`] : []),
      ...(obsolete.length === 0
        ? []
        : [`obsolete: after the rollout: ${printCommand(deleteObsolete(namespace, obsolete), clusterFlags)}`]),
    ];
    io.stdout.write(printYaml([...manifests, ...(object ? [object] : [])]));
    for (const line of lines) io.stderr.write(`${printable(line)}\n`);
    return EXIT.passed;
  });
}

/** Describes the namespaces whose labels enforce SCCs, if the new settings turn SCC admission off. */
async function findEndedSccs(
  client: ClusterClient,
  before: PolicySettings,
  after: PolicySettings,
): Promise<readonly string[]> {
  const { scc } = decodePolicy(before);
  if (scc.mode !== 'report' || decodePolicy(after).scc.mode !== 'off') return [];
  return findLostSccs(await client.list(RESOURCES.Namespace), scc);
}

/**
 * Returns the namespaces that fail closed with the new settings, but not with the installed settings. Returns none if
 * the user may not list namespaces.
 */
async function findNewlyClosed(
  client: ClusterClient,
  { namespace, policy, features }: ManifestSettings,
  before: Required<PolicySettings>,
): Promise<readonly string[]> {
  const after = { namespace, policy, features };
  if (deepEqual(before, after)) return [];
  const store = await readRolloutState(client, namespace, ['Namespace']).catch((error: unknown) => {
    if (error instanceof UserError) return undefined;
    throw error;
  });
  if (!store) return [];
  const scope = { store, service: { namespace, name: INSTALLATION.name }, version: VERSION };
  const [old, next] = [before, after].map((settings) =>
    createFailsClosed(WEBHOOK_REGISTRATIONS, decodePolicy(settings), { ...scope, features: settings.features }),
  );
  return store
    .list('Namespace')
    .flatMap((namespace) => (next?.(namespace) && !old?.(namespace) ? [objectName(namespace)] : []));
}
