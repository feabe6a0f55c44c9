import type { Namespace } from '../../kube/types.ts';
import type { NamespaceEvaluation } from '../../policy/rollout/readiness.ts';
import type { ReconcileContext } from '../controller.ts';
import { inTurns } from '../in-turns.ts';
import type { NamespaceEvaluator } from './evaluator.ts';

/** Evaluates what is to be evaluated among namespaces, and lets others go first whenever that has taken a while. */
export async function evaluateAll(
  evaluator: NamespaceEvaluator,
  names: readonly string[],
  context: ReconcileContext,
  note: (name: string, evaluation: NamespaceEvaluation | undefined) => void,
): Promise<void> {
  const { store } = context.cluster;
  function* all(): Generator<undefined> {
    for (const name of names) {
      const namespace = store.get('Namespace', name);
      const isWanted = namespace !== undefined && evaluator.isSelected(namespace);
      note(name, isWanted ? yield* evaluator.steps(namespace, store) : undefined);
      yield;
    }
  }
  await inTurns(all(), () => undefined, context);
}

/** The names of all namespaces. */
export function namesOf(namespaces: readonly Namespace[]): readonly string[] {
  return namespaces.flatMap(({ metadata }) => metadata?.name ?? []);
}
