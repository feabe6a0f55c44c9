import {
  type ExemptionUses,
  listExemptions,
  type PolicyExemption,
  readExemptionUses,
} from '../../cluster/exemptions.ts';
import type { Kind } from '../../kube/kinds.ts';
import { printCount } from '../../kube/text.ts';
import { RBAC_KINDS } from '../../policy/rbac/rules.ts';
import { defineCommand, EXIT } from '../command.ts';
import { assumptionBlocks, listOptions, printListing, printTable, withHeader } from '../output/print.ts';
import { gatherRollout, rolloutOptions } from '../rollout/facts.ts';

const DETAILS = `
Lists everything that the policies do not apply to, for audits:

  default       the level or the SCC mode of namespaces without a label, if it does not enforce
  namespace     namespaces that the settings or their labels exempt, those whose webhooks fail open, and
                that of the installation
  user          users that the settings exempt
  runtimeClass  runtime classes that the settings exempt
  scc           security context constraints (SCCs) that admit pods which the level restricted denies
  grant         subjects that may use such an SCC

SINCE is the time of the last change of the setting or label, or, marked with *, the time at which the
object was created: the exemption is not older. PODS is the number of running pods. USES is the number of
admitted pods since the start of the replicas, by the Leases of the replicas.

Examples:
  portcullis audit exemptions
  portcullis audit exemptions -o json
  portcullis audit exemptions -f cluster-dump/ --config config.yaml
`;

const KINDS: readonly Kind[] = [
  'Namespace',
  'Pod',
  ...RBAC_KINDS,
  'SecurityContextConstraints',
  'PSAEnforcementConfig',
  'FeatureGate',
];

const HEADER = ['KIND', 'NAME', 'POLICY', 'SOURCE', 'SINCE', 'PODS', 'USES'];

/** Lists the exemptions of a cluster. */
export const command = defineCommand({
  details: DETAILS,
  options: { ...rolloutOptions, ...listOptions },
  async run(options, _operands, io) {
    const { config, output, 'installation-namespace': namespace } = options;
    const facts = await gatherRollout(options, io, new Date(), { kinds: KINDS });
    const { store, podSecurity, management, assumptions, settingsSource } = facts;
    const hasWebhooks = facts.isInstalled && !facts.serverless;
    const uses = readExemptionUses(store.list('Lease', namespace));
    const isFromFile = config !== undefined;
    const { scc } = management;
    const exemptions = listExemptions({ store, podSecurity, scc, namespace, isFromFile, hasWebhooks, uses });
    const counted = uses && { since: uses.since, replicas: uses.replicas };
    const data = { exemptions, uses: counted, settings: settingsSource, assumptions };
    const rows = exemptions.map(printExemption);
    printListing(io, output, { data, objects: exemptions }, (style) => [
      ...assumptionBlocks(assumptions, settingsSource),
      ...(rows.length === 0 ? [] : [printTable(withHeader(HEADER, rows, options))]),
      `${style('bold', printCount(exemptions.length, 'exemption'))}\n${printUses(uses)}\n`,
    ]);
    return EXIT.passed;
  },
});

function printExemption(exemption: PolicyExemption): readonly string[] {
  const { kind, name, policy, source, scc, namespace, level, namespaces, since, sinceSource, pods, uses } = exemption;
  const notes = [
    ...(level === undefined ? [] : [`level ${level}`]),
    ...(namespaces === undefined ? [] : [printCount(namespaces, 'namespace')]),
    ...(namespace === undefined ? [] : [`in namespace ${namespace}`]),
  ];
  return [
    kind,
    scc === undefined ? name : `${scc}: ${name}`,
    policy,
    notes.length === 0 ? source : `${source}, ${notes.join(', ')}`,
    since === undefined ? '-' : `${since}${sinceSource === 'creationTimestamp' ? '*' : ''}`,
    pods === undefined ? '-' : String(pods),
    uses === undefined ? '-' : String(uses),
  ];
}

function printUses(uses: ExemptionUses | undefined): string {
  if (uses === undefined) return 'Uses are not known: no replica publishes counts in its Lease.';
  return `Uses are counted by ${printCount(uses.replicas, 'replica')} since ${uses.since}.`;
}
