import type { Kind } from '../../kube/kinds.ts';
import { finishSteps } from '../../kube/steps.ts';
import { RBAC_KINDS } from '../../policy/rbac/index.ts';
import {
  AUDIT_RULES,
  type AuditCode,
  type AuditFinding,
  auditUserNamespaces,
  type AuditSeverity,
  SKEW_RELEASES,
} from '../../policy/rollout/index.ts';
import { storedRbacObjects } from '../../views/scc-grants.ts';
import { listPodSources, POD_SOURCES } from '../../views/workloads.ts';
import { defineCommand, EXIT } from '../command.ts';
import {
  findNamespace,
  inventoryOptions,
  readInventory,
  selectedNamespace,
  selectionOptions,
} from '../inventory/inventory.ts';
import { flag, oneOf, option, type Values } from '../options.ts';
import {
  assumptionBlocks,
  type Cell,
  listOptions,
  printListing,
  printTable,
  type Style,
  withHeader,
} from '../output/print.ts';

/** Order of the fixes. Controllers precede their pods, which they would otherwise recreate, and pods precede grants. */
const FIX_ORDER: readonly AuditCode[] = ['UN002', 'UN001', 'UN004', 'UN005', 'UN003', 'UN006'];

/** Returns the fixes for the findings, in the order in which they should be applied. */
function orderedFixes(findings: readonly AuditFinding[]) {
  const codes = new Set(findings.map(({ code }) => code));
  return FIX_ORDER.filter((code) => codes.has(code)).map((code) => ({ code, fix: AUDIT_RULES[code].remedy }));
}

function summarizeFindings(findings: readonly AuditFinding[]): Readonly<Record<AuditSeverity, number>> {
  const count = (severity: AuditSeverity): number => findings.filter((finding) => finding.severity === severity).length;
  return { high: count('high'), medium: count('medium'), info: count('info') };
}

const HEADER = ['CODE', 'SEVERITY', 'OBJECT', 'FINDING'];
const TONES = { high: 'red', medium: 'yellow', info: 'dim' } as const;

interface Audit {
  readonly findings: readonly AuditFinding[];
  readonly assumptions: readonly string[];
}

function printAudit({ findings, assumptions }: Audit, options: Values<typeof listOptions>, style: Style): string[] {
  const { high, medium, info } = summarizeFindings(findings);
  const rows = findings.map(({ code, severity, kind, namespace, name, message }): readonly Cell[] => {
    const subject = `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`;
    return [code, [severity, TONES[severity]], subject, message];
  });
  const fixes = orderedFixes(findings).map(({ code, fix }, index) => `  ${index + 1}. ${code}: ${fix}\n`);
  return [
    ...(rows.length === 0 ? [] : [printTable(withHeader(HEADER, rows, options), { style, gap: '  ' })]),
    ...assumptionBlocks(assumptions),
    `${style('bold', `${high} high, ${medium} medium, ${info} info`)}\n${
      fixes.length === 0
        ? 'No action is needed.\n'
        : `Do the following, in this order, before user namespaces are disabled:\n${fixes.join('')}`
    }`,
  ];
}

const DETAILS = `
A pod with spec.hostUsers=false may have permissions that are harmless only in its user namespace. This
command finds the objects that would gain permissions if a cluster changes to a release or to feature
gates that do not support user namespaces:

  UN001  high    a pod admitted by an SCC that is safe only in a user namespace
  UN002  high    a workload that requests such an SCC
  UN003  medium  subjects that may use such an SCC
  UN004  medium  a pod that runs as root, unmasks /proc or has capabilities in its user namespace
  UN005  medium  a pod that would violate the level of its namespace if it had no user namespace
  UN006  high    a node whose kubelet ignores spec.hostUsers
  UN007  info    a pod admitted by an SCC that is equally safe without a user namespace
  UN008  info    the permission of Portcullis itself to use such an SCC, which is required to grant it

The exit code is 1 for findings of high or medium severity.
`;

const KINDS: readonly Kind[] = ['Namespace', 'Node', ...POD_SOURCES, ...RBAC_KINDS, 'SecurityContextConstraints'];

export const command = defineCommand({
  details: DETAILS,
  options: {
    ...inventoryOptions,
    ...selectionOptions,
    'include-completed': flag({ help: 'Include completed pods' }),
    'include-mirror': flag({ help: 'Include mirror pods of static pods' }),
    target: option('RELEASE', oneOf(SKEW_RELEASES), undefined, {
      help: `OpenShift release of the API servers after the change: ${SKEW_RELEASES.join(', ')}. Nodes are reported only if API servers of this release rely on user namespaces although the kubelet ignores them`,
    }),
    ...listOptions,
  },
  async run(options, _operands, io) {
    const { output, target } = options;
    const only = selectedNamespace(options);
    const { store, assumptions } = await readInventory(options, io, { kinds: KINDS, only });
    if (only !== undefined) findNamespace(store, only);
    const include = (['completed', 'mirror'] as const).filter((state) => options[`include-${state}`]);
    const namespaces = store.list('Namespace');
    const all = auditUserNamespaces({
      sccs: store.list('SecurityContextConstraints'),
      namespaces,
      pods: store.list('Pod'),
      sources: namespaces.flatMap(({ metadata }) => finishSteps(listPodSources(store, metadata?.name ?? ''))),
      nodes: store.list('Node'),
      rbac: storedRbacObjects(store),
      include,
      target,
      emulationVersion: store.emulationVersion,
    });
    const findings = all.filter(({ namespace = only }) => only === undefined || namespace === only);
    const summary = summarizeFindings(findings);
    const data = { summary, findings, fixes: orderedFixes(findings), assumptions };
    printListing(io, output, { data, objects: findings }, (style) => printAudit(data, options, style));
    return summary.high + summary.medium === 0 ? EXIT.passed : EXIT.violations;
  },
});
