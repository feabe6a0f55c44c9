import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { parseSettings, readPodSecuritySource } from '../../src/config/configuration.ts';
import { MODES, printPolicy } from '../../src/policy/psa/index.ts';
import { readFixture } from '../support/fixtures.ts';

const HEAD = 'apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n';
const WRAPPER = 'apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n';

const OPTIONS = { controllers: [], namespace: 'portcullis' };

interface Cases {
  readonly valid: readonly { readonly name: string; readonly text: string; readonly policies: readonly string[] }[];
  readonly invalid: readonly { readonly name: string; readonly text: string; readonly error: string }[];
}

const { valid, invalid } = readFixture<Cases>('config/configurations.yaml');

function parse(text: string) {
  return parseSettings({ file: 'config.yaml', text }, OPTIONS);
}

suite('a valid configuration sets the policy of each mode', () => {
  for (const { name, text, policies } of valid) {
    test(name, () => {
      const { defaults } = parse(text).podSecurity;
      assert.deepEqual(
        MODES.map((mode) => printPolicy(defaults[mode])),
        policies,
      );
    });
  }
});

suite('an invalid configuration is rejected with the field:', () => {
  for (const { name, text, error } of invalid) {
    test(name, () => assert.throws(() => parse(text), { name: 'UserError', message: error }));
  }

  test('a configuration with a syntax error is rejected with its position', () => {
    const message = /^error converting YAML to JSON: yaml: .+ \(config\.yaml:\d+:\d+\)$/;
    assert.throws(() => parse(`${HEAD}defaults: {\n`), { name: 'UserError', message });
  });
});

test('exemptions apply to their users, namespaces and runtime classes', () => {
  const lists =
    '{usernames: [bob, "system:serviceaccount:a:b"], namespaces: [kube-system], runtimeClasses: [kata.example]}';
  const { exemptions } = parse(`${HEAD}exemptions: ${lists}\n`).podSecurity;
  const matches = [
    exemptions.user('bob'),
    exemptions.user('system:serviceaccount:a:b'),
    exemptions.namespace('kube-system'),
    exemptions.runtimeClass('kata.example'),
  ];
  assert.deepEqual(matches, [true, true, true, true]);
  const others = [exemptions.user('kube-system'), exemptions.namespace(undefined), exemptions.runtimeClass('kata')];
  assert.deepEqual(others, [false, false, false]);
});

suite('readPodSecuritySource', () => {
  let folder = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
    await mkdir(join(folder, 'plugins'));
    await writeFile(join(folder, 'plugins', 'psa.yaml'), `${HEAD}defaults: {enforce: baseline}\n`);
    await writeFile(join(folder, 'plain.yaml'), HEAD);
  });
  after(() => rm(folder, { recursive: true }));

  const write = async (plugin: string): Promise<string> => {
    const file = join(folder, 'admission.yaml');
    await writeFile(file, `${WRAPPER}plugins:\n- name: PodSecurity\n  ${plugin}\n`);
    return file;
  };

  test('reads a plain file unchanged', async () => {
    const file = join(folder, 'plain.yaml');
    assert.deepEqual(await readPodSecuritySource(file), { file, text: HEAD });
  });

  test('resolves the path in an AdmissionConfiguration relative to that file', async () => {
    const source = await readPodSecuritySource(await write('path: plugins/psa.yaml'));
    assert.equal(source.file, join(folder, 'plugins', 'psa.yaml'));
    assert.equal(parseSettings(source, OPTIONS).podSecurity.defaults.enforce.level, 'baseline');
  });

  test('prefers an inline configuration to a path', async () => {
    const file = await write('path: plugins/psa.yaml\n  configuration: {a: b}');
    assert.equal((await readPodSecuritySource(file)).file, file);
  });

  test('rejects missing files', async () => {
    await assert.rejects(readPodSecuritySource(join(folder, 'none.yaml')), {
      name: 'UserError',
      message: `cannot read ${join(folder, 'none.yaml')}: there is no such file`,
    });
    await assert.rejects(readPodSecuritySource(await write('path: none.yaml')), {
      name: 'UserError',
      message: `cannot read ${join(folder, 'none.yaml')}: there is no such file`,
    });
  });

  test('rejects an AdmissionConfiguration that has a path and an unknown field', async () => {
    const file = await write('path: plugins/psa.yaml\n  nme: x');
    await assert.rejects(readPodSecuritySource(file), {
      name: 'UserError',
      message: `strict decoding error: unknown field "plugins[0].nme" (${file}:6:3, plugins[0].nme)`,
    });
  });
});
