import type { ListResult, ObjectResult, WatchEvent } from '../core.ts';
import { nameColumn } from '../tables/index.ts';
import type { ApiObject, ResourceInfo, TableColumn } from '../types.ts';
import { apiVersionOf } from '../views.ts';
import type { Form } from './negotiation.ts';

/** How objects are shown in tables. */
export interface TableOptions {
  readonly includeObject: 'None' | 'Metadata' | 'Object';
  readonly now: Date;
}

/** An object in the form that is wanted. Statuses and the like are shown as they are. */
export function renderObject({ object, info }: ObjectResult, form: Form, options: TableOptions): unknown {
  if (!info || form === 'plain') return object;
  if (form === 'table') return tableOf(info, [object], { resourceVersion: resourceVersionOf(object) }, options);
  return form === 'metadata' ? partialOf(object) : object;
}

/** A list in the form that is wanted. */
export function renderList({ info, items, metadata }: ListResult, form: Form, options: TableOptions): unknown {
  if (form === 'table') return tableOf(info, items, metadata, options);
  if (form === 'metadata-list') {
    return { kind: 'PartialObjectMetadataList', apiVersion: 'meta.k8s.io/v1', metadata, items: items.map(partialOf) };
  }
  const shown = info.custom ? items : items.map(withoutType);
  return { kind: info.listKind, apiVersion: apiVersionOf(info), metadata, items: shown };
}

/** A watch event; only the first table tells its columns. */
export function renderEvent(
  info: ResourceInfo,
  event: WatchEvent,
  form: Form,
  options: TableOptions & { readonly first: boolean },
): unknown {
  const { type, object } = event;
  if (type === 'ERROR' || form === 'plain') return event;
  if (form !== 'table') return { type, object: partialOf(object) };
  const rows = type === 'BOOKMARK' ? [] : [object];
  const table = tableOf(info, rows, { resourceVersion: resourceVersionOf(object) }, options);
  if (type === 'BOOKMARK') table.rows = [{ cells: info.columns.map(() => ''), object: partialOf(object) }];
  return { type, object: options.first ? table : { ...table, columnDefinitions: null } };
}

function tableOf(
  info: ResourceInfo,
  objects: readonly ApiObject[],
  metadata: object,
  options: TableOptions,
): { rows: unknown[]; columnDefinitions: unknown } & Record<string, unknown> {
  const columns = info.columns.length > 0 ? info.columns : [nameColumn];
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata,
    columnDefinitions: columns.map(definitionOf),
    rows: objects.map((object) => ({
      cells: columns.map((column) => column.cell(object, options.now) ?? null),
      ...included(object, options.includeObject),
    })),
  };
}

function definitionOf({ name, type, format = '', description = '', priority }: TableColumn): object {
  return { name, type, format, description, priority };
}

function included(object: ApiObject, include: TableOptions['includeObject']): object {
  if (include === 'None') return { object: null };
  return { object: include === 'Object' ? object : partialOf(object) };
}

function partialOf(object: ApiObject): object {
  return { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: object.metadata ?? {} };
}

function withoutType(object: ApiObject): object {
  return Object.fromEntries(Object.entries(object).filter(([field]) => field !== 'kind' && field !== 'apiVersion'));
}

function resourceVersionOf(object: ApiObject): unknown {
  return object.metadata?.['resourceVersion'];
}
