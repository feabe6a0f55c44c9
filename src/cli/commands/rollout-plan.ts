import type { Store } from '../../cluster/store.ts';
import { latestVersion, newestVersion } from '../../policy/pss/evaluate.ts';
import type { Version } from '../../policy/pss/policy.ts';
import { defineCommand, EXIT } from '../command.ts';
import { selectedNamespace, selectionOptions, selectorOption } from '../inventory/inventory.ts';
import { option, policyVersion } from '../options.ts';
import { assumptionBlocks, listOptions, printListing } from '../output/print.ts';
import {
  planUpgrade,
  countNamespaces,
  gatherRollout,
  listedNamespaces,
  namespaceSections,
  planNamespaces,
  printNamespaceCounts,
  rolloutOptions,
  selectNamespaces,
} from '../rollout.ts';

const DETAILS = `
Shows the current level of each namespace, the level with enforcement, the workloads that would be denied,
the reasons and the next steps. The command changes nothing.

A namespace with its own label keeps its level and is not evaluated. The level of other namespaces follows
from the security context constraints (SCCs) that their service accounts may use, if the server manages
their labels. Otherwise it is restricted.

With --kubernetes-version, only the workloads that this version would deny and the version of the
cluster admits are listed, in all namespaces: prepare an upgrade of the cluster with it.

The namespaces with most denied workloads are listed first, up to 20 namespaces. -o wide lists all of them
with the denied workloads, the reasons and the next steps; -n does so for one namespace.

Exit codes:
  0  no workload would be denied
  1  some workloads would be denied, or an evaluation failed
  2  wrong usage, or the input cannot be read

Examples:
  portcullis rollout plan
  portcullis rollout plan -n shop -o json
  portcullis rollout plan --kubernetes-version v1.37
  portcullis rollout plan -f exported/ --scc-mode enforce
`;

export const command = defineCommand({
  details: DETAILS,
  options: {
    ...rolloutOptions,
    ...selectionOptions,
    ...selectorOption,
    ...listOptions,
    'kubernetes-version': option('VERSION', policyVersion, undefined, {
      help: 'Show what this Kubernetes version would newly deny: v1.N',
    }),
  },
  async run(options, _operands, io) {
    const only = selectedNamespace(options);
    const facts = await gatherRollout(options, io, new Date());
    const { settingsSource: settings } = facts;
    const comparison = compare(facts.store, options['kubernetes-version']);
    const { versions } = comparison ?? {};
    const assumptions = [...facts.assumptions, ...(comparison?.assumptions ?? [])];
    const planned = versions ? await planUpgrade(facts, versions, { io, only }) : await planNamespaces(facts, io, only);
    const namespaces = selectNamespaces(planned, facts.store, { ...options, namespace: only });
    const counts = countNamespaces(namespaces);
    const denial = versions && `would be denied by Kubernetes ${versions.to} and not by ${versions.from}`;
    const data = { summary: counts, versions, namespaces, settings, assumptions };
    printListing(io, options.output, { data, objects: listedNamespaces(namespaces) }, (style) => [
      ...assumptionBlocks(assumptions, settings),
      ...namespaceSections(namespaces, { ...options, namespace: only }, style),
      `${style('bold', printNamespaceCounts(counts, denial))}\n`,
    ]);
    return counts.violating + counts.inconclusive === 0 ? EXIT.passed : EXIT.violations;
  },
});

/** The versions to compare. Without a cluster, the current version is the one before. */
function compare({ emulationVersion }: Store, to: Version | undefined) {
  if (to === undefined) return undefined;
  const minor = Number(latestVersion(to).slice('v1.'.length));
  const from = emulationVersion ?? (`v1.${Math.max(minor - 1, 0)}` as const);
  const isNewer = to !== 'latest' && latestVersion(to) !== to;
  return {
    versions: { from, to: to === 'latest' ? newestVersion : to },
    assumptions: [
      ...(emulationVersion === undefined ? [`Kubernetes ${from} as the current version`] : []),
      ...(isNewer ? [`${to} as ${newestVersion}, whose Pod Security Standards are the newest known`] : []),
    ],
  };
}
