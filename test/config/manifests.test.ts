import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { Readable } from 'node:stream';
import { describe, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import { readManifests } from '../../src/config/manifests.ts';
import { manifestObjects } from '../../src/config/objects.ts';
import { type Path, printYaml, readDocuments } from '../../src/config/yaml.ts';

/** Scalars, and the JSON values that kubectl (sigs.k8s.io/yaml v1.6.0) decodes them to. */
const SCALARS: Readonly<Record<string, readonly string[]>> = {
  true: ['y', 'Yes', 'ON', '!!bool yes'],
  false: ['n', 'off', 'No'],
  null: ['~', 'Null', "!!null ''"],
  '[null]': ['-'],
  '[1]': ['!foo [1]'],
  0: ['-0'],
  0.5: ['.5', '+.5'],
  1: ['1.0', '1.'],
  3: ['0b11'],
  '-3': ['-0b11'],
  5: ['+5', '!!int "5"'],
  8: ['010', '08'],
  31: ['0x1F', '0x1_F'],
  '-31': ['-0x1f'],
  89: ['089'],
  511: ['0777'],
  1000: ['1_000', '1e3'],
  '-1000': ['-1E3'],
  1000.5: ['1_000.5'],
  '"yes"': ['"yes"', '!!str yes'],
  '"5"': ["'5'", '!!str 5', '!foo 5', '! 5'],
  '"hi"': ['!!binary aGk='],
  '"2001-01-01"': ['2001-01-01', '!!timestamp 2001-01-01'],
};
/** Scalars that kubectl decodes to strings. */
const STRINGS = ['tRue', 'yEs', '0o8', '0x', '0b12', '_1', '.', '1e', '1e400', '1.2.3', 'e1', '1:30'];

const scalars = [
  ...Object.entries(SCALARS).flatMap(([json, texts]) => texts.map((text) => [text, json] as const)),
  ...STRINGS.map((text) => [text, JSON.stringify(text)] as const),
];

const documents: readonly (readonly [name: string, text: string, json: string])[] = [
  ['keys are strings', '{1: a, 1.5: b, yes: c, 0x10: d}', '{"1":"a","16":"d","1.5":"b","true":"c"}'],
  ['the last of several equal keys takes precedence', 'a: 1\na: 2', '{"a":2}'],
  ['a key overrides a merged key', '<<: {a: 2, b: 3}\na: 1', '{"a":1,"b":3}'],
  ['the first of several merged maps takes precedence', '<<: [{a: 1}, {a: 2, b: 3}]', '{"a":1,"b":3}'],
  ['a quoted merge key is an ordinary key', '"<<": {a: 1}', '{"<<":{"a":1}}'],
  ['aliases are expanded', 'a: &x {b: 1}\nc:\n  <<: *x\n  d: *x', '{"a":{"b":1},"c":{"b":1,"d":{"b":1}}}'],
  ['an alias refers to the last preceding anchor', 'a: &x 1\nb: *x\nc: &x 2\nd: *x', '{"a":1,"b":1,"c":2,"d":2}'],
  ['aliases in aliased values are expanded', 'a: &x 1\nb: &y [*x]\nc: &x 2\nd: *y', '{"a":1,"b":[1],"c":2,"d":[1]}'],
  ['__proto__ is an ordinary key', '__proto__: {a: 1}', '{"__proto__":{"a":1}}'],
  ['a byte order mark is skipped', '\ufeffa: 1', '{"a":1}'],
  ['carriage returns are decoded as line breaks', 'a: 1\r\nb: 2\r\n', '{"a":1,"b":2}'],
  ['block scalars are decoded', 'a: |\n  x\n   y\nb: >\n  q\n  r\n', '{"a":"x\\n y\\n","b":"q r\\n"}'],
  ['JSON with tabs is decoded', '{\n\t"a":\t1}', '{"a":1}'],
  [
    'strings in JSON are decoded as in JSON',
    '{"a": "yes", "<<": "b", "c": "\\ud83d\\ude00\\n"}',
    '{"a":"yes","<<":"b","c":"😀\\n"}',
  ],
  ['numbers in JSON are decoded as in JSON', '{"a": [0, -1, 1.5, 1e3, -2.5E-1]}', '{"a":[0,-1,1.5,1000,-0.25]}'],
  ['JSON with trailing commas is decoded', '{"a": [1,],\n"b": {"c": 1,}}', '{"a":[1],"b":{"c":1}}'],
];

/** Texts with syntax errors, the errors, and the documents that can be read. */
const broken: readonly (readonly [name: string, text: string, errors: readonly string[], others: readonly string[]])[] =
  [
    [
      'YAML with an error in the middle',
      'a: 1\n---\nb: [1\nc: 2\n---\nd: 3\n',
      ["f:4:2: did not find expected ',' or ']'"],
      ['{"a":1}', '{"d":3}'],
    ],
    [
      'JSON with an error in the middle',
      '{"a":1}\n{"b"]}\n{"c":3}',
      ["f:2:5: did not find expected ',' or '}'"],
      ['{"a":1}'],
    ],
    ['JSON with an invalid escape', '{"a": "\\x"}', ['f:1:7: did not find expected hexdecimal number'], []],
    ['JSON with a missing colon', '{"a" 1}\n{', ["f:1:6: did not find expected ',' or '}'"], []],
    ['YAML with a colon in a plain scalar', 'a: b: c', ['f:1:5: mapping values are not allowed in this context'], []],
    ['YAML with an unknown alias', 'a: *x', ["f:1:4: unknown anchor 'x' referenced"], []],
    [
      'YAML with a merged string',
      'a: 1\n<<: b',
      ['f:2:5: map merge requires map or sequence of maps as the value'],
      [],
    ],
    ['YAML with an alias to itself', 'a: &x\n- *x', ["f:2:3: anchor 'x' value contains itself"], []],
    ['deeply nested YAML', '['.repeat(50_000), ['f:1:502: nested more than 500 levels deep'], []],
    [
      'deeply nested YAML in block style',
      `a: 1\n---\n${'- '.repeat(20_000)}`,
      ['f:3:1003: nested more than 500 levels deep'],
      ['{"a":1}'],
    ],
    [
      'YAML with aliases that expand exponentially',
      [
        'a0: &a0 [x,x,x,x,x,x,x,x,x]',
        ...Array.from({ length: 9 }, (_, n) => `a${n + 1}: &a${n + 1} [${`*a${n},`.repeat(9)}]`),
      ].join('\n'),
      ['f:3:9: document contains excessive aliasing'],
      [],
    ],
    [
      'a text that causes a long message, which is truncated',
      `--- ${'!'.repeat(1000)}`,
      [`f:1:1: invalid YAML document separator: ${'!'.repeat(167)}…`],
      [],
    ],
  ];

/** Streams, and the index and line of each document. */
const streams: readonly (readonly [name: string, text: string, documents: readonly string[]])[] = [
  ['an empty text', '', []],
  ['a text with null documents, which are omitted', '---\n~\n---\na: 1\n---\nnull\n', ['0:4:{"a":1}']],
  ['a text with only comments', '\n# nothing\n---\n\n--- # nor here\n# or here\n', []],
  ['a text with document end markers', 'a: 1\n...\n---\nb: 2\n...\n', ['0:1:{"a":1}', '1:4:{"b":2}']],
  ['a text with three dashes in a string', 'a: |\n  ---\nb: ---x\n', ['0:1:{"a":"---\\n","b":"---x"}']],
  [
    'a text with a sequence of JSON values',
    '{"a":1}{"b":2}\n\n{"c":\n3}',
    ['0:1:{"a":1}', '1:1:{"b":2}', '2:3:{"c":3}'],
  ],
  [
    'a text with JSON and YAML',
    '{"a":1}\n---\nb: 2\n---\r\n{"c":3}\r\n',
    ['0:1:{"a":1}', '1:3:{"b":2}', '2:5:{"c":3}'],
  ],
  ['a text with values that are not objects', 'text\n---\n[1]\n---\n5\n', ['0:1:"text"', '1:3:[1]', '2:5:5']],
];

const POSITIONS_TEXT = `# comment
apiVersion: v1
kind: Pod
spec: &spec
  "containers":
    - name: a
      image: b
    - {name: c, securityContext: {privileged: true}}
other:
  <<: *spec
copy: *spec
`;

const positions: readonly (readonly [name: string, path: Path, position: string])[] = [
  ['the document', [], '2:1'],
  ['a field, which is that of its key', ['kind'], '3:1'],
  ['a quoted key', ['spec', 'containers'], '5:3'],
  ['an item', ['spec', 'containers', 0], '6:7'],
  ['a field of an item', ['spec', 'containers', 0, 'image'], '7:7'],
  ['a field in flow style', ['spec', 'containers', 1, 'securityContext', 'privileged'], '8:35'],
  ['a missing field, which is that of its nearest ancestor', ['spec', 'containers', 1, 'ports', 0, 'hostPort'], '8:7'],
  ['a missing item, which is that of its list', ['spec', 'containers', 7], '5:3'],
  ['a merged field, which is that in its anchor', ['other', 'containers', 0, 'name'], '6:7'],
  ['a field of an alias, which is that in the anchor', ['copy', 'containers', 1], '8:7'],
  ['a missing top-level field', ['metadata', 'name'], '2:1'],
];

describe('readDocuments', () => {
  for (const [text, json] of scalars) {
    test(`decodes the scalar ${text}`, () => {
      const { documents, errors } = readDocuments(`- ${text}`, 'f');
      assert.deepEqual(errors, []);
      assert.equal(JSON.stringify(documents[0]?.value), `[${json}]`);
    });
  }
  for (const [name, text, json] of documents) {
    test(name, () => {
      const { documents, errors } = readDocuments(text, 'f');
      assert.deepEqual(errors, []);
      assert.deepEqual(
        documents.map(({ value }) => JSON.stringify(value)),
        [json],
      );
    });
  }
  for (const [name, text, errors, others] of broken) {
    test(`reports the error in ${name}`, () => {
      const found = readDocuments(text, 'f');
      assert.deepEqual(
        found.errors.map(({ file, line, column, message }) => `${file}:${line}:${column}: ${message}`),
        errors,
      );
      assert.deepEqual(
        found.documents.map(({ value }) => JSON.stringify(value)),
        others,
      );
    });
  }
  for (const [name, text, expected] of streams) {
    test(`returns the documents in ${name}`, () => {
      const { documents, errors } = readDocuments(text, 'f');
      assert.deepEqual(errors, []);
      assert.deepEqual(
        documents.map(({ index, line, value }) => `${index}:${line}:${JSON.stringify(value)}`),
        expected,
      );
    });
  }
  for (const [name, path, expected] of positions) {
    test(`reports the position of ${name}`, () => {
      const position = readDocuments(POSITIONS_TEXT, 'f').documents[0]?.locate(path);
      assert.equal(`${position?.line}:${position?.column}`, expected);
    });
  }

  test('returns positions in later documents and in JSON', () => {
    const text = 'a: 1\r\n---\r\n{"b": [\r\n  {"c": 1}]}\r\n';
    const position = readDocuments(text, 'f').documents[1]?.locate(['b', 0, 'c']);
    assert.deepEqual(position, { line: 4, column: 4 });
  });

  test('reports repeated keys, and keys that a later merge key replaces', () => {
    const text =
      'a:\n  - {b: 1, b: 2}\n<<: {c: 1}\nc: 2\nc: 3\n---\n{"d": {"e": 1,\n "e": 2}}\n---\nf: {g: 1,\n  <<: {g: 2}}\n';
    const found = readDocuments(text, 'f').documents.flatMap(({ repetitions }) => repetitions);
    assert.deepEqual(found, [
      { path: ['a', 0, 'b'], line: 2, column: 12 },
      { path: ['c'], line: 5, column: 1 },
      { path: ['d', 'e'], line: 8, column: 2 },
      { path: ['f', 'g'], line: 11, column: 3, isMerged: true },
    ]);
  });

  test('decodes JSON with millions of escapes in a string', () => {
    const { documents, errors } = readDocuments(`{"a": ${JSON.stringify('\n'.repeat(12_000_000))}, "b": 1}`, 'f');
    assert.deepEqual(errors, []);
    assert.deepEqual(documents[0]?.locate(['b']), { line: 1, column: 24_000_011 });
  });

  test('decodes JSON to the same value as JSON.parse', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.integer({ min: 0, max: 3 }), (value, indent) => {
        const text = JSON.stringify(value, undefined, indent);
        const { documents, errors } = readDocuments(text, 'f');
        assert.deepEqual(errors, []);
        assert.deepEqual(documents[0]?.value, JSON.parse(text));
      }),
    );
  });

  test('decodes printed YAML to the original value', () => {
    const control = ['\u0085', 'a\u009b2Jb', '\u202eb', '\u2028', '\u007f', '\u001b[31m', 'a\n\u0080\n'];
    const special = ['<<', '---', '# a', ' a', 'a: b', 'a\n', 'a\tb', '2001-01-01', ...control];
    const words = fc.constantFrom(...scalars.map(([text]) => text), ...special);
    const texts = fc.oneof(words, fc.string());
    fc.assert(
      fc.property(fc.dictionary(texts, fc.oneof(texts, fc.jsonValue())), (value) => {
        const json = JSON.parse(JSON.stringify(value)) as unknown;
        const text = printYaml([json]);
        assert.doesNotMatch(text, /[^\P{Cc}\n\t]|[\p{Bidi_Control}\u2028\u2029]/u);
        assert.deepEqual(readDocuments(text, 'f').documents[0]?.value, json);
      }),
    );
  });

  test('readDocuments does not throw an error for any text', () => {
    const bits = fc.constantFrom(...'a|: |- |\n|  |---\n|{|}|[|]|,|"|&a |*a|<<|? |!!int |#|\t'.split('|'), '|');
    fc.assert(
      fc.property(fc.array(fc.oneof(bits, fc.string({ maxLength: 3 })), { maxLength: 40 }), (parts) => {
        const { documents } = readDocuments(parts.join(''), 'f');
        for (const document of documents) document.locate(['a', 0, 'b']);
      }),
      { numRuns: 1000 },
    );
  });
});

/** Returns the kind, name and position of each object in a text. */
const objects: readonly (readonly [name: string, text: string, expected: readonly string[]])[] = [
  ['one object', 'apiVersion: v1\nkind: Pod\nmetadata: {name: a}', ['v1 Pod 1:1']],
  [
    'a List',
    'apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod}\n- {apiVersion: apps/v1, kind: Deployment}',
    ['v1 Pod 4:3', 'apps/v1 Deployment 5:3'],
  ],
  [
    'a list in a list',
    '{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"PodList","items":[{},{}]}]}',
    ['v1 Pod 1:88', 'v1 Pod 1:91'],
  ],
  ['an empty list', 'apiVersion: v1\nkind: PodList\nitems: []', []],
  [
    'a kind that ends with List and has no items',
    'apiVersion: x/v1\nkind: AllowList\nspec: {items: [a]}',
    ['x/v1 AllowList 1:1'],
  ],
  [
    'an object that is not a list and has items, which kubectl creates instead',
    'apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  items:\n  - {apiVersion: v1, kind: Pod}',
    ['v1 Pod 4:3', 'f:6:3: kubectl creates the objects in items instead of the Pod: remove items, or set kind to List'],
  ],
  ['an object whose items are strings', 'apiVersion: x/v1\nkind: Allow\nitems: [a]', ['x/v1 Allow 1:1']],
  ['no kind', 'a: 1', ["f:1:1: Object 'Kind' is missing"]],
  ['no apiVersion', '# comment\nkind: Pod', ["f:2:1: Object 'apiVersion' is missing"]],
  ['a kind that is not a string', 'apiVersion: v1\nkind: [Pod]', ['f:2:1: kind must be a string']],
  ['an apiVersion that is not a string', 'apiVersion: 1\nkind: Pod', ['f:1:1: apiVersion must be a string']],
  ['a string', 'hello', ['f:1:1: expected an object with apiVersion and kind']],
  [
    'invalid items of a List',
    'apiVersion: v1\nkind: List\nitems: [a, {}]',
    ['f:3:9: expected an object with apiVersion and kind', "f:3:12: Object 'Kind' is missing"],
  ],
];

describe('manifestObjects', () => {
  for (const [name, text, expected] of objects) {
    test(`returns the objects or errors in ${name}`, () => {
      const found = readDocuments(text, 'f').documents.map(manifestObjects);
      assert.deepEqual(
        [
          ...found.flatMap((one) =>
            one.objects.map((object) => `${object.apiVersion} ${object.kind} ${object.line}:${object.column}`),
          ),
          ...found.flatMap((one) =>
            one.errors.map((error) => `${error.file}:${error.line}:${error.column}: ${error.message}`),
          ),
        ],
        expected,
      );
    });
  }

  test('returns the positions of objects in a List', () => {
    const text = 'apiVersion: v1\nkind: PodList\nitems:\n- metadata: {}\n  spec:\n    hostPID: true\n';
    const [object] = readDocuments(text, 'f').documents.flatMap((document) => manifestObjects(document).objects);
    assert.deepEqual(object?.locate(['spec', 'hostPID']), { line: 6, column: 5 });
    assert.deepEqual(object.value, { apiVersion: 'v1', kind: 'Pod', metadata: {}, spec: { hostPID: true } });
  });
});

async function folderWith(context: TestContext, files: Readonly<Record<string, string | Uint8Array>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-manifests-'));
  context.after(() => rm(folder, { recursive: true }));
  for (const [name, content] of Object.entries(files)) {
    await mkdir(join(folder, name, '..'), { recursive: true });
    await writeFile(join(folder, name), content);
  }
  return folder;
}

const POD = 'apiVersion: v1\nkind: Pod\n';
const stdin = Readable.from([]);

describe('readManifests', () => {
  test('reads all manifests in a directory and its subdirectories once and in sorted order, except hidden files', async (context) => {
    const folder = await folderWith(context, {
      'b.yaml': POD,
      'a/z.yml': POD,
      'a/y.json': '{"apiVersion":"v1","kind":"Pod"}',
      'a/readme.md': 'no manifest',
      '.git/config.yaml': 'no manifest',
      'other.txt': POD,
    });
    const { objects, errors } = await readManifests([join(folder, 'other.txt'), folder, join(folder, 'b.yaml')], {
      stdin,
    });
    assert.deepEqual(errors, []);
    assert.deepEqual(
      objects.map(({ document }) => document.file.slice(folder.length + 1)),
      ['other.txt', 'a/y.json', 'a/z.yml', 'b.yaml'],
    );
  });

  test('expands patterns unless a file has that name, and decodes UTF-16', async (context) => {
    const utf16 = Buffer.from(`\ufeff${POD}`, 'utf16le');
    const folder = await folderWith(context, { 'b/1.yaml': POD, 'a/2.yaml': utf16, 'a/3.txt': POD, '[a].yaml': POD });
    const { objects, errors } = await readManifests([join(folder, '*', '*.yaml'), join(folder, '[a].yaml')], { stdin });
    assert.deepEqual(errors, []);
    assert.deepEqual(
      objects.map(({ document }) => relative(folder, document.file)),
      ['a/2.yaml', 'b/1.yaml', '[a].yaml'],
    );
    const message = `the path "${folder}/*.json" does not exist`;
    await assert.rejects(readManifests([join(folder, '*.json')], { stdin }), { name: 'UserError', message });
  });

  test('follows symbolic links to files, but not to directories, and reports broken links', async (context) => {
    const folder = await folderWith(context, { 'a.yaml': POD, 'sub/b.txt': POD });
    await symlink(folder, join(folder, 'sub', 'loop.yaml'));
    await symlink(join(folder, 'sub', 'b.txt'), join(folder, 'sub', 'c.yaml'));
    await symlink(join(folder, 'nowhere'), join(folder, 'sub', 'd.yaml'));
    const { objects, errors } = await readManifests([folder], { stdin });
    assert.deepEqual(
      objects.map(({ document }) => document.file.slice(folder.length + 1)),
      ['a.yaml', 'sub/c.yaml'],
    );
    assert.deepEqual(errors, [
      {
        file: join(folder, 'sub/d.yaml'),
        line: 1,
        column: 1,
        isWholeFile: true,
        message: 'there is no such file',
      },
    ]);
  });

  test('reports a Helm chart directory as an error, and does not read its files', async (context) => {
    const files = {
      'chart/Chart.yaml': 'name: c',
      'chart/values.yaml': 'a: 1',
      'chart/templates/p.yaml': 'a: {{ b }}',
    };
    const folder = await folderWith(context, { ...files, 'pod.yaml': POD });
    const { objects, errors } = await readManifests([folder], { stdin });
    const [file, message] = [join(folder, 'chart/Chart.yaml'), 'a Helm chart must be rendered first: helm template'];
    assert.equal(objects.length, 1);
    assert.deepEqual(errors, [
      {
        file,
        line: 1,
        column: 1,
        isWholeFile: true,
        message: `${message} ${join(folder, 'chart')} | portcullis check -f -, or skip it with --exclude=chart`,
      },
    ]);
  });

  test('reads standard input once, even if a chunk ends within a character', async () => {
    const input = Readable.from([
      Buffer.from(`${POD}metadata: {name: "ä`),
      Buffer.from([0xc3]),
      Buffer.from([0xa4, 0x22, 0x7d]),
    ]);
    const { objects } = await readManifests(['-', '-'], { stdin: input });
    assert.deepEqual(
      objects.map(({ document, value }) => [document.file, value.metadata]),
      [['stdin', { name: 'ää' }]],
    );
  });

  test('reads URLs, and reports failed downloads as errors', async (context) => {
    const server = createServer((request, response) => {
      if (request.url === '/interrupted') {
        response.writeHead(200, { 'content-length': 1000 }).write(POD, () => void response.destroy());
        return;
      }
      const isFound = request.url === '/pod.yaml';
      response.writeHead(isFound ? 200 : 404).end(isFound ? POD : '');
    });
    context.after(() => server.close());
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const { objects } = await readManifests([`${origin}/pod.yaml`], { stdin });
    assert.deepEqual(
      objects.map(({ document, kind }) => [document.file, kind]),
      [[`${origin}/pod.yaml`, 'Pod']],
    );
    const cases = [
      [`${origin}/gone`, `unable to read URL "${origin}/gone", server reported 404 Not Found, status code=404`],
      [`${origin}/interrupted`, `unable to read URL "${origin}/interrupted": other side closed`],
      ['http://127.0.0.1:2/', 'unable to read URL "http://127.0.0.1:2/": connect ECONNREFUSED 127.0.0.1:2'],
      [
        'http://127.0.0.1:6000/',
        'unable to read URL "http://127.0.0.1:6000/": HTTP clients block this port: download the file, or serve it on another port',
      ],
    ] as const;
    for (const [url, message] of cases) {
      await assert.rejects(readManifests([url], { stdin }), { name: 'UserError', message });
    }
  });

  test('reads other files if a file is binary or oversized', async (context) => {
    const folder = await folderWith(context, {
      'a.yaml': POD,
      'binary.yaml': Buffer.concat([Buffer.from('a: 1\nb: '), Buffer.from([0xff, 0xfe, 0x00])]),
      'huge.yaml': '',
      'truncated.yaml': Buffer.from('\ufeffa: 1', 'utf16le').subarray(0, -1),
      'unpaired.yaml': Buffer.from('\ufeffa: \ud800', 'utf16le'),
    });
    await truncate(join(folder, 'huge.yaml'), 256 * 1024 * 1024 + 1);
    const { objects, errors } = await readManifests([folder], { stdin });
    assert.equal(objects.length, 1);
    assert.deepEqual(
      errors.map(({ file, line, column, message }) => `${file.slice(folder.length + 1)}:${line}:${column}: ${message}`),
      [
        'binary.yaml:2:4: not a text file in UTF-8',
        'huge.yaml:1:1: larger than 256 MiB',
        'truncated.yaml:1:1: not a text file in UTF-8',
        'unpaired.yaml:1:1: not a text file in UTF-8',
      ],
    );
  });

  test('rejects paths that do not exist and directories that contain no manifests', async (context) => {
    const folder = await folderWith(context, { 'readme.md': '' });
    const missing = join(folder, 'missing.yaml');
    await assert.rejects(readManifests([missing], { stdin }), {
      name: 'UserError',
      message: `the path "${missing}" does not exist`,
    });
    await assert.rejects(readManifests([folder], { stdin }), {
      name: 'UserError',
      message: `no .yaml, .yml or .json file in ${folder}`,
    });
  });

  test('reports progress, and stops when the signal is aborted', async (context) => {
    const folder = await folderWith(context, { 'a.yaml': Array(4).fill(POD).join('---\n'), 'b.yaml': POD });
    const reported: string[] = [];
    const controller = new AbortController();
    const reading = readManifests([folder], {
      stdin,
      signal: controller.signal,
      onProgress: ({ number, files, percent }) => {
        reported.push(`${number}/${files} ${percent}%`);
        if (number === 2) controller.abort();
      },
    });
    await assert.rejects(reading, { name: 'AbortError' });
    assert.deepEqual(reported, ['1/2 0%', '1/2 22%', '1/2 48%', '1/2 74%', '1/2 100%', '2/2 0%']);
  });
});
