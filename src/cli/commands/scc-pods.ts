import type { Store } from '../../cluster/store.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { RBAC_KINDS } from '../../policy/rbac/types.ts';
import { defineCommand, EXIT } from '../command.ts';
import { findNamespace } from '../inventory/find-namespace.ts';
import { readInventory } from '../inventory/inventory.ts';
import { inventoryOptions, selectedNamespace, selectionOptions } from '../inventory/options.ts';
import { printAssumptions } from '../inventory/print-assumptions.ts';
import { list, option } from '../options.ts';
import { DATA_AND_TABLE, outputOption } from '../report/output-option.ts';
import { printData } from '../report/print-data.ts';
import { findScc } from '../scc-access/find-scc.ts';
import { DEFAULT_SCC_MODE, sccOptions } from '../scc-options.ts';
import { auditPods, type AuditedPod } from '../scc-pods/audit-pods.ts';
import { printPodCsv, printPodTable } from '../scc-pods/print-pods.ts';
import { oneOf, text } from '../values.ts';

const DETAILS = `
Lists pods with the SCC (SecurityContextConstraints) that admitted them, as their annotations say:
whether the service account of the pod or the user who created it was allowed to use the SCC, through
what the service account is allowed to use it now, since when the pod runs, and what owns it.

A pod without an SCC was never judged: its namespace is exempt or SCCs are only reported there, it runs
on Windows, or it is older than the enforcement of SCCs. Where SCCs are not enforced, whoever creates a
pod can write the annotations.

Examples:
  portcullis scc pods
  portcullis scc pods --scc privileged,anyuid -o csv > pods.csv
  portcullis scc pods --subject user -n shop
`;

const KINDS = ['Namespace', 'Pod', 'SecurityContextConstraints', ...RBAC_KINDS] as const;

/** Tells auditors which pod runs under which SCC. */
export const sccPods = defineCommand({
  name: 'scc pods',
  summary: 'Show which SCC admitted each pod, and through what',
  details: DETAILS,
  options: {
    ...inventoryOptions,
    ...selectionOptions,
    scc: list('NAME', text, { help: 'Only pods that these SCCs admitted' }),
    subject: option('TYPE', oneOf(['user', 'serviceaccount'] as const), undefined, {
      help: 'Only pods whose user, or whose service account, was allowed to use the SCC: user, serviceaccount',
    }),
    'scc-mode': sccOptions['scc-mode'],
    'scc-exempt-namespaces': sccOptions['scc-exempt-namespaces'],
    output: outputOption([...DATA_AND_TABLE, 'csv']),
  },
  async run(options, _operands, io) {
    const namespace = selectedNamespace(options);
    const needs = { kinds: KINDS, only: namespace, ranges: 'leave' } as const;
    const { store, assumptions } = await readInventory(options, io, needs);
    const settings = {
      mode: options['scc-mode'] ?? DEFAULT_SCC_MODE,
      exemptNamespaces: options['scc-exempt-namespaces'],
    };
    checkFilter(store, namespace, options.scc);
    const pods = auditPods({ store, settings }, { namespace, sccs: options.scc, subject: options.subject });
    const assumed = options['scc-mode'] === undefined ? [MODE_ASSUMPTION] : [];
    io.stdout.write(PRINT[options.output](pods, [...assumptions, ...assumed]));
    return EXIT.passed;
  },
});

/** How the program runs is not seen from outside. */
const MODE_ASSUMPTION = `mode ${DEFAULT_SCC_MODE} of namespaces whose label names none (--scc-mode names another)`;

/** @throws {UserError} for a namespace that does not exist, and for an SCC that neither exists nor admitted any pod */
function checkFilter(store: Store, namespace: string | undefined, sccs: readonly string[]): void {
  if (namespace !== undefined) findNamespace(store, namespace);
  const named = new Set(store.list('Pod').map(({ metadata }) => metadata?.annotations?.[POD_SCC_ANNOTATIONS.scc]));
  for (const scc of sccs) {
    if (!named.has(scc)) findScc(store, scc);
  }
}

type Print = (pods: readonly AuditedPod[], assumptions: readonly string[]) => string;

const PRINT: Readonly<Record<'table' | 'json' | 'yaml' | 'csv', Print>> = {
  table: (pods, assumptions) =>
    `${pods.length === 0 ? 'no pods\n' : printPodTable(pods)}${printAssumptions(assumptions)}`,
  json: (pods, assumptions) => printData('json', { pods, assumptions }),
  yaml: (pods, assumptions) => printData('yaml', { pods, assumptions }),
  csv: (pods) => printPodCsv(pods),
};
