/** What lies in `webhook-config/` is what the sources make. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { suite, test } from 'node:test';
import packageJson from '../../package.json' with { type: 'json' };
import { readDocuments } from '../../src/config/yaml.ts';
import { manifestFiles } from '../../src/install/kustomize.ts';
import { defaultSettings, buildManifests, type Manifest } from '../../src/install/index.ts';
import { PROFILES, type Profile } from '../../src/install/settings.ts';
import { hasKubectl } from '../support/kubectl.ts';

const FOLDER = join(import.meta.dirname, '../../webhook-config');
const { version } = packageJson;
const files = new Map(manifestFiles(version));

function settingsOf(profile: Profile) {
  return { ...defaultSettings(version), ...PROFILES[profile] };
}

/** Objects in the order of their kinds and names. */
function sorted(objects: readonly unknown[]): readonly unknown[] {
  const keyOf = (one: unknown): string => `${(one as Manifest).kind} ${(one as Manifest).metadata.name}`;
  return objects.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
}

/** Arguments count in any order. */
function anyOrder(objects: readonly unknown[]): unknown {
  const sortArguments = (key: string, value: unknown): unknown =>
    key === 'args' && Array.isArray(value) ? value.toSorted() : value;
  return JSON.parse(JSON.stringify(objects, sortArguments));
}

function objectsIn(text: string): readonly unknown[] {
  const { documents, errors } = readDocuments(text, 'rendered');
  assert.deepEqual(errors, []);
  return documents.map(({ value }) => value);
}

test('the files are those that `npm run manifests` writes', () => {
  const found = readdirSync(FOLDER, { recursive: true, encoding: 'utf8' }).filter((path) =>
    statSync(join(FOLDER, path)).isFile(),
  );
  assert.deepEqual(found.sort(), [...files.keys()].sort());
  for (const [path, text] of files) {
    assert.equal(readFileSync(join(FOLDER, path), 'utf8'), text, `${path}: run \`npm run manifests\``);
  }
});

test('install.yaml is what is installed by default', () => {
  const expected = buildManifests(settingsOf('default'));
  assert.deepEqual(objectsIn(files.get('install.yaml') ?? ''), expected);
});

test('what is for a local API server differs in the URLs of webhooks alone', () => {
  const withoutPlace = (objects: readonly Manifest[]): unknown =>
    JSON.parse(JSON.stringify(objects, (key, value: unknown) => (key === 'clientConfig' ? undefined : value)));
  const [local, installed] = [buildManifests(settingsOf('local')), buildManifests(settingsOf('default'))];
  assert.deepEqual(withoutPlace(local), withoutPlace(installed));
  const places = (objects: readonly Manifest[]): unknown[] =>
    objects.flatMap((one) =>
      ((one as { webhooks?: { clientConfig: unknown }[] }).webhooks ?? []).map((hook) => hook.clientConfig),
    );
  const urlOf = (place: unknown): unknown => ({
    url: `https://127.0.0.1:8443${(place as { service: { path: string } }).service.path}`,
  });
  assert.deepEqual(places(local), places(installed).map(urlOf));
});

suite('kustomize', { skip: hasKubectl ? false : 'kubectl is not installed' }, () => {
  const kustomize = (folder: string): readonly unknown[] => {
    const { status, stdout, stderr } = spawnSync('kubectl', ['kustomize', folder], {
      encoding: 'utf8',
      timeout: 30_000,
    });
    assert.equal(status, 0, stderr);
    assert.equal(stderr, '');
    return objectsIn(stdout);
  };

  for (const profile of Object.keys(PROFILES) as Profile[]) {
    test(`the overlay ${profile} renders to what the source says`, () => {
      assert.deepEqual(
        sorted(kustomize(join(FOLDER, 'overlays', profile))),
        sorted(buildManifests(settingsOf(profile))),
      );
    });
  }

  const joined: readonly (readonly Profile[])[] = [
    ['openshift', 'cert-manager', 'monitoring'],
    ['cert-manager', 'openshift'],
    ['monitoring', 'high-availability', 'local'],
  ];
  for (const profiles of joined) {
    test(`components go together: ${profiles.join(', ')}`, (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'portcullis-'));
      t.after(() => rmSync(folder, { recursive: true }));
      const to = (path: string): string => relative(folder, join(FOLDER, path));
      const content = {
        apiVersion: 'kustomize.config.k8s.io/v1beta1',
        kind: 'Kustomization',
        resources: [to('base')],
        components: profiles.map((profile) => to(`components/${profile}`)),
      };
      writeFileSync(join(folder, 'kustomization.yaml'), JSON.stringify(content));
      const settings = profiles.reduce((all, profile) => ({ ...all, ...PROFILES[profile] }), defaultSettings(version));
      assert.deepEqual(anyOrder(sorted(kustomize(folder))), anyOrder(sorted(buildManifests(settings))));
    });
  }
});
