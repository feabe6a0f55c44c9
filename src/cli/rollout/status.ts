import { countNamespaces, needsFix } from '../../policy/rollout/plan.ts';
import { rolloutBlockers } from '../../policy/rollout/state.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';
import { selectedNamespace, selectionOptions, selectorOption } from '../inventory/inventory.ts';
import { gatherRollout, rolloutOptions } from '../inventory/rollout.ts';
import type { Values } from '../options.ts';
import { assumptionBlocks, listOptions, printable, printListing, printTable } from '../output/print.ts';
import { countEvaluated, findNewerVersions, planNamespaces, selectNamespaces } from '../report/namespaces.ts';
import { describeState } from '../report/state-rows.ts';
import { listedNamespaces, namespaceSections, printNamespaceCounts } from './namespace-table.ts';

const SERVERLESS = {
  blockers: ['the policies in the API server have a constant default, without a rollout'],
  next: ['Plan another default: portcullis rollout plan --level baseline, or --level restricted.'],
} as const;

function printList(title: string, items: readonly string[]): string {
  return `${title}:\n${items.map((item) => `  ${printable(item)}\n`).join('')}`;
}

const DETAILS = `
Shows the state of the enforcement rollout, its blockers, and the next steps. The command evaluates the
current state of all namespaces, and changes nothing. -o wide lists all namespaces that have denied workloads,
with their details. -n and -l restrict only the list, not the state of the cluster.

The exit code is 1 if Portcullis is not installed in the cluster.

Examples:
  portcullis rollout status
  portcullis rollout status -n shop
  portcullis rollout status -o json
  portcullis rollout status -f exported/ --config config.yaml --scc-mode enforce
`;

export const command = defineCommand({
  details: DETAILS,
  options: { ...rolloutOptions, ...selectionOptions, ...selectorOption, ...listOptions },
  async run(options, _operands, io) {
    const only = selectedNamespace(options);
    const facts = await gatherRollout(options, io, new Date());
    const { state, settingsSource: settings, isInstalled } = facts;
    if (!isInstalled) return printMissing(options, io);
    const planned = await planNamespaces(facts, io);
    const counts = countNamespaces(planned);
    const newer = findNewerVersions(planned, facts.store);
    const assumptions = [...facts.assumptions, ...newer];
    const selected = selectNamespaces(planned, facts.store, { ...options, namespace: only });
    const namespaces = only === undefined ? selected.filter(needsFix) : selected;
    const { blockers, next } = facts.serverless ? SERVERLESS : rolloutBlockers(state, countEvaluated(planned, facts));
    const data = { isInstalled, ...state, blockers, next, summary: counts, namespaces, settings, assumptions };
    printListing(io, options.output, { data, objects: listedNamespaces(namespaces) }, (style) => [
      ...assumptionBlocks(assumptions, settings),
      printTable(describeState(state), { gap: '  ' }),
      ...namespaceSections(namespaces, { ...options, namespace: only }, style),
      `${style('bold', [printNamespaceCounts(counts), ...newer].join('; '))}\n`,
      ...(blockers.length === 0 ? [] : [printList('Blocked by', blockers)]),
      ...(next.length === 0 ? [] : [printList('Next', next)]),
      ...(blockers.length === 0 ? ['The cluster is enforcing.\n'] : []),
    ]);
    return EXIT.passed;
  },
});

const NOT_INSTALLED =
  'Portcullis is not installed in this cluster: there is no PortcullisConfiguration "cluster", and no Deployment or Lease of a replica.';

function printMissing({ output }: Values<typeof listOptions>, io: Io): number {
  const next = ['Install it: portcullis install --help.', 'To evaluate the cluster first: portcullis rollout plan.'];
  const data = { isInstalled: false, blockers: [NOT_INSTALLED], next };
  printListing(io, output, { data, objects: [] }, () => [`${NOT_INSTALLED}\n`, printList('Next', next)]);
  return EXIT.violations;
}
