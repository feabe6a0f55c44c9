/** Rolling out enforcement against what the platform does, and against the decisions where this product deviates. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { LABEL_SYNC_AREAS } from '../support/rollout-areas/label-sync.ts';
import { OBSERVER_AREAS } from '../support/rollout-areas/observer.ts';
import { READINESS_AREAS } from '../support/rollout-areas/readiness.ts';
import type { RolloutArea, RolloutCase, StateRow } from '../support/rollout-areas/area.ts';
import { checkState } from '../support/rollout-areas/state-table.ts';

const folder = join(process.env['PORTCULLIS_CONFORMANCE'] ?? '../shared/conformance', 'rollout');
const skip = existsSync(folder) ? false : `no conformance data in ${folder}`;

const AREAS: Readonly<Record<string, RolloutArea>> = { ...LABEL_SYNC_AREAS, ...READINESS_AREAS, ...OBSERVER_AREAS };

/** The levels of SCCs are compared where SCCs are. */
const ELSEWHERE = /^scc-to-pss\//;

suite('decisions about a rollout', { skip }, () => {
  const { cases, fixtures } = skip ? { cases: [], fixtures: {} } : read<Cases>('cases.json');
  for (const [name, inArea] of Map.groupBy(cases, ({ area }) => area)) {
    if (ELSEWHERE.test(name)) continue;
    const area = AREAS[name];
    test(`${name}: ${inArea.length} cases, decided by ${area?.by ?? 'nothing'}`, async (t) => {
      assert.ok(area, 'nothing decides this area');
      for (const one of inArea) await t.test(one.name, () => area.check(withFixtures(one, fixtures)));
    });
  }
});

test('every area is decided by something', { skip }, () => {
  const areas = new Set(read<Cases>('cases.json').cases.map(({ area }) => area));
  const undecided = [...areas].filter((name) => !ELSEWHERE.test(name) && !Object.hasOwn(AREAS, name));
  assert.deepEqual(undecided, []);
});

test('every row of the state table', { skip }, () => {
  const { rows } = read<{ readonly rows: readonly StateRow[] }>('state-table.json');
  for (const row of rows) checkState(row);
  assert.equal(rows.length, 1080);
});

interface Cases {
  readonly cases: readonly RolloutCase[];
  readonly fixtures: Readonly<Record<string, unknown>>;
}

function read<T>(file: string): T {
  return JSON.parse(readFileSync(join(folder, file), 'utf8')) as T;
}

function withFixtures(one: RolloutCase, fixtures: Cases['fixtures']): RolloutCase {
  const input = Object.entries(one.input as object).map(([key, value]: [string, unknown]) => {
    const name = typeof value === 'string' && value.startsWith('fixture:') ? value.slice('fixture:'.length) : undefined;
    return [key, name === undefined ? value : fixtures[name]];
  });
  return { ...one, input: Object.fromEntries(input) as unknown };
}
