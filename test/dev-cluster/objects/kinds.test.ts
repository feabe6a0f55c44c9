import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { strategyOf } from '../../../src/dev-cluster/objects/index.ts';
import type { ApiObject } from '../../../src/dev-cluster/types.ts';
import { formatFieldError } from '../../../src/kube/field-error.ts';
import { createAuthority } from '../../../src/tls/self-signed.ts';

function make(apiVersion: string, kind: string, rest: object = {}, metadata: object = {}): ApiObject {
  const object: ApiObject = { apiVersion, kind, metadata: { name: 'x', ...metadata }, ...rest };
  strategyFor(object).defaults(object);
  return object;
}

function strategyFor({ apiVersion = '', kind = '' }: ApiObject) {
  return strategyOf(apiVersion.includes('/') ? (apiVersion.split('/')[0] ?? '') : '', kind);
}

function errorsOf(object: ApiObject): string[] {
  return strategyFor(object).validateCreate(object).map(formatFieldError);
}

function changeErrors(old: ApiObject, next: ApiObject): string[] {
  return strategyFor(old).validateUpdate(next, old, '').map(formatFieldError);
}

const IN_A = { namespace: 'a' };
const TEMPLATE = { metadata: { labels: { app: 'x' } }, spec: { containers: [{ name: 'c', image: 'i' }] } };
const SELECTOR = { matchLabels: { app: 'x' } };

describe('workloads', () => {
  const deployment = (spec: object): ApiObject =>
    make('apps/v1', 'Deployment', { spec: { selector: SELECTOR, template: TEMPLATE, ...spec } }, IN_A);
  const job = (spec: object): ApiObject =>
    make(
      'batch/v1',
      'Job',
      { spec: { template: { spec: { ...TEMPLATE.spec, restartPolicy: 'Never' } }, ...spec } },
      IN_A,
    );
  const cronJob = (spec: object, name = 'x'): ApiObject => {
    const jobTemplate = { spec: { template: { spec: { ...TEMPLATE.spec, restartPolicy: 'Never' } } } };
    return make('batch/v1', 'CronJob', { spec: { schedule: '* * * * *', jobTemplate, ...spec } }, { ...IN_A, name });
  };
  const cases: { name: string; given: ApiObject; errors: string[] }[] = [
    { name: 'a sound Deployment', given: deployment({}), errors: [] },
    {
      name: 'no selector, no template',
      given: deployment({ selector: null, template: null, replicas: -1 }),
      errors: [
        'spec.replicas: Invalid value: -1: must be greater than or equal to 0',
        'spec.selector: Required value',
        'spec.template.spec.containers: Required value',
      ],
    },
    {
      name: 'a selector that selects everything',
      given: deployment({ selector: {} }),
      errors: ['spec.selector: Invalid value: {}: empty selector is invalid for deployment'],
    },
    {
      name: 'a selector that does not select its own pods',
      given: deployment({ selector: { matchLabels: { app: 'y' } } }),
      errors: [
        'spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`',
      ],
    },
    {
      name: 'a selector that cannot be read',
      given: deployment({
        selector: {
          matchExpressions: [
            { key: 'app', operator: 'In' },
            { key: 'app', operator: 'Has' },
          ],
        },
      }),
      errors: [
        "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        'spec.selector.matchExpressions[1].operator: Invalid value: "Has": not a valid selector operator',
        'spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`',
      ],
    },
    {
      name: 'pods that do not start again',
      given: deployment({
        template: { ...TEMPLATE, spec: { ...TEMPLATE.spec, restartPolicy: 'Never', activeDeadlineSeconds: 5 } },
      }),
      errors: [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        'spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in Deployment is not Supported',
      ],
    },
    {
      name: 'ephemeral containers in a template',
      given: deployment({
        template: { ...TEMPLATE, spec: { ...TEMPLATE.spec, ephemeralContainers: [{ name: 'e', image: 'i' }] } },
      }),
      errors: ['spec.template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template'],
    },
    {
      name: 'an image with spaces is let through in a template',
      given: deployment({ template: { ...TEMPLATE, spec: { containers: [{ name: 'c', image: ' i' }] } } }),
      errors: [],
    },
    {
      name: 'host ports may be left out in a template',
      given: deployment({
        template: {
          ...TEMPLATE,
          spec: { hostNetwork: true, containers: [{ name: 'c', image: 'i', ports: [{ containerPort: 1 }] }] },
        },
      }),
      errors: [],
    },
    {
      name: 'a ReplicationController without its parts',
      given: make('v1', 'ReplicationController', { spec: {} }, IN_A),
      errors: ['spec.selector: Required value', 'spec.template: Required value'],
    },
    {
      name: 'a PodTemplate',
      given: make('v1', 'PodTemplate', { template: {} }, IN_A),
      errors: ['template.spec.containers: Required value'],
    },
    { name: 'a sound Job', given: job({}), errors: [] },
    {
      name: 'a Job whose pods start again',
      given: job({ template: TEMPLATE, parallelism: -1 }),
      errors: [
        'spec.parallelism: Invalid value: -1: must be greater than or equal to 0',
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
      ],
    },
    { name: 'a sound CronJob', given: cronJob({}), errors: [] },
    { name: 'a schedule by name', given: cronJob({ schedule: '@hourly' }), errors: [] },
    {
      name: 'schedules that cannot be read',
      given: cronJob({ schedule: '* *', concurrencyPolicy: 'Hope' }),
      errors: [
        'spec.schedule: Invalid value: "* *": expected exactly 5 fields, found 2: [* *]',
        'spec.concurrencyPolicy: Unsupported value: "Hope": supported values: "Allow", "Forbid", "Replace"',
      ],
    },
    {
      name: 'the name of a CronJob',
      given: cronJob({}, 'x'.repeat(53)),
      errors: [`metadata.name: Invalid value: "${'x'.repeat(53)}": must be no more than 52 characters`],
    },
  ];
  for (const { name, given, errors } of cases) {
    test(name, () => assert.deepEqual(errorsOf(given), errors));
  }

  test('a selector stays', () => {
    const next = deployment({
      selector: { matchLabels: { app: 'y' } },
      template: { ...TEMPLATE, metadata: { labels: { app: 'y' } } },
    });
    assert.deepEqual(changeErrors(deployment({}), next), [
      'spec.selector: Invalid value: {"matchLabels":{"app":"y"}}: field is immutable',
    ]);
  });

  test('most of a StatefulSet stays', () => {
    const set = (spec: object): ApiObject =>
      make('apps/v1', 'StatefulSet', { spec: { selector: SELECTOR, template: TEMPLATE, ...spec } }, IN_A);
    assert.deepEqual(changeErrors(set({}), set({ replicas: 3, minReadySeconds: 1 })), []);
    assert.deepEqual(changeErrors(set({}), set({ serviceName: 's' })), [
      "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
    ]);
  });

  test('the pods of a job bear its name', () => {
    const given = job({});
    given.metadata = { ...given.metadata, uid: 'u' };
    strategyFor(given).prepareForCreate(given);
    const spec = given['spec'] as Record<string, { matchLabels?: object; metadata?: { labels?: object } }>;
    assert.deepEqual(spec['selector'], { matchLabels: { 'batch.kubernetes.io/controller-uid': 'u' } });
    assert.deepEqual(spec['template']?.metadata?.labels, {
      'batch.kubernetes.io/controller-uid': 'u',
      'batch.kubernetes.io/job-name': 'x',
      'controller-uid': 'u',
      'job-name': 'x',
    });
    assert.deepEqual(errorsOf(given), []);
  });

  test('the template of a job stays', () => {
    const old = job({});
    const next = structuredClone(old);
    (next['spec'] as { completionMode: string }).completionMode = 'Indexed';
    assert.deepEqual(changeErrors(old, next), ['spec.completionMode: Invalid value: "Indexed": field is immutable']);
  });

  test('warnings name the place in the template', () => {
    const given = deployment({
      template: { ...TEMPLATE, spec: { ...TEMPLATE.spec, volumes: [{ name: 'v', rbd: {} }] } },
    });
    assert.deepEqual(strategyFor(given).warnings(given), [
      'spec.template.spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+',
    ]);
  });

  test('status is the server’s, and its changes do not count', () => {
    const old: ApiObject = { ...deployment({}), status: { replicas: 1 } };
    old.metadata = { ...old.metadata, generation: 4 };
    const strategy = strategyFor(old);
    const spec: ApiObject = { ...deployment({ replicas: 2 }), status: { replicas: 9 } };
    strategy.prepareForUpdate(spec, old, '');
    assert.deepEqual([spec['status'], spec.metadata?.['generation']], [{ replicas: 1 }, 5]);
    const status: ApiObject = { ...deployment({ replicas: 2 }), status: { replicas: 9 } };
    strategy.prepareForUpdate(status, old, 'status');
    assert.deepEqual(
      [status['status'], status['spec'], status.metadata?.['generation']],
      [{ replicas: 9 }, old['spec'], 4],
    );
    const made: ApiObject = { ...deployment({}), status: { replicas: 9 } };
    strategy.prepareForCreate(made);
    assert.deepEqual([made['status'], made.metadata?.['generation']], [{}, 1]);
  });
});

describe('namespaces', () => {
  test('are born with a finalizer and their own name', () => {
    const given = make('v1', 'Namespace', {
      spec: { finalizers: ['example.com/x'] },
      status: { phase: 'Terminating' },
    });
    given.metadata = { ...given.metadata, name: 'made' };
    strategyFor(given).prepareForCreate(given);
    assert.deepEqual(given['spec'], { finalizers: ['example.com/x', 'kubernetes'] });
    assert.deepEqual(given['status'], { phase: 'Active' });
    assert.deepEqual(given.metadata?.['labels'], { 'kubernetes.io/metadata.name': 'made' });
  });

  test('lose finalizers through the subresource only', () => {
    const old = make('v1', 'Namespace', { spec: { finalizers: ['kubernetes'] } });
    const next = (): ApiObject => make('v1', 'Namespace', { spec: { finalizers: [] } });
    const plain = next();
    strategyFor(old).prepareForUpdate(plain, old, '');
    assert.deepEqual(plain['spec'], { finalizers: ['kubernetes'] });
    const finalized = next();
    strategyFor(old).prepareForUpdate(finalized, old, 'finalize');
    assert.deepEqual(finalized['spec'], { finalizers: [] });
  });

  test('have names that can be host names, and finalizers with names', () => {
    assert.deepEqual(
      errorsOf(make('v1', 'Namespace', { spec: { finalizers: ['x'] } }, { name: 'a.b', namespace: 'c' })),
      [
        'metadata.name: Invalid value: "a.b": must not contain dots',
        'metadata.namespace: Forbidden: not allowed on this type',
        'spec.finalizers: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified',
      ],
    );
  });
});

describe('roles and bindings', () => {
  const RBAC = 'rbac.authorization.k8s.io/v1';
  const ROLE_REF = { kind: 'Role', name: 'r' };
  const cases: { name: string; given: ApiObject; errors: string[] }[] = [
    { name: 'names are nearly free', given: make(RBAC, 'ClusterRole', {}, { name: 'system:Any_thing' }), errors: [] },
    {
      name: 'but must stand in a path',
      given: make(RBAC, 'ClusterRole', {}, { name: 'a/b%' }),
      errors: [
        `metadata.name: Invalid value: "a/b%": may not contain '/'`,
        `metadata.name: Invalid value: "a/b%": may not contain '%'`,
      ],
    },
    {
      name: 'rules without their parts',
      given: make(
        RBAC,
        'Role',
        { rules: [{}, { verbs: ['get'], nonResourceURLs: ['/x'], resources: ['pods'] }] },
        IN_A,
      ),
      errors: [
        'rules[0].verbs: Required value: verbs must contain at least one value',
        'rules[0].apiGroups: Required value: resource rules must supply at least one api group',
        'rules[0].resources: Required value: resource rules must supply at least one resource',
        'rules[1].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
        'rules[1].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs',
      ],
    },
    {
      name: 'nothing to gather',
      given: make(RBAC, 'ClusterRole', { aggregationRule: {} }),
      errors: [
        'aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil',
      ],
    },
    {
      name: 'a sound binding',
      given: make(
        RBAC,
        'RoleBinding',
        {
          roleRef: ROLE_REF,
          subjects: [
            { kind: 'User', name: 'a' },
            { kind: 'ServiceAccount', name: 's' },
          ],
        },
        IN_A,
      ),
      errors: [],
    },
    {
      name: 'bindings without their parts',
      given: make(RBAC, 'ClusterRoleBinding', {
        roleRef: { kind: 'Role', name: '' },
        subjects: [
          { kind: 'User', apiGroup: 'x', name: '' },
          { kind: 'ServiceAccount', name: 'S' },
          { kind: 'Robot', name: 'r' },
        ],
      }),
      errors: [
        'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
        'roleRef.name: Required value',
        'subjects[0].name: Required value',
        'subjects[0].apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"',
        "subjects[1].name: Invalid value: \"S\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        'subjects[1].namespace: Required value',
        'subjects[2].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"',
      ],
    },
  ];
  for (const { name, given, errors } of cases) {
    test(name, () => assert.deepEqual(errorsOf(given), errors));
  }

  test('a binding stays with its role', () => {
    const old = make(RBAC, 'RoleBinding', { roleRef: ROLE_REF }, IN_A);
    const next = make(RBAC, 'RoleBinding', { roleRef: { kind: 'Role', name: 'other' } }, IN_A);
    assert.deepEqual(changeErrors(old, next), [
      'roleRef: Invalid value: {"kind":"Role","name":"other","apiGroup":"rbac.authorization.k8s.io"}: cannot change roleRef',
    ]);
  });
});

describe('webhook configurations', () => {
  const REGISTRATION = 'admissionregistration.k8s.io/v1';
  const caBundle = Buffer.from(createAuthority({ now: new Date(), days: 1 }).cert).toString('base64');
  const SOUND = {
    name: 'h.example.com',
    admissionReviewVersions: ['v1'],
    sideEffects: 'None',
    clientConfig: { service: { namespace: 'a', name: 's', path: '/x' }, caBundle },
    rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
  };
  const hook = (more: object): ApiObject =>
    make(REGISTRATION, 'ValidatingWebhookConfiguration', { webhooks: [{ ...SOUND, ...more }] });
  const cases: { name: string; given: object; errors: string[] }[] = [
    { name: 'a sound one', given: {}, errors: [] },
    {
      name: 'names',
      given: { name: 'h.example' },
      errors: [
        'webhooks[0].name: Invalid value: "h.example": should be a domain with at least three segments separated by dots',
      ],
    },
    {
      name: 'nothing said',
      given: { name: '', admissionReviewVersions: [], sideEffects: null, clientConfig: {}, rules: [{}] },
      errors: [
        'webhooks[0].name: Required value',
        'webhooks[0].rules[0].operations: Required value',
        'webhooks[0].rules[0].apiGroups: Required value',
        'webhooks[0].rules[0].apiVersions: Required value',
        'webhooks[0].rules[0].resources: Required value',
        'webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun',
        'webhooks[0].clientConfig: Required value: exactly one of url or service is required',
        'webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1',
      ],
    },
    {
      name: 'choices',
      given: {
        failurePolicy: 'Maybe',
        matchPolicy: 'Some',
        sideEffects: 'Unknown',
        timeoutSeconds: 31,
        reinvocationPolicy: 'Always',
      },
      errors: [
        'webhooks[0].failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"',
        'webhooks[0].matchPolicy: Unsupported value: "Some": supported values: "Equivalent", "Exact"',
        'webhooks[0].sideEffects: Unsupported value: "Unknown": supported values: "None", "NoneOnDryRun"',
        'webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds',
        'webhooks[0].reinvocationPolicy: Unsupported value: "Always": supported values: "IfNeeded", "Never"',
      ],
    },
    {
      name: 'rules that say too much',
      given: {
        rules: [
          {
            apiGroups: ['*', ''],
            apiVersions: ['*', 'v1'],
            operations: ['*', 'CREATE'],
            resources: ['*/*', 'pods'],
            scope: 'All',
          },
          { apiGroups: [''], apiVersions: [''], operations: ['PATCH'], resources: ['*', 'pods', ''] },
        ],
      },
      errors: [
        `webhooks[0].rules[0].operations: Invalid value: ["*","CREATE"]: if '*' is present, must not specify other operations`,
        `webhooks[0].rules[0].apiGroups: Invalid value: ["*",""]: if '*' is present, must not specify other API groups`,
        `webhooks[0].rules[0].apiVersions: Invalid value: ["*","v1"]: if '*' is present, must not specify other API versions`,
        `webhooks[0].rules[0].resources: Invalid value: ["*/*","pods"]: if '*/*' is present, must not specify other resources`,
        'webhooks[0].rules[0].scope: Unsupported value: "All": supported values: "*", "Cluster", "Namespaced"',
        'webhooks[0].rules[1].operations[0]: Unsupported value: "PATCH": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"',
        'webhooks[0].rules[1].apiVersions[0]: Required value',
        'webhooks[0].rules[1].resources[2]: Required value',
        `webhooks[0].rules[1].resources: Invalid value: ["*","pods",""]: if '*' is present, must not specify other resources without subresources`,
      ],
    },
    {
      name: 'where it is',
      given: { clientConfig: { url: 'http://me@h/x?y#z', caBundle: 'aGVsbG8=' } },
      errors: [
        `webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]`,
        'webhooks[0].clientConfig.url: Invalid value: "me": user information is not permitted in the URL',
        'webhooks[0].clientConfig.url: Invalid value: "z": fragments are not permitted in the URL',
        'webhooks[0].clientConfig.url: Invalid value: "y": query parameters are not permitted in the URL',
        'webhooks[0].clientConfig.caBundle: Invalid value: "aGVsbG8=": unable to load root certificates: unable to parse bytes as PEM block',
      ],
    },
    {
      name: 'which service it is',
      given: { clientConfig: { service: { path: 'a//B', port: 70000 } } },
      errors: [
        'webhooks[0].clientConfig.service.name: Required value',
        'webhooks[0].clientConfig.service.namespace: Required value',
        'webhooks[0].clientConfig.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive',
        `webhooks[0].clientConfig.service.path: Invalid value: "a//B": must start with a '/'`,
        'webhooks[0].clientConfig.service.path: Invalid value: "a//B": segment[0] may not be empty',
        'webhooks[0].clientConfig.service.path: Invalid value: "a//B": segment[1] may not be empty',
        "webhooks[0].clientConfig.service.path: Invalid value: \"a//B\": segment[2]: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
      ],
    },
    {
      name: 'versions',
      given: { admissionReviewVersions: ['v2', 'v2'] },
      errors: [
        'webhooks[0].admissionReviewVersions[1]: Invalid value: "v2": duplicate version',
        'webhooks[0].admissionReviewVersions: Invalid value: ["v2","v2"]: must include at least one of v1, v1beta1',
      ],
    },
    {
      name: 'a version that is not spoken here',
      given: { admissionReviewVersions: ['v1beta1'] },
      errors: [
        'webhooks[0].admissionReviewVersions: Invalid value: ["v1beta1"]: the development cluster sends v1 only',
      ],
    },
    {
      name: 'conditions',
      given: {
        matchConditions: [
          { name: 'fine', expression: "request.operation == 'CREATE' && has(object.metadata.labels)" },
          { name: 'fine', expression: '' },
          { name: '', expression: "authorizer.group('').resource('pods').check('get').allowed()" },
          { name: 'a b', expression: '1 +' },
          { name: 'number', expression: '1' },
          { name: 'quantity', expression: "quantity('1Gi').isGreaterThan(quantity('1Mi'))" },
        ],
      },
      errors: [
        'webhooks[0].matchConditions[1].expression: Required value',
        'webhooks[0].matchConditions[1].name: Duplicate value: "fine"',
        `webhooks[0].matchConditions[2].expression: Invalid value: "authorizer.group('').resource('pods').check('get').allowed()": compilation failed: Unknown variable: authorizer`,
        'webhooks[0].matchConditions[2].name: Required value',
        'webhooks[0].matchConditions[3].expression: Invalid value: "1 +": compilation failed: Unexpected token: EOF',
        "webhooks[0].matchConditions[3].name: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        'webhooks[0].matchConditions[4].expression: Invalid value: "1": must evaluate to bool',
        `webhooks[0].matchConditions[5].expression: Invalid value: "quantity('1Gi').isGreaterThan(quantity('1Mi'))": compilation failed: found no matching overload for 'quantity(string)'`,
      ],
    },
  ];
  for (const { name, given, errors } of cases) {
    test(name, () => assert.deepEqual(errorsOf(hook(given)), errors));
  }

  test('two of one name', () => {
    const given = make(REGISTRATION, 'MutatingWebhookConfiguration', { webhooks: [SOUND, SOUND] });
    assert.deepEqual(errorsOf(given), ['webhooks[1].name: Duplicate value: "h.example.com"']);
  });
});

describe('other kinds', () => {
  const cases: { name: string; given: ApiObject; errors: string[] }[] = [
    {
      name: 'keys of a ConfigMap',
      given: make('v1', 'ConfigMap', { data: { 'a.b_c-1': '', 'a b': '' }, binaryData: { '/': '' } }, IN_A),
      errors: [
        "data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
        "binaryData[/]: Invalid value: \"/\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
      ],
    },
    {
      name: 'a Service',
      given: make('v1', 'Service', { spec: { type: 'Magic', ports: [{ port: 80 }, { port: 0, name: 'a' }] } }, IN_A),
      errors: [
        'spec.type: Unsupported value: "Magic": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
        'spec.ports[0].name: Required value',
        'spec.ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive',
      ],
    },
    { name: 'a Service without ports', given: make('v1', 'Service', {}, IN_A), errors: ['spec.ports: Required value'] },
    {
      name: 'a headless Service without ports',
      given: make('v1', 'Service', { spec: { clusterIP: 'None' } }, IN_A),
      errors: [],
    },
    {
      name: 'a Lease',
      given: make('coordination.k8s.io/v1', 'Lease', { spec: { leaseDurationSeconds: 0, leaseTransitions: -1 } }, IN_A),
      errors: [
        'spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0',
        'spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0',
      ],
    },
    { name: 'a RuntimeClass', given: make('node.k8s.io/v1', 'RuntimeClass', {}), errors: ['handler: Required value'] },
    {
      name: 'a priority too high',
      given: make('scheduling.k8s.io/v1', 'PriorityClass', { value: 1000000001 }),
      errors: ['value: Forbidden: maximum allowed value of a user defined priority is 1000000000'],
    },
    {
      name: 'a priority of the system',
      given: make('scheduling.k8s.io/v1', 'PriorityClass', { value: 1 }, { name: 'system-mine' }),
      errors: [
        "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-mine is not a known system priority class",
      ],
    },
    { name: 'a kind of which nothing is known', given: make('v1', 'Endpoints', {}, IN_A), errors: [] },
  ];
  for (const { name, given, errors } of cases) {
    test(name, () => assert.deepEqual(errorsOf(given), errors));
  }

  test('what is said to stay stays', () => {
    const old = make('v1', 'ConfigMap', { immutable: true, data: { a: '1' } }, IN_A);
    assert.deepEqual(changeErrors(old, make('v1', 'ConfigMap', { data: { a: '2' } }, IN_A)), [
      'immutable: Forbidden: field is immutable when `immutable` is set',
      'data: Forbidden: field is immutable when `immutable` is set',
    ]);
    const priority = (value: number): ApiObject => make('scheduling.k8s.io/v1', 'PriorityClass', { value });
    assert.deepEqual(changeErrors(priority(1), priority(2)), ['value: Invalid value: 2: field is immutable']);
  });
});
