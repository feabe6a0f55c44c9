import { formatApiVersion } from '../kube/resources.ts';
import type { ListResult, ObjectResult, WatchEvent } from './attributes.ts';
import type { ServedResource } from './resource-info.ts';
import { type ApiObject, at, itemsAt, type TableColumn, textAt } from './types.ts';

/** Representation of objects in a response. */
export type Form = 'object' | 'table' | 'metadata';

export interface RenderOptions {
  readonly form: Form;
  /** The part of each object that table rows include. */
  readonly includeObject: 'None' | 'Metadata' | 'Object';
  readonly now: Date;
}

/** Renders an object. Does not convert a result that does not belong to the resource, such as a Status. */
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
export function renderEvent(
  info: ServedResource,
  event: WatchEvent,
  options: RenderOptions,
  isFirst: boolean,
): unknown {
  const { type, object } = event;
  if (type === 'ERROR' || options.form === 'object') return event;
  if (options.form === 'metadata') return { type, object: metadataOnly(object) };
  const metadata = { resourceVersion: at(object, 'metadata', 'resourceVersion') };
  const shown = table(info, [object], metadata, options);
  return { type, object: isFirst ? shown : { ...shown, columnDefinitions: null } };
}

function table(info: ServedResource, objects: readonly ApiObject[], metadata: object, options: RenderOptions) {
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

function column(name: string, cell: TableColumn['cell']): TableColumn {
  return { name, type: 'string', priority: 0, cell };
}

/** Creates a column for the text at a field path. */
function field(name: string, ...path: readonly string[]): TableColumn {
  return column(name, (object) => textAt(object, ...path));
}

export const nameColumn: TableColumn = { ...field('Name', 'metadata', 'name'), format: 'name' };
export const ageColumn = column('Age', (object, now) => age(at(object, 'metadata', 'creationTimestamp'), now));

/** Columns of the kinds that have columns other than name and age. */
const COLUMNS: Readonly<Record<string, readonly TableColumn[]>> = {
  Event: [
    column('Last Seen', (event, now) => age(lastSeen(event), now)),
    field('Type', 'type'),
    field('Reason', 'reason'),
    column('Object', involvedObject),
    field('Message', 'message'),
  ],
  Namespace: [nameColumn, field('Status', 'status', 'phase'), ageColumn],
  Pod: [nameColumn, column('Ready', readyContainers), column('Status', podStatus), ageColumn],
};

/**
 * Returns the columns that `kubectl get` shows for a built-in kind. Workloads have only a name and an age, because no
 * controllers update their status.
 */
export function kindColumns(kind: string): readonly TableColumn[] {
  return COLUMNS[kind] ?? [nameColumn, ageColumn];
}

function lastSeen(event: ApiObject): unknown {
  const paths = [['series', 'lastObservedTime'], ['lastTimestamp'], ['eventTime']];
  return paths.map((path) => at(event, ...path)).find((time) => time !== undefined);
}

function involvedObject(event: ApiObject): string {
  return `${textAt(event, 'involvedObject', 'kind').toLowerCase()}/${textAt(event, 'involvedObject', 'name')}`;
}

function readyContainers(pod: ApiObject): string {
  const ready = itemsAt(pod, 'status', 'containerStatuses').filter((status) => status['ready'] === true);
  return `${ready.length}/${itemsAt(pod, 'spec', 'containers').length}`;
}

function podStatus(pod: ApiObject): string {
  return at(pod, 'metadata', 'deletionTimestamp') === undefined ? textAt(pod, 'status', 'phase') : 'Terminating';
}

/** Duration units in seconds, largest first, with the minimum count for using each unit. */
const UNITS = [
  ['d', 86_400, 2],
  ['h', 3600, 3],
  ['m', 60, 2],
] as const;

/** Formats a timestamp's age in the largest unit that is precise enough. */
export function age(time: unknown, now: Date): string {
  const start = typeof time === 'string' ? Date.parse(time) : NaN;
  if (Number.isNaN(start)) return '<unknown>';
  const seconds = Math.max(0, Math.trunc((now.getTime() - start) / 1000));
  const [suffix, unit] = UNITS.find(([, size, from]) => seconds >= from * size) ?? ['s', 1];
  return `${Math.trunc(seconds / unit)}${suffix}`;
}
