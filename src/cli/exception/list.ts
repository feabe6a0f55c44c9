import { clustersOptions, defineClusterCommand } from '../clusters.ts';
import { EXIT } from '../command.ts';
import { listExceptions } from '../inventory/exceptions.ts';
import { inventoryOptions, readInventory, selectedNamespace, selectionOptions } from '../inventory/inventory.ts';
import { findSettings, sccOptions } from '../inventory/settings.ts';
import { option, time } from '../options.ts';
import { assumptionBlocks, listOptions, printTable, withHeader } from '../output/print.ts';

const DETAILS = `
Lists PodSecurityExceptions with their service accounts, expiry times, approvers and uses, and whether they
apply to new pods. -o wide adds the reason for each exception, the hash of its spec for "portcullis exception
approve --spec-hash", and the cause if it does not apply. A manifest has the same hash in every cluster.

Examples:
  portcullis exception list
  portcullis exception list -n shop -o wide
  portcullis exception list --at 2027-02-01
  portcullis exception list --context 'prod-*' -o wide
  portcullis exception list -f exception.yaml -o wide
`;

const HEADER = ['NAMESPACE', 'NAME', 'ACCOUNT', 'STATE', 'EXPIRES', 'APPROVED BY', 'USES'];

export const command = defineClusterCommand({
  details: DETAILS,
  options: {
    ...inventoryOptions,
    ...clustersOptions,
    ...selectionOptions,
    ...listOptions,
    config: sccOptions.config,
    at: option('DATE', time, undefined, { help: 'Show the states as of this date. Default: now' }),
  },
  columns: ['EXCEPTIONS', 'USES'],
  async gather(values, io) {
    const only = selectedNamespace(values);
    const inventory = await readInventory(values, io, { kinds: ['PodSecurityException'], only });
    const { store, assumptions } = inventory;
    const { settings, source } = await findSettings({ config: values.config, store });
    const nowMs = (values.at ?? new Date()).getTime();
    const exceptions = listExceptions(store, source === undefined ? undefined : settings.exceptions, nowMs, only);
    const isWide = values.output === 'wide';
    const rows = exceptions.map((exception) => [
      ...[
        exception.namespace,
        exception.name,
        exception.serviceAccount,
        exception.state,
        exception.expiresAt,
        exception.approvedBy ?? '-',
        String(exception.uses),
      ],
      ...(isWide ? [exception.reason, exception.specHash ?? '-', exception.problem ?? ''] : []),
    ]);
    const header = isWide ? [...HEADER, 'REASON', 'SPEC HASH', 'PROBLEM'] : HEADER;
    const objects = exceptions.map(({ name }) => ({ kind: 'PodSecurityException', name }));
    const states = Map.groupBy(exceptions, ({ state }) => state);
    return {
      data: { exceptions, settings: source, assumptions },
      objects,
      blocks: (style) => [
        ...assumptionBlocks(assumptions, source),
        rows.length === 0 ? 'No exceptions.\n' : printTable(withHeader(header, rows, values), { style }),
      ],
      code: EXIT.passed,
      row: [`${exceptions.length}`, `${exceptions.reduce((sum, { uses }) => sum + uses, 0)}`],
      message: [...states].map(([state, { length }]) => `${length} ${state}`).join(', '),
    };
  },
});
