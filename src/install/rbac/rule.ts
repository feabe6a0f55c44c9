import type { V1PolicyRule } from '@kubernetes/client-node';
import { RESOURCES } from '../../kube/resources.ts';
import type { Kind, Wire } from '../../kube/types.ts';

export type Rule = Wire<V1PolicyRule>;

/** Lets do something with kinds of one group. */
export function rule(verbs: readonly string[], kinds: readonly [Kind, ...Kind[]], names?: readonly string[]): Rule {
  return {
    apiGroups: [RESOURCES[kinds[0]].group],
    resources: kinds.map((kind) => RESOURCES[kind].resource),
    ...(names ? { resourceNames: names } : {}),
    verbs,
  };
}

/** What a store needs that follows kinds. */
export const FOLLOW = ['list', 'watch'] as const;
