import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createPlugins } from '../../../src/dev-cluster/admission/index.ts';
import { createStorage, type Storage } from '../../../src/dev-cluster/storage.ts';
import type { ApiObject } from '../../../src/dev-cluster/types.ts';
import type { Status } from '../../../src/kube/status.ts';
import { attributes, object, resource } from './support.ts';

type Given = Parameters<typeof attributes>[0];

/** Creates a cluster that has namespaces `a` and `leaving`, a priority class, and service accounts in `a`. */
function seededStorage(): Storage {
  const storage = createStorage();
  const put = (name: string, stored: ApiObject): unknown => storage.create(resource(name), stored);
  put('namespaces', object('Namespace', 'a', { status: { phase: 'Active' } }));
  put('namespaces', object('Namespace', 'leaving', { status: { phase: 'Terminating' } }));
  put('serviceaccounts', object('ServiceAccount', 'default', {}, 'a'));
  put('serviceaccounts', object('ServiceAccount', 'puller', { imagePullSecrets: [{ name: 's' }] }, 'a'));
  put('serviceaccounts', object('ServiceAccount', 'quiet', { automountServiceAccountToken: false }, 'a'));
  put('priorityclasses', object('PriorityClass', 'high', { value: 1000, preemptionPolicy: 'Never' }));
  return storage;
}

/** Runs the plugins, which change the object in place. */
async function admit(given: Given): Promise<Status | undefined> {
  const plugins = createPlugins(seededStorage(), () => 'abcde');
  for (const plugin of plugins) {
    const status = await plugin.admit?.(attributes(given));
    if (status) return status;
  }
  return undefined;
}

function pod(spec: object, metadata: object = {}): ApiObject {
  const containers = [{ name: 'c', image: 'i' }];
  const whole = { name: 'p', namespace: 'a', ...metadata };
  return { apiVersion: 'v1', kind: 'Pod', metadata: whole, spec: { containers, ...spec } };
}

describe('admission plugins deny', () => {
  const cases: readonly (readonly [name: string, given: Given, code: number, message: string])[] = [
    [
      'the deletion of a protected namespace',
      { resource: 'namespaces', operation: 'DELETE', name: 'kube-system', namespace: 'kube-system' },
      403,
      'namespaces "kube-system" is forbidden: this namespace may not be deleted',
    ],
    [
      'a pod with a missing priority class',
      { resource: 'pods', object: pod({ priorityClassName: 'low' }) },
      403,
      'pods "p" is forbidden: no PriorityClass with name low was found',
    ],
  ];
  for (const [name, given, code, message] of cases) {
    test(name, async () => {
      const status = await admit(given);
      assert.deepEqual([status?.code, status?.message], [code, message]);
    });
  }
});

describe('admission plugins allow', () => {
  const cases: readonly (readonly [name: string, given: Given])[] = [
    ['a deletion in a namespace that does not exist', { resource: 'configmaps', operation: 'DELETE', namespace: 'b' }],
    [
      'an update in a terminating namespace',
      { resource: 'configmaps', operation: 'UPDATE', namespace: 'leaving', object: object('ConfigMap', 'c') },
    ],
    [
      'the deletion of an unprotected namespace',
      { resource: 'namespaces', operation: 'DELETE', name: 'a', namespace: 'a' },
    ],
  ];
  for (const [name, given] of cases) test(name, async () => assert.equal(await admit(given), undefined));
});

describe('admission plugins default a pod', () => {
  const sources = [
    { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
    { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
    {
      downwardAPI: { items: [{ path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }] },
    },
  ];
  const TOKEN = { name: 'kube-api-access-abcde', projected: { sources, defaultMode: 420 } };
  const MOUNT = { name: TOKEN.name, readOnly: true, mountPath: '/var/run/secrets/kubernetes.io/serviceaccount' };
  const tolerations = ['not-ready', 'unreachable'].map((taint) => {
    return { key: `node.kubernetes.io/${taint}`, operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 };
  });
  const ALWAYS = { priority: 0, preemptionPolicy: 'PreemptLowerPriority', tolerations };
  const account = (name: string) => ({ serviceAccountName: name, serviceAccount: name });
  const MOUNTED = { containers: [{ name: 'c', image: 'i', volumeMounts: [MOUNT] }], volumes: [TOKEN] };
  const PLAIN = { containers: [{ name: 'c', image: 'i' }] };
  const occupied = {
    containers: [{ name: 'c', image: 'i', volumeMounts: [{ name: 'v', mountPath: MOUNT.mountPath }] }],
    volumes: [{ name: 'v', emptyDir: {} }],
  };

  const cases: readonly (readonly [name: string, spec: object, expected: object])[] = [
    ['that names no service account', {}, { ...account('default'), ...MOUNTED }],
    ['whose service account disables the token', { serviceAccountName: 'quiet' }, { ...account('quiet'), ...PLAIN }],
    [
      'whose service account has pull secrets',
      { serviceAccountName: 'puller' },
      { ...account('puller'), ...MOUNTED, imagePullSecrets: [{ name: 's' }] },
    ],
    ['with a volume of its own at the path of the token', occupied, { ...account('default'), ...occupied }],
    [
      'with a priority class',
      { priorityClassName: 'high' },
      { ...account('default'), ...MOUNTED, priority: 1000, preemptionPolicy: 'Never' },
    ],
    [
      'with a toleration for all taints',
      { tolerations: [{ operator: 'Exists' }] },
      { ...account('default'), ...MOUNTED, tolerations: [{ operator: 'Exists' }] },
    ],
  ];
  for (const [name, spec, expected] of cases) {
    test(name, async () => {
      const given = pod(spec);
      assert.equal(await admit({ resource: 'pods', object: given }), undefined);
      assert.deepEqual(given['spec'], { ...spec, ...ALWAYS, ...expected });
    });
  }

  test('but add no service account to a mirror pod', async () => {
    const mirror = pod({}, { annotations: { 'kubernetes.io/config.mirror': 'x' } });
    assert.equal(await admit({ resource: 'pods', object: mirror }), undefined);
    assert.deepEqual(mirror['spec'], { ...PLAIN, ...ALWAYS });
  });
});
