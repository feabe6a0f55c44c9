import type { BreakGlassStatus } from '../../install/index.ts';
import { printCount, summarizeNames } from '../../kube/text.ts';
import { ignoreApiError, namespaceOption, withCluster } from '../cluster.ts';
import { clustersOptions, defineClusterCommand } from '../clusters.ts';
import { EXIT } from '../command.ts';
import { readPolicyObjects } from '../installation/policies.ts';
import { type Cell, DATA_AND_TABLE, outputOption, printTable, type Style, type Tone } from '../output/print.ts';
import { getClusterFlags } from '../output/shell.ts';
import { readBreakGlass } from './checks/break-glass.ts';
import { evaluateChecks } from './checks/index.ts';
import type { DoctorFinding, Severity } from './facts.ts';
import { type PrintedFinding, printFinding } from './fix.ts';
import { gatherFacts } from './gather.ts';
import { type Outage, simulateOutage, simulateSccWrites } from './outage.ts';
import { diagnosePolicies, hasServer } from './without-server.ts';

const DETAILS = `
Inspects an installation and its cluster. For each problem, it prints the impact and the fix, which is
a shell command or an instruction. To fix objects that differ from the output of portcullis
install, apply that output again. It contains the options and the settings of the installation.

The command reads objects and sends server-side dry runs. It changes nothing. Without sufficient permissions, it
reports the facts that it could not read. The exit code is 1 if there are problems, but not for warnings.

Examples:
  portcullis doctor
  portcullis doctor --context 'prod-*'
  portcullis doctor -o json | jq '.findings[] | select(.severity == "problem")'
`;

export const command = defineClusterCommand({
  details: DETAILS,
  options: {
    ...clustersOptions,
    ...namespaceOption,
    output: outputOption([...DATA_AND_TABLE, 'wide']),
  },
  columns: ['PROBLEMS', 'WARNINGS', 'UNKNOWN', 'BREAK-GLASS'],
  async gather({ namespace, kubeconfig, context }, io) {
    const options = { kubeconfig, context };
    const flags = getClusterFlags(options);
    const print = (finding: DoctorFinding): PrintedFinding => printFinding(finding, flags);
    const diagnosis = await withCluster(options, io, async (client): Promise<Diagnosis> => {
      const { server } = client.connection;
      // Policies are optional, so the command inspects only the server if the user may not list them.
      const policies = (await readPolicyObjects(client).catch(ignoreApiError)) ?? [];
      if (policies.length > 0 && !(await hasServer(client, namespace))) {
        const findings = await diagnosePolicies(client, policies);
        return { server, breakGlass: 'off', findings: findings.map(print), outage: [], sccWrites: 'unaffected' };
      }
      const facts = await gatherFacts(client, { namespace, now: new Date(), policyObjects: policies });
      const { breakGlass } = readBreakGlass(facts);
      const findings = evaluateChecks(facts).map(print);
      return { server, breakGlass, findings, outage: simulateOutage(facts), sccWrites: simulateSccWrites(facts) };
    });
    const { findings, breakGlass } = diagnosis;
    const counts = countFindings(findings);
    return {
      data: diagnosis,
      blocks: (style) => [formatDiagnosis(diagnosis, style)],
      code: counts[0] === 0 ? EXIT.passed : EXIT.violations,
      row: [...counts.map(String), breakGlass],
      message: findings.find(({ severity }) => severity === 'problem')?.message,
    };
  },
});

interface Diagnosis {
  readonly server: string;
  readonly findings: readonly PrintedFinding[];
  readonly outage: readonly Outage[];
  readonly sccWrites: ReturnType<typeof simulateSccWrites>;
  readonly breakGlass: BreakGlassStatus['breakGlass'];
}

const TONES: Readonly<Partial<Record<Severity, Tone>>> = {
  problem: 'red',
  warning: 'yellow',
  unknown: 'dim',
  info: 'dim',
};

function formatDiagnosis(diagnosis: Diagnosis, style: Style): string {
  const { findings } = diagnosis;
  const table = printTable(findings.flatMap(findingRows), { style, gap: '  ' });
  return `${table}${formatOutage(diagnosis, style)}\n${style('bold', formatCounts(findings))}\n`;
}

/** Returns separate rows for the message, the impact and the fix. */
function findingRows({ severity, check, object, message, impact, fix }: PrintedFinding): readonly (readonly Cell[])[] {
  const tone = TONES[severity];
  return [
    [tone ? [severity, tone] : severity, check, `${object}: ${message}`],
    ...(impact === undefined ? [] : [['', '', [`Impact: ${impact}`, 'dim']] as const]),
    ...(fix === undefined ? [] : [['', '', [`Fix: ${fix}`, 'dim']] as const]),
  ];
}

/** Maximum number of printed namespaces. It is higher than in findings, because users look for their own namespaces. */
const NAMESPACE_LIMIT = 8;

function formatOutage({ outage, sccWrites, breakGlass }: Diagnosis, style: Style): string {
  if (outage.length === 0) return '';
  const rows = outage.map(({ tier, reasons, pods, exec, namespaceWrites, namespaces }) => [
    tier,
    reasons.join(', '),
    pods,
    exec,
    namespaceWrites,
    `${namespaces.length}`,
    summarizeNames(namespaces, NAMESPACE_LIMIT),
  ]);
  const condition = breakGlass === 'off' ? '' : ', after "portcullis break-glass off"';
  const title = `While no replica responds${condition} (the PodSecurity plugin, if enabled, still enforces labels):`;
  const header = ['TIER', 'REASON', 'PODS', 'EXEC, ATTACH', 'NAMESPACE WRITES', 'COUNT', 'NAMESPACES'];
  const sccs = sccWrites === undefined ? '' : `Writes of SCCs: ${sccWrites}\n`;
  return `\n${style('bold', title)}\n${printTable([header, ...rows])}${sccs}`;
}

/** Returns the number of problems, of warnings and of unknown facts. */
function countFindings(findings: readonly PrintedFinding[]): readonly [number, number, number] {
  const count = (severity: Severity): number => findings.filter((finding) => finding.severity === severity).length;
  return [count('problem'), count('warning'), count('unknown')];
}

/** Formats the number of findings, such as `2 problems, 1 warning, 3 unknown`. */
function formatCounts(findings: readonly PrintedFinding[]): string {
  const [problems, warnings, unknown] = countFindings(findings);
  const known = `${printCount(problems, 'problem')}, ${printCount(warnings, 'warning')}`;
  return unknown === 0 ? known : `${known}, ${unknown} unknown`;
}
