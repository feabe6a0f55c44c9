import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { controllersOf, serveOptions } from '../../../src/cli/serve/options.ts';
import { sccSettings } from '../../../src/cli/scc-options.ts';
import { rolloutControllers } from '../../../src/cli/commands/serve.ts';
import { resolveValues } from '../../../src/cli/options.ts';
import { createStore } from '../../../src/cluster/store.ts';
import type { Controller } from '../../../src/controllers/controller.ts';
import { CONTROLLER_NAMES, createControllers } from '../../../src/controllers/index.ts';
import { REPLICA_CONTROLLER } from '../../../src/controllers/replica.ts';
import { SERVING_CERTIFICATE_CONTROLLER } from '../../../src/controllers/serving-certificate.ts';
import { STANDARD_SCC_CONTROLLER } from '../../../src/controllers/standard-sccs.ts';
import { UID_RANGE_ALLOCATOR } from '../../../src/controllers/uid-range-allocator.ts';
import { DEFAULT_CONFIGURATION } from '../../../src/policy/psa/configuration.ts';
import type { RolloutPhase } from '../../../src/policy/rollout/enforcement.ts';
import { DEFAULT_ROLLOUT } from '../../../src/policy/rollout/settings.ts';
import { DEFAULT_RANGES } from '../../../src/policy/uid-range/ranges.ts';
import { createMetrics } from '../../../src/telemetry/metrics.ts';

/** Those of a live cluster alone. */
const CERTIFICATES = [SERVING_CERTIFICATE_CONTROLLER, REPLICA_CONTROLLER];
const BOTH = [UID_RANGE_ALLOCATOR, STANDARD_SCC_CONTROLLER];

function namesFor(given: Readonly<Record<string, string>>): readonly string[] {
  const typed = new Map(Object.entries(given).map(([name, text]) => [name, [text]]));
  return controllersOf(resolveValues(serveOptions, { typed, env: {} })).map(({ name }) => name);
}

function ofRollout(phase: RolloutPhase): readonly Controller[] {
  const values = resolveValues(serveOptions, { typed: new Map(), env: {} });
  return rolloutControllers({
    values,
    scc: sccSettings(values),
    place: { store: createStore(), namespace: 'portcullis', version: '0.0.0' },
    settings: () => ({ ...DEFAULT_ROLLOUT, phase }),
    exemptions: () => DEFAULT_CONFIGURATION.exemptions,
    metrics: createMetrics({ version: '0.0.0' }),
  });
}

suite('the controllers that run', () => {
  const cases: readonly (readonly [given: Readonly<Record<string, string>>, expected: readonly string[]])[] = [
    [{}, BOTH],
    [{ 'scc-mode': 'enforce' }, BOTH],
    [{ 'scc-mode': 'off' }, []],
    [{ 'standard-sccs': 'ignore' }, [UID_RANGE_ALLOCATOR]],
    [{ controllers: '*' }, BOTH],
    [{ controllers: `*,-${UID_RANGE_ALLOCATOR}` }, [STANDARD_SCC_CONTROLLER]],
    [{ controllers: `-${UID_RANGE_ALLOCATOR},${UID_RANGE_ALLOCATOR}` }, []],
    [{ controllers: UID_RANGE_ALLOCATOR }, [UID_RANGE_ALLOCATOR]],
    [{ controllers: STANDARD_SCC_CONTROLLER, 'standard-sccs': 'ignore' }, []],
    [{ 'uid-range': '100000-199999/1000', 'mcs-range': 's0:/1', 'mcs-labels-per-block': '10' }, BOTH],
  ];
  for (const [given, expected] of cases) {
    test(JSON.stringify(given), () => assert.deepEqual(namesFor(given), expected));
  }

  test('every controller has a name that is known', () => {
    const names = [...createControllers({ ranges: DEFAULT_RANGES }), ...ofRollout('Enforce')].map(({ name }) => name);
    assert.deepEqual([...CERTIFICATES, ...names], CONTROLLER_NAMES);
    assert.deepEqual(ofRollout('Disabled'), []);
  });

  const KNOWN = CONTROLLER_NAMES.join(', ');
  const wrong: readonly (readonly [given: Readonly<Record<string, string>>, message: string])[] = [
    [
      { controllers: '*,-nobody' },
      `invalid argument "*,-nobody" for "--controllers" flag: "-nobody" is not in the list of known controllers: ${KNOWN}`,
    ],
    [
      { controllers: '' },
      `invalid argument "" for "--controllers" flag: "" is not in the list of known controllers: ${KNOWN}`,
    ],
    [{ 'uid-range': '5-1/1' }, 'invalid argument "5-1/1" for "--uid-range" flag: start 5 must be less than end 1'],
    [
      { 'mcs-range': 's0:/9' },
      'invalid argument "s0:/9" for "--mcs-range" flag: range may not include more than 5 labels',
    ],
    [
      { 'mcs-labels-per-block': '0' },
      'invalid argument "0" for "--mcs-labels-per-block" flag: must be a whole number from 1 to 1000000',
    ],
    [
      { 'mcs-range': 's0:/1' },
      '--uid-range, --mcs-range, --mcs-labels-per-block: mcs range s0:/1 has 1024 labels, 500000 are needed for the 100000 blocks of uid range 1000000000-1999999999/10000',
    ],
    [
      { 'scc-mode': 'off', 'uid-range': '0-4294967295/1' },
      '--uid-range, --mcs-range, --mcs-labels-per-block: uid range 0-4294967295/1 has 4294967296 blocks, more than 8000000',
    ],
  ];
  for (const [given, message] of wrong) {
    test(`wrong: ${JSON.stringify(given)}`, () => assert.throws(() => namesFor(given), { name: 'UserError', message }));
  }
});
