/** Tests how PortcullisConfigurations are decoded, including defaults, every field, and all errors. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createDefaultSettings, decodeSettings, type Settings } from '../../src/config/portcullis-configuration.ts';
import { formatFieldError } from '../../src/kube/field-error.ts';
import { isObject } from '../../src/kube/types.ts';
import { MODES, printPolicy } from '../../src/policy/psa/index.ts';
import { readFixture } from '../support/fixtures.ts';

const OPTIONS = { controllers: ['standard-scc-controller', 'replica-controller'], namespace: 'guard' };

interface Fixture {
  readonly valid: readonly { readonly name: string; readonly spec: unknown; readonly settings: object }[];
  readonly invalid: readonly {
    readonly name: string;
    readonly document?: unknown;
    readonly spec?: unknown;
    readonly errors: readonly string[];
  }[];
}

const { valid, invalid } = readFixture<Fixture>('config/portcullis-configurations.yaml');

/** Returns the settings in a form that YAML can express. */
function print({ podSecurity, emulationVersion, ...rest }: Settings): object {
  const { defaults, configuration } = podSecurity;
  return {
    podSecurity: { defaults: MODES.map((mode) => printPolicy(defaults[mode])), exemptions: configuration.exemptions },
    emulationVersion: emulationVersion ?? 'auto',
    ...rest,
  };
}

const DEFAULTS = print(createDefaultSettings(OPTIONS)) as Readonly<Record<string, object | string>>;

suite('valid specs are decoded with defaults for absent fields:', () => {
  for (const { name, spec, settings } of valid) {
    test(name, () => {
      const decoded = decodeSettings({ metadata: { name: 'cluster' }, spec }, OPTIONS);
      assert.ok('settings' in decoded, JSON.stringify(decoded));
      const changes = Object.entries(settings).map(([section, fields]: [string, unknown]) => [
        section,
        isObject(fields) ? { ...(DEFAULTS[section] as object), ...fields } : fields,
      ]);
      assert.deepEqual(print(decoded.settings), { ...DEFAULTS, ...Object.fromEntries(changes) });
    });
  }
});

suite('invalid documents are rejected with all errors:', () => {
  for (const { name, document, spec, errors } of invalid) {
    test(name, () => {
      const decoded = decodeSettings(document ?? { spec }, OPTIONS);
      assert.deepEqual('errors' in decoded ? decoded.errors.map(formatFieldError) : [], errors);
    });
  }
});
