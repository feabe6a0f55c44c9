import { compareBytes } from '../../../kube/order.ts';
import { CATEGORIES, type Category, type NamespaceEvaluation } from './types.ts';

/** What is measured of an evaluation. */
export interface ReadinessMeasures {
  /** The number of namespaces; those that could not be judged count as `inconclusive`. */
  readonly namespaces: Readonly<Record<Category | 'inconclusive', number>>;
  /** Of the namespaces with the most violating workloads, how many those are; a bounded number of them. */
  readonly workloads: readonly { readonly namespace: string; readonly count: number }[];
}

/** So many namespaces have a measure of their own. */
const MAX_NAMESPACES = 100;

/** Counts what an evaluation found. */
export function measure(evaluations: readonly NamespaceEvaluation[]): ReadinessMeasures {
  const counts = Object.fromEntries([...CATEGORIES, 'inconclusive'].map((category) => [category, 0]));
  const namespaces = counts as Record<Category | 'inconclusive', number>;
  for (const { verdict, categories } of evaluations) {
    if (verdict === 'inconclusive') namespaces.inconclusive++;
    for (const category of categories) namespaces[category]++;
  }
  const workloads = evaluations
    .filter(({ verdict }) => verdict === 'violating')
    .map((evaluation) => ({ namespace: evaluation.name, count: evaluation.workloads.length }))
    .sort((a, b) => b.count - a.count || compareBytes(a.namespace, b.namespace));
  return { namespaces, workloads: workloads.slice(0, MAX_NAMESPACES) };
}
