import { UserError } from '../../config/files.ts';
import { manifestNamespace } from '../../config/objects.ts';
import { createPod } from '../../kube/controller-pod.ts';
import { getApiVersion, resourceName } from '../../kube/resources.ts';
import { quote, shellQuote } from '../../kube/text.ts';
import { createCustomScc, planPod, type PlannedPod } from '../../policy/scc/advice/explain.ts';
import { defineCommand, EXIT } from '../command.ts';
import { dryRunOption, dryRunSuffix, withCluster, writeObject } from '../installation.ts';
import { findNamespace } from '../inventory/inventory.ts';
import { parseReference, readWorkloads } from '../inventory/references.ts';
import { UsageError } from '../options.ts';
import { printObjects, writtenOutputOption } from '../output/print.ts';
import { sccInput } from './input.ts';
import { sccReviewOptions, sccSettings } from './options.ts';

const DETAILS = `
Writes the custom SCC (SecurityContextConstraints) that "portcullis scc plan" recommends for a workload
that no SCC admits except one that allows everything: a copy of the closest SCC with the fields that the
workload needs. The SCC has no users and groups: grant its use with "portcullis scc grant".

The workload is read from the cluster, or from the manifests of --filename.

Examples:
  portcullis scc create vpn deployment/vpn -n shop
  portcullis scc create vpn deployment/vpn -n shop --dry-run=client -o yaml
  portcullis scc create vpn deployment/vpn -f deploy/ --offline --dry-run=client -o yaml
`;

/** The reason why there is no custom SCC for a pod. */
function explainMissing(planned: PlannedPod, grant: (scc: string) => string): string {
  if (planned.outcome === 'admitted') return `SCC ${quote(planned.scc)} admits it`;
  if (planned.outcome === 'ignored') return 'SCCs do not apply to it';
  const { grantable, suggestedScc, message } = planned;
  return grantable !== undefined && suggestedScc === undefined
    ? `SCC ${quote(grantable)} would admit it: ${grant(grantable)}`
    : `no custom SCC would admit it: ${message}`;
}

/** Creates the custom SCC for a workload. */
export const command = defineCommand({
  operands: '<name> <type/name>',
  details: DETAILS,
  options: { ...sccReviewOptions, ...dryRunOption, output: writtenOutputOption },
  async run(values, [name = '', resource = ''], io) {
    const { 'dry-run': dryRun, offline, output } = values;
    if (offline && dryRun !== 'client') throw new UsageError('--offline requires --dry-run=client');
    const reference = parseReference(resource);
    const { kind } = reference;
    if (kind === 'Namespace') throw new UsageError(`${quote(resource)} is not a workload`);
    const { inventory, subjects } = await readWorkloads([reference], values, io);
    const object = subjects[0]?.value ?? {};
    const { store } = inventory;
    const namespace = manifestNamespace(object) ?? inventory.namespace;
    const findAccount = (account: string) => store.get('ServiceAccount', account, namespace);
    const created = createPod({ kind, object }, { namespace, creator: {}, findAccount });
    if (created === undefined) throw new UserError(`${resource} has no pod template`);
    const input = {
      ...sccInput(store, await sccSettings(values, store)),
      object: created.pod,
      namespace: findNamespace(store, namespace),
      userInfo: created.requester,
    };
    const grant = (scc: string): string =>
      `portcullis scc grant ${[scc, '-z', created.serviceAccount ?? 'default', '-n', namespace].map(shellQuote).join(' ')}`;
    const planned = planPod(input);
    const scc = planned.outcome === 'denied' ? createCustomScc(input, name) : undefined;
    if (scc === undefined) throw new UserError(`no custom SCC for ${resource}: ${explainMissing(planned, grant)}`);
    const typed = {
      ...scc,
      apiVersion: getApiVersion('SecurityContextConstraints'),
      kind: 'SecurityContextConstraints',
    };
    const written =
      dryRun === 'client'
        ? typed
        : await withCluster(values, io, (client) => writeObject(client, 'SecurityContextConstraints', typed, dryRun));
    if (output !== undefined) printObjects(io, output, [written]);
    else {
      io.stdout.write(`${resourceName('SecurityContextConstraints')}/${name} created${dryRunSuffix(dryRun)}\n`);
      io.stderr.write(`Next: ${grant(name)}\n`);
    }
    return EXIT.passed;
  },
});
