import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createAdmission } from '../../../src/dev-cluster/admission/index.ts';
import { createStorage, type Storage } from '../../../src/dev-cluster/storage.ts';
import type { ApiObject, Attributes } from '../../../src/dev-cluster/types.ts';
import { attributes, listen, object, resource, statusOf } from './support.ts';

const { context } = listen();

/** A cluster with the namespaces `a` and `leaving`, and in `a` the service accounts `default`, `puller` and `quiet`. */
function seeded(): Storage {
  const storage = createStorage();
  const put = (name: string, stored: ApiObject): unknown => storage.create(resource(name), stored);
  put('namespaces', object('Namespace', 'a', { status: { phase: 'Active' } }));
  put('namespaces', object('Namespace', 'leaving', { status: { phase: 'Terminating' } }));
  put('serviceaccounts', object('ServiceAccount', 'default', {}, 'a'));
  put('serviceaccounts', object('ServiceAccount', 'puller', { imagePullSecrets: [{ name: 's' }] }, 'a'));
  put('serviceaccounts', object('ServiceAccount', 'quiet', { automountServiceAccountToken: false }, 'a'));
  put('priorityclasses', object('PriorityClass', 'high', { value: 1000, preemptionPolicy: 'Never' }));
  put('runtimeclasses', object('RuntimeClass', 'plain', { handler: 'plain' }));
  put(
    'runtimeclasses',
    object('RuntimeClass', 'heavy', {
      handler: 'heavy',
      overhead: { podFixed: { cpu: '1' } },
      scheduling: { nodeSelector: { disk: 'ssd' }, tolerations: [{ key: 'heavy', operator: 'Exists' }] },
    }),
  );
  return storage;
}

function admissionOf(storage: Storage) {
  return createAdmission({
    reader: storage,
    versionsOf: () => [],
    decode: (value) => ({ object: value as ApiObject }),
    call: () => Promise.resolve({ ok: false, error: 'nobody listens' }),
    uid: () => 'uid',
    suffix: () => 'abcde',
  });
}

function pod(spec: object, metadata: object = {}): ApiObject {
  const containers = [{ name: 'c', image: 'i' }];
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'p', namespace: 'a', ...metadata },
    spec: { containers, ...spec },
  };
}

describe('refusals', () => {
  const cases: { name: string; given: Parameters<typeof attributes>[0]; code: number; message: string }[] = [
    {
      name: 'a namespace that is missing',
      given: { resource: 'configmaps', namespace: 'b', object: object('ConfigMap', 'c') },
      code: 404,
      message: 'namespaces "b" not found',
    },
    {
      name: 'an update in a namespace that is missing',
      given: { resource: 'configmaps', operation: 'UPDATE', namespace: 'b', object: object('ConfigMap', 'c') },
      code: 404,
      message: 'namespaces "b" not found',
    },
    {
      name: 'a namespace that goes away',
      given: { resource: 'configmaps', namespace: 'leaving', object: object('ConfigMap', 'c') },
      code: 403,
      message:
        'configmaps "c" is forbidden: unable to create new content in namespace leaving because it is being terminated',
    },
    {
      name: 'deleting what must stay',
      given: { resource: 'namespaces', operation: 'DELETE', name: 'kube-system', namespace: 'kube-system' },
      code: 403,
      message: 'namespaces "kube-system" is forbidden: this namespace may not be deleted',
    },
    {
      name: 'a service account that is missing',
      given: { resource: 'pods', object: pod({ serviceAccountName: 'ghost' }) },
      code: 403,
      message: 'pods "p" is forbidden: error looking up service account a/ghost: serviceaccount "ghost" not found',
    },
    {
      name: 'a pod whose name is not known yet',
      given: {
        resource: 'pods',
        object: pod({ serviceAccountName: 'ghost' }, { name: undefined, generateName: 'g-' }),
      },
      code: 403,
      message: 'pods "g-" is forbidden: error looking up service account a/ghost: serviceaccount "ghost" not found',
    },
    {
      name: 'a mirror pod with a service account',
      given: {
        resource: 'pods',
        object: pod({ serviceAccountName: 'default' }, { annotations: { 'kubernetes.io/config.mirror': 'x' } }),
      },
      code: 403,
      message: 'pods "p" is forbidden: a mirror pod may not reference service accounts',
    },
    {
      name: 'a mirror pod with a secret',
      given: {
        resource: 'pods',
        object: pod(
          { volumes: [{ name: 'v', secret: { secretName: 's' } }] },
          { annotations: { 'kubernetes.io/config.mirror': 'x' } },
        ),
      },
      code: 403,
      message: 'pods "p" is forbidden: a mirror pod may not reference secrets',
    },
    {
      name: 'a priority class that is missing',
      given: { resource: 'pods', object: pod({ priorityClassName: 'low' }) },
      code: 403,
      message: 'pods "p" is forbidden: no PriorityClass with name low was found',
    },
    {
      name: 'a priority that contradicts its class',
      given: { resource: 'pods', object: pod({ priorityClassName: 'high', priority: 1 }) },
      code: 403,
      message:
        'pods "p" is forbidden: the integer value of priority (1) must not be provided in pod spec; priority admission controller computed 1000 from the given PriorityClass name',
    },
    {
      name: 'a runtime class that is missing',
      given: { resource: 'pods', object: pod({ runtimeClassName: 'none' }) },
      code: 403,
      message: 'pods "p" is forbidden: pod rejected: RuntimeClass "none" not found',
    },
    {
      name: 'a node selector that contradicts the runtime class',
      given: { resource: 'pods', object: pod({ runtimeClassName: 'heavy', nodeSelector: { disk: 'hdd' } }) },
      code: 403,
      message:
        'pods "p" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[disk] = ssd; pod.spec.nodeSelector[disk] = hdd',
    },
  ];
  for (const { name, given, code, message } of cases) {
    test(name, async () => {
      const status = await statusOf(() => admissionOf(seeded()).mutate(attributes(given), context));
      assert.deepEqual([status?.code, status?.message], [code, message]);
    });
  }

  test('the cause of a refusal in a namespace that goes away', async () => {
    const given = attributes({ resource: 'configmaps', namespace: 'leaving', object: object('ConfigMap', 'c') });
    const status = await statusOf(() => admissionOf(seeded()).mutate(given, context));
    assert.deepEqual(status?.details, {
      name: 'c',
      kind: 'configmaps',
      causes: [
        {
          reason: 'NamespaceTerminating',
          message: 'namespace leaving is being terminated',
          field: 'metadata.namespace',
        },
      ],
    });
  });

  test('overhead without a runtime class that has it', async () => {
    const given = attributes({
      resource: 'pods',
      object: pod({ serviceAccountName: 'default', overhead: { cpu: '1' } }),
    });
    const status = await statusOf(() => admissionOf(seeded()).validate(given, context));
    assert.equal(
      status?.message,
      'pods "p" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead',
    );
  });

  test('a second default priority class', async () => {
    const storage = seeded();
    storage.create(resource('priorityclasses'), object('PriorityClass', 'usual', { value: 5, globalDefault: true }));
    const given = (name: string, operation: 'CREATE' | 'UPDATE'): Attributes =>
      attributes({
        resource: 'priorityclasses',
        operation,
        namespace: '',
        object: object('PriorityClass', name, { value: 6, globalDefault: true }),
      });
    const status = await statusOf(() => admissionOf(storage).validate(given('other', 'CREATE'), context));
    assert.equal(
      status?.message,
      'priorityclasses.scheduling.k8s.io "other" is forbidden: PriorityClass usual is already marked as default. Only one default can exist',
    );
    assert.equal(await statusOf(() => admissionOf(storage).validate(given('usual', 'UPDATE'), context)), undefined);
  });
});

describe('what passes', () => {
  const cases: { name: string; given: Parameters<typeof attributes>[0] }[] = [
    {
      name: 'deleting in a namespace that is missing',
      given: { resource: 'configmaps', operation: 'DELETE', namespace: 'b' },
    },
    {
      name: 'an update in a namespace that goes away',
      given: { resource: 'configmaps', operation: 'UPDATE', namespace: 'leaving', object: object('ConfigMap', 'c') },
    },
    {
      name: 'deleting another namespace',
      given: { resource: 'namespaces', operation: 'DELETE', name: 'a', namespace: 'a' },
    },
    {
      name: 'asking for access in a namespace that is missing',
      given: { resource: 'localsubjectaccessreviews', namespace: 'b', object: object('LocalSubjectAccessReview', 'r') },
    },
    {
      name: 'objects of the whole cluster',
      given: { resource: 'clusterroles', namespace: '', object: object('ClusterRole', 'r') },
    },
  ];
  for (const { name, given } of cases) {
    test(name, async () => {
      assert.equal(await statusOf(() => admissionOf(seeded()).mutate(attributes(given), context)), undefined);
    });
  }
});

describe('what pods get', () => {
  const TOKEN = {
    name: 'kube-api-access-abcde',
    projected: {
      sources: [
        { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
        { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
        {
          downwardAPI: {
            items: [{ path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }],
          },
        },
      ],
      defaultMode: 420,
    },
  };
  const MOUNT = {
    name: 'kube-api-access-abcde',
    readOnly: true,
    mountPath: '/var/run/secrets/kubernetes.io/serviceaccount',
  };
  const toleration = (key: string) => ({
    key: `node.kubernetes.io/${key}`,
    operator: 'Exists',
    effect: 'NoExecute',
    tolerationSeconds: 300,
  });
  const ALWAYS = {
    serviceAccountName: 'default',
    serviceAccount: 'default',
    priority: 0,
    preemptionPolicy: 'PreemptLowerPriority',
    tolerations: [toleration('not-ready'), toleration('unreachable')],
  };
  const MOUNTED = { containers: [{ name: 'c', image: 'i', volumeMounts: [MOUNT] }], volumes: [TOKEN] };
  const PLAIN = { containers: [{ name: 'c', image: 'i' }] };

  const cases: { name: string; given: object; expected: object }[] = [
    { name: 'a plain pod', given: {}, expected: { ...ALWAYS, ...MOUNTED } },
    {
      name: 'the pod does not want a token',
      given: { automountServiceAccountToken: false },
      expected: { ...ALWAYS, ...PLAIN, automountServiceAccountToken: false },
    },
    {
      name: 'the account does not give one',
      given: { serviceAccountName: 'quiet' },
      expected: { ...ALWAYS, ...PLAIN, serviceAccountName: 'quiet', serviceAccount: 'quiet' },
    },
    {
      name: 'the pod wants one all the same',
      given: { serviceAccountName: 'quiet', automountServiceAccountToken: true },
      expected: {
        ...ALWAYS,
        ...MOUNTED,
        serviceAccountName: 'quiet',
        serviceAccount: 'quiet',
        automountServiceAccountToken: true,
      },
    },
    {
      name: 'pull secrets of the account',
      given: { serviceAccountName: 'puller' },
      expected: {
        ...ALWAYS,
        ...MOUNTED,
        serviceAccountName: 'puller',
        serviceAccount: 'puller',
        imagePullSecrets: [{ name: 's' }],
      },
    },
    {
      name: 'something else at the place of the token',
      given: {
        containers: [{ name: 'c', image: 'i', volumeMounts: [{ name: 'v', mountPath: MOUNT.mountPath }] }],
        volumes: [{ name: 'v', emptyDir: {} }],
      },
      expected: {
        ...ALWAYS,
        containers: [{ name: 'c', image: 'i', volumeMounts: [{ name: 'v', mountPath: MOUNT.mountPath }] }],
        volumes: [{ name: 'v', emptyDir: {} }],
      },
    },
    {
      name: 'a token volume that is there already',
      given: { ...MOUNTED, containers: [...MOUNTED.containers, { name: 'late', image: 'i' }] },
      expected: {
        ...ALWAYS,
        containers: [...MOUNTED.containers, { name: 'late', image: 'i', volumeMounts: [MOUNT] }],
        volumes: [TOKEN],
      },
    },
    {
      name: 'a priority class',
      given: { priorityClassName: 'high' },
      expected: { ...ALWAYS, ...MOUNTED, priorityClassName: 'high', priority: 1000, preemptionPolicy: 'Never' },
    },
    {
      name: 'tolerations of everything',
      given: { tolerations: [{ operator: 'Exists' }] },
      expected: { ...ALWAYS, ...MOUNTED, tolerations: [{ operator: 'Exists' }] },
    },
    {
      name: 'a runtime class with overhead and nodes of its own',
      given: { runtimeClassName: 'heavy', nodeSelector: { zone: 'a' } },
      expected: {
        ...ALWAYS,
        ...MOUNTED,
        runtimeClassName: 'heavy',
        nodeSelector: { zone: 'a', disk: 'ssd' },
        overhead: { cpu: '1' },
        tolerations: [...ALWAYS.tolerations, { key: 'heavy', operator: 'Exists' }],
      },
    },
  ];
  for (const { name, given, expected } of cases) {
    test(name, async () => {
      const given_ = pod(given);
      const before = structuredClone(given_);
      const admitted = await admissionOf(seeded()).mutate(attributes({ resource: 'pods', object: given_ }), context);
      assert.deepEqual(admitted?.['spec'], expected);
      assert.deepEqual(given_, before, 'what was given has been changed');
    });
  }

  test('mirror pods get nothing but what every pod gets', async () => {
    const mirror = pod({}, { annotations: { 'kubernetes.io/config.mirror': 'x' } });
    const admitted = await admissionOf(seeded()).mutate(attributes({ resource: 'pods', object: mirror }), context);
    const { priority, preemptionPolicy, tolerations } = ALWAYS;
    assert.deepEqual(admitted?.['spec'], { ...PLAIN, priority, preemptionPolicy, tolerations });
  });

  test('a default priority class', async () => {
    const storage = seeded();
    storage.create(resource('priorityclasses'), object('PriorityClass', 'usual', { value: 5, globalDefault: true }));
    storage.create(resource('priorityclasses'), object('PriorityClass', 'more', { value: 6, globalDefault: true }));
    const admitted = await admissionOf(storage).mutate(attributes({ resource: 'pods', object: pod({}) }), context);
    const spec = admitted?.['spec'] as Record<string, unknown>;
    assert.deepEqual([spec['priorityClassName'], spec['priority']], ['usual', 5]);
  });

  test('priority and preemption stay on an update that leaves them out', async () => {
    const given = attributes({
      resource: 'pods',
      operation: 'UPDATE',
      object: pod({}),
      oldObject: pod({ priority: 7, preemptionPolicy: 'Never' }),
    });
    const spec = (await admissionOf(seeded()).mutate(given, context))?.['spec'] as Record<string, unknown>;
    assert.deepEqual([spec['priority'], spec['preemptionPolicy']], [7, 'Never']);
  });
});
