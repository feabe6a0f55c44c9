import { isObject, type JsonObject } from '../../../kube/types.ts';
import type { TableColumn } from '../../types.ts';
import { ageColumn, nameColumn } from '../../tables/index.ts';
import { since } from '../../tables/cells.ts';
import { numberAt, objectsAt, textAt } from '../read.ts';

/** The columns of `kubectl get` for a version of a custom resource: its own, else the age. */
export function columnsOfVersion(version: JsonObject): readonly TableColumn[] {
  const own = objectsAt(version, 'additionalPrinterColumns');
  return [nameColumn, ...(own.length === 0 ? [ageColumn] : own.map(columnOf))];
}

function columnOf(column: JsonObject): TableColumn {
  const path = textAt(column, 'jsonPath');
  const type = textAt(column, 'type');
  const steps = readJsonPath(path) ?? [];
  const description = textAt(column, 'description');
  return {
    name: textAt(column, 'name'),
    type,
    format: textAt(column, 'format'),
    description: description || `Custom resource definition column (in JSONPath format): ${path}`,
    priority: numberAt(column, 'priority') ?? 0,
    cell: (object, now) => cellOf(follow(object, steps), type, now),
  };
}

function cellOf(value: unknown, type: string, now: Date): unknown {
  if (value === undefined) return null;
  // As Go prints a nil.
  if (value === null) return type === 'string' ? '<no value>' : null;
  switch (type) {
    case 'string':
      return typeof value === 'string' ? value : JSON.stringify(value);
    case 'date':
      return since(value, now);
    case 'integer':
      return typeof value === 'number' ? Math.trunc(value) : null;
    default:
      return typeof value === 'number' || typeof value === 'boolean' ? value : null;
  }
}

/** A step of a JSONPath: a field, an item, or the first item whose field has a value. */
type Step =
  | { readonly kind: 'field'; readonly name: string }
  | { readonly kind: 'item'; readonly index: number }
  | { readonly kind: 'filter'; readonly name: string; readonly value: string };

const STEP =
  /\.([A-Za-z0-9_-]+)|\[['"]([^'"\]]+)['"]\]|\[(\d+|\*)\]|\[\?\(\s*@\.([A-Za-z0-9_-]+)\s*==\s*['"]([^'"]*)['"]\s*\)\]/y;

/** Reads a simple JSONPath; `undefined` for what is none. */
export function readJsonPath(path: string): readonly Step[] | undefined {
  const steps: Step[] = [];
  let position = 0;
  while (position < path.length) {
    STEP.lastIndex = position;
    const match = STEP.exec(path);
    if (!match) return undefined;
    const [whole, plain, quoted, index, filtered, value] = match;
    position += whole.length;
    if (index !== undefined) steps.push({ kind: 'item', index: index === '*' ? 0 : Number(index) });
    else if (filtered !== undefined) steps.push({ kind: 'filter', name: filtered, value: value ?? '' });
    else steps.push({ kind: 'field', name: plain ?? quoted ?? '' });
  }
  return steps.length === 0 ? undefined : steps;
}

function follow(value: unknown, steps: readonly Step[]): unknown {
  const [step, ...rest] = steps;
  if (step === undefined) return value;
  if (step.kind === 'field') {
    return isObject(value) && Object.hasOwn(value, step.name) ? follow(value[step.name], rest) : undefined;
  }
  if (!Array.isArray(value)) return undefined;
  const item: unknown =
    step.kind === 'item' ? value[step.index] : value.find((one) => isObject(one) && one[step.name] === step.value);
  return follow(item, rest);
}
