import { POD_SOURCES } from '../../cluster/workloads.ts';
import type { Kind } from '../../kube/types.ts';
import { auditUserNamespaces } from '../../policy/rollout/user-namespace-audit.ts';
import { RBAC_KINDS } from '../../policy/rbac/types.ts';
import { gatherAudit } from '../audit/gather.ts';
import { dataOfAudit, printAuditTable } from '../audit/print.ts';
import { exitCodeOfAudit, type AuditReport } from '../audit/report.ts';
import { defineCommand } from '../command.ts';
import { readInventory } from '../inventory/inventory.ts';
import { inventoryOptions } from '../inventory/options.ts';
import { flag } from '../options.ts';
import { DATA_AND_TABLE, outputOption } from '../report/output-option.ts';
import { printData } from '../report/print-data.ts';
import { styleOf } from '../report/style.ts';

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
export const auditUserNamespacesCommand = defineCommand({
  name: 'audit user-namespaces',
  summary: 'Find what depends on user namespaces, before a downgrade',
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
