import assert from 'node:assert/strict';
import { warningHeader } from '../../../src/dev-cluster/server.ts';
import { parseWarnings } from '../../../src/cluster/connection.ts';
import type { Pod } from '../../../src/kube/types.ts';
import { createExemptions } from '../../../src/policy/psa/configuration.ts';
import { classify } from '../../../src/policy/rollout/evaluation.ts';
import { readinessCondition, readinessConditions } from '../../../src/policy/rollout/readiness.ts';
import {
  evaluateNamespace,
  isSelected,
  predictLevel,
  parseDryRunWarnings,
} from '../../../src/policy/rollout/evaluation.ts';
import type { Level } from '../../../src/policy/pss/policy.ts';
import { area, namespaceOf, type CaseNamespace, type RolloutArea } from './area.ts';

const NO_EXEMPTIONS = createExemptions({ usernames: [], namespaces: [], runtimeClasses: [] });

interface DryRunCase {
  readonly namespace: CaseNamespace;
  readonly dryRunWarnings: readonly string[];
  readonly dryRunError?: string;
}

interface DryRunExpect {
  readonly error: boolean;
  readonly violating?: boolean;
  readonly level?: Level;
}

const dryRun = area<DryRunCase, DryRunExpect>('predictedLevelOf, verdictOfWarnings', (given, expect) => {
  const { namespace, dryRunWarnings, dryRunError } = given;
  // A call that fails gives no warnings to judge.
  if (dryRunError !== undefined) {
    assert.equal(expect.error, true);
    return;
  }
  assert.equal(parseDryRunWarnings(dryRunWarnings, 'privileged') === 'violating', expect.violating);
  if (expect.level !== undefined) assert.equal(predictLevel(namespaceOf(namespace)), expect.level);
});

interface CasePod {
  readonly name: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly spec: unknown;
}

function podOf({ name, annotations = {}, spec }: CasePod): Pod {
  return { metadata: { name, annotations }, spec } as Pod;
}

interface ClassifyCase {
  readonly namespace: CaseNamespace;
  readonly pods?: readonly CasePod[];
  readonly podListError?: string;
  readonly level: Level;
}

/** The original is told that a namespace violates its level, and looks for pods only where the name says nothing. */
function recordedAs({ namespace: given, pods, level }: ClassifyCase): readonly string[] {
  const namespace = namespaceOf(given);
  const byName = classify(namespace, []);
  if (byName.length > 0) return byName;
  const { verdict, categories } = evaluateNamespace({
    namespace,
    level,
    pods: pods?.map(podOf),
    templates: [],
    exemptions: NO_EXEMPTIONS,
    exists: () => false,
    sccMode: 'enforce',
    mayUse: () => false,
  });
  return verdict === 'violating' ? categories : ['inconclusive'];
}

interface SetCase {
  readonly violating?: readonly CaseNamespace[];
  readonly inconclusive?: readonly CaseNamespace[];
}

interface WarningsCase {
  readonly received: readonly string[];
  readonly takes: number;
}

export const READINESS_AREAS: Readonly<Record<string, RolloutArea>> = {
  // Every answer has warnings of its own: the second one has none.
  'readiness/warnings': area<WarningsCase, { readonly results: readonly (readonly string[])[] }>(
    'parseWarnings',
    ({ received, takes }, { results }) => {
      const answers = Array.from({ length: takes }, (_, index) => (index === 0 ? received.map(warningHeader) : []));
      assert.deepEqual(answers.map(parseWarnings), results);
    },
  ),

  'readiness/discovery': area<
    { readonly namespaces: readonly CaseNamespace[] },
    { readonly selected: readonly string[] }
  >('isSelected', ({ namespaces }, { selected }) => {
    const found = namespaces.filter((one) => isSelected(namespaceOf(one), NO_EXEMPTIONS)).map(({ name }) => name);
    assert.deepEqual(found.sort(), selected);
  }),

  'readiness/level-and-violation': dryRun,
  'readiness/violation': dryRun,

  'readiness/classify': area<ClassifyCase, { readonly recordedAs: readonly string[] }>(
    'classify, evaluateNamespace',
    (given, expect) => assert.deepEqual([...recordedAs(given)].sort(), [...expect.recordedAs].sort()),
  ),

  'readiness/condition': area<
    { readonly type: string; readonly reason: string; readonly namespaces: string[] },
    unknown
  >('readinessCondition', (given, expect) => assert.deepEqual(readinessCondition(given), expect)),

  'readiness/condition-set': area<SetCase, { readonly conditions: Readonly<Record<string, string>> }>(
    'classify, readinessConditions',
    ({ violating = [], inconclusive = [] }, { conditions }) => {
      const found = readinessConditions([
        ...violating.map((one) => ({
          name: one.name,
          verdict: 'violating' as const,
          categories: classify(namespaceOf(one), [{ causes: ['serviceAccount'] }]),
        })),
        ...inconclusive.map(({ name }) => ({ name, verdict: 'inconclusive' as const, categories: [] })),
      ]);
      assert.deepEqual(Object.fromEntries(found.map(({ type, status }) => [type, status])), conditions);
    },
  ),
};
