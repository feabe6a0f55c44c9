import { defined } from '../../kube/defined.ts';
import { RBAC_KINDS } from '../../policy/rbac/index.ts';
import { findScc, printGrantSource, sccGrants } from '../../views/scc-grants.ts';
import { defineCommand, EXIT } from '../command.ts';
import { findNamespace, inventoryOptions, readInventory, selectionOptions } from '../inventory/inventory.ts';
import { assumptionBlocks, listOptions, printListing, printTable, withHeader } from '../output/print.ts';

const DETAILS = `
Lists the users, groups and service accounts that may use an SCC (SecurityContextConstraints), the namespaces of
these grants, and their sources, which are the users and groups of the SCC itself, or a role and its binding. A
RoleBinding applies only to pods in its namespace. Service accounts are also members of the groups
system:serviceaccounts, system:serviceaccounts:NAMESPACE and system:authenticated.

Examples:
  portcullis scc who-can privileged
  portcullis scc who-can anyuid -n shop -o json
  portcullis scc who-can anyuid -f cluster-dump/
`;

const KINDS = ['SecurityContextConstraints', ...RBAC_KINDS] as const;

export const command = defineCommand({
  operands: '<scc>',
  details: DETAILS,
  options: {
    ...inventoryOptions,
    namespace: selectionOptions.namespace,
    ...listOptions,
  },
  async run(options, [name = ''], io) {
    const { namespace, output } = options;
    const kinds = namespace === undefined ? KINDS : (['Namespace', ...KINDS] as const);
    const { store, assumptions } = await readInventory(options, io, { kinds, only: namespace });
    if (namespace !== undefined) findNamespace(store, namespace);
    const grants = sccGrants(store, findScc(store, name)).filter(
      (grant) => namespace === undefined || grant.namespace === undefined || grant.namespace === namespace,
    );
    const rows = grants.map(({ subject, namespace: scope = '<all>', through, expiresAt }) => {
      const prefix = subject.namespace === undefined ? '' : `${subject.namespace}/`;
      const end = expiresAt === undefined ? '' : `, until ${expiresAt}`;
      return [`${subject.kind} ${prefix}${subject.name}`, scope, `${printGrantSource(through)}${end}`];
    });
    const data = { scc: name, ...defined({ namespace }), grants, assumptions };
    const objects = grants.map(({ subject }) => subject);
    printListing(io, output, { data, objects }, () => [
      printTable(withHeader(['SUBJECT', 'NAMESPACE', 'GRANTED THROUGH'], rows, options)),
      ...assumptionBlocks(assumptions),
    ]);
    return EXIT.passed;
  },
});
