/** Compares the enforcement rollout with OpenShift, or with the documented deviations of Portcullis. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type Case, readCases, testAreas } from '../support/conformance/cases.ts';
import { LABEL_SYNC_AREAS } from '../support/conformance/label-sync.ts';
import { checkState, OBSERVER_AREAS, READINESS_AREAS, type StateRow } from '../support/conformance/rollout.ts';

interface Cases {
  readonly cases: readonly Case[];
  readonly fixtures: Readonly<Record<string, unknown>>;
}

suite('the rollout agrees with the recorded results', () => {
  const { cases, fixtures } = readCases<Cases>('rollout/cases.json');
  // scc.test.ts compares the SCC levels. Warnings are not compared, because only the upstream controller parses the
  // warnings of its dry runs.
  const compared = cases.filter(({ area }) => !area.startsWith('scc-to-pss/') && area !== 'readiness/warnings');
  testAreas(
    compared.map((one) => withFixtures(one, fixtures)),
    { ...LABEL_SYNC_AREAS, ...READINESS_AREAS, ...OBSERVER_AREAS },
  );
});

test('each row of the state table has the recorded result', () => {
  const { rows } = readCases<{ readonly rows: readonly StateRow[] }>('rollout/state-table.json');
  for (const row of rows) checkState(row);
  assert.equal(rows.length, 1080);
});

/** Replaces `fixture:<name>` inputs with the fixture. */
function withFixtures(one: Case, fixtures: Cases['fixtures']): Case {
  const input = Object.entries(one.input as object).map(([key, value]: [string, unknown]) => {
    const name = typeof value === 'string' && value.startsWith('fixture:') ? value.slice('fixture:'.length) : undefined;
    return [key, name === undefined ? value : fixtures[name]];
  });
  return { ...one, input: Object.fromEntries(input) as unknown };
}
