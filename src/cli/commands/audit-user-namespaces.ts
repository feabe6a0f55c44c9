import { listPodSources, POD_SOURCES } from '../../cluster/workloads.ts';
import type { Store } from '../../cluster/store.ts';
import {
  type AuditInput,
  AUDIT_RULES,
  type AuditCode,
  type AuditFinding,
  type Severity,
  auditUserNamespaces,
} from '../../policy/rollout/user-namespace-audit.ts';
import { EXIT, defineCommand } from '../command.ts';
import { assumptionBlocks } from '../output/print.ts';
import { type Style, styleOf, printable, DATA_AND_TABLE, outputOption, printData } from '../output/print.ts';
import type { Kind } from '../../kube/types.ts';
import { RBAC_KINDS } from '../../policy/rbac/rules.ts';
import { readInventory, inventoryOptions } from '../inventory/inventory.ts';
import { flag } from '../options.ts';

/** Everything that the audit of user namespaces reads. */
function gatherAudit(store: Store, include: AuditInput['include']): AuditInput {
  const namespaces = store.list('Namespace');
  return {
    sccs: store.list('SecurityContextConstraints'),
    namespaces,
    pods: store.list('Pod'),
    sources: namespaces.flatMap(({ metadata }) => listPodSources(store, metadata?.name ?? '')),
    nodes: store.list('Node'),
    rbac: {
      roles: store.list('Role'),
      clusterRoles: store.list('ClusterRole'),
      roleBindings: store.list('RoleBinding'),
      clusterRoleBindings: store.list('ClusterRoleBinding'),
    },
    include,
  };
}

/** What an audit found, and what it took for granted. */
interface AuditReport {
  /** Sorted by namespace, kind and name. */
  readonly findings: readonly AuditFinding[];
  readonly assumptions: readonly string[];
}

type AuditSummary = Readonly<Record<Severity, number>>;

function summarizeAudit({ findings }: AuditReport): AuditSummary {
  const count = (severity: Severity): number => findings.filter((one) => one.severity === severity).length;
  return { high: count('high'), medium: count('medium'), info: count('info') };
}

/** What is for information alone is no violation. */
function exitCodeOfAudit(report: AuditReport): number {
  const { high, medium } = summarizeAudit(report);
  return high + medium === 0 ? EXIT.passed : EXIT.violations;
}

/** First what starts pods, lest it start them again, then the pods, then what lets others start such. */
const ORDER_OF_REPAIR: readonly AuditCode[] = ['UN002', 'UN001', 'UN004', 'UN005', 'UN003', 'UN006'];

/** What to do about the findings, in the order in which it has to be done. */
function remediesFor({ findings }: AuditReport): readonly { readonly code: AuditCode; readonly remedy: string }[] {
  const found = new Set(findings.map(({ code }) => code));
  return ORDER_OF_REPAIR.filter((code) => found.has(code)).map((code) => ({ code, remedy: AUDIT_RULES[code].remedy }));
}

/** For people: a line for each finding, the summary, and what to do in which order. */
function printAuditTable(report: AuditReport, style: Style): string {
  const { findings, assumptions } = report;
  const { high, medium, info } = summarizeAudit(report);
  const blocks = [
    ...(findings.length === 0 ? [] : [printFindings(findings, style)]),
    ...assumptionBlocks(assumptions),
    `${style('bold', `${high} high, ${medium} medium, ${info} info`)}\n${printRemedies(report)}`,
  ];
  return blocks.join('\n');
}

const EMPHASIS = { high: 'red', medium: 'yellow', info: 'dim' } as const;

function printFindings(findings: readonly AuditFinding[], style: Style): string {
  const width = findings.reduce((longest, one) => Math.max(longest, printSubject(one).length), 0);
  const lines = findings.map((one) => {
    const severity = style(EMPHASIS[one.severity], one.severity.padEnd('medium'.length));
    return `${one.code}  ${severity}  ${printSubject(one).padEnd(width)}  ${printable(one.message)}\n`;
  });
  return lines.join('');
}

function printSubject({ kind, namespace, name }: AuditFinding): string {
  return printable(`${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`);
}

function printRemedies(report: AuditReport): string {
  const remedies = remediesFor(report);
  if (remedies.length === 0) return 'Nothing has to be done.\n';
  const lines = remedies.map(({ code, remedy }, index) => `  ${index + 1}. ${code}: ${remedy}\n`);
  return `Before user namespaces cease to count, in this order:\n${lines.join('')}`;
}

/** For programs: everything that is known. */
function dataOfAudit(report: AuditReport): unknown {
  const { findings, assumptions } = report;
  return { summary: summarizeAudit(report), findings, remedies: remediesFor(report), assumptions };
}

const DETAILS = `
A pod with spec.hostUsers=false may be given rights that are harmless in its user namespace and not
outside of it. Before a cluster goes where user namespaces do not count (an older release, other
features), this finds what would gain rights:

  UN001  high    a pod that an SCC admitted which is safe in a user namespace only
  UN002  high    a workload that asks for such an SCC
  UN003  medium  who may use such an SCC
  UN004  medium  a pod that is root, unmasks /proc or has capabilities in its user namespace
  UN005  medium  a pod that violates the level of its namespace if its user namespace does not count
  UN006  high    a node whose kubelet ignores spec.hostUsers
  UN007  info    a pod that an SCC admitted which is as safe without a user namespace
  UN008  info    that Portcullis may use such an SCC, as it has to where it grants it

Exit codes:
  0  nothing of severity high or medium
  1  something is
  2  wrong usage, or what cannot be read
`;

const KINDS: readonly Kind[] = ['Namespace', 'Node', ...POD_SOURCES, ...RBAC_KINDS, 'SecurityContextConstraints'];

/** Finds what would gain rights if user namespaces did not count. */
export const command = defineCommand({
  details: DETAILS,
  options: {
    ...inventoryOptions,
    'include-completed': flag({ help: 'Look at pods that have ended, too' }),
    'include-mirror': flag({ help: 'Look at static pods, too' }),
    output: outputOption(DATA_AND_TABLE),
  },
  async run({ output, ...options }, _operands, io) {
    const { store, assumptions } = await readInventory(options, io, { kinds: KINDS, ranges: 'leave' });
    const include = [
      ...(options['include-completed'] ? (['completed'] as const) : []),
      ...(options['include-mirror'] ? (['mirror'] as const) : []),
    ];
    const report: AuditReport = { findings: auditUserNamespaces(gatherAudit(store, include)), assumptions };
    io.stdout.write(output === 'table' ? printAuditTable(report, styleOf(io)) : printData(output, dataOfAudit(report)));
    return exitCodeOfAudit(report);
  },
});
