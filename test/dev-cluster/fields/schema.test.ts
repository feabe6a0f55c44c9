import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import * as client from '@kubernetes/client-node';
import { PACKAGES } from '../../../src/dev-cluster/fields/builtin/index.ts';
import { loadSchemas, type Field, type FieldType, type ObjectType } from '../../../src/dev-cluster/fields/index.ts';
import { readTypes } from '../../../src/dev-cluster/fields/notation.ts';

/** The type that a path of fields leads to; lists and maps are entered. */
function fieldAt(type: ObjectType, path: string): Field {
  let inner: FieldType | undefined = type;
  let field: Field | undefined;
  for (const name of path.split('.')) {
    while (inner.kind === 'list') inner = inner.items;
    field = inner.kind === 'object' ? inner.fields.get(name) : undefined;
    assert.ok(field, `${path}: no field ${name}`);
    inner = field.type;
  }
  assert.ok(field);
  return field;
}

const POD = { group: '', version: 'v1', kind: 'Pod' };

suite('types of built-in kinds', () => {
  const schemas = loadSchemas();
  const pod = schemas.typeOf(POD);
  assert.ok(pod);

  const lists: [path: string, listType: string, keys: string[]][] = [
    ['spec.containers', 'map', ['name']],
    ['spec.containers.ports', 'map', ['containerPort', 'protocol']],
    ['spec.containers.env', 'map', ['name']],
    ['spec.containers.volumeMounts', 'map', ['mountPath']],
    ['spec.containers.command', 'atomic', []],
    ['spec.containers.securityContext.capabilities.add', 'atomic', []],
    ['spec.volumes', 'map', ['name']],
    ['spec.imagePullSecrets', 'map', ['name']],
    ['spec.hostAliases', 'map', ['ip']],
    ['spec.tolerations', 'atomic', []],
    ['spec.topologySpreadConstraints', 'map', ['topologyKey', 'whenUnsatisfiable']],
    ['status.conditions', 'map', ['type']],
    ['metadata.finalizers', 'set', []],
    ['metadata.ownerReferences', 'map', ['uid']],
  ];
  for (const [path, listType, keys] of lists) {
    test(`${path} is owned ${listType === 'atomic' ? 'as a whole' : 'item by item'}`, () => {
      const { type } = fieldAt(pod, path);
      assert.ok(type.kind === 'list');
      assert.deepEqual([type.listType, type.keys], [listType, keys]);
    });
  }

  const atomic: [kind: string, group: string, path: string][] = [
    ['Pod', '', 'spec.nodeSelector'],
    ['Pod', '', 'spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution.labelSelector'],
    ['Deployment', 'apps', 'spec.selector'],
    ['Service', '', 'spec.selector'],
    ['RoleBinding', 'rbac.authorization.k8s.io', 'roleRef'],
  ];
  for (const [kind, group, path] of atomic) {
    test(`${path} of a ${kind} is owned as a whole`, () => {
      const type = schemas.typeOf({ group, version: 'v1', kind });
      assert.ok(type);
      const field = fieldAt(type, path);
      assert.ok(field.type.kind === 'object' && field.type.atomic);
    });
  }

  test('a field may be owned otherwise than its type says', () => {
    const volume = schemas.typeOf({ group: '', version: 'v1', kind: 'PersistentVolume' });
    assert.ok(volume);
    const { type } = fieldAt(volume, 'spec.claimRef');
    assert.ok(type.kind === 'object' && !type.atomic);
  });

  test('bodies of deletions have a type in every group', () => {
    assert.equal(schemas.typeOf({ group: 'apps', version: 'v1', kind: 'DeleteOptions' })?.goType, 'v1.DeleteOptions');
  });

  test('structs that are no kinds are not served', () => {
    assert.equal(schemas.typeOf({ group: '', version: 'v1', kind: 'ObjectReference' }), undefined);
  });

  test('custom kinds come and go, and do not replace built-in ones', () => {
    const widget = { group: 'example.com', version: 'v1', kind: 'Widget' };
    const custom: ObjectType = { kind: 'object', fields: new Map(), atomic: false, goType: '' };
    schemas.put(widget, custom);
    schemas.put(POD, custom);
    assert.equal(schemas.typeOf(widget), custom);
    assert.equal(schemas.typeOf(POD), pod);
    schemas.remove(widget);
    assert.equal(schemas.typeOf(widget), undefined);
  });
});

interface Attribute {
  readonly baseName: string;
  readonly type: string;
}

/** The attributes of a model of the client library, of the same Kubernetes version. */
function attributesOf(name: string): readonly Attribute[] | undefined {
  const model: unknown = Object.entries(client).find(([key]) => key === name)?.[1];
  if (typeof model !== 'function' || !('getAttributeTypeMap' in model)) return undefined;
  return (model.getAttributeTypeMap as () => Attribute[])();
}

const SCALARS: Readonly<Record<string, string>> = {
  string: 'string',
  boolean: 'boolean',
  number: 'number',
  Date: 'time',
  V1MicroTime: 'micro-time',
  IntOrString: 'int-or-string',
};

/** How the models of the client library spell a type, as far as they tell types apart. */
function modelType(type: FieldType): string {
  if (type.kind === 'any') return 'any';
  if (type.kind === 'list') return `Array<${modelType(type.items)}>`;
  if (type.kind === 'object') return type.additional ? `{ [key: string]: ${modelType(type.additional)}; }` : 'object';
  if (type.scalar.startsWith('int') && type.scalar !== 'int-or-string') return 'number';
  return ['quantity', 'bytes', 'duration'].includes(type.scalar) ? 'string' : type.scalar;
}

function fromModel(type: string): string {
  const item = /^(Array<|Set<|\{ \[key: string\]: )(.*?)(>|; \})$/.exec(type);
  if (item) return (item[1] === 'Set<' ? 'Array<' : (item[1] ?? '')) + fromModel(item[2] ?? '') + (item[3] ?? '');
  return SCALARS[type] ?? (type === 'any' ? 'any' : 'object');
}

suite('types of built-in kinds agree with the client library', () => {
  for (const [path, type] of readTypes(PACKAGES)) {
    const name = path.slice(path.indexOf('.') + 1);
    const attributes = attributesOf(`V1${name}`);
    if (!attributes || path === 'core/v1.Event' || path === 'events/v1.Event') continue;
    test(path, () => {
      assert.deepEqual([...type.fields.keys()].sort(), attributes.map(({ baseName }) => baseName).sort());
      for (const attribute of attributes) {
        const field = type.fields.get(attribute.baseName);
        assert.ok(field);
        const expected = fromModel(attribute.type);
        const actual = modelType(field.type);
        // Raw JSON has no type there, and what is embedded as text has one here.
        if (expected.includes('any') || expected === 'object') continue;
        assert.equal(actual, expected, attribute.baseName);
      }
    });
  }
});
