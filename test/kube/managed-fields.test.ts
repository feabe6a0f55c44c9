import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { getMetadataOwners } from '../../src/kube/managed-fields.ts';
import type { ObjectMeta } from '../../src/kube/types.ts';

function getOwners(managedFields: unknown): unknown {
  const owners = getMetadataOwners({ managedFields } as ObjectMeta);
  return owners?.map(({ manager, operation, subresource, labels, annotations }) => [
    `${manager}/${operation}/${subresource}`,
    [...labels],
    [...annotations],
  ]);
}

suite('getOwners reads or ignores entries of managedFields:', () => {
  const cases: readonly { readonly name: string; readonly managedFields: unknown; readonly expected: unknown }[] = [
    { name: 'no managedFields', managedFields: undefined, expected: [] },
    {
      name: 'an entry without metadata fields',
      managedFields: [{ manager: 'a', operation: 'Update', subresource: 'status', fieldsV1: { 'f:status': {} } }],
      expected: [['a/Update/status', [], []]],
    },
    {
      name: 'an entry with the map itself and its keys',
      managedFields: [
        {
          manager: 'a',
          operation: 'Apply',
          fieldsType: 'FieldsV1',
          fieldsV1: {
            'f:metadata': { 'f:labels': { '.': {}, 'f:__proto__': {}, 'f:a/b': {} }, 'f:annotations': null },
          },
        },
      ],
      expected: [['a/Apply/', ['.', '__proto__', 'a/b'], []]],
    },
    { name: 'an empty entry', managedFields: [{}], expected: [['//', [], []]] },
    { name: 'managedFields that are not a list', managedFields: {}, expected: undefined },
    { name: 'an entry of another field type', managedFields: [{ fieldsType: 'FieldsV2' }], expected: undefined },
    { name: 'an entry whose fields are not a tree', managedFields: [{ fieldsV1: 'f:metadata' }], expected: undefined },
    {
      name: 'an entry with a key that is not a field',
      managedFields: [{ fieldsV1: { 'f:metadata': { 'f:labels': { odd: {} } } } }],
      expected: undefined,
    },
  ];
  for (const { name, managedFields, expected } of cases) {
    test(`${name}: ${expected === undefined ? 'undefined' : 'the owners'}`, () =>
      assert.deepEqual(getOwners(managedFields), expected));
  }
});
