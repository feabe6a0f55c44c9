import type { Kind } from '../../kube/kinds.ts';
import { printCount } from '../../kube/text.ts';
import { readException } from '../../views/exceptions.ts';
import {
  EXEMPTION_KINDS,
  type ExemptionProblem,
  type ExemptionUses,
  findExemptionProblems,
  readExemptionUses,
} from '../../views/exemptions.ts';
import type { PolicyExemption } from '../../web/report-data.ts';
import { clustersOptions, defineClusterCommand } from '../clusters.ts';
import { EXIT } from '../command.ts';
import { listExemptions } from '../inventory/exemptions.ts';
import { gatherRollout, rolloutOptions } from '../inventory/rollout.ts';
import { assumptionBlocks, listOptions, printable, printTable, type Style, withHeader } from '../output/print.ts';

const DETAILS = `
Lists all exemptions from the policies, for audits:

  default       the level or SCC mode for namespaces without a label, if it enforces nothing
  namespace     namespaces exempted by the settings or their labels, namespaces whose webhooks fail
                open, and the installation namespace
  user          users exempted by the settings
  runtimeClass  runtime classes exempted by the settings
  scc           security context constraints (SCCs) that admit pods that the restricted level denies
  grant         subjects that may use such an SCC
  exception     approved PodSecurityExceptions that have not expired

A permanent grant that was created or changed while the same SCC was granted temporarily ("portcullis scc grant
--for") is marked, because a subject of the temporary grant may have created it.

The list below the table contains exempt namespaces and runtime classes that do not exist, and exempt
users that either create no pods or create the pods of all users.

SINCE is the time of the last change to the setting or label. A * marks the creation time of the
object, which is the earliest possible time. PODS is the number of running pods. USES is the number of
pods admitted since the replicas started, as published in their Leases.

Examples:
  portcullis audit exemptions
  portcullis audit exemptions -o json
  portcullis audit exemptions --all-contexts
  portcullis audit exemptions -f cluster-dump/ --config config.yaml
`;

const KINDS: readonly Kind[] = [
  'Pod',
  ...EXEMPTION_KINDS,
  'SecurityContextConstraints',
  'PSAEnforcementConfig',
  'FeatureGate',
];

const HEADER = ['KIND', 'NAME', 'POLICY', 'SOURCE', 'SINCE', 'PODS', 'USES'];

const COLUMNS = ['default', 'namespace', 'user', 'runtimeClass', 'scc', 'grant', 'exception'] as const;

export const command = defineClusterCommand({
  details: DETAILS,
  options: { ...rolloutOptions, ...clustersOptions, ...listOptions },
  columns: COLUMNS.map((kind) => kind.toUpperCase()),
  async gather(options, io) {
    const { config, 'installation-namespace': namespace } = options;
    const facts = await gatherRollout(options, io, new Date(), { kinds: KINDS });
    const { store, podSecurity, management, assumptions, settingsSource } = facts;
    const hasWebhooks = facts.isInstalled && !facts.policies;
    const uses = readExemptionUses(store.list('Lease', namespace));
    const isFromFile = config !== undefined;
    const { scc } = management;
    const exceptions = store.list('PodSecurityException').flatMap((object) => {
      const exception = readException(object);
      const active = facts.exceptions(exception?.namespace ?? '');
      return exception && active.rules.includes(exception.rule) ? [exception] : [];
    });
    const exemptions = listExemptions({
      store,
      podSecurity,
      scc,
      namespace,
      isFromFile,
      hasWebhooks,
      uses,
      exceptions,
    });
    const readsCluster = options.filename.length === 0;
    const problems = findExemptionProblems(store, podSecurity.configuration.exemptions, readsCluster);
    const counted = uses && { since: uses.since, replicas: uses.replicas };
    const data = { exemptions, problems, uses: counted, settings: settingsSource, assumptions };
    const rows = exemptions.map(printExemption);
    return {
      data,
      objects: exemptions,
      blocks: (style) => [
        ...assumptionBlocks(assumptions, settingsSource),
        ...(rows.length === 0 ? [] : [printTable(withHeader(HEADER, rows, options))]),
        ...(problems.length === 0 ? [] : [problems.map((one) => printProblem(one, style)).join('')]),
        `${style('bold', printCount(exemptions.length, 'exemption'))}\n${printUses(uses)}\n`,
      ],
      code: EXIT.passed,
      row: COLUMNS.map((column) => `${exemptions.filter(({ kind }) => kind === column).length}`),
    };
  },
});

function printProblem({ kind, name, problem, severity }: ExemptionProblem, style: Style): string {
  const title = severity === 'info' ? 'note' : style('yellow', severity);
  return `${title}: ${printable(`${kind} ${name}: ${problem}`)}\n`;
}

function printExemption(exemption: PolicyExemption): readonly string[] {
  const { kind, name, policy, source, scc, namespace, level, namespaces, during, since, sinceSource, pods, uses } =
    exemption;
  const notes = [
    ...(level === undefined ? [] : [`level ${level}`]),
    ...(namespaces === undefined ? [] : [printCount(namespaces, 'namespace')]),
    ...(namespace === undefined ? [] : [`in namespace ${namespace}`]),
    ...(during === undefined ? [] : [`created during the temporary grant of ${during.from} to ${during.until}`]),
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
  if (uses === undefined) return 'Uses are unknown because no replica publishes counts in its Lease.';
  return `Uses have been counted by ${printCount(uses.replicas, 'replica')} since ${uses.since}.`;
}
