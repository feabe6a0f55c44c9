/** Prints the manifests of an installation for a cluster, for `install` and `upgrade`. */
import type { ClusterClient } from '../../cluster/client.ts';
import { listSettings } from '../../config/setting-paths.ts';
import { printYaml } from '../../config/yaml.ts';
import { buildManifests, type ManifestSettings } from '../../install/index.ts';
import { deepEqual } from '../../kube/equality.ts';
import { valueAt } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import { withCluster } from '../cluster.ts';
import { EXIT, type Io } from '../command.ts';
import { findIncompatibility } from '../installed/deployment.ts';
import { deleteObsolete, findObsolete, objectPathName, readObjects } from '../installed/objects.ts';
import { checkWeakenings, findWeakenings, findWeakerThanPolicies } from '../installed/weakening.ts';
import type { Sources } from '../options.ts';
import { printable } from '../output/print.ts';
import { printCommand } from '../output/shell.ts';
import { keepCustomized } from './customized.ts';
import { divideSettings, type Installation, readInstallation } from './installation.ts';
import { gatherFacts, planForCluster, type PlanValues, requestedChanges } from './plan.ts';
import { listOrNothing, summarizeSettings } from './summary.ts';
import { checkServerless, printPolicies } from './without-server.ts';

interface Upgrade {
  readonly sources: Sources;
  /** Selects the image for the new version. */
  findImage(installation: Installation): string;
}

export async function printForCluster(options: PlanValues, io: Io, upgrade?: Upgrade): Promise<number> {
  return await withCluster(options, io, async (client) => {
    const installation = await readInstallation(client, options.namespace);
    const { deployment, serverless } = installation;
    if (upgrade && !deployment && serverless) {
      checkServerless(options, upgrade.sources);
      await printPolicies(client, options, io);
      return EXIT.passed;
    }
    const image = upgrade?.findImage(installation) ?? options.image;
    const problem = findIncompatibility(deployment, upgrade !== undefined);
    if (problem !== undefined) throw new UserError(problem);
    // Without a Deployment, the policies enforce their own settings, and an existing PortcullisConfiguration is not
    // used.
    const carried = deployment ? [] : listSettings(serverless?.spec ?? {});
    const values = { ...options, image, set: [...carried, ...options.set] };
    const plan = planForCluster(await gatherFacts(client), installation.settings, values);
    const { policy } = plan.settings;
    const { namespace } = options;
    checkWeakenings(
      [
        ...(deployment || !serverless ? findWeakenings(namespace, installation.settings.policy ?? policy, policy) : []),
        ...(serverless ? findWeakerThanPolicies(namespace, serverless.spec, policy) : []),
      ],
      options['allow-weaker'],
    );
    const result = await combine(client, installation, plan.settings, values);
    io.stdout.write(printYaml(result.objects.map(({ manifest }) => manifest)));
    for (const note of plan.notes) io.stderr.write(`Note: ${printable(note)}\n`);
    for (const line of summarize(installation, plan.settings, result)) io.stderr.write(`${printable(line)}\n`);
    return EXIT.passed;
  });
}

/** Combines the manifests with the objects in the cluster. */
async function combine(
  client: ClusterClient,
  installation: Installation,
  settings: ManifestSettings,
  values: PlanValues,
) {
  const current = installation.settings.policy ?? {};
  const changes = requestedChanges(values, settings.features.scc).filter(
    ({ path, value }) => !deepEqual(valueAt(current, path), value),
  );
  const { initial, object, conflicts, removal } = divideSettings(installation, changes);
  const manifests = [...buildManifests(settings), ...(object ? [object] : [])];
  const live = await readObjects(client, manifests);
  const { certificates = settings.certificates } = installation.settings;
  const replacements = { initial, replacesCertificate: certificates !== settings.certificates };
  const objects = manifests.map((manifest, index) => ({
    live: live[index],
    ...keepCustomized(manifest, live[index], replacements),
  }));
  return { objects, conflicts, removal, obsolete: await findObsolete(client, settings) };
}

/** Summarizes the kept values, the changes and the new objects. */
function summarize(
  { deployment, serverless, settings: before }: Installation,
  after: ManifestSettings,
  { objects, conflicts, removal, obsolete }: Awaited<ReturnType<typeof combine>>,
): readonly string[] {
  const added = objects.filter(({ live }) => !live).map(({ manifest }) => objectPathName(manifest));
  const fields = objects.flatMap(({ manifest, fields: names }) =>
    names.map((name) => `${name} of ${objectPathName(manifest)}`),
  );
  return [
    ...(deployment ? summarizeSettings(before, after, fields) : []),
    `new: ${deployment ? listOrNothing(added) : `${added.length} objects`}`,
    ...(serverless
      ? [
          'policies: they remain in force. Once the server enforces at least as much, portcullis doctor prints the command that deletes them',
        ]
      : []),
    ...conflicts.map((one) => `conflict: ${one}: kubectl replaces it only with --force-conflicts`),
    ...(removal === undefined ? [] : [`settings: ${printCommand(removal)}`]),
    ...(obsolete.length === 0
      ? []
      : [`obsolete: after the rollout: ${printCommand(deleteObsolete(after.namespace, obsolete))}`]),
  ];
}
