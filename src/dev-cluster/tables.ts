import { isObject, type JsonObject } from '../kube/types.ts';
import type { ListResult, ObjectResult, WatchEvent } from './attributes.ts';
import type { ResourceInfo } from './resource-info.ts';
import { formatApiVersion, at, itemsAt, numberAt, textAt, textsAt, type ApiObject, type TableColumn } from './types.ts';

/** The representation of objects in a response. */
export type Form = 'object' | 'table' | 'metadata';

export interface RenderOptions {
  readonly form: Form;
  /** The part of each object that table rows include. */
  readonly includeObject: 'None' | 'Metadata' | 'Object';
  readonly now: Date;
}

/** Renders an object. A result that is not of the resource, such as a Status, is not converted. */
export function renderObject({ object, info }: ObjectResult, options: RenderOptions): unknown {
  if (!info || options.form === 'object') return object;
  if (options.form === 'metadata') return metadataOnly(object);
  return table(info, [object], { resourceVersion: at(object, 'metadata', 'resourceVersion') }, options);
}

export function renderList({ info, items, metadata }: ListResult, options: RenderOptions): unknown {
  if (options.form === 'table') return table(info, items, metadata, options);
  if (options.form === 'metadata') {
    const partial = items.map(metadataOnly);
    return { kind: 'PartialObjectMetadataList', apiVersion: 'meta.k8s.io/v1', metadata, items: partial };
  }
  const shown = info.custom ? items : items.map(withoutType);
  return { kind: info.listKind, apiVersion: formatApiVersion(info), metadata, items: shown };
}

function withoutType(object: ApiObject): object {
  return Object.fromEntries(Object.entries(object).filter(([name]) => name !== 'kind' && name !== 'apiVersion'));
}

/** Renders a watch event. Only the first table of a watch contains the column definitions. */
export function renderEvent(info: ResourceInfo, event: WatchEvent, options: RenderOptions, isFirst: boolean): unknown {
  const { type, object } = event;
  if (type === 'ERROR' || options.form === 'object') return event;
  if (options.form === 'metadata') return { type, object: metadataOnly(object) };
  const metadata = { resourceVersion: at(object, 'metadata', 'resourceVersion') };
  const shown = table(info, [object], metadata, options);
  return { type, object: isFirst ? shown : { ...shown, columnDefinitions: null } };
}

function table(info: ResourceInfo, objects: readonly ApiObject[], metadata: object, options: RenderOptions) {
  const { includeObject, now } = options;
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata,
    columnDefinitions: info.columns.map(({ name, type, format = '', description = '', priority }) => {
      return { name, type, format, description, priority };
    }),
    rows: objects.map((object) => ({
      cells: info.columns.map(({ cell }) => cell(object, now) ?? null),
      object: includeObject === 'None' ? null : includeObject === 'Object' ? object : metadataOnly(object),
    })),
  };
}

function metadataOnly({ metadata = {} }: ApiObject): object {
  return { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata };
}

type Cell = (object: ApiObject, now: Date) => unknown;

function column(name: string, cell: Cell, type = 'string'): TableColumn {
  return { name, type, priority: 0, cell };
}

/** A column with the value at a path of fields. */
function field(name: string, path: string, absent = ''): TableColumn {
  return column(name, (object) => textAt(object, ...path.split('.')) || absent);
}

/** A column with the number at a path of fields. */
function count(name: string, path: string): TableColumn {
  return column(name, (object) => numberAt(object, ...path.split('.')), 'integer');
}

/** A column that only `-o wide` shows. */
function wide(shown: TableColumn): TableColumn {
  return { ...shown, priority: 1 };
}

export const nameColumn: TableColumn = { ...field('Name', 'metadata.name'), format: 'name' };
export const ageColumn: TableColumn = column('Age', (object, now) =>
  age(at(object, 'metadata', 'creationTimestamp'), now),
);

/** Returns the columns of a kind, with its name first and its age before the columns that only `-o wide` shows. */
function columns(...own: readonly TableColumn[]): readonly TableColumn[] {
  const isShown = ({ priority }: TableColumn): boolean => priority === 0;
  return [nameColumn, ...own.filter(isShown), ageColumn, ...own.filter((one) => !isShown(one))];
}

const WEBHOOKS = columns(column('Webhooks', (object) => itemsAt(object, 'webhooks').length, 'integer'));

const BINDING = columns(
  column('Role', (object) => `${textAt(object, 'roleRef', 'kind')}/${textAt(object, 'roleRef', 'name')}`),
  wide(column('Users', subjects('User'))),
  wide(column('Groups', subjects('Group'))),
  wide(column('ServiceAccounts', subjects('ServiceAccount'))),
);

const TEMPLATE = templateColumns('spec', 'template');

const READY_REPLICAS = column(
  'Ready',
  (object) => `${numberAt(object, 'status', 'readyReplicas')}/${numberAt(object, 'spec', 'replicas')}`,
);

const COLUMNS: Readonly<Record<string, readonly TableColumn[]>> = {
  ConfigMap: columns(column('Data', (object) => size(object, 'data') + size(object, 'binaryData'))),
  CronJob: columns(
    field('Schedule', 'spec.schedule'),
    column('Suspend', (object) => (at(object, 'spec', 'suspend') === true ? 'True' : 'False')),
    column('Active', (object) => itemsAt(object, 'status', 'active').length, 'integer'),
    ...templateColumns('spec', 'jobTemplate', 'spec', 'template'),
  ),
  ClusterRoleBinding: BINDING,
  DaemonSet: columns(
    count('Desired', 'status.desiredNumberScheduled'),
    count('Current', 'status.currentNumberScheduled'),
    count('Ready', 'status.numberReady'),
    count('Up-to-date', 'status.updatedNumberScheduled'),
    count('Available', 'status.numberAvailable'),
    ...TEMPLATE,
  ),
  Deployment: columns(
    READY_REPLICAS,
    count('Up-to-date', 'status.updatedReplicas'),
    count('Available', 'status.availableReplicas'),
    ...TEMPLATE,
  ),
  Event: [
    column('Last Seen', (event, now) => age(lastSeen(event), now)),
    field('Type', 'type'),
    field('Reason', 'reason'),
    column('Object', involvedObject),
    wide(field('Source', 'reportingComponent')),
    column('Message', (event) => textAt(event, 'message').trim()),
    wide(nameColumn),
  ],
  Job: columns(
    column('Status', (job) => trueConditions(job).find((type) => JOB_STATES.includes(type)) ?? 'Running'),
    column(
      'Completions',
      (job) => `${numberAt(job, 'status', 'succeeded')}/${numberAt(job, 'spec', 'completions') || 1}`,
    ),
    ...TEMPLATE,
  ),
  Lease: columns(field('Holder', 'spec.holderIdentity')),
  MutatingWebhookConfiguration: WEBHOOKS,
  Namespace: columns(field('Status', 'status.phase')),
  Node: [
    nameColumn,
    column('Status', (node) => (trueConditions(node).includes('Ready') ? 'Ready' : 'NotReady')),
    ageColumn,
    field('Version', 'status.nodeInfo.kubeletVersion'),
  ],
  Pod: columns(
    column('Ready', readyContainers),
    column('Status', podStatus),
    column('Restarts', (pod) => String(sum(containerStatuses(pod).map((status) => numberAt(status, 'restartCount'))))),
    wide(field('IP', 'status.podIP', '<none>')),
    wide(field('Node', 'spec.nodeName', '<none>')),
  ),
  ReplicaSet: columns(
    count('Desired', 'spec.replicas'),
    count('Current', 'status.replicas'),
    count('Ready', 'status.readyReplicas'),
    ...TEMPLATE,
  ),
  RoleBinding: BINDING,
  Secret: columns(
    field('Type', 'type'),
    column('Data', (object) => size(object, 'data')),
  ),
  Service: columns(
    field('Type', 'spec.type'),
    column('Cluster-IP', (service) => textsAt(service, 'spec', 'clusterIPs')[0] ?? '<none>'),
    column('External-IP', (service) => textsAt(service, 'spec', 'externalIPs').join(',') || '<none>'),
    column('Port(s)', servicePorts),
  ),
  StatefulSet: columns(READY_REPLICAS, ...TEMPLATE),
  ValidatingWebhookConfiguration: WEBHOOKS,
};

/**
 * Returns the columns that `kubectl get` shows for a built-in kind.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/printers/internalversion/printers.go
 */
export function kindColumns(kind: string): readonly TableColumn[] {
  return COLUMNS[kind] ?? columns();
}

function size(object: ApiObject, name: string): number {
  const map = at(object, name);
  return isObject(map) ? Object.keys(map).length : 0;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function subjects(kind: string): Cell {
  return (binding) =>
    itemsAt(binding, 'subjects')
      .filter((subject) => subject['kind'] === kind)
      .map((subject) => [textAt(subject, 'namespace'), textAt(subject, 'name')].filter((part) => part !== '').join('/'))
      .join(', ');
}

/** Names and images of the containers of the pod template at a path. */
function templateColumns(...path: readonly string[]): readonly TableColumn[] {
  const list = (name: string): Cell => {
    return (object) => {
      const containers = itemsAt(object, ...path, 'spec', 'containers');
      return containers.map((container) => textAt(container, name)).join(',');
    };
  };
  return [wide(column('Containers', list('name'))), wide(column('Images', list('image')))];
}

const JOB_STATES = ['Complete', 'Failed', 'Suspended'];

function trueConditions(object: ApiObject): readonly string[] {
  return itemsAt(object, 'status', 'conditions')
    .filter(({ status }) => status === 'True')
    .map(({ type }) => String(type));
}

function lastSeen(event: ApiObject): unknown {
  const paths = [['series', 'lastObservedTime'], ['lastTimestamp'], ['firstTimestamp'], ['eventTime']];
  return paths.map((path) => at(event, ...path)).find((time) => time !== undefined);
}

function involvedObject(event: ApiObject): string {
  const kind = textAt(event, 'involvedObject', 'kind').toLowerCase();
  const name = textAt(event, 'involvedObject', 'name');
  return name === '' ? kind : `${kind}/${name}`;
}

function containerStatuses(pod: ApiObject): readonly JsonObject[] {
  return itemsAt(pod, 'status', 'containerStatuses');
}

function readyContainers(pod: ApiObject): string {
  const ready = containerStatuses(pod).filter((status) => status['ready'] === true);
  return `${ready.length}/${itemsAt(pod, 'spec', 'containers').length}`;
}

/** Returns the phase of a pod, or the reason why a container is waiting or has terminated. */
function podStatus(pod: ApiObject): string {
  const phase = textAt(pod, 'status', 'phase');
  const hasEnded = phase === 'Succeeded' || phase === 'Failed';
  if (at(pod, 'metadata', 'deletionTimestamp') !== undefined && !hasEnded) return 'Terminating';
  const reasons = containerStatuses(pod).map(
    (status) => textAt(status, 'state', 'waiting', 'reason') || textAt(status, 'state', 'terminated', 'reason'),
  );
  return reasons.find((reason) => reason !== '') ?? (textAt(pod, 'status', 'reason') || phase);
}

function servicePorts(service: ApiObject): string {
  const ports = itemsAt(service, 'spec', 'ports').map((port) => {
    const nodePort = numberAt(port, 'nodePort');
    return `${numberAt(port, 'port')}${nodePort > 0 ? `:${nodePort}` : ''}/${textAt(port, 'protocol')}`;
  });
  return ports.join(',') || '<none>';
}

/** Formats the time since a timestamp. */
export function age(time: unknown, now: Date, absent = '<unknown>'): string {
  const start = typeof time === 'string' ? Date.parse(time) : NaN;
  return Number.isNaN(start) ? absent : formatDuration((now.getTime() - start) / 1000);
}

const [MINUTE, HOUR, DAY, YEAR] = [60, 3600, 86_400, 365 * 86_400] as const;

/** By upper limit in seconds: the unit of a duration, and the smaller unit that follows it if the remainder is not 0. */
const UNITS: readonly (readonly [below: number, unit: number, suffix: string, rest?: number, restSuffix?: string])[] = [
  [2 * MINUTE, 1, 's'],
  [10 * MINUTE, MINUTE, 'm', 1, 's'],
  [3 * HOUR, MINUTE, 'm'],
  [8 * HOUR, HOUR, 'h', MINUTE, 'm'],
  [2 * DAY, HOUR, 'h'],
  [8 * DAY, DAY, 'd', HOUR, 'h'],
  [2 * YEAR, DAY, 'd'],
  [8 * YEAR, YEAR, 'y', DAY, 'd'],
  [Infinity, YEAR, 'y'],
];

/**
 * Formats a duration in seconds as `kubectl get` does.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/util/duration/duration.go
 */
export function formatDuration(duration: number): string {
  const seconds = Math.max(0, Math.trunc(duration));
  const [, unit, suffix, rest = 1, restSuffix = ''] = UNITS.find(([below]) => seconds < below) ?? [0, 1, 's'];
  const remainder = Math.trunc((seconds % unit) / rest);
  const tail = restSuffix === '' || remainder === 0 ? '' : `${remainder}${restSuffix}`;
  return `${Math.trunc(seconds / unit)}${suffix}${tail}`;
}
