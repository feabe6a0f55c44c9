import type { ApiObject, TableColumn } from '../types.ts';
import { at, itemsAt, numberAt, selectorText, since, textAt } from './cells.ts';
import { ageColumn, column, count, nameColumn, wide } from './column.ts';

const webhookColumns: readonly TableColumn[] = [
  nameColumn,
  count(
    'Webhooks',
    (object) => itemsAt(object, 'webhooks').length,
    'Webhooks indicates the number of webhooks registered in this configuration',
  ),
  ageColumn,
];

const bindingColumns: readonly TableColumn[] = [
  nameColumn,
  column('Role', (object) => `${textAt(object, 'roleRef', 'kind')}/${textAt(object, 'roleRef', 'name')}`),
  ageColumn,
  wide(column('Users', subjects('User'))),
  wide(column('Groups', subjects('Group'))),
  wide(column('ServiceAccounts', subjects('ServiceAccount'))),
];

/** The columns of the kinds of other groups that are neither workloads nor plain. */
export const otherColumns: Readonly<Record<string, readonly TableColumn[]>> = {
  MutatingWebhookConfiguration: webhookColumns,
  ValidatingWebhookConfiguration: webhookColumns,
  RoleBinding: bindingColumns,
  ClusterRoleBinding: bindingColumns,
  NetworkPolicy: [
    nameColumn,
    column('Pod-Selector', (object) => selectorText(at(object, 'spec', 'podSelector'))),
    ageColumn,
  ],
  Lease: [nameColumn, column('Holder', (object) => textAt(object, 'spec', 'holderIdentity')), ageColumn],
  RuntimeClass: [nameColumn, column('Handler', (object) => textAt(object, 'handler')), ageColumn],
  PriorityClass: [
    nameColumn,
    count('Value', (object) => numberAt(object, 'value')),
    { ...column('Global-Default', (object) => at(object, 'globalDefault') === true), type: 'boolean' },
    ageColumn,
    wide(column('PreemptionPolicy', (object) => textAt(object, 'preemptionPolicy'))),
  ],
  Event: [
    column('Last Seen', lastSeen),
    column('Type', (object) => textAt(object, 'type')),
    column('Reason', (object) => textAt(object, 'reason')),
    column('Object', target),
    wide(column('Subobject', (object) => textAt(object, 'involvedObject', 'fieldPath'))),
    wide(column('Source', source)),
    column('Message', (object) => textAt(object, 'message').trim()),
    wide(column('First Seen', firstSeen)),
    wide(column('Count', occurrences)),
    wide(nameColumn),
  ],
};

function subjects(kind: string): (object: ApiObject) => string {
  return (object) =>
    itemsAt(object, 'subjects')
      .filter((subject) => subject['kind'] === kind)
      .map((subject) => {
        const name = textAt(subject, 'name');
        return kind === 'ServiceAccount' ? `${textAt(subject, 'namespace')}/${name}` : name;
      })
      .join(', ');
}

function firstSeen(event: ApiObject, now: Date): string {
  return since(at(event, 'firstTimestamp') ?? at(event, 'eventTime'), now);
}

function lastSeen(event: ApiObject, now: Date): string {
  const last = at(event, 'series', 'lastObservedTime') ?? at(event, 'lastTimestamp');
  return last === undefined ? firstSeen(event, now) : since(last, now);
}

function occurrences(event: ApiObject): number {
  return numberAt(event, 'series', 'count') || numberAt(event, 'count') || 1;
}

function target(event: ApiObject): string {
  const kind = textAt(event, 'involvedObject', 'kind').toLowerCase();
  const name = textAt(event, 'involvedObject', 'name');
  return name === '' ? kind : `${kind}/${name}`;
}

function source(event: ApiObject): string {
  const component = textAt(event, 'source', 'component') || textAt(event, 'reportingComponent');
  const host = textAt(event, 'source', 'host') || textAt(event, 'reportingInstance');
  return host === '' ? component : `${component}, ${host}`;
}
