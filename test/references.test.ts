import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';
import { Ajv } from 'ajv';
import { references } from '../scripts/docs/references.ts';
import { decodeSettings } from '../src/config/portcullis-configuration.ts';
import { readDocuments } from '../src/config/yaml.ts';
import { CONTROLLER_NAMES } from '../src/controllers/index.ts';
import schema from '../webhook-config/portcullis-configuration.schema.json' with { type: 'json' };

for (const [file, expected] of await references()) {
  test(`${file} is generated from the current sources`, async () => {
    assert.equal(await readFile(file, 'utf8'), expected, `${file} is out of date: npm run docs`);
  });
}

const pages = (await readdir('docs', { recursive: true }))
  .filter((name) => name.endsWith('.md'))
  .map((name) => `docs/${name}`);
const community = (await readdir('.github')).filter((name) => name.endsWith('.md')).map((name) => `.github/${name}`);
const documents = new Map(
  await Promise.all(
    ['README.md', ...community, ...pages].map(async (path) => [path, await readFile(path, 'utf8')] as const),
  ),
);

/** Returns the heading anchors of a document as GitHub creates them. */
function findAnchors(text: string): readonly string[] {
  return [...text.matchAll(/^#{1,4} (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  );
}

suite('every link within the docs has an existing target:', () => {
  for (const [path, text] of documents) {
    test(path, () => {
      const links = [...text.matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)/g)];
      for (const [link, file = '', anchor] of links) {
        const target = file === '' ? path : join(dirname(path), file);
        assert.ok(existsSync(target), link);
        const linked = documents.get(target);
        if (anchor !== undefined && linked !== undefined) assert.ok(findAnchors(linked).includes(anchor), link);
      }
    });
  }
});

test('the pages about Pod Security mention neither SCCs nor OpenShift', () => {
  const pages = [...documents].filter(([page]) => page.startsWith('docs/pod-security/'));
  assert.equal(pages.length, 5);
  for (const [page, text] of pages)
    assert.doesNotMatch(text, /\bSCCs?\b|scc|security context constraint|UID range|openshift/i, page);
});

test('every page is at most two links away from docs/README.md', () => {
  const findLinked = (page: string): readonly string[] =>
    [...(documents.get(page) ?? '').matchAll(/\]\((?!https?:)([^)#\s]+)/g)].map(([, file = '']) =>
      join(dirname(page), file),
    );
  const first = findLinked('docs/README.md');
  const reached = new Set(['docs/README.md', ...first, ...first.flatMap(findLinked)]);
  assert.deepEqual(
    pages.filter((page) => !reached.has(page)),
    [],
  );
});

test('docs/reference/labels-and-annotations.md lists exactly the labels and annotations in the source code', async () => {
  const names =
    /(?<=['`])(?:[a-z.]+\.)?(?:portcullis\.dev|openshift\.io|pod-security\.kubernetes\.io)\/[\w.-]+(?=['`])/g;
  const isVersion = /\/(?:v\d\w*|cluster)$/;
  const files = (await readdir('src', { recursive: true })).filter((name) => name.endsWith('.ts'));
  const sources = await Promise.all(files.map((name) => readFile(join('src', name), 'utf8')));
  const find = (text: string): string[] => (text.match(names) ?? []).filter((name) => !isVersion.test(name));
  const page = documents.get('docs/reference/labels-and-annotations.md') ?? '';
  assert.deepEqual([...new Set(find(page))].sort(), [...new Set(sources.flatMap(find))].sort());
});

suite('the settings in the docs are valid:', () => {
  const validate = new Ajv({ strict: false }).compile(schema);
  const options = { controllers: CONTROLLER_NAMES, namespace: 'portcullis' };

  /** Returns the YAML blocks that contain settings, as complete documents. Blocks without a `kind` are excerpts. */
  const findSettings = (text: string): readonly object[] =>
    [...text.matchAll(/^( *)```yaml\n([^]*?)^ *```/gm)].flatMap(([, indent = '', block = '']) => {
      const yaml = block.replaceAll(new RegExp(`^${indent}`, 'gm'), '');
      const excerpt = `apiVersion: config.portcullis.dev/v1alpha1\nkind: PortcullisConfiguration\n${yaml}`;
      if (/^kind: PortcullisConfiguration$/m.test(yaml)) return parse(yaml);
      return yaml.startsWith('spec:\n') ? parse(excerpt) : [];
    });
  const parse = (yaml: string): readonly object[] => {
    const { documents, errors } = readDocuments(yaml, 'block');
    assert.deepEqual(errors, []);
    return documents.map(({ value }) => value as object);
  };

  const patches = (text: string): readonly object[] =>
    [...text.matchAll(/kubectl patch portcullis cluster --type=merge -p '(.*)'/g)].map(([, patch = '']) => ({
      ...{ apiVersion: 'config.portcullis.dev/v1alpha1', kind: 'PortcullisConfiguration' },
      ...(JSON.parse(patch) as object),
    }));

  test('examples and patches match the published schema and are accepted', () => {
    const texts = [...documents.values()];
    const examples = texts.flatMap((text) => [...findSettings(text), ...patches(text)]);
    assert.ok(examples.length >= 10, `only ${examples.length} examples`);
    for (const example of examples) {
      assert.ok(validate(example), `${JSON.stringify(example)}: ${JSON.stringify(validate.errors)}`);
      assert.ok('settings' in decodeSettings(example, options), JSON.stringify(example));
    }
  });

  test('the description of each setting contains its default:', () => {
    interface Field {
      readonly type?: string;
      readonly description?: string;
      readonly properties?: Readonly<Record<string, Field>>;
    }
    const named: unknown[] = [];
    const describe = ({ type, description = '', properties }: Field): unknown => {
      if (properties) {
        const fields = Object.entries(properties).map(([name, field]) => [name, describe(field)] as const);
        const known = fields.filter(([, value]) => value !== undefined);
        return known.length === 0 ? undefined : Object.fromEntries(known);
      }
      const [, text] = /Default: (\S+?)(?:, which .*| \(.*\))?\.$/.exec(description) ?? [];
      if (text === undefined) return undefined;
      named.push(text);
      return type === 'string' ? text : (JSON.parse(text) as unknown);
    };
    const spec = describe(schema.properties.spec);
    assert.ok(named.length >= 28, `only ${named.length} defaults`);
    const print = (value: unknown): string => JSON.stringify(decodeSettings({ spec: value }, options), undefined, 2);
    assert.equal(print(spec), print({ kubelet: {} }));
  });

  test('the published schema rejects unknown fields and values', () => {
    const type = { apiVersion: 'config.portcullis.dev/v1alpha1', kind: 'PortcullisConfiguration' };
    for (const spec of [{ ssc: {} }, { scc: { mode: 'enforced' } }, { rollout: { phase: 'Evaluate', date: '' } }]) {
      assert.equal(validate({ ...type, spec }), false, JSON.stringify(spec));
    }
  });
});
