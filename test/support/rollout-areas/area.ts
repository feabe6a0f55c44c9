import type { EnforcementMode } from '../../../src/kube/psa-enforcement-config.ts';
import type { Namespace } from '../../../src/kube/types.ts';
import type { DefaultLevel, EvaluationResult, SyncerMode } from '../../../src/policy/rollout/enforcement.ts';
import { type RolloutPhase } from '../../../src/policy/rollout/settings.ts';
import { entryOf } from '../namespace-writes.ts';

/** One case; `productExpect` counts where there is one. */
export interface RolloutCase {
  readonly area: string;
  readonly name: string;
  readonly input: unknown;
  readonly expect: unknown;
  readonly productExpect?: unknown;
}

/** A step of the rollout, and what decides it here. */
export interface RolloutArea {
  readonly by: string;
  check(given: RolloutCase): void;
}

export function area<Input, Expect>(by: string, check: (input: Input, expect: Expect) => void): RolloutArea {
  return {
    by,
    check: ({ input, expect, productExpect }) => check(input as Input, (productExpect ?? expect) as Expect),
  };
}

/** A namespace as cases write it. */
export interface CaseNamespace {
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly phase?: string;
  readonly managedFields?: readonly CaseOwner[];
}

interface CaseOwner {
  readonly manager: string;
  readonly operation: string;
  readonly labels?: readonly string[];
  readonly annotations?: readonly string[];
}

export function namespaceOf({ name, labels, annotations, phase, managedFields = [] }: CaseNamespace): Namespace {
  return {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name,
      resourceVersion: '1',
      ...(labels ? { labels } : {}),
      ...(annotations ? { annotations } : {}),
      managedFields: managedFields.map((owner) => entryOf(owner)),
    },
    ...(phase === undefined ? {} : { status: { phase } }),
  };
}

/** A row of the state table. */
export interface StateRow {
  readonly input: {
    readonly phase: RolloutPhase;
    readonly gate: boolean;
    readonly spec: string;
    readonly status: EnforcementMode;
    readonly evaluation: EvaluationResult;
    readonly allManagedLabeled: boolean;
    readonly currentEnforce: DefaultLevel;
  };
  readonly expect: {
    readonly spec: string;
    readonly status: EnforcementMode;
    readonly 'defaults.enforce': DefaultLevel;
    readonly syncer: SyncerMode;
    readonly Enforcing: string;
    readonly Progressing: string;
    readonly Evaluated?: string;
    readonly writers: readonly string[];
  };
}
