import type { Store } from '../../cluster/store.ts';
import type { Namespace } from '../../kube/types.ts';
import {
  isAwaitingLabel,
  standingOf,
  type ManagementSettings,
  type Standing,
} from '../../policy/rollout/label-sync.ts';
import type { ReconcileContext } from '../controller.ts';
import { inTurns } from '../in-turns.ts';

/** Whose labels are still to come, or to go. */
export interface NamespaceLabels {
  /** Managed, and still without the label that they need before the default goes up. */
  readonly unlabelled: readonly string[];
  /** With a label that enforces and is ours. */
  readonly unreleased: readonly string[];
}

/** Looks through all namespaces; what hangs on one alone is found out once for each version of it. */
export function createStandings(management: ManagementSettings) {
  const known = new WeakMap<Namespace, Standing>();
  const standingFor = (namespace: Namespace): Standing => {
    const standing = known.get(namespace) ?? standingOf(namespace, management);
    known.set(namespace, standing);
    return standing;
  };
  return {
    async look(store: Store, dateMs: number, context: ReconcileContext): Promise<NamespaceLabels> {
      const labels = { unlabelled: [] as string[], unreleased: [] as string[] };
      await inTurns(
        store.list('Namespace'),
        (namespace) => {
          const { isManaged, ownsEnforceLabel } = standingFor(namespace);
          const { name = '' } = namespace.metadata ?? {};
          if (ownsEnforceLabel) labels.unreleased.push(name);
          const serviceAccounts = store.list('ServiceAccount', name).flatMap(({ metadata }) => metadata?.name ?? []);
          if (isAwaitingLabel({ namespace, isManaged, serviceAccounts }, dateMs)) labels.unlabelled.push(name);
        },
        context,
      );
      return labels;
    },
  };
}
