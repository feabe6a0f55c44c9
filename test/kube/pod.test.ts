import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { submittedPod, getControllerPod, isMirrorPod, nodeUser } from '../../src/kube/controller-pod.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import { getPodTemplate, podTemplatePath } from '../../src/kube/pod.ts';
import type { JsonObject, KubeObject, Pod, ServiceAccount } from '../../src/kube/types.ts';

describe('getPodTemplate returns the template of', () => {
  const cases: readonly { group: string; kind: string; object: unknown; expected: unknown }[] = [
    { group: '', kind: 'PodTemplate', object: { template: { spec: {} } }, expected: { spec: {} } },
    { group: 'apps', kind: 'Deployment', object: { spec: { template: { spec: {} } } }, expected: { spec: {} } },
    {
      group: 'batch',
      kind: 'CronJob',
      object: { spec: { jobTemplate: { spec: { template: { spec: {} } } } } },
      expected: { spec: {} },
    },
    { group: 'apps', kind: 'Deployment', object: { spec: null }, expected: undefined },
    { group: 'apps', kind: 'Deployment', object: 'text', expected: undefined },
    { group: 'apps', kind: 'Deployment', object: { spec: { template: [] } }, expected: undefined },
  ];
  for (const { group, kind, object, expected } of cases) {
    test(`${kind} ${JSON.stringify(object)}`, () => {
      assert.deepEqual(getPodTemplate(object, podTemplatePath(group, kind) ?? []), expected);
    });
  }

  test('kinds without a template have no template path', () => {
    assert.deepEqual(
      [podTemplatePath('', 'Pod'), podTemplatePath('apps', 'constructor'), podTemplatePath('__proto__', 'Job')],
      [undefined, undefined, undefined],
    );
  });
});

const template = { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'a', image: 'x' }] } };

function workload(spec: unknown): KubeObject {
  return { metadata: { name: 'web', namespace: 'shop' }, spec } as KubeObject;
}

describe('getControllerPod returns undefined for', () => {
  const cases: readonly (readonly [name: string, kind: Kind, object: unknown])[] = [
    ['a PodTemplate', 'PodTemplate', { template }],
    ['a pod', 'Pod', { metadata: { name: 'p' }, spec: template.spec }],
    ['a kind without a template', 'Namespace', { metadata: { name: 'n' } }],
    ['a missing template', 'ReplicationController', workload({ replicas: 1 })],
    ['a spec that is not an object', 'Deployment', workload('many')],
    ['a template that is null', 'Deployment', workload({ template: null })],
    ['an object without a spec', 'CronJob', { metadata: { name: 'c' } }],
  ];
  for (const [name, kind, object] of cases) {
    test(name, () => assert.equal(getControllerPod({ object: object as KubeObject, kind }), undefined));
  }
});

describe('the pod of a workload has the user of its controller as the requester:', () => {
  const cases: readonly (readonly [kind: Kind, spec: unknown, controller: string])[] = [
    ['Deployment', { template }, 'replicaset-controller'],
    ['ReplicaSet', { template }, 'replicaset-controller'],
    ['ReplicationController', { template }, 'replication-controller'],
    ['StatefulSet', { template }, 'statefulset-controller'],
    ['DaemonSet', { template }, 'daemon-set-controller'],
    ['Job', { template }, 'job-controller'],
    ['CronJob', { jobTemplate: { spec: { template } } }, 'job-controller'],
  ];
  for (const [kind, spec, controller] of cases) {
    test(kind, () => {
      const made = getControllerPod({ object: workload(spec), kind });
      assert.deepEqual(made?.requester, {
        username: `system:serviceaccount:kube-system:${controller}`,
        groups: ['system:serviceaccounts', 'system:serviceaccounts:kube-system', 'system:authenticated'],
      });
      assert.deepEqual(made.pod.metadata, { labels: { app: 'web' }, generateName: 'web-', namespace: 'shop' });
      assert.equal(made.pod.spec?.serviceAccountName, 'default');
      assert.equal(made.pod.kind, 'Pod');
    });
  }

  test('nodeUser returns the username and the groups of a node', () => {
    assert.deepEqual(nodeUser('n1'), { username: 'system:node:n1', groups: ['system:nodes', 'system:authenticated'] });
  });
});

test('defaulting does not change the template', () => {
  const deployment = workload({ template });
  const before = structuredClone(deployment);
  getControllerPod({ object: deployment, kind: 'Deployment' });
  assert.deepEqual(deployment, before);
});

describe('pod defaulting', () => {
  interface Spec extends JsonObject {
    readonly volumes?: readonly { readonly name: string; readonly projected?: unknown }[];
    readonly containers: readonly { readonly ports?: unknown; readonly volumeMounts?: unknown }[];
  }
  const getSpec = (spec: unknown, accounts: Readonly<Record<string, unknown>> = {}, metadata: unknown = {}): Spec => {
    const find = (name: string): ServiceAccount | undefined => accounts[name] as ServiceAccount | undefined;
    return submittedPod({ metadata, spec } as Pod, find).spec as unknown as Spec;
  };
  const containers = [{ name: 'a' }];

  test('sets both serviceAccountName and serviceAccount', () => {
    const { serviceAccount, serviceAccountName } = getSpec({ containers, serviceAccountName: 'db' });
    assert.deepEqual([serviceAccount, serviceAccountName], ['db', 'db']);
    assert.equal(getSpec({ containers, serviceAccount: 'old' })['serviceAccountName'], 'old');
    assert.equal(getSpec({ containers })['serviceAccountName'], 'default');
  });

  test('adds the token volume, unless the pod or its service account disables it', () => {
    const getVolumes = (spec: Spec) => spec.volumes?.map(({ name }) => name);
    const unwilling = { default: { automountServiceAccountToken: false } };
    assert.deepEqual(getVolumes(getSpec({ containers })), ['kube-api-access-xxxxx']);
    assert.deepEqual(getVolumes(getSpec({ containers, volumes: [{ name: 'v' }] })), ['v', 'kube-api-access-xxxxx']);
    assert.equal(getVolumes(getSpec({ containers }, unwilling)), undefined);
    assert.equal(getVolumes(getSpec({ containers, automountServiceAccountToken: false })), undefined);
    assert.deepEqual(getVolumes(getSpec({ containers, automountServiceAccountToken: true }, unwilling)), [
      'kube-api-access-xxxxx',
    ]);
  });

  test('changes nothing when it runs again', () => {
    const once = submittedPod({ metadata: { name: 'p' }, spec: { containers } });
    assert.deepEqual(submittedPod(once), once);
  });

  test('sets host ports to the container ports if the pod uses the host network', () => {
    const spec = getSpec({ hostNetwork: true, containers: [{ name: 'a', ports: [{ containerPort: 80 }] }] });
    assert.deepEqual(spec.containers[0]?.ports, [{ containerPort: 80, protocol: 'TCP', hostPort: 80 }]);
  });

  test('adds neither a service account nor a token to a mirror pod', () => {
    const metadata = { annotations: { 'kubernetes.io/config.mirror': 'x' } };
    const spec = getSpec({ containers }, {}, metadata);
    assert.deepEqual([spec['serviceAccountName'], spec.volumes], [undefined, undefined]);
    assert.equal(isMirrorPod({ metadata }), true);
    assert.equal(isMirrorPod({ metadata: { annotations: {} } }), false);
  });

  test('does not change a serviceAccountName of the wrong type', () => {
    assert.equal(getSpec({ containers, serviceAccountName: 5 })['serviceAccountName'], 5);
    assert.deepEqual(submittedPod({ spec: 'x' } as unknown as Pod), { spec: 'x', apiVersion: 'v1', kind: 'Pod' });
  });
});

test('volume claims of a StatefulSet replace volumes with the same name', () => {
  const spec = {
    template: {
      spec: {
        automountServiceAccountToken: false,
        containers: [{ name: 'a' }],
        volumes: [{ name: 'data', emptyDir: {} }, { name: 'conf', configMap: { name: 'c' } }, 'odd'],
      },
    },
    volumeClaimTemplates: [{ metadata: { name: 'data' } }, { metadata: {} }, 'odd'],
  };
  const volumes = getControllerPod({ object: workload(spec), kind: 'StatefulSet' })?.pod.spec?.volumes;
  assert.deepEqual(volumes, [
    { name: 'data', persistentVolumeClaim: { claimName: 'data' } },
    { name: 'conf', configMap: { name: 'c', defaultMode: 420 } },
    'odd',
  ]);
  const others = getControllerPod({ object: workload(spec), kind: 'ReplicaSet' })?.pod.spec?.volumes?.map(
    (volume) => volume.name,
  );
  assert.deepEqual(others, ['data', 'conf', undefined]);
});
