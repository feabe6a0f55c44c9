import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createStore } from '../../src/cluster/store.ts';
import type { Kind, Kinds } from '../../src/kube/kinds.ts';
import { finishSteps } from '../../src/kube/steps.ts';
import { listPodCreators, listPodSources } from '../../src/views/workloads.ts';

const APPS = 'apps/v1';

function object(name: string, owner?: Readonly<Record<string, unknown>>, namespace = 'shop'): Kinds[Kind] {
  return { metadata: { name, namespace, ...(owner ? { ownerReferences: [owner] } : {}) } } as unknown as Kinds[Kind];
}

function ownedBy(apiVersion: string, kind: string, name: string, controller = true): Readonly<Record<string, unknown>> {
  return { apiVersion, kind, name, controller };
}

test('listWorkloads omits pods of listed workloads, and includes pods with other owners', () => {
  const objects: readonly (readonly [Kind, Kinds[Kind]])[] = [
    ['Pod', object('web-1-a', ownedBy(APPS, 'ReplicaSet', 'web-1'))],
    ['ReplicaSet', object('web-1', ownedBy(APPS, 'Deployment', 'web'))],
    ['Deployment', object('web')],
    ['Deployment', object('api')],
    ['Deployment', object('elsewhere', undefined, 'other')],
    ['Job', object('report-1', ownedBy('batch/v1', 'CronJob', 'report'))],
    ['CronJob', object('report')],
    ['PodTemplate', object('template')],
    // The owners are custom resources, deleted objects, objects of another API group, and owners that are not the
    // controller.
    ['ReplicaSet', object('canary', ownedBy('argoproj.io/v1alpha1', 'Rollout', 'canary'))],
    ['Pod', object('task', ownedBy('tekton.dev/v1', 'TaskRun', 'task'))],
    ['Pod', object('kube-proxy', ownedBy('v1', 'Node', 'n1'))],
    ['Pod', object('orphan', ownedBy(APPS, 'ReplicaSet', 'gone'))],
    ['Pod', object('foreign', ownedBy('example.com/v1', 'Deployment', 'web'))],
    ['Pod', object('helped', ownedBy(APPS, 'Deployment', 'web', false))],
    ['Pod', { metadata: { name: 'odd', namespace: 'shop', ownerReferences: 'web' } } as unknown as Kinds['Pod']],
  ];
  const store = createStore();
  for (const [kind, one] of objects) store.put(kind, one);
  assert.deepEqual(
    finishSteps(listPodSources(store, 'shop')).map((source) => `${source.kind} ${source.object.metadata?.name ?? ''}`),
    [
      'CronJob report',
      'Deployment api',
      'Deployment web',
      'Pod foreign',
      'Pod helped',
      'Pod kube-proxy',
      'Pod odd',
      'Pod orphan',
      'Pod task',
      'ReplicaSet canary',
    ],
  );
});

test('listWorkloads omits ReplicaSets and pods of a listed custom resource, and includes its other objects', () => {
  const owner = ownedBy('argoproj.io/v1alpha1', 'Rollout', 'web');
  const store = createStore();
  const objects: readonly (readonly [Kind, Kinds[Kind]])[] = [
    ['ReplicaSet', object('web-1', owner)],
    ['Pod', object('web-2', owner)],
    ['StatefulSet', object('web-3', owner)],
    ['ReplicaSet', object('api-1', ownedBy('argoproj.io/v1alpha1', 'Rollout', 'api'))],
  ];
  for (const [kind, one] of objects) store.put(kind, one);
  const rollout = { apiVersion: 'argoproj.io/v1beta1', metadata: { name: 'web', namespace: 'shop' } };
  const custom = [{ kind: 'Rollout', object: rollout, template: ['spec', 'template'] }];
  assert.deepEqual(
    finishSteps(listPodCreators(store, 'shop', custom)).map(
      (source) => `${source.kind} ${source.object.metadata?.name ?? ''}`,
    ),
    ['ReplicaSet api-1', 'StatefulSet web-3', 'Rollout web'],
  );
});
