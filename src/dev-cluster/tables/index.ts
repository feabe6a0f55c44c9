import type { TableColumn } from '../types.ts';
import { defaultColumns } from './column.ts';
import { coreColumns } from './core.ts';
import { otherColumns } from './other.ts';
import { podColumns } from './pod.ts';
import { workloadColumns } from './workloads.ts';

export { ageColumn, defaultColumns, nameColumn } from './column.ts';

const tables: Readonly<Record<string, readonly TableColumn[]>> = {
  Pod: podColumns,
  ...workloadColumns,
  ...coreColumns,
  ...otherColumns,
};

/** The columns that `kubectl get` shows for a built-in kind. */
export function columnsOf(kind: string): readonly TableColumn[] {
  return Object.hasOwn(tables, kind) ? (tables[kind] ?? defaultColumns) : defaultColumns;
}
