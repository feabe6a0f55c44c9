/** Tests the validation and the server-side fields of each kind. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { definedResources } from '../../src/dev-cluster/objects/custom-resources.ts';
import type { Strategy } from '../../src/dev-cluster/objects/strategy.ts';
import type { ServedResource } from '../../src/dev-cluster/resource-info.ts';
import { createRegistry } from '../../src/dev-cluster/resources.ts';
import type { ApiObject } from '../../src/dev-cluster/types.ts';
import { CRDS } from '../../src/install/index.ts';
import { formatFieldError } from '../../src/kube/field-error.ts';
import { formatApiVersion } from '../../src/kube/resources.ts';
import { createAuthority } from '../../src/tls/issue.ts';
import { readFixture } from '../support/fixtures.ts';

/** Returns an object with the defaults of its kind. Its name is `x` in namespace `a` unless the metadata differs. */
function make(apiVersion: string, kind: string, rest: object = {}, metadata: object = {}): ApiObject {
  const object: ApiObject = { apiVersion, kind, metadata: { name: 'x', namespace: 'a', ...metadata }, ...rest };
  strategyFor(object).defaults(object);
  return object;
}

const RESOURCES = createRegistry().list();

function strategyFor({ apiVersion = '', kind = '' }: ApiObject): Strategy {
  const info = RESOURCES.find((one) => one.kind === kind && formatApiVersion(one) === apiVersion);
  assert.ok(info, `there is no ${kind} in ${apiVersion}`);
  return info.strategy;
}

function createErrors(object: ApiObject, strategy = strategyFor(object)): string[] {
  return strategy.validateCreate(object).map(formatFieldError);
}

function update(old: ApiObject, next: ApiObject, subresource = ''): { object: ApiObject; errors: string[] } {
  const object = structuredClone(next);
  const strategy = strategyFor(old);
  strategy.prepareForUpdate(object, old, subresource);
  return { object, errors: strategy.validateUpdate(object, old, subresource).map(formatFieldError) };
}

type Case = readonly [name: string, object: ApiObject, ...errors: string[]];

function testCreate(cases: readonly Case[]): void {
  for (const [name, object, ...errors] of cases) {
    const result = errors.length === 0 ? 'accepted' : 'rejected';
    test(`${name}: ${result}`, () => assert.deepEqual(createErrors(object), errors));
  }
}

type UpdateCase = readonly [name: string, old: ApiObject, next: ApiObject, ...errors: string[]];

function testUpdate(cases: readonly UpdateCase[], subresource = ''): void {
  for (const [name, old, next, ...errors] of cases) {
    const result = errors.length === 0 ? 'accepted' : 'rejected';
    test(`${name}: ${result}`, () => assert.deepEqual(update(old, next, subresource).errors, errors));
  }
}

const CLUSTER = { namespace: '' };
const SUBDOMAIN =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED =
  "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE =
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const container = (more: object = {}): object => ({ name: 'c', image: 'i', ...more });
const pod = (spec: object = {}, metadata: object = {}): ApiObject =>
  make('v1', 'Pod', { spec: { containers: [container()], ...spec } }, metadata);

describe('the API server validates metadata', () => {
  testCreate([
    [
      'an object without a name',
      pod({}, { name: '' }),
      'metadata.name: Required value: name or generateName is required',
    ],
    [
      'an invalid prefix',
      pod({}, { name: 'a-x', generateName: 'A-' }),
      `metadata.generateName: Invalid value: "A-": ${SUBDOMAIN}`,
    ],
    [
      'invalid labels and annotations',
      pod({}, { labels: { '-': 'a b' }, annotations: { __proto__x: '', UPPER: 'ok' } }),
      `metadata.labels: Invalid value: "-": ${QUALIFIED}`,
      `metadata.labels: Invalid value: "a b": ${LABEL_VALUE}`,
      `metadata.annotations: Invalid value: "__proto__x": ${QUALIFIED}`,
    ],
    [
      'large annotations',
      pod({}, { annotations: { a: 'x'.repeat(262144) } }),
      'metadata.annotations: Too long: may not be more than 262144 bytes',
    ],
    [
      'a namespace of a cluster-scoped object',
      make('v1', 'Namespace', {}, { name: 'a.b' }),
      'metadata.name: Invalid value: "a.b": must not contain dots',
      'metadata.namespace: Forbidden: not allowed on this type',
    ],
  ]);
  testUpdate([['a changed UID', pod(), pod({}, { uid: 'u' }), 'metadata.uid: Invalid value: "u": field is immutable']]);
});

describe('the API server rejects', () => {
  for (const { name, object, errors } of readFixture<readonly InvalidObject[]>('invalid-objects.yaml')) {
    test(name, () => {
      const { apiVersion = '', kind = '', metadata, ...rest } = object;
      const namespace = kind === 'Namespace' ? {} : { namespace: 'a' };
      const made = { apiVersion, kind, metadata: { ...namespace, ...metadata }, ...rest };
      strategyFor(made).defaults(made);
      assert.deepEqual(createErrors(made).toSorted(), errors.toSorted());
    });
  }
});

interface InvalidObject {
  readonly name: string;
  readonly object: ApiObject;
  readonly errors: readonly string[];
}

describe('the API server validates new pods', () => {
  testCreate([
    ['a valid pod', pod()],
    [
      'a new pod with ephemeral containers',
      pod({ ephemeralContainers: [container({ name: 'e' })] }),
      'spec.ephemeralContainers: Forbidden: cannot be set on create',
    ],
  ]);
});

describe('the API server validates changes to pods', () => {
  const MUTABLE =
    'pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)';
  testUpdate([
    ['labels', pod(), pod({}, { labels: { a: 'b' } })],
    ['a changed image', pod(), pod({ containers: [container({ image: 'j' })] })],
    [
      'a new container',
      pod(),
      pod({ containers: [container(), container({ name: 'd' })] }),
      'spec.containers: Forbidden: pod updates may not add or remove containers',
    ],
    ['a change of another field', pod(), pod({ hostPID: true }), `spec: Forbidden: ${MUTABLE}`],
  ]);

  const debug = (more: object = {}): object => ({ name: 'debug', image: 'd', ...more });
  const debugged = (...ephemeralContainers: object[]): ApiObject => pod({ ephemeralContainers });

  test('updating ephemeral containers changes no other field', () => {
    const target = debug({ targetContainerName: 'c' });
    const next = pod({ hostPID: true, ephemeralContainers: [target] }, { labels: { a: 'b' } });
    const { object, errors } = update(pod({}, { generation: 1 }), next, 'ephemeralcontainers');
    assert.deepEqual(errors, []);
    assert.deepEqual(object.metadata, { name: 'x', namespace: 'a', generation: 2 });
    assert.deepEqual(object['spec'], debugged(target)['spec']);
  });

  testUpdate(
    [
      [
        'a changed ephemeral container',
        debugged(debug()),
        debugged(debug({ tty: true })),
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "debug" may not be changed\n',
      ],
    ],
    'ephemeralcontainers',
  );
});

describe('the API server validates workloads', () => {
  const TEMPLATE = { metadata: { labels: { app: 'x' } }, spec: { containers: [container()] } };
  const selecting = (app: string): object => ({ selector: { matchLabels: { app } } });
  const deployment = (spec: object): ApiObject =>
    make('apps/v1', 'Deployment', { spec: { ...selecting('x'), template: TEMPLATE, ...spec } });
  const template = { spec: { ...TEMPLATE.spec, restartPolicy: 'Never' } };
  const job = (spec: object, metadata: object = {}): ApiObject =>
    make('batch/v1', 'Job', { spec: { template, ...spec } }, metadata);
  const cronJob = (schedule: string, name = 'x'): ApiObject =>
    make('batch/v1', 'CronJob', { spec: { schedule, jobTemplate: { spec: { template } } } }, { name });
  testCreate([
    ['a valid Deployment', deployment({})],
    ['a valid Job', job({})],
    ['a valid CronJob', cronJob('* * * * *')],
  ]);
  testUpdate([
    [
      'a changed selector of a Deployment',
      deployment({}),
      deployment({ ...selecting('y'), template: { ...TEMPLATE, metadata: { labels: { app: 'y' } } } }),
      'spec.selector: Invalid value: {"matchLabels":{"app":"y"}}: field is immutable',
    ],
    ['a changed number of replicas of a Deployment', deployment({}), deployment({ replicas: 3 })],
  ]);

  test('only the status subresource changes the status', () => {
    const old: ApiObject = { ...deployment({}), status: { replicas: 1 } };
    old.metadata = { ...old.metadata, generation: 4 };
    const next = { ...deployment({ replicas: 2 }), status: { replicas: 9 } };
    const { object: changed } = update(old, next);
    assert.deepEqual([changed['status'], changed.metadata?.['generation']], [{ replicas: 1 }, 5]);
    const { object } = update(old, next, 'status');
    const expected = [{ replicas: 9 }, old['spec'], 4];
    assert.deepEqual([object['status'], object['spec'], object.metadata?.['generation']], expected);
    strategyFor(next).prepareForCreate(next);
    assert.deepEqual(next['status'], {});
  });
});

describe('the API server validates namespaces', () => {
  test('new namespaces have a finalizer and a label that contains their name', () => {
    const status = { phase: 'Terminating' };
    const object = make('v1', 'Namespace', { spec: { finalizers: ['example.com/x'] }, status }, CLUSTER);
    strategyFor(object).prepareForCreate(object);
    assert.deepEqual(object['spec'], { finalizers: ['example.com/x', 'kubernetes'] });
    assert.deepEqual(object['status'], { phase: 'Active' });
    assert.deepEqual(object.metadata?.['labels'], { 'kubernetes.io/metadata.name': 'x' });
  });

  test('only the finalize subresource removes finalizers', () => {
    const old = make('v1', 'Namespace', { spec: { finalizers: ['kubernetes'] } }, CLUSTER);
    const next = make('v1', 'Namespace', { spec: { finalizers: [] } }, CLUSTER);
    assert.deepEqual(update(old, next).object['spec'], { finalizers: ['kubernetes'] });
    assert.deepEqual(update(old, next, 'finalize').object['spec'], { finalizers: [] });
  });
});

describe('the API server validates roles and bindings', () => {
  const RBAC = 'rbac.authorization.k8s.io/v1';
  const binding = (name: string): ApiObject => make(RBAC, 'RoleBinding', { roleRef: { kind: 'Role', name } });
  testCreate([
    ['a role with a colon in its name', make(RBAC, 'ClusterRole', {}, { ...CLUSTER, name: 'system:Any_thing' })],
    ['a valid binding', binding('r')],
  ]);
  testUpdate([
    [
      'a binding whose role changes',
      binding('r'),
      binding('other'),
      'roleRef: Invalid value: {"kind":"Role","name":"other","apiGroup":"rbac.authorization.k8s.io"}: cannot change roleRef',
    ],
  ]);
});

describe('the API server validates webhook configurations', () => {
  const caBundle = Buffer.from(createAuthority({ now: new Date(), days: 1 }).cert).toString('base64');
  const VALID = {
    name: 'h.example.com',
    admissionReviewVersions: ['v1'],
    sideEffects: 'None',
    clientConfig: { service: { namespace: 'a', name: 's', path: '/x' }, caBundle },
    rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
  };
  const configuration = (...webhooks: object[]): ApiObject =>
    make('admissionregistration.k8s.io/v1', 'ValidatingWebhookConfiguration', { webhooks }, CLUSTER);
  const hook = (more: object): ApiObject => configuration({ ...VALID, ...more });
  testCreate([
    ['a valid webhook', hook({})],
    [
      'a webhook without required fields',
      hook({ admissionReviewVersions: [], sideEffects: null, clientConfig: {} }),
      'webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun',
      'webhooks[0].clientConfig: Required value: exactly one of url or service is required',
      'webhooks[0].admissionReviewVersions: Invalid value: []: must include at least one of v1',
    ],
    [
      'a webhook with invalid match conditions',
      hook({
        matchConditions: [
          { name: 'valid', expression: "request.operation == 'CREATE' && has(object.metadata.labels)" },
          { name: 'syntax', expression: '1 +' },
          { name: 'quantity', expression: "quantity('1Gi').isGreaterThan(quantity('1Mi'))" },
        ],
      }),
      'webhooks[0].matchConditions[1].expression: Invalid value: "1 +": compilation failed: Unexpected token: EOF',
      `webhooks[0].matchConditions[2].expression: Invalid value: "quantity('1Gi').isGreaterThan(quantity('1Mi'))": compilation failed: found no matching overload for 'quantity(string)'`,
    ],
  ]);
});

describe('the API server validates other kinds', () => {
  test('the stringData of a Secret is encoded', () => {
    const object = make('v1', 'Secret', { data: { a: 'AA==' }, stringData: { b: 'text' } });
    strategyFor(object).prepareForCreate(object);
    assert.deepEqual([object['data'], object['stringData']], [{ a: 'AA==', b: 'dGV4dA==' }, undefined]);
  });
});

function getResource(kind: string): ServedResource {
  const definition = CRDS.find(({ spec }) => spec.names.kind === kind);
  const [resource] = definition ? definedResources(definition) : [];
  assert.ok(resource);
  return resource;
}

describe('the API server validates custom resources against their schema', () => {
  const config = (rest: object, name = 'cluster'): ApiObject => {
    const { group, version } = getResource('PSAEnforcementConfig');
    const object: ApiObject = {
      apiVersion: `${group}/${version}`,
      kind: 'PSAEnforcementConfig',
      metadata: { name },
      ...rest,
    };
    getResource('PSAEnforcementConfig').strategy.defaults(object);
    return object;
  };
  const allocation = (data: unknown): ApiObject => ({ metadata: { name: 'scc-uid' }, data });
  const namespaces = (...list: object[]): ApiObject => config({ spec: {}, status: { violatingNamespaces: list } });
  const cases: [name: string, kind: string, object: ApiObject, ...errors: string[]][] = [
    ['and accepts a valid object', 'PSAEnforcementConfig', config({ spec: {} })],
    ['and accepts null, as after server-side apply', 'PSAEnforcementConfig', config({ spec: null })],
    [
      'and rejects a missing field',
      'PSAEnforcementConfig',
      namespaces({}),
      'status.violatingNamespaces[0].name: Required value',
    ],
    [
      'and rejects an unsupported value',
      'PSAEnforcementConfig',
      config({ spec: { enforcementMode: 'Never' } }),
      'spec.enforcementMode: Unsupported value: "Never": supported values: "", "Restricted", "Legacy"',
    ],
    [
      'and rejects a value of the wrong type',
      'PSAEnforcementConfig',
      config({ spec: [], status: { observedGeneration: 1.5 } }),
      'spec: Invalid value: "array": spec in body must be of type object: "array"',
      'status.observedGeneration: Invalid value: "number": status.observedGeneration in body must be of type integer: "number"',
    ],
    [
      'and rejects text that is too short or too long',
      'PSAEnforcementConfig',
      namespaces({ name: '' }, { name: 'x'.repeat(64) }),
      'status.violatingNamespaces[0].name: Invalid value: "": status.violatingNamespaces[0].name in body should be at least 1 chars long',
      'status.violatingNamespaces[1].name: Too long: may not be more than 63 bytes',
    ],
    [
      'and rejects text that is not a time',
      'PSAEnforcementConfig',
      config({ spec: {}, status: { lastEvaluationTime: 'yesterday' } }),
      'status.lastEvaluationTime: Invalid value: "yesterday": status.lastEvaluationTime in body must be of type date-time: "yesterday"',
    ],
    [
      'and rejects text that matches none of the alternative schemas',
      'RangeAllocation',
      allocation('?'),
      'data: Invalid value: "": "data" must validate at least one schema (anyOf)',
    ],
  ];
  for (const [name, kind, object, ...errors] of cases) {
    test(name, () => assert.deepEqual(createErrors(object, getResource(kind).strategy), errors));
  }

  test('and rejects objects that violate the rules of fields, list items and map values', () => {
    const rules = (...list: object[]): object => ({ 'x-kubernetes-validations': list });
    const text = { type: 'string', maxLength: 9 };
    const properties = {
      map: { type: 'object', additionalProperties: { ...text, ...rules({ rule: "self == 'x'" }) } },
      texts: { type: 'array', items: { ...text, ...rules({ rule: "self == 'x'", message: 'must be x' }) } },
      list: {
        type: 'array',
        items: {
          type: 'object',
          properties: { a: { type: 'integer' } },
          ...rules({ rule: 'self.a < 3', message: 'small' }),
        },
      },
      fixed: { ...text, ...rules({ rule: 'self == oldSelf', message: 'is immutable' }) },
    };
    const openAPIV3Schema = { type: 'object', properties: { spec: { type: 'object', properties } } };
    const versions = [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema } }];
    const spec = { group: 'example.com', scope: 'Cluster', names: { kind: 'Thing', plural: 'things' }, versions };
    const [thing] = definedResources({ spec });
    assert.ok(thing);
    const object = {
      metadata: { name: 't' },
      spec: { list: [{ a: 1 }, { a: 5 }], map: { k: 'y' }, texts: ['x', 'z'] },
    };
    assert.deepEqual(createErrors(object, thing.strategy), [
      'spec.list[1]: Invalid value: small',
      'spec.map[k]: Invalid value: "y": failed rule: self == \'x\'',
      'spec.texts[1]: Invalid value: "z": must be x',
    ]);
    const [old, changed] = ['a', 'b'].map((fixed) => ({ metadata: { name: 't' }, spec: { fixed } }));
    assert.ok(old && changed);
    assert.deepEqual(createErrors(old, thing.strategy), []);
    const errors = thing.strategy.validateUpdate(changed, old, '').map(formatFieldError);
    assert.deepEqual(errors, ['spec.fixed: Invalid value: "b": is immutable']);
  });

  test('and prints them in tables with the columns of their CRD', () => {
    const conditions = [
      { type: 'Evaluated', status: 'True' },
      { type: 'Enforcing', status: 'False', reason: 'NotRequested' },
    ];
    const status = { conditions, lastEvaluationTime: '2026-01-01T00:00:00Z' };
    const object = config({ spec: { enforcementMode: 'Legacy' }, status });
    const now = new Date('2026-01-01T00:01:00Z');
    assert.deepEqual(
      getResource('PSAEnforcementConfig').columns.map(({ name, cell }) => [name, cell(object, now)]),
      [
        ['Name', 'cluster'],
        ['Requested', 'Legacy'],
        ['Decided', null],
        ['Enforcing', 'False'],
        ['Reason', 'NotRequested'],
        ['Progressing', null],
        ['Ready', null],
        ['Evaluated', '60s'],
        ['Age', null],
      ],
    );
  });
});

describe('the API server validates CRDs', () => {
  const definition = (more: object, version: object = {}, name = 'gadgets.example.com'): ApiObject => {
    const schema = { openAPIV3Schema: { type: 'object', properties: { spec: { type: 'object' } } } };
    const spec = {
      group: 'example.com',
      scope: 'Namespaced',
      names: { kind: 'Gadget', plural: 'gadgets' },
      versions: [{ name: 'v1', served: true, storage: true, schema, ...version }],
      ...more,
    };
    return make('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { spec }, { ...CLUSTER, name });
  };
  const at = 'spec.versions[0].schema.openAPIV3Schema';
  testCreate([
    ...CRDS.map((one): Case => [
      `the project's ${one.spec.names.kind}`,
      make(one.apiVersion, one.kind, { spec: structuredClone(one.spec) }, { ...CLUSTER, name: one.metadata.name }),
    ]),
    ['a valid CRD', definition({})],
    [
      'a CRD whose name does not match its resource',
      definition({}, {}, 'x'),
      'metadata.name: Invalid value: "x": must be spec.names.plural+"."+spec.group',
    ],
    ['a CRD without a schema', definition({}, { schema: null }), `${at}: Required value: schemas are required`],
    [
      'a CRD with an invalid schema',
      definition({}, { schema: { openAPIV3Schema: { type: 'thing' } } }),
      `${at}: Invalid value: "": schema is invalid: data/type must be equal to one of the allowed values, data/type must be array, data/type must match a schema in anyOf`,
    ],
  ]);
});
