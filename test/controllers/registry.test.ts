import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { rangeSettings, serveOptions } from '../../src/cli/serve/options.ts';
import { resolveValues } from '../../src/cli/options.ts';
import { rule, type ControllerDefinition, type Features } from '../../src/controllers/controller.ts';
import { CONTROLLER_NAMES, CONTROLLERS, createControllers, enabledControllers } from '../../src/controllers/index.ts';
import { defaultSettings } from '../../src/install/index.ts';
import { controllerRoles } from '../../src/install/rbac.ts';
import { createController } from '../support/controllers.ts';

const ALL: Features = {
  scc: true,
  rollout: true,
  dryRun: true,
  standardSccs: true,
  managedCertificate: true,
  replicas: true,
};

const CERTIFICATE = 'serving-certificate-controller';
const REPLICA = 'replica-controller';
const RANGES = 'namespace-security-allocation-controller';
const SCCS = 'standard-scc-controller';
const LABELS = 'pod-security-admission-label-synchronization-controller';
const RUN_LEVEL_ZERO = 'privileged-namespaces-psa-label-syncer';
const OBSERVER = 'pod-security-config-observer';
const READINESS = 'PodSecurityReadinessController';

suite('the enabled controllers', () => {
  const cases: readonly (readonly [name: string, features: Partial<Features>, list: string, expected: string[]])[] = [
    ['all features', {}, '*', [CERTIFICATE, REPLICA, RANGES, SCCS, LABELS, RUN_LEVEL_ZERO, OBSERVER, READINESS]],
    ['SCC admission off', { scc: false }, '*', [CERTIFICATE, REPLICA, OBSERVER, READINESS]],
    ['rollout disabled', { rollout: false }, '*', [CERTIFICATE, REPLICA, RANGES, SCCS]],
    ['standard SCCs ignored', { standardSccs: false, rollout: false }, '*', [CERTIFICATE, REPLICA, RANGES]],
    ['certificate from files', { managedCertificate: false, rollout: false }, '*', [REPLICA, RANGES, SCCS]],
    ['development cluster', { managedCertificate: false, replicas: false, rollout: false }, '*', [RANGES, SCCS]],
    ['one excluded', { rollout: false }, `*,-${RANGES}`, [CERTIFICATE, REPLICA, SCCS]],
    ['one selected', {}, RANGES, [RANGES]],
    ['the first entry of a name decides', {}, `-${RANGES},${RANGES}`, []],
    ['selected, but its feature is off', { standardSccs: false }, SCCS, []],
  ];
  for (const [name, features, list, expected] of cases) {
    test(name, () => {
      const enabled = enabledControllers({ ...ALL, ...features }, list.split(','));
      assert.deepEqual(
        enabled.map((one) => one.name),
        expected,
      );
    });
  }

  test('every definition creates a controller of its name, and has a description of one line', () => {
    assert.equal(new Set(CONTROLLER_NAMES).size, CONTROLLERS.length);
    for (const definition of CONTROLLERS) {
      const { name, runsOn } = createController(definition);
      assert.deepEqual([name, runsOn], [definition.name, definition.runsOn]);
      assert.match(definition.description, /^[^\n]{20,120}$/);
    }
  });

  test('a new controller needs one registry entry: it runs, and its permissions are in the manifests', () => {
    const example: ControllerDefinition = {
      name: 'example-controller',
      description: 'an example',
      runsOn: 'leader',
      permissions: [
        { role: 'example', clusterRules: [rule(['list', 'watch'], ['Node'])] },
        { role: 'example-dry-run', clusterRules: [rule(['patch'], ['Pod'])], isNeeded: ({ dryRun }) => dryRun },
      ],
      isEnabled: ({ scc }) => scc,
      create: () => ({ sources: [], reconcile: () => Promise.resolve(undefined) }),
    };
    const registry = [...CONTROLLERS, example];
    assert.ok(enabledControllers(ALL, ['*'], registry).includes(example));
    assert.equal(createControllers([example], {} as Parameters<typeof createControllers>[1])[0]?.name, example.name);
    const roles = (settings: object): readonly string[] =>
      controllerRoles({ ...defaultSettings('1.0.0'), ...settings }, registry)
        .map(({ kind, metadata }) => `${kind} ${metadata.name}`)
        .filter((one) => one.includes('example'));
    assert.deepEqual(roles({}), ['ClusterRole portcullis-example', 'ClusterRoleBinding portcullis-example']);
    assert.deepEqual(roles({ withoutControllers: [example.name] }), []);
    assert.deepEqual(roles({ sccMode: 'off' }), []);
    assert.equal(roles({ evaluator: 'DryRun' }).length, 4);
  });
});

suite('the options of the controllers', () => {
  const resolve = (given: Readonly<Record<string, string>>) => {
    const typed = new Map(Object.entries(given).map(([name, text]) => [name, [text]]));
    return rangeSettings(resolveValues(serveOptions, { typed, env: {} }));
  };
  const known = CONTROLLER_NAMES.join(', ');
  const invalid: readonly (readonly [given: Readonly<Record<string, string>>, message: string])[] = [
    [
      { controllers: '*,-unknown' },
      `invalid argument "*,-unknown" for "--controllers" flag: "-unknown" is not in the list of known controllers: ${known}`,
    ],
    [
      { controllers: '' },
      `invalid argument "" for "--controllers" flag: "" is not in the list of known controllers: ${known}`,
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
  for (const [given, message] of invalid) {
    test(`invalid: ${JSON.stringify(given)}`, () =>
      assert.throws(() => resolve(given), { name: 'UserError', message }));
  }
  test('valid ranges', () => {
    assert.equal(
      resolve({ 'uid-range': '100000-199999/1000', 'mcs-range': 's0:/1', 'mcs-labels-per-block': '10' }).labelsPerBlock,
      10,
    );
  });
});
