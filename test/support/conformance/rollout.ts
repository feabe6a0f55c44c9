import assert from 'node:assert/strict';
import type { EnforcementMode } from '../../../src/kube/psa-enforcement-config.ts';
import { finishSteps } from '../../../src/kube/steps.ts';
import type { JsonObject, Namespace, Pod } from '../../../src/kube/types.ts';
import { createExemptions } from '../../../src/policy/psa/index.ts';
import type { Level } from '../../../src/policy/pss/index.ts';
import {
  classify,
  type DefaultLevel,
  enforcementConditions,
  type EnforcementInput,
  type EnforcementPlan,
  evaluateStepwise,
  type EvaluationResult,
  isSelected,
  planEnforcement,
  podSecurityDefaultsFor,
  predictLevel,
  readinessCondition,
  readinessConditions,
  type RolloutPhase,
  type SyncerMode,
} from '../../../src/policy/rollout/index.ts';
import { managedFieldsEntry } from '../namespace-writes.ts';
import { type Area, area } from './cases.ts';

/** A namespace in the format of the cases. */
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

export function buildNamespace({ name, labels, annotations, phase, managedFields = [] }: CaseNamespace): Namespace {
  return {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name,
      resourceVersion: '1',
      ...(labels ? { labels } : {}),
      ...(annotations ? { annotations } : {}),
      managedFields: managedFields.map((owner) => managedFieldsEntry(owner)),
    },
    ...(phase === undefined ? {} : { status: { phase } }),
  };
}

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

const NO_EXEMPTIONS = createExemptions({ usernames: [], namespaces: [], runtimeClasses: [] });

interface LevelCase {
  readonly namespace: CaseNamespace;
}

interface LevelExpect {
  /** Absent if the request of the upstream controller failed. */
  readonly level?: Level;
}

/** The upstream controller sends a dry run with the predicted level. */
const predicted = area<LevelCase, LevelExpect>(({ namespace }, { level }) => {
  if (level !== undefined) assert.equal(predictLevel(buildNamespace(namespace)), level);
});

interface CasePod {
  readonly name: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly spec: unknown;
}

function buildPod({ name, annotations = {}, spec }: CasePod): Pod {
  return { metadata: { name, annotations }, spec } as Pod;
}

interface ClassifyCase {
  readonly namespace: CaseNamespace;
  readonly pods?: readonly CasePod[];
  readonly podListError?: string;
  readonly level: Level;
}

/** The upstream controller evaluates pods only if the name of the namespace does not determine a category. */
function recordedAs({ namespace: given, pods, level }: ClassifyCase): readonly string[] {
  const namespace = buildNamespace(given);
  const byName = classify(namespace, []);
  if (byName.length > 0) return byName;
  // The pods of a namespace are read from the synchronized store, so the read cannot fail.
  if (!pods) return ['inconclusive'];
  const { verdict, categories } = finishSteps(
    evaluateStepwise({
      namespace,
      isSelected: true,
      current: { level: 'privileged', version: 'latest' },
      planned: { level, version: 'latest' },
      complete: (pod) => pod,
      pods: pods.map(buildPod),
      templates: [],
      exemptions: NO_EXEMPTIONS,
      exists: () => false,
      sccMode: 'enforce',
      mayUse: () => false,
    }),
  );
  return verdict === 'violating' ? categories : ['inconclusive'];
}

interface SetCase {
  readonly violating?: readonly CaseNamespace[];
  readonly inconclusive?: readonly CaseNamespace[];
}

export const READINESS_AREAS: Readonly<Record<string, Area>> = {
  'readiness/discovery': area<
    { readonly namespaces: readonly CaseNamespace[] },
    { readonly selected: readonly string[] }
  >(({ namespaces }, { selected }) => {
    const found = namespaces.filter((one) => isSelected(buildNamespace(one), NO_EXEMPTIONS)).map(({ name }) => name);
    assert.deepEqual(found.sort(), selected);
  }),

  'readiness/level-and-violation': predicted,
  'readiness/violation': predicted,

  'readiness/classify': area<ClassifyCase, { readonly recordedAs: readonly string[] }>((given, expect) =>
    assert.deepEqual([...recordedAs(given)].sort(), [...expect.recordedAs].sort()),
  ),

  'readiness/condition': area<
    { readonly type: string; readonly reason: string; readonly namespaces: string[] },
    unknown
  >((given, expect) => assert.deepEqual(readinessCondition(given), expect)),

  'readiness/condition-set': area<SetCase, { readonly conditions: Readonly<Record<string, string>> }>(
    ({ violating = [], inconclusive = [] }, { conditions }) => {
      const found = readinessConditions([
        ...violating.map((one) => ({
          name: one.name,
          verdict: 'violating' as const,
          categories: classify(buildNamespace(one), [{ causes: ['serviceAccount'] }]),
        })),
        ...inconclusive.map(({ name }) => ({ name, verdict: 'inconclusive' as const, categories: [] })),
      ]);
      assert.deepEqual(Object.fromEntries(found.map(({ type, status }) => [type, status])), conditions);
    },
  ),
};

interface GateCase {
  readonly existingDefaults: JsonObject;
  readonly gatesObserved: boolean;
  readonly gate?: 'enabled' | 'disabled';
  readonly gateError?: string;
}

interface GateExpect {
  readonly error: boolean;
  readonly defaults: JsonObject;
}

export const OBSERVER_AREAS: Readonly<Record<string, Area>> = {
  'observer/gate-only': area<GateCase, GateExpect>((given, expect) => {
    const { existingDefaults, gatesObserved, gate, gateError } = given;
    if (!gatesObserved || gateError !== undefined) {
      // Controllers start after the store is synchronized, so every plan knows the state of the feature gate. Until
      // then, Portcullis publishes nothing either.
      assert.deepEqual(expect.defaults, existingDefaults);
      return;
    }
    const plan = planEnforcement({
      phase: 'Disabled',
      gate: gate === 'enabled',
      spec: '',
      status: '',
      evaluation: 'never',
      // Upstream does not wait for the namespaces' labels.
      isSettled: true,
      currentEnforce: existingDefaults['enforce'] === 'restricted' ? 'restricted' : 'privileged',
    });
    assert.deepEqual({ defaults: podSecurityDefaultsFor(plan.enforce), error: false }, expect);
  }),
};

/** Checks the plan for a row, and that the plan does not change after it takes effect. */
export function checkState({ input: { allManagedLabeled: isSettled, ...row }, expect }: StateRow): void {
  const input: EnforcementInput = { ...row, isSettled };
  const plan = planEnforcement(input);
  const conditions = new Map(
    enforcementConditions({ input, plan }).map(({ type, status, reason }) => [type, `${status}/${reason}`]),
  );
  const found = {
    spec: plan.spec,
    status: plan.status,
    'defaults.enforce': plan.enforce,
    syncer: plan.syncer,
    Enforcing: conditions.get('Enforcing'),
    Progressing: conditions.get('Progressing'),
    ...(conditions.has('Evaluated') ? { Evaluated: conditions.get('Evaluated') } : {}),
    writers: getWriters(input, plan),
  };
  assert.deepEqual(found, expect, JSON.stringify(row));
  const next = planEnforcement({ ...input, spec: plan.spec, status: plan.status, currentEnforce: plan.enforce });
  assert.deepEqual(
    [next.spec, next.status, next.enforce],
    [plan.spec, plan.status, plan.enforce],
    `again: ${JSON.stringify(row)}`,
  );
}

/** Returns the components whose writes make the plan take effect. */
function getWriters(input: EnforcementInput, plan: EnforcementPlan): readonly string[] {
  return [
    ...(plan.spec === input.spec ? [] : ['readiness:spec']),
    ...(plan.status === input.status ? [] : ['readiness:status']),
    ...(plan.enforce === input.currentEnforce ? [] : ['observer:config']),
  ];
}
