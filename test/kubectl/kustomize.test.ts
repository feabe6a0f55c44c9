/** Tests the files that `npm run manifests` writes, and the kustomize base with its components. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import type { Feature } from '../../src/api/names.ts';
import { VERSION } from '../../src/cli/command.ts';
import { readDocuments } from '../../src/config/yaml.ts';
import { buildManifests, defaultSettings, type Manifest, type Profile, PROFILES } from '../../src/install/index.ts';
import type { ManifestSettings } from '../../src/install/settings.ts';
import { hasKubectl, MANIFESTS, writeOverlay } from '../support/kubectl.ts';

const folder = mkdtempSync(join(tmpdir(), 'portcullis-'));
after(() => rmSync(folder, { recursive: true }));

const BASE = defaultSettings(VERSION);

function objectsIn(text: string): readonly Manifest[] {
  const { documents, errors } = readDocuments(text, 'manifests');
  assert.deepEqual(errors, []);
  return documents.map(({ value }) => value as Manifest);
}

test('the generated kustomizations are up to date', () => {
  const out = join(folder, 'webhook-config');
  const { status, stderr } = spawnSync(process.execPath, ['scripts/manifests.ts', out], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  const written = readdirSync(out, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  assert.notEqual(written.length, 0);
  for (const { parentPath, name } of written) {
    const path = join(parentPath, name).slice(out.length);
    const text = readFileSync(join(out, path), 'utf8');
    assert.equal(readFileSync(join(MANIFESTS, path), 'utf8'), text, `${path}: run \`npm run manifests\``);
  }
});

test('install.yaml equals a default installation', () => {
  assert.deepEqual(objectsIn(readFileSync(join(MANIFESTS, 'install.yaml'), 'utf8')), buildManifests(BASE));
});

/** The components, in the order in which docs/how-to/install.md lists them. */
const COMPONENTS = (Object.keys(PROFILES) as Profile[]).filter((name) => name !== 'default');

test('each profile except the default is a component', () => {
  assert.deepEqual(readdirSync(join(MANIFESTS, 'components')).sort(), COMPONENTS.toSorted());
});

/** Returns the settings of the base with the changes of several profiles. */
function combine(names: readonly Profile[]): ManifestSettings {
  return names.reduce<ManifestSettings>((all, name) => {
    const change: Partial<ManifestSettings> = PROFILES[name];
    const changed = Object.entries(change.features ?? {}).filter(
      ([feature, value]) => value !== BASE.features[feature as Feature],
    );
    return { ...all, ...change, features: { ...all.features, ...Object.fromEntries(changed) } };
  }, BASE);
}

/**
 * Sorts the objects by kind and name, splits `--features` into an argument for each feature, and sorts the arguments.
 */
function comparable(objects: readonly Manifest[]): readonly Manifest[] {
  const key = ({ kind, metadata: { name } }: Manifest): string => `${kind} ${name}`;
  const split = (argument: unknown): readonly string[] => {
    const [name, value = ''] = String(argument).split('=');
    const values = value.split(',').filter((one) => one !== '');
    return name === '--features' ? values.map((one) => `${name}=${one}`) : [String(argument)];
  };
  const text = JSON.stringify(objects, (name, value: unknown) =>
    name === 'args' && Array.isArray(value) ? value.flatMap(split).toSorted() : value,
  );
  return (JSON.parse(text) as readonly Manifest[]).toSorted((a, b) => (key(a) < key(b) ? -1 : 1));
}

const ALL_BUT_FEATURES = ['cert-manager', 'high-availability', 'local'] as const;

/** Combinations of components: none, each one, pairs that change the same objects, and all at once. */
const COMBINATIONS: readonly (readonly Profile[])[] = [
  [],
  ...COMPONENTS.map((one) => [one]),
  ['without-rollout', 'olm'],
  ['scc', 'without-rollout'],
  ['scc', 'cert-manager'],
  ['kubelet', 'olm'],
  ['olm', 'cert-manager'],
  ['monitoring', 'scc'],
  ['monitoring', 'scc', 'kubelet', 'olm', ...ALL_BUT_FEATURES],
  ['monitoring', 'scc', 'without-rollout', 'kubelet', 'olm', ...ALL_BUT_FEATURES],
];

suite('kustomize', { skip: hasKubectl ? false : 'kubectl is not installed' }, () => {
  for (const names of COMBINATIONS) {
    test(`renders the base with ${names.join(', ') || 'no component'} to the manifests of install`, async () => {
      const overlay = await writeOverlay(join(folder, names.join('-') || 'base'), names);
      const { status, stdout, stderr } = spawnSync('kubectl', ['kustomize', overlay], { encoding: 'utf8' });
      assert.deepEqual([status, stderr], [0, '']);
      assert.deepEqual(comparable(objectsIn(stdout)), comparable(buildManifests(combine(names))));
    });
  }
});
