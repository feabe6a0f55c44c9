import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { applyPatch, type PatchMediaType } from '../../../src/dev-cluster/fields/patch.ts';
import { BUILT_IN } from '../../../src/dev-cluster/fields/schema.ts';
import type { ApiObject } from '../../../src/dev-cluster/types.ts';
import { ApiError, type Status } from '../../../src/kube/status.ts';

const JSON_PATCH = 'application/json-patch+json';
const MERGE_PATCH = 'application/merge-patch+json';
const STRATEGIC = 'application/strategic-merge-patch+json';

const POD = {
  kind: 'Pod',
  apiVersion: 'v1',
  metadata: { name: 'p', labels: { a: '1' }, finalizers: ['x/a', 'x/b'] },
  spec: {
    volumes: [
      { name: 'v', emptyDir: {} },
      { name: 'w', hostPath: { path: '/' } },
    ],
    containers: [
      { name: 'a', image: 'a', ports: [{ containerPort: 80 }], resources: {} },
      { name: 'b', image: 'b', resources: {} },
    ],
    tolerations: [{ key: 'a' }],
  },
  status: {},
};

function patch(mediaType: PatchMediaType, body: unknown): ApiObject {
  return applyPatch(POD, typeof body === 'string' ? body : JSON.stringify(body), mediaType, BUILT_IN);
}

function refusal(act: () => unknown): Status {
  try {
    act();
  } catch (error) {
    assert.ok(error instanceof ApiError);
    return error.status;
  }
  return assert.fail('no error was thrown');
}

const getSpec = (object: ApiObject): Record<string, unknown> => object['spec'] as Record<string, unknown>;
const getNames = (list: unknown): string[] => (list as { name: string }[]).map(({ name }) => name);

suite('a merge patch', () => {
  test('sets, merges and removes fields', () => {
    const object = patch(MERGE_PATCH, {
      metadata: { labels: { a: null, b: '2' } },
      spec: { tolerations: [{ key: 'b' }], volumes: null },
    });
    assert.deepEqual(object.metadata, { name: 'p', labels: { b: '2' }, finalizers: ['x/a', 'x/b'] });
    assert.deepEqual(getSpec(object)['tolerations'], [{ key: 'b' }]);
    assert.equal(getSpec(object)['volumes'], undefined);
  });

  const refused: [name: string, body: unknown, code: number, message: RegExp][] = [
    [
      'a body that is not JSON',
      '{',
      400,
      /^error decoding patch: Expected property name or '\}' in JSON at position 1/,
    ],
    [
      'a body that is a list',
      [],
      400,
      /^error decoding patch: json: cannot unmarshal array into Go value of type map\[string\]interface \{\}$/,
    ],
    [
      'a label of the wrong type',
      { metadata: { labels: { a: 1 } } },
      422,
      /^ "" is invalid: patch: Invalid value: "\{\\"kind\\":\\"Pod\\".*": metadata\.labels must be a map of strings$/,
    ],
  ];
  for (const [name, body, code, message] of refused) {
    test(`is rejected if it is ${name}`, () => {
      const status = refusal(() => patch(MERGE_PATCH, body));
      assert.equal(status.code, code);
      assert.match(status.message, message);
    });
  }
});

suite('a JSON patch', () => {
  test('applies operations in order', () => {
    const object = patch(JSON_PATCH, [
      { op: 'test', path: '/metadata/name', value: 'p' },
      { op: 'test', path: '/metadata/annotations', value: null },
      { op: 'add', path: '/spec/containers/-', value: { name: 'c' } },
      { op: 'remove', path: '/spec/containers/0' },
    ]);
    assert.deepEqual(getNames(getSpec(object)['containers']), ['b', 'c']);
  });

  const unfit = 'the server rejected our request due to an error in our request';
  const refused: [name: string, body: unknown, code: number, message: string][] = [
    ['a body that is not JSON', 'x', 400, `error decoding patch: Unexpected token 'x', "x" is not valid JSON`],
    [
      'a body that is not a list',
      {},
      400,
      'error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp',
    ],
    ['an operation on a missing path', [{ op: 'remove', path: '/spec/nope' }], 422, unfit],
    ['a test operation that fails', [{ op: 'test', path: '/kind', value: 'x' }], 422, unfit],
  ];
  for (const [name, body, code, message] of refused) {
    test(`is rejected if it is ${name}`, () => {
      const status = refusal(() => patch(JSON_PATCH, body));
      assert.deepEqual([status.code, status.message], [code, message]);
    });
  }
});

suite('in a strategic merge patch,', () => {
  const lists: [name: string, patch: object, list: string, expected: unknown][] = [
    [
      'items are merged by their key',
      { spec: { containers: [{ name: 'b', image: 'B' }] } },
      'containers',
      [
        { name: 'a', image: 'a', ports: [{ containerPort: 80 }], resources: {} },
        { name: 'b', image: 'B', resources: {} },
      ],
    ],
    [
      'new items are placed before existing items',
      { spec: { containers: [{ name: 'c' }] } },
      'containers',
      [{ name: 'c' }, ...POD.spec.containers],
    ],
    [
      'an item is deleted',
      { spec: { containers: [{ $patch: 'delete', name: 'a' }] } },
      'containers',
      [POD.spec.containers[1]],
    ],
    [
      'a list is replaced',
      { spec: { containers: [{ $patch: 'replace' }, { name: 'c' }] } },
      'containers',
      [{ name: 'c' }],
    ],
    ['lists without a key are replaced', { spec: { tolerations: [{ key: 'b' }] } }, 'tolerations', [{ key: 'b' }]],
    [
      'only the retained keys are kept',
      { spec: { volumes: [{ name: 'w', $retainKeys: ['name', 'emptyDir'], emptyDir: {} }] } },
      'volumes',
      [
        { name: 'v', emptyDir: {} },
        { name: 'w', emptyDir: {} },
      ],
    ],
    [
      'the order of items is set',
      {
        spec: {
          $setElementOrder: 0,
          '$setElementOrder/containers': [{ name: 'b' }, { name: 'c' }, { name: 'a' }],
          containers: [{ name: 'c' }],
        },
      },
      'containers',
      [POD.spec.containers[1], { name: 'c' }, POD.spec.containers[0]],
    ],
  ];
  for (const [name, body, list, expected] of lists) {
    test(name, () => {
      assert.deepEqual(getSpec(patch(STRATEGIC, body))[list], expected);
    });
  }

  const metadata: [name: string, patch: object, expected: object][] = [
    ['maps are merged', { labels: { b: '2' } }, { labels: { a: '1', b: '2' } }],
    ['null removes a field', { labels: { a: null } }, { labels: undefined }],
    ['a map is replaced', { labels: { $patch: 'replace', b: '2' } }, { labels: { b: '2' } }],
    ['a map is emptied', { labels: { $patch: 'delete' } }, { labels: undefined }],
    ['sets are merged', { finalizers: ['x/c', 'x/a'] }, { finalizers: ['x/c', 'x/a', 'x/b'] }],
    ['items of a set are deleted', { '$deleteFromPrimitiveList/finalizers': ['x/a'] }, { finalizers: ['x/b'] }],
  ];
  for (const [name, body, expected] of metadata) {
    test(name, () => {
      const object = patch(STRATEGIC, { metadata: body });
      for (const [key, value] of Object.entries(expected)) assert.deepEqual(object.metadata?.[key], value);
    });
  }
});

suite('patches of all types', () => {
  test('do not change the stored object', () => {
    const before = structuredClone(POD);
    patch(STRATEGIC, { spec: { containers: [{ name: 'a', image: 'x' }] } });
    patch(MERGE_PATCH, { spec: { containers: [] } });
    patch(JSON_PATCH, [{ op: 'remove', path: '/spec/containers/0' }]);
    assert.deepEqual(POD, before);
  });
});
