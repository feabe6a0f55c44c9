import { shellQuote } from '../../kube/text.ts';
import { ApiError } from '../../kube/status.ts';
import type { BreakGlassStatus } from '../install/break-glass-state.ts';
import { defineCommand, EXIT } from '../command.ts';
import { readBreakGlass } from '../doctor/checks/break-glass.ts';
import { isUnderFloor } from '../doctor/checks/floor.ts';
import { evaluateChecks } from '../doctor/checks/index.ts';
import { isInstalled } from '../doctor/checks/installation.ts';
import { formatNames, type Facts, type Finding, type Severity } from '../doctor/facts.ts';
import { gatherFacts } from '../doctor/gather.ts';
import { checkBesideServer, diagnosePolicies, hasServer } from '../doctor/policies.ts';
import { readPolicyObjects } from '../install/policies.ts';
import { namespaceTier, requestTier, withoutBreakGlass, type Request, type Tier } from '../doctor/matching.ts';
import { clusterOptions, namespaceOption, withCluster } from '../installation.ts';
import type { Values } from '../options.ts';
import {
  printTable,
  DATA_AND_TABLE,
  outputOption,
  printData,
  outputStyle,
  type Style,
  printable,
} from '../output/print.ts';

const DETAILS = `
Inspects an installation and its cluster. For each problem, it prints the impact and a command that fixes
it. It checks whether webhooks are registered, reachable and trusted; certificates, permissions, replicas
and configuration; other admission plugins for pods; and whether the cluster can start if all replicas
are down. Without a server, it checks whether the policies in the API server are complete, unchanged, for the
version of the API server, and enforced.

The command reads objects and sends server-side dry runs. It changes nothing. If it lacks permissions, it
reports what it could not read.

Examples:
  portcullis doctor
  portcullis doctor -o json | jq '.findings[] | select(.severity == "problem")'

Exit codes:
  0  no problems; there may be warnings
  1  problems found
  2  wrong usage, or the webhook configurations cannot be read
`;

export const command = defineCommand({
  details: DETAILS,
  options: {
    ...clusterOptions,
    ...namespaceOption,
    output: outputOption(DATA_AND_TABLE),
  },
  async run({ output, namespace, ...options }, _operands, io) {
    const { stdout } = io;
    const diagnosis = await withCluster(options, io, async (client): Promise<Diagnosis> => {
      const { server } = client.connection;
      const policies = await readPolicyObjects(client).catch(ignoreApiError);
      if (policies.length > 0 && !(await hasServer(client, namespace))) {
        const results = await diagnosePolicies(client, policies);
        const findings = results.map((finding) => withClusterFlags(finding, options));
        return { server, breakGlass: 'off', findings, outage: [] };
      }
      const facts = await gatherFacts(client, { namespace, now: new Date() });
      const checked = evaluateChecks(facts);
      const beside = await checkBesideServer(policies, { client, facts, findings: checked });
      const { breakGlass } = readBreakGlass(facts);
      return {
        server,
        breakGlass,
        findings: [...checked, ...beside].map((finding) => withClusterFlags(finding, options)),
        outage: simulateOutage(facts),
      };
    });
    stdout.write(output === 'table' ? formatDiagnosis(diagnosis, outputStyle(io)) : printData(output, diagnosis));
    return diagnosis.findings.some(({ severity }) => severity === 'problem') ? EXIT.violations : EXIT.passed;
  },
});

/** The policies are not required: without a permission to list them, the command inspects the server. */
function ignoreApiError(error: unknown): [] {
  if (error instanceof ApiError) return [];
  throw error;
}

/** Adds the flags that select the cluster to the commands of the fix. */
function withClusterFlags(finding: Finding, { kubeconfig, context }: Values<typeof clusterOptions>): Finding {
  const flags = Object.entries({ kubeconfig, context })
    .map(([name, value]) => (value === undefined ? '' : ` --${name}=${shellQuote(value)}`))
    .join('');
  if (finding.fix === undefined || flags === '') return finding;
  const fix = finding.fix
    .replaceAll(/(^|\| |&& )kubectl /g, (_all, separator: string) => `${separator}kubectl${flags} `)
    .replace(/^portcullis (?!.*--help)[^#|]*[^#| ]/, (command) => `${command}${flags}`);
  return { ...finding, fix };
}

interface Diagnosis {
  readonly server: string;
  readonly findings: readonly Finding[];
  /** The effect on requests while no replica responds and break-glass is off. */
  readonly outage: readonly Outage[];
  readonly breakGlass: BreakGlassStatus['breakGlass'];
}

type Effect = 'denied' | 'admitted without review' | 'decided by the floor' | 'unaffected';

/** The effect on requests in namespaces of a tier while no replica responds. */
interface Outage {
  readonly tier: Tier;
  readonly namespaces: readonly string[];
  readonly pods: Effect;
  readonly namespaceLabels: Effect;
  /** Effect on new namespaces with the labels of these namespaces. */
  readonly newNamespaces: Effect;
}

const EFFECTS: Readonly<Record<Tier, Effect>> = {
  'fail-closed': 'denied',
  'fail-open': 'admitted without review',
  excluded: 'unaffected',
};

const TIERS: readonly Tier[] = ['fail-closed', 'fail-open', 'excluded'];

/** The effects of an outage of all replicas by tier. Empty if the namespaces are unknown, or if nothing is installed. */
export function simulateOutage(facts: Facts): readonly Outage[] {
  const { namespaces } = facts;
  if (!('value' in namespaces) || !isInstalled(facts)) return [];
  const configurations = withoutBreakGlass(facts.configurations);
  const outages = namespaces.value.map((namespace) => {
    const tier = namespaceTier(configurations, namespace);
    const update: Request = { operation: 'UPDATE', group: '', resource: 'namespaces', namespace };
    return {
      tier,
      namespace: namespace.name,
      pods: tier === 'fail-open' && isUnderFloor(facts, namespace) ? 'decided by the floor' : EFFECTS[tier],
      namespaceLabels: EFFECTS[requestTier(configurations, update)],
      newNamespaces: EFFECTS[requestTier(configurations, { ...update, operation: 'CREATE' })],
    };
  });
  const groups = Map.groupBy(outages, ({ tier, pods, namespaceLabels, newNamespaces }) =>
    [TIERS.indexOf(tier), pods, namespaceLabels, newNamespaces].join(' '),
  );
  return [...groups]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, [first, ...rest]]) => {
      if (!first) return [];
      const { namespace, ...outage } = first;
      return [{ ...outage, namespaces: [namespace, ...rest.map((one) => one.namespace)] }];
    });
}

const EMPHASIS: Readonly<Partial<Record<Severity, Parameters<Style>[0]>>> = {
  problem: 'red',
  warning: 'yellow',
  unknown: 'dim',
  info: 'dim',
};

function formatDiagnosis({ findings, outage, breakGlass }: Diagnosis, style: Style): string {
  const widths = { severity: longest(findings, 'severity'), check: longest(findings, 'check') };
  const lines = findings.map((finding) => formatFinding(finding, widths, style));
  return `${lines.join('')}${formatOutage(outage, breakGlass, style)}\n${style('bold', formatCounts(findings))}\n`;
}

function formatFinding(
  { severity, check, object, message, impact, fix }: Finding,
  widths: { readonly severity: number; readonly check: number },
  style: Style,
): string {
  const emphasis = EMPHASIS[severity];
  const word = severity.padEnd(widths.severity);
  const head = `${emphasis ? style(emphasis, word) : word}  ${check.padEnd(widths.check)}  `;
  const indent = ' '.repeat(widths.severity + widths.check + 4);
  const details = [
    ...(impact === undefined ? [] : [`Impact: ${impact}`]),
    ...(fix === undefined ? [] : [`Fix: ${fix}`]),
  ].map((line) => `${indent}${style('dim', printable(line))}\n`);
  return `${head}${printable(`${object}: ${message}`)}\n${details.join('')}`;
}

function longest(findings: readonly Finding[], field: 'severity' | 'check'): number {
  return findings.reduce((length, finding) => Math.max(length, finding[field].length), 0);
}

/** Prints more names than findings do, because users search for their namespaces. */
const NAMESPACE_LIMIT = 8;

function formatOutage(outage: readonly Outage[], breakGlass: Diagnosis['breakGlass'], style: Style): string {
  if (outage.length === 0) return '';
  const rows = outage.map(({ tier, pods, namespaceLabels, newNamespaces, namespaces }) => [
    tier,
    pods,
    namespaceLabels,
    newNamespaces,
    `${namespaces.length}`,
    formatNames(namespaces, NAMESPACE_LIMIT),
  ]);
  const condition = breakGlass === 'off' ? '' : ', after "portcullis break-glass off"';
  const header = ['TIER', 'PODS', 'NAMESPACE LABELS', 'NEW NAMESPACES', 'COUNT', 'NAMESPACES'];
  return `\n${style('bold', `While no replica responds${condition}:`)}\n${printTable([header, ...rows])}`;
}

/** The number of findings: `2 problems, 1 warning, 3 unknown`. */
function formatCounts(findings: readonly Finding[]): string {
  const count = (severity: Severity): number => findings.filter((finding) => finding.severity === severity).length;
  const plural = (number: number, word: string): string => `${number} ${word}${number === 1 ? '' : 's'}`;
  const unknown = count('unknown');
  return `${plural(count('problem'), 'problem')}, ${plural(count('warning'), 'warning')}${unknown === 0 ? '' : `, ${unknown} unknown`}`;
}
