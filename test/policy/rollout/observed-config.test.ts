import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { parsePodSecurity } from '../../../src/config/configuration.ts';
import {
  buildAdmissionConfiguration,
  observeConfig,
  OBSERVERS,
  type ObservedState,
} from '../../../src/policy/rollout/observed-config.ts';

const STATE: ObservedState = {
  plan: { want: true, enforce: 'restricted' },
  exemptions: { usernames: ['system:serviceaccount:builds:builder'], namespaces: [], runtimeClasses: ['kata'] },
};

function defaultsIn(config: unknown): unknown {
  return (config as { admission: { pluginConfig: { PodSecurity: { configuration: { defaults: unknown } } } } })
    .admission.pluginConfig.PodSecurity.configuration.defaults;
}

const ADVICE = {
  'enforce-version': 'latest',
  audit: 'restricted',
  'audit-version': 'latest',
  warn: 'restricted',
  'warn-version': 'latest',
};

suite('the configuration that is observed', () => {
  test('holds all six defaults and the exemptions', () => {
    assert.deepEqual(observeConfig(STATE, {}), {
      config: {
        admission: {
          pluginConfig: {
            PodSecurity: {
              configuration: { defaults: { enforce: 'restricted', ...ADVICE }, exemptions: STATE.exemptions },
            },
          },
        },
      },
      errors: [],
    });
  });

  const before = observeConfig(STATE, {}).config;
  const cases: readonly {
    readonly name: string;
    readonly state: Partial<ObservedState>;
    readonly before?: typeof before;
    readonly enforce: string;
    readonly errors?: readonly string[];
  }[] = [
    { name: 'is lowered', state: { plan: { want: false, enforce: 'privileged' } }, enforce: 'privileged' },
    {
      name: 'stays while it is not known what is wanted',
      state: { plan: { want: undefined, enforce: 'privileged' } },
      enforce: 'restricted',
    },
    {
      name: 'stays where something cannot be read, and says so',
      state: {
        plan: { want: false, enforce: 'privileged' },
        error: 'featuregates.config.openshift.io "cluster": timeout',
      },
      enforce: 'restricted',
      errors: ['pod-security-defaults: featuregates.config.openshift.io "cluster": timeout'],
    },
    {
      name: 'enforces nothing where there was none and nothing is known',
      state: { plan: { want: undefined, enforce: 'privileged' } },
      before: {},
      enforce: 'privileged',
    },
  ];
  for (const { name, state, enforce, errors = [], before: given = before } of cases) {
    test(name, () => {
      const observed = observeConfig({ ...STATE, ...state }, given);
      assert.deepEqual([defaultsIn(observed.config), observed.errors], [{ enforce, ...ADVICE }, errors]);
    });
  }

  test('keeps nothing that no observer owns', () => {
    assert.deepEqual(observeConfig(STATE, { ...before, odd: 1 }).config, before);
  });
});

suite('the configuration for an API server', () => {
  test('is one that this program takes, too', () => {
    const document = buildAdmissionConfiguration(observeConfig(STATE, {}).config);
    const { defaults, exemptions } = parsePodSecurity({ file: 'config.json', text: JSON.stringify(document) });
    assert.deepEqual(defaults.enforce, { level: 'restricted', version: 'latest' });
    assert.ok(exemptions.runtimeClass('kata') && exemptions.user('system:serviceaccount:builds:builder'));
  });

  test('does not start where something was forgotten', () => {
    assert.throws(
      () => parsePodSecurity({ file: 'config.json', text: JSON.stringify(buildAdmissionConfiguration({})) }),
      /^UserError: configuration error: enforce: must be one of privileged, baseline, restricted/,
    );
  });
});

test('every observer has a path of its own', () => {
  const paths = OBSERVERS.map(({ path }) => `${path.join('/')}/`);
  for (const [index, path] of paths.entries()) {
    assert.ok(!paths.some((other, place) => place !== index && other.startsWith(path)), path);
  }
});
