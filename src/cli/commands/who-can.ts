import { RBAC_KINDS } from '../../policy/rbac/rules.ts';
import { defineCommand, EXIT } from '../command.ts';
import { findNamespace, readInventory, inventoryOptions } from '../inventory/inventory.ts';
import { objectName, option } from '../options.ts';
import { printColumns, DATA_AND_TABLE, outputOption, printData } from '../output/print.ts';
import { printAssumptions } from '../output/print.ts';
import { findScc, printSubject, printThrough, sccGrants, type SccGrant } from '../scc-grants.ts';

const DETAILS = `
Lists the users, groups and service accounts that may use an SCC (SecurityContextConstraints), where,
and through what: the users and groups of the SCC itself, or a role and its binding. A binding of a
namespace counts for pods in that namespace only. Service accounts also are in the groups
system:serviceaccounts, system:serviceaccounts:NAMESPACE and system:authenticated.

Examples:
  portcullis who-can privileged
  portcullis who-can anyuid -n shop -o json
  portcullis who-can anyuid -f cluster-dump/
`;

const KINDS = ['SecurityContextConstraints', ...RBAC_KINDS] as const;

/** Tells who may use an SCC. */
export const command = defineCommand({
  operands: '<scc>',
  details: DETAILS,
  options: {
    ...inventoryOptions,
    namespace: option('NAME', objectName, undefined, {
      short: 'n',
      help: 'What counts in this namespace; absent, in each. Of manifests, also the namespace of objects that name none',
    }),
    output: outputOption(DATA_AND_TABLE),
  },
  async run(options, operands, io) {
    const [name = ''] = operands;
    const { namespace, output } = options;
    const kinds = namespace === undefined ? KINDS : (['Namespace', ...KINDS] as const);
    const needs = { kinds, only: namespace, ranges: 'leave' } as const;
    const { store, assumptions } = await readInventory(options, io, needs);
    if (namespace !== undefined) findNamespace(store, namespace);
    const grants = sccGrants(store, findScc(store, name)).filter((grant) => countsIn(grant, namespace));
    const data = { scc: name, ...(namespace === undefined ? {} : { namespace }), grants, assumptions };
    if (output === 'table') io.stdout.write(`${printTable(grants)}${printAssumptions(assumptions)}`);
    else io.stdout.write(printData(output, data));
    return EXIT.passed;
  },
});

function countsIn(grant: SccGrant, namespace: string | undefined): boolean {
  return namespace === undefined || grant.namespace === undefined || grant.namespace === namespace;
}

function printTable(grants: readonly SccGrant[]): string {
  return printColumns(
    ['SUBJECT', 'NAMESPACE', 'THROUGH'],
    grants.map(({ subject, namespace, through }) => [
      printSubject(subject),
      namespace ?? '<all>',
      printThrough(through),
    ]),
  );
}
