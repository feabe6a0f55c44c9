import { isInstalled } from '../doctor/checks/installed.ts';
import { afterBreakGlass, tierOf, tierOfRequest, type Request, type Tier } from '../doctor/matching.ts';
import { type Facts, type Finding, type Severity, printNames } from '../doctor/facts.ts';
import { type Status, statusOf } from '../break-glass.ts';
import {
  printColumns,
  type Style,
  styleOf,
  printable,
  DATA_AND_TABLE,
  outputOption,
  printData,
} from '../output/print.ts';
import { defineCommand, EXIT } from '../command.ts';
import { judgeAll } from '../doctor/checks/index.ts';
import { gatherFacts } from '../doctor/gather.ts';
import { withCluster, isOurs, clusterOptions, namespaceOption } from '../installation.ts';

/** What happens in namespaces of a tier while no replica answers. */
interface Outage {
  readonly tier: Tier;
  readonly namespaces: readonly string[];
  readonly pods: 'refused' | 'start unjudged' | 'start';
  readonly namespaceLabels: 'refused' | 'change unjudged' | 'change';
  /** That get the same labels as these. */
  readonly newNamespaces: 'refused' | 'created unjudged' | 'created';
}

/**
 * What would happen if all replicas were down and the glass whole, by tiers; empty if the namespaces are not known, or
 * nothing is installed.
 */
export function foresee(facts: Facts): readonly Outage[] {
  const { namespaces } = facts;
  if (!('value' in namespaces) || !isInstalled(facts)) return [];
  const configurations = afterBreakGlass(facts.configurations);
  const outages = namespaces.value.map((namespace) => {
    const tier = tierOf(configurations, namespace);
    const request: Request = { operation: 'UPDATE', group: '', resource: 'namespaces', namespace };
    return {
      tier,
      namespace: namespace.name,
      pods: PODS[tier],
      namespaceLabels: LABELS[tierOfRequest(configurations, request)],
      newNamespaces: CREATED[tierOfRequest(configurations, { ...request, operation: 'CREATE' })],
    };
  });
  const groups = Map.groupBy(outages, (one) =>
    [ORDER.indexOf(one.tier), one.namespaceLabels, one.newNamespaces].join(' '),
  );
  return [...groups]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, [first, ...rest]]) => {
      if (!first) return [];
      const { namespace, ...outage } = first;
      return [{ ...outage, namespaces: [namespace, ...rest.map((one) => one.namespace)] }];
    });
}

const ORDER: readonly Tier[] = ['fail-closed', 'fail-open', 'excluded'];

const PODS: Readonly<Record<Tier, Outage['pods']>> = {
  'fail-closed': 'refused',
  'fail-open': 'start unjudged',
  excluded: 'start',
};

const LABELS: Readonly<Record<Tier, Outage['namespaceLabels']>> = {
  'fail-closed': 'refused',
  'fail-open': 'change unjudged',
  excluded: 'change',
};

const CREATED: Readonly<Record<Tier, Outage['newNamespaces']>> = {
  'fail-closed': 'refused',
  'fail-open': 'created unjudged',
  excluded: 'created',
};

/** What the doctor has to say. */
interface Diagnosis {
  readonly server: string;
  readonly findings: readonly Finding[];
  /** While no replica answers and the glass is whole. */
  readonly outage: readonly Outage[];
  readonly breakGlass: Status['breakGlass'];
}

const EMPHASIS: Readonly<Partial<Record<Severity, Parameters<Style>[0]>>> = {
  problem: 'red',
  warning: 'yellow',
  unknown: 'dim',
  info: 'dim',
};

/** For people: each finding with why it matters and what mends it, what an outage would do, and the count. */
function printDiagnosis({ findings, outage, breakGlass }: Diagnosis, style: Style): string {
  const widths = { severity: longest(findings, 'severity'), check: longest(findings, 'check') };
  const lines = findings.map((finding) => printFinding(finding, widths, style));
  return `${lines.join('')}${printOutage(outage, breakGlass, style)}\n${style('bold', printCount(findings))}\n`;
}

function printFinding(
  { severity, check, where, what, why, fix }: Finding,
  widths: { readonly severity: number; readonly check: number },
  style: Style,
): string {
  const emphasis = EMPHASIS[severity];
  const word = severity.padEnd(widths.severity);
  const head = `${emphasis ? style(emphasis, word) : word}  ${check.padEnd(widths.check)}  `;
  const indent = ' '.repeat(widths.severity + widths.check + 4);
  const more = [...(why === undefined ? [] : [`Why: ${why}`]), ...(fix === undefined ? [] : [`Fix: ${fix}`])];
  return [
    `${head}${printable(`${where}: ${what}`)}`,
    ...more.map((line) => `${indent}${style('dim', printable(line))}`),
  ]
    .map((line) => `${line}\n`)
    .join('');
}

function longest(findings: readonly Finding[], field: 'severity' | 'check'): number {
  return findings.reduce((length, finding) => Math.max(length, finding[field].length), 0);
}

function printOutage(outage: readonly Outage[], breakGlass: Status['breakGlass'], style: Style): string {
  if (outage.length === 0) return '';
  const rows = outage.map(({ tier, pods, namespaceLabels, newNamespaces, namespaces }) => [
    tier,
    pods,
    namespaceLabels,
    newNamespaces,
    `${namespaces.length}`,
    printNames(namespaces, SHOWN),
  ]);
  const when = breakGlass === 'off' ? '' : ', after "portcullis break-glass off"';
  const title = style('bold', `While no replica answers${when}:`);
  return `\n${title}\n${printColumns(['TIER', 'PODS', 'NAMESPACE LABELS', 'NEW NAMESPACES', 'COUNT', 'NAMESPACES'], rows)}`;
}

/** Of namespaces more are worth showing: people look for theirs. */
const SHOWN = 8;

/** `2 problems, 1 warning; 3 things could not be looked at` */
function printCount(findings: readonly Finding[]): string {
  const count = (severity: Severity): number => findings.filter((one) => one.severity === severity).length;
  const plural = (number: number, word: string): string => `${number} ${word}${number === 1 ? '' : 's'}`;
  const [problems, warnings, unknown] = [count('problem'), count('warning'), count('unknown')];
  const blind = unknown === 0 ? '' : `; ${plural(unknown, 'thing')} could not be looked at`;
  return `${plural(problems, 'problem')}, ${plural(warnings, 'warning')}${blind}`;
}

const DETAILS = `
Looks at an installation and at what surrounds it, and tells what is wrong, why that matters, and which
command mends it: are webhooks registered, reachable and trusted; do certificates, rights, replicas and
the configuration fit; who else judges pods in this cluster; what would be refused if all replicas were
down, and could they start again.

It reads, and asks the API server for dry runs; it changes nothing. With fewer rights it tells less, and
says what it could not look at.

Examples:
  portcullis doctor
  portcullis doctor -o json | jq '.findings[] | select(.severity == "problem")'

Exit codes:
  0  no problem was found; there may be warnings
  1  there are problems
  2  wrong usage, or the webhook configurations cannot be read
`;

/** Tells whether an installation works, and what happens when it does not. */
export const command = defineCommand({
  details: DETAILS,
  options: {
    ...clusterOptions,
    ...namespaceOption,
    output: outputOption(DATA_AND_TABLE),
  },
  async run({ output, namespace, ...options }, _operands, io) {
    const { signal, stdout } = io;
    const diagnosis = await withCluster(options, io, async (connection): Promise<Diagnosis> => {
      const facts = await gatherFacts(connection, { namespace, now: new Date(), signal });
      const { breakGlass } = statusOf(facts.configurations.filter(isOurs));
      return { server: connection.server, breakGlass, findings: judgeAll(facts), outage: foresee(facts) };
    });
    if (output === 'table') stdout.write(printDiagnosis(diagnosis, styleOf(io)));
    else stdout.write(printData(output, diagnosis));
    return diagnosis.findings.some(({ severity }) => severity === 'problem') ? EXIT.violations : EXIT.passed;
  },
});
