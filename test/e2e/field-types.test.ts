/** Compares the types of the fields of built-in kinds with the decoding of the API server. */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import document from '../../src/config/field-types.json' with { type: 'json' };
import { builtInShape, findFieldProblems } from '../../src/config/field-types.ts';
import { manifestObjects } from '../../src/config/objects.ts';
import { readDocuments } from '../../src/config/yaml.ts';
import { type FieldShape, isList } from '../../src/kube/field-shape.ts';
import { printFieldPath } from '../../src/policy/pod/index.ts';
import { ASSETS, useControlPlane } from '../support/control-plane/index.ts';
import { readFixture } from '../support/fixtures.ts';

/** Number of objects with a random value in each run. */
const OBJECTS = 1500;

const skip = ASSETS === undefined && 'the development cluster decodes only metadata';

/** A field of a built-in kind. List items have the index 0, and the values of maps have the key `key`. */
interface Field {
  readonly type: { readonly apiVersion: string; readonly kind: string };
  readonly path: readonly (string | number)[];
  readonly shape: FieldShape;
}

/** Lists every field of a kind once, even if a type occurs in several places. */
function listFields(type: Field['type']): readonly Field[] {
  const fields: Field[] = [];
  const visited = new Set<FieldShape>();
  const visit = (shape: FieldShape, path: Field['path']): void => {
    if (path.length > 0) fields.push({ type, path, shape });
    if (typeof shape === 'string') return;
    if (isList(shape)) {
      visit(shape[0], [...path, 0]);
      return;
    }
    if (visited.has(shape)) return;
    visited.add(shape);
    for (const [name, own] of Object.entries(shape)) {
      const isType = path.length === 0 && (name === 'apiVersion' || name === 'kind');
      if (!isType) visit(own, [...path, name === '*' ? 'key' : name]);
    }
  };
  visit(builtInShape(type) ?? assert.fail(type.kind), []);
  return fields;
}

/**
 * Returns the name of a type, such as `[]string` for a list of strings and `{}string` for a map. All types with fields
 * are `object`.
 */
function printShape(shape: FieldShape): string {
  if (typeof shape === 'string') return shape;
  if (isList(shape)) return `[]${printShape(shape[0])}`;
  return shape['*'] === undefined ? 'object' : `{}${printShape(shape['*'])}`;
}

function createObject({ type, path }: Field, value: unknown): object {
  const inner = path.reduceRight<unknown>((below, step) => (step === 0 ? [below] : { [step]: below }), value);
  const { metadata = {}, ...object } = inner as { readonly metadata?: object };
  const isReplaced = path.length === 1 && path[0] === 'metadata';
  return { ...type, metadata: isReplaced ? value : { name: 'a', ...metadata }, ...object };
}

const VALUES: readonly unknown[] = [
  ...[null, true, false, 0, 1, -1, 255, 256, 0.5, 1e3, 2147483647, 2147483648, -2147483649, 1e19, 1e21, 1e-7],
  ...[
    '',
    ' ',
    'x',
    'on',
    '1',
    '1.5',
    'true',
    'YQ==',
    'YQ',
    'YW\nI=',
    '500m',
    ' 1Gi ',
    '1.5e3',
    '1E',
    '.',
    '+',
    '1 m',
    'Ki',
  ],
  ...['1e', '-.5Mi', '1ee3', '0x10', '1Gi\n', '1e-3i', '00', '1_000', '١'],
  ...[
    '2026-01-31T15:04:05Z',
    '2026-01-31t15:04:05z',
    '2026-02-29T00:00:00Z',
    '2024-02-29T1:00:00.5+14:00',
    '2026-01-31',
  ],
  ...['2026-01-31T24:00:00Z', '2026-01-31T23:59:60Z', '2026-01-31T15:04:05.123456Z', '2026-01-31T15:04:05,123-24:60'],
  ...['0000-01-01T00:00:00Z', '2026-01-31T15:04:05', '2026-01-31T15:04:05.1234567+00:00', '2026-00-10T15:04:05Z'],
  ...[
    [],
    [null],
    ['x'],
    [1],
    [256],
    [{}],
    [[]],
    [true],
    ['x', null, 1],
    {},
    { a: null },
    { a: 'x' },
    { a: 1 },
    { a: [] },
  ],
  ...[{ a: {} }, { a: ['x'] }, { a: '1Gi' }, { a: true }, { A: 'YQ==' }],
];

suite('the API server', { skip }, async () => {
  const plane = await useControlPlane();
  const resources = new Map<string, string>();
  for (const apiVersion of Object.keys(document.kinds)) {
    const prefix = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
    const { body } = await plane.admin.send('GET', prefix);
    const list = (body as { readonly resources?: readonly Resource[] } | undefined)?.resources ?? [];
    for (const { name, kind, namespaced, verbs } of list) {
      if (name.includes('/') || !verbs.includes('create')) continue;
      resources.set(`${apiVersion} ${kind}`, `${prefix}/${namespaced ? 'namespaces/default/' : ''}${name}`);
    }
  }

  /** Returns whether the API server decodes the object, and the unknown fields. */
  async function decode(object: { readonly apiVersion: string; readonly kind: string }): Promise<string> {
    const path = resources.get(`${object.apiVersion} ${object.kind}`) ?? assert.fail(object.kind);
    const { text, warnings } = await plane.admin.send('POST', `${path}?dryRun=All&fieldValidation=Warn`, object);
    if (text.includes('cannot be handled as a')) return 'cannot be decoded';
    const unknown = warnings.flatMap((warning) => /unknown field \\"(.*)\\"/.exec(warning)?.[1] ?? []);
    return unknown.length === 0 ? 'decoded' : `decoded, unknown: ${unknown.sort().join(', ')}`;
  }

  function decodeHere(object: object): string {
    const [read] = readDocuments(JSON.stringify(object), '').documents.flatMap((one) => manifestObjects(one).objects);
    const { wrong, unknown } = findFieldProblems(read ?? assert.fail());
    if (wrong.length > 0) return 'cannot be decoded';
    return unknown.length === 0 ? 'decoded' : `decoded, unknown: ${unknown.map(printFieldPath).sort().join(', ')}`;
  }

  /** Old API servers drop the fields of later versions. */
  function isNewer({ path }: Field, outcome: string): boolean {
    const known = path.map((_, index) => printFieldPath(path.slice(0, index + 1)));
    return (outcome.split('unknown: ')[1] ?? '').split(', ').some((unknown) => known.includes(unknown));
  }

  async function compare(cases: readonly (readonly [field: Field, value: unknown])[]): Promise<void> {
    const counts = new Map<string, number>();
    const differences: unknown[] = [];
    for (const [field, value] of cases) {
      const object = createObject(field, value);
      const [expected, actual] = [await decode(object as Field['type']), decodeHere(object)];
      if (isNewer(field, expected)) continue;
      counts.set(expected, (counts.get(expected) ?? 0) + 1);
      if (expected !== actual) differences.push({ object: JSON.stringify(object), expected, actual });
    }
    assert.deepEqual(differences, []);
    for (const outcome of ['decoded', 'cannot be decoded'])
      assert.ok((counts.get(outcome) ?? 0) > cases.length / 20, `${outcome}: ${counts.get(outcome)}`);
  }

  for (const { name, object, errors } of readFixture<readonly InvalidObject[]>('invalid-objects.yaml')) {
    test(`${errors.length === 0 ? 'accepts' : 'rejects'} ${name}, like \`check\``, async () => {
      const path = resources.get(`${object.apiVersion} ${object.kind}`) ?? assert.fail(object.kind);
      const { status, body } = await plane.admin.send('POST', `${path}?dryRun=All`, object);
      const { causes = [] } = (body as Partial<Rejection>).details ?? {};
      assert.equal(status, errors.length === 0 ? 201 : 422);
      const actual = causes.map(({ field, message }) => `${field}: ${withoutGo(message)}`);
      assert.deepEqual(actual.sort(), errors.map(withoutGo).sort());
    });
  }

  const fields = Object.entries(document.kinds).flatMap(([apiVersion, types]) =>
    types.split(' ').flatMap((type) => listFields({ apiVersion, kind: type.replace(/^.*\./, '') })),
  );
  // The OpenAPI document does not describe the types in the JSON schemas of custom resources.
  const served = ({ type, path }: Field): boolean =>
    resources.has(`${type.apiVersion} ${type.kind}`) && !path.includes('openAPIV3Schema');

  test('decodes a value of each type like `check`', { timeout: 600_000 }, async () => {
    const byType = new Map(fields.filter(served).map((field) => [printShape(field.shape), field]));
    await compare([...byType.values()].flatMap((field) => VALUES.map((value) => [field, value] as const)));
  });

  for (const seed of [1, randomInt(2 ** 31)]) {
    test(`decodes random fields like \`check\` (seed ${seed})`, { timeout: 600_000 }, async () => {
      const arbitrary = fc.tuple(fc.constantFrom(...fields.filter(served)), fc.constantFrom(...VALUES));
      await compare(fc.sample(arbitrary, { seed, numRuns: OBJECTS }));
    });
  }
});

/** Replaces the Go syntax of values that old API servers print, and security contexts, which API servers print in full. */
function withoutGo(message: string): string {
  const profile = '{"Type":"$1","LocalhostProfile":"f"}';
  const objects = message
    .replace(/v1\.LabelSelector\{.*\}/, '{}')
    .replace(/core\.SeccompProfile\{Type:"(\w+)".*\}(?=:)/, profile)
    .replace(/(?:core\.SecurityContext)?\{.*\}(?=: cannot set)/, '{}');
  return objects.replace('map[string]string(nil)', 'null').replace('map[string]string{', '{');
}

interface InvalidObject {
  readonly name: string;
  readonly object: { readonly apiVersion: string; readonly kind: string };
  readonly errors: readonly string[];
}

interface Rejection {
  readonly details: { readonly causes?: readonly { readonly field: string; readonly message: string }[] };
}

interface Resource {
  readonly name: string;
  readonly kind: string;
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
}
