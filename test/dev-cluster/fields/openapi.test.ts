import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import {
  loadSchemas,
  openApiV2,
  openApiV3,
  openApiV3Index,
  typeOfCrdSchema,
} from '../../../src/dev-cluster/fields/index.ts';
import { createStrategy } from '../../../src/dev-cluster/objects/strategy.ts';
import type { ResourceInfo } from '../../../src/dev-cluster/types.ts';

type Json = Record<string, unknown>;

function resourceOf(kind: { group: string; version: string; kind: string }, more: Partial<ResourceInfo>): ResourceInfo {
  return {
    ...kind,
    listKind: `${kind.kind}List`,
    resource: `${kind.kind.toLowerCase()}s`,
    singular: kind.kind.toLowerCase(),
    namespaced: true,
    shortNames: [],
    categories: [],
    verbs: ['create', 'delete', 'get', 'list', 'patch', 'update'],
    subresources: [],
    columns: [],
    strategy: createStrategy({ namespaced: true }),
    custom: false,
    ...more,
  };
}

const DEPLOYMENT = { group: 'apps', version: 'v1', kind: 'Deployment' };
const WIDGET = { group: 'example.com', version: 'v1', kind: 'Widget' };
const REVIEW = { group: 'authorization.k8s.io', version: 'v1', kind: 'SubjectAccessReview' };

const schemas = loadSchemas();
schemas.put(
  WIDGET,
  typeOfCrdSchema({
    type: 'object',
    description: 'A thing.',
    required: ['spec'],
    properties: {
      spec: {
        type: 'object',
        description: 'What it is.',
        properties: { mode: { type: 'string', default: 'a', description: 'How it works.' } },
      },
    },
  }),
);
const resources = [
  resourceOf(DEPLOYMENT, { subresources: ['status', 'scale'] }),
  resourceOf(WIDGET, { namespaced: false, custom: true }),
  resourceOf(REVIEW, { namespaced: false, verbs: ['create'] }),
];

/** What a path of keys leads to. */
function at(value: unknown, ...keys: string[]): unknown {
  return keys.reduce<unknown>((inner, key) => (inner as Json | undefined)?.[key], value);
}

suite('OpenAPI v3', () => {
  const apps = openApiV3(schemas, { group: 'apps', version: 'v1' }, resources);
  const item = '/apis/apps/v1/namespaces/{namespace}/deployments/{name}';

  test('has the paths of the group version, and an operation for each verb', () => {
    assert.deepEqual(
      Object.entries(at(apps, 'paths') as Json).map(([path, methods]) => [path, Object.keys(methods as Json)]),
      [
        ['/apis/apps/v1/namespaces/{namespace}/deployments', ['get', 'post']],
        [item, ['get', 'put', 'patch', 'delete']],
        [`${item}/status`, ['put', 'patch']],
      ],
    );
  });

  for (const path of [item, `${item}/status`]) {
    test(`says of a patch to ${path} that its fields are validated, as kubectl asks`, () => {
      const operation = at(apps, 'paths', path, 'patch');
      assert.deepEqual(at(operation, 'x-kubernetes-group-version-kind'), DEPLOYMENT);
      const names = (at(operation, 'parameters') as Json[]).map(({ name, in: place }) => [name, place]);
      assert.deepEqual(names, [
        ['dryRun', 'query'],
        ['fieldManager', 'query'],
        ['fieldValidation', 'query'],
        ['force', 'query'],
      ]);
    });
  }

  test('offers strategic merge patches for built-in kinds only', () => {
    const custom = openApiV3(schemas, { group: 'example.com', version: 'v1' }, resources);
    const types = (document: object, path: string): string[] =>
      Object.keys(at(document, 'paths', path, 'patch', 'requestBody', 'content') as Json);
    assert.ok(types(apps, item).includes('application/strategic-merge-patch+json'));
    assert.deepEqual(types(custom, '/apis/example.com/v1/widgets/{name}'), [
      'application/apply-patch+yaml',
      'application/json-patch+json',
      'application/merge-patch+json',
    ]);
  });

  test('leaves out what a resource cannot do', () => {
    const document = openApiV3(schemas, { group: REVIEW.group, version: 'v1' }, resources);
    const paths = at(document, 'paths') as Json;
    assert.deepEqual(Object.keys(paths['/apis/authorization.k8s.io/v1/subjectaccessreviews'] as Json), ['post']);
  });

  test('marks the schema of a kind, and says how its lists merge', () => {
    const components = at(apps, 'components', 'schemas');
    assert.deepEqual(at(components, 'io.k8s.api.apps.v1.Deployment', 'x-kubernetes-group-version-kind'), [DEPLOYMENT]);
    assert.deepEqual(at(components, 'io.k8s.api.core.v1.PodSpec', 'properties', 'containers'), {
      type: 'array',
      items: { allOf: [{ $ref: '#/components/schemas/io.k8s.api.core.v1.Container' }] },
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['name'],
      'x-kubernetes-patch-strategy': 'merge',
      'x-kubernetes-patch-merge-key': 'name',
    });
  });

  test('describes custom resources by their own schema', () => {
    const document = openApiV3(schemas, { group: 'example.com', version: 'v1' }, resources);
    const widget = at(document, 'components', 'schemas', 'com.example.v1.Widget');
    assert.equal(at(widget, 'description'), 'A thing.');
    assert.deepEqual(at(widget, 'required'), ['spec']);
    assert.deepEqual(at(widget, 'properties', 'spec'), {
      type: 'object',
      description: 'What it is.',
      properties: { mode: { type: 'string', default: 'a', description: 'How it works.' } },
    });
    assert.deepEqual(at(widget, 'properties', 'metadata'), {
      allOf: [{ $ref: '#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta' }],
    });
  });

  test('has an index', () => {
    assert.deepEqual(openApiV3Index([{ group: '', version: 'v1' }, DEPLOYMENT]), {
      paths: {
        'api/v1': { serverRelativeURL: '/openapi/v3/api/v1' },
        'apis/apps/v1': { serverRelativeURL: '/openapi/v3/apis/apps/v1' },
      },
    });
  });
});

suite('OpenAPI v2', () => {
  const document = openApiV2(schemas, resources);

  test('refers to definitions without a detour', () => {
    assert.deepEqual(at(document, 'definitions', 'io.k8s.api.core.v1.PodSpec', 'properties', 'securityContext'), {
      $ref: '#/definitions/io.k8s.api.core.v1.PodSecurityContext',
    });
  });

  for (const [name, made] of [
    ['v2', document],
    ['v3', openApiV3(schemas, { group: 'apps', version: 'v1' }, resources)],
  ] as const) {
    test(`every reference of ${name} leads somewhere`, () => {
      const references = [...JSON.stringify(made).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, path]) => path ?? '');
      assert.ok(references.length > 100);
      for (const path of new Set(references)) {
        const [name = '', ...parents] = path.split('/').reverse();
        assert.ok(at(made, ...parents.reverse(), name), path);
      }
    });
  }
});
