/** Tests that the readers of pods accept the same values as the generated field types. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { builtInShape, findFieldProblems } from '../../src/config/field-types.ts';
import { type ManifestObject, manifestObjects } from '../../src/config/objects.ts';
import { readDocuments } from '../../src/config/yaml.ts';
import { type FieldShape, isList } from '../../src/kube/field-shape.ts';
import { decodePod, printFieldPath } from '../../src/policy/pod/index.ts';

type Path = readonly (string | number)[];

/** Returns the paths of all fields of a pod up to a depth. List items have the index 0, and map values the key `key`. */
function* listPaths(shape: FieldShape, path: Path): Generator<Path> {
  yield path;
  if (typeof shape === 'string' || path.length > 8) return;
  if (isList(shape)) yield* listPaths(shape[0], [...path, 0]);
  else for (const [name, own] of Object.entries(shape)) yield* listPaths(own, [...path, name === '*' ? 'key' : name]);
}

function createObject(path: Path, value: unknown): ManifestObject {
  const pod = path.reduceRight((below, step) => (step === 0 ? [below] : { [step]: below }), value);
  const text = JSON.stringify({ apiVersion: 'v1', kind: 'Pod', ...(pod as object) });
  const [object] = readDocuments(text, '').documents.flatMap((document) => manifestObjects(document).objects);
  return object ?? assert.fail(text);
}

const VALUES: readonly unknown[] = [
  null,
  true,
  1,
  0.5,
  2 ** 31,
  1e19,
  'x',
  [],
  [null],
  ['x'],
  [1],
  [{}],
  {},
  { a: 'x' },
  { a: 1 },
];

test('a pod that policies cannot read has a wrong type at the same path', () => {
  const shape = builtInShape({ apiVersion: 'v1', kind: 'Pod' }) ?? assert.fail();
  const { metadata, spec } = shape;
  const paths = [...listPaths(metadata ?? 'any', ['metadata']), ...listPaths(spec ?? 'any', ['spec'])];
  const read = new Set<string>();
  for (const path of paths) {
    for (const value of VALUES) {
      const object = createObject(path, value);
      const field = decodePod(object.value).error?.field.path;
      const wrong = findFieldProblems(object).wrong.map((one) => printFieldPath(one.path));
      if (field !== undefined) read.add(printFieldPath(path));
      assert.ok(
        field === undefined || wrong.includes(field.replace(/\[(?!\d)(\w+)\]/g, '.$1')),
        `${field}: ${wrong.join()}`,
      );
    }
  }
  assert.ok(paths.length > 1000, String(paths.length));
  assert.ok(read.size > 100, String(read.size));
});
