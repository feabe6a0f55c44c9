import { semanticEqual } from '../../kube/equality.ts';
import { getApiVersion, objectName, resourceName } from '../../kube/resources.ts';
import { printable, quote } from '../../kube/text.ts';
import { UserError } from '../../kube/user-error.ts';
import { createCustomScc, decidePod, grantCommand, type PodVerdict, workloadPod } from '../../policy/scc/index.ts';
import { dryRunOption, dryRunSuffix, withCluster, writeObject } from '../cluster.ts';
import { defineCommand, EXIT } from '../command.ts';
import { findNamespace } from '../inventory/inventory.ts';
import { workloadContext } from '../inventory/scc-input.ts';
import { sccReviewOptions, sccSettings } from '../inventory/settings.ts';
import { parseReference, readWorkload } from '../inventory/workloads.ts';
import { UsageError } from '../options.ts';
import { assumptionBlocks, printObjects, writtenOutputOption } from '../output/print.ts';
import { getClusterFlags } from '../output/shell.ts';

const DETAILS = `
Creates the custom SCC (SecurityContextConstraints) that "check", "explain" and "scc plan" recommend for a
workload that no SCC admits. The custom SCC is a copy of the closest SCC in which one field is changed, or
several fields if only an SCC that allows everything would admit the workload. The output lists these fields.
The custom SCC has no users and groups, so after you have checked the fields, grant its use with
"portcullis scc grant".

The workload is read from the cluster, or from the manifests of --filename.

Examples:
  portcullis scc create vpn deployment/vpn -n shop
  portcullis scc create vpn deployment/vpn -n shop --dry-run=client -o yaml
  portcullis scc create vpn deployment/vpn -f deploy/ --offline --dry-run=client -o yaml
`;

/** Explains why no custom SCC can be created for a pod. */
function explainMissing(verdict: PodVerdict, grant: (scc: string) => string): string {
  if (verdict.outcome === 'admitted') return `SCC ${quote(verdict.scc)} admits it`;
  if (verdict.outcome === 'ignored') return 'SCCs do not apply to it';
  const { grantable, suggestedScc, message } = verdict;
  return grantable !== undefined && suggestedScc === undefined
    ? `SCC ${quote(grantable)} would admit it: ${grant(grantable)}`
    : `no custom SCC would admit it: ${message}`;
}

/**
 * Formats the fields that differ from the copied SCC. The authors of the workload control these fields, so the
 * administrator should review them before granting the SCC.
 */
function printDifferences({ scc, original }: NonNullable<ReturnType<typeof createCustomScc>>): string {
  const before = new Map<string, unknown>(Object.entries(original));
  const fields = Object.entries(scc).filter(
    ([field, value]) => field !== 'metadata' && !semanticEqual(value, before.get(field)),
  );
  const values = fields.map(([field, value]) => `${field}=${JSON.stringify(value)}`);
  return printable(`It is a copy of SCC ${quote(objectName(original))} with: ${values.join(' ')}`);
}

export const command = defineCommand({
  operands: '<name> <type/name>',
  details: DETAILS,
  options: { ...sccReviewOptions, ...dryRunOption, output: writtenOutputOption },
  async run(values, [name = '', resource = ''], io) {
    const { 'dry-run': dryRun, offline, output } = values;
    if (offline && dryRun !== 'client') throw new UsageError('--offline requires --dry-run=client');
    const reference = parseReference(resource);
    if (reference.kind === 'Namespace') throw new UsageError(`${quote(resource)} is not a workload`);
    const { inventory, namespace, source } = await readWorkload(reference, values, io);
    const { store } = inventory;
    const settings = await sccSettings(values, store);
    const context = { ...workloadContext(store, settings, findNamespace(store, namespace)), creator: {} };
    const pod = workloadPod(source, context);
    if (pod === undefined) throw new UserError(`${resource} has no pod template`);
    const input = { ...pod.input, sccs: store.list('SecurityContextConstraints') };
    const { serviceAccount } = pod;
    const grant = (scc: string) => grantCommand(scc, { namespace, serviceAccount }, getClusterFlags(values));
    const verdict = decidePod(input);
    const custom = verdict.outcome === 'denied' ? createCustomScc(input, name) : undefined;
    if (custom === undefined) throw new UserError(`no custom SCC for ${resource}: ${explainMissing(verdict, grant)}`);
    const typed = {
      ...custom.scc,
      apiVersion: getApiVersion('SecurityContextConstraints'),
      kind: 'SecurityContextConstraints',
    };
    const written =
      dryRun === 'client'
        ? typed
        : await withCluster(values, io, (client) => writeObject(client, 'SecurityContextConstraints', typed, dryRun));
    for (const block of assumptionBlocks(inventory.assumptions)) io.stderr.write(block);
    if (output !== undefined) printObjects(io, output, [written]);
    else {
      io.stdout.write(`${resourceName('SecurityContextConstraints')}/${name} created${dryRunSuffix(dryRun)}\n`);
      io.stderr.write(`${printDifferences(custom)}\n`);
      if (custom.corrections.length > 0) {
        io.stderr.write(printable(`It admits ${resource} only after you ${custom.corrections.join(', ')}`) + '\n');
      }
      io.stderr.write(`Next: ${grant(name)}\n`);
    }
    return EXIT.passed;
  },
});
