import { setImmediate } from 'node:timers/promises';
import type { Io } from '../command.ts';
import { findNamespace } from '../inventory/find-namespace.ts';
import type { Inventory } from '../inventory/inventory.ts';
import { createProgress } from '../progress.ts';
import { printable } from '../report/text.ts';
import type { ForetoldSettings } from '../scc-options.ts';
import { grantsFor } from './plan-bindings.ts';
import { bindingsOf, namespacesOf, planNamespace } from './plan-cluster.ts';
import type { Plan, PlannedNamespace } from './types.ts';

interface MakeOptions {
  readonly settings: ForetoldSettings;
  /** The only namespace to plan; absent: all. */
  readonly namespace: string | undefined;
}

/**
 * Plans namespace by namespace; shows how far it is on a terminal, and ends when the process is asked to.
 * @throws {UserError} for a namespace that does not exist
 */
export async function makePlan(inventory: Inventory, { settings, namespace }: MakeOptions, io: Io): Promise<Plan> {
  const { store, assumptions } = inventory;
  if (namespace !== undefined) findNamespace(store, namespace);
  const namespaces = namespacesOf(store, namespace);
  const progress = createProgress(io.stderr);
  const planned: PlannedNamespace[] = [];
  try {
    for (const [index, one] of namespaces.entries()) {
      progress.show(`Planning ${printable(one.metadata?.name ?? '')} (${index + 1} of ${namespaces.length})`);
      const found = planNamespace(one, { store, settings });
      if (found) planned.push(found);
      // Planning is work without pause: let signals in.
      await setImmediate(undefined, { signal: io.signal });
    }
  } finally {
    progress.clear();
  }
  const grants = grantsFor(planned, { store, settings });
  return { namespaces: planned, grants, bindings: bindingsOf(grants, store), assumptions };
}
