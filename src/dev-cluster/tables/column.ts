import type { JsonObject } from '../../kube/types.ts';
import type { ApiObject, TableColumn } from '../types.ts';
import { ageOf, itemsAt, selectorText, textAt } from './cells.ts';

type Cell = (object: ApiObject, now: Date) => unknown;

/** A column that is always shown. */
export function column(name: string, cell: Cell, description = ''): TableColumn {
  return { name, type: 'string', description, priority: 0, cell };
}

/** A column of numbers. */
export function count(name: string, cell: (object: ApiObject) => number, description = ''): TableColumn {
  return { name, type: 'integer', description, priority: 0, cell };
}

/** The column, shown with `-o wide` only. */
export function wide(shown: TableColumn): TableColumn {
  return { ...shown, priority: 1 };
}

export const nameColumn: TableColumn = {
  name: 'Name',
  type: 'string',
  format: 'name',
  description:
    'Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names',
  priority: 0,
  cell: (object) => textAt(object, 'metadata', 'name'),
};

const CREATED =
  'CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata';

export const ageColumn: TableColumn = {
  name: 'Age',
  type: 'string',
  description: CREATED,
  priority: 0,
  cell: ageOf,
};

/** What kinds without columns of their own show: the name, and when the object was created. */
export const defaultColumns: readonly TableColumn[] = [
  nameColumn,
  {
    name: 'Created At',
    type: 'date',
    description: CREATED,
    priority: 0,
    cell: (object) => textAt(object, 'metadata', 'creationTimestamp'),
  },
];

type Containers = (object: ApiObject) => readonly JsonObject[];

/** Names and images of the containers of a template, for `-o wide`. */
export function containerColumns(containers: Containers): readonly TableColumn[] {
  return [
    wide(column('Containers', listOf(containers, 'name'), 'Names of each container in the template.')),
    wide(column('Images', listOf(containers, 'image'), 'Images referenced by each container in the template.')),
  ];
}

/** The containers of `spec.template`. */
export const templateContainers: Containers = (object) => itemsAt(object, 'spec', 'template', 'spec', 'containers');

export const selectorColumn: TableColumn = wide(
  column('Selector', (object) => selectorText((object['spec'] as JsonObject | undefined)?.['selector'])),
);

function listOf(containers: Containers, field: string): Cell {
  return (object) =>
    containers(object)
      .map((container) => textAt(container, field))
      .join(',');
}
