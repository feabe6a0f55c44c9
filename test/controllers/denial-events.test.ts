/**
 * Tests that denied pod creations are recorded as events on the workloads. test/cli/serve-scc.test.ts sends such
 * reviews to a server.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { ClusterEvent } from '../../src/cluster/cluster.ts';
import { createStore } from '../../src/cluster/store.ts';
import { createDenialEvents } from '../../src/controllers/denial-events.ts';
import { type AdmissionRequest, deny } from '../../src/kube/admission.ts';
import { forbidden } from '../../src/kube/status.ts';
import { startAdmissionServer } from '../support/admission-server.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { post } from '../support/https.ts';
import { createRecorder } from '../support/recorder.ts';
import { podReview } from '../support/reviews.ts';

const CONTROLLER = 'system:serviceaccount:kube-system:replicaset-controller';
const CAUSE = 'violates PodSecurity "baseline:v1.30": host namespaces (hostNetwork=true)';
const DENIAL = deny(forbidden({ group: '', resource: 'pods' }, 'web-5d4f-abcde', CAUSE));
const owner = (apiVersion: string, kind: string, name: string) => ({
  apiVersion,
  kind,
  name,
  uid: 'u1',
  controller: true,
});
const REPLICA_SET = owner('apps/v1', 'ReplicaSet', 'web-5d4f');

const request = (owners: unknown, change: Partial<AdmissionRequest> = {}, username = CONTROLLER): AdmissionRequest => ({
  ...podReview({}).request,
  object: { metadata: { generateName: 'web-5d4f-', ownerReferences: owners } },
  userInfo: { username },
  ...change,
});

function createRig() {
  const store = createStore();
  const clock = createFakeClock();
  store.put('Deployment', { metadata: { name: 'web', namespace: 'shop', uid: 'deployment' } });
  store.put('StatefulSet', { metadata: { name: 'db', namespace: 'shop', uid: 'statefulset' } });
  const events: ClusterEvent[] = [];
  const recordEvent = (event: ClusterEvent): Promise<void> => {
    events.push(event);
    return Promise.reject(new Error('the API server is away'));
  };
  return { clock, events, record: createDenialEvents({ cluster: { store, recordEvent }, clock, ...createRecorder() }) };
}

interface Case {
  readonly name: string;
  readonly request: AdmissionRequest;
  /** The workload that the event is about, or `undefined` if no event is recorded. */
  readonly expected: string | undefined;
}

const CASES: readonly Case[] = [
  {
    name: 'a pod of a ReplicaSet that belongs to a Deployment',
    request: request([REPLICA_SET]),
    expected: 'apps/v1 Deployment web deployment',
  },
  {
    name: 'a pod of a ReplicaSet without a Deployment',
    request: request([owner('apps/v1', 'ReplicaSet', 'api-1')]),
    expected: 'apps/v1 ReplicaSet api-1 u1',
  },
  {
    name: 'a pod of a StatefulSet, created by a controller manager with a single identity',
    request: request([owner('apps/v1', 'StatefulSet', 'db')], {}, 'system:kube-controller-manager'),
    expected: 'apps/v1 StatefulSet db statefulset',
  },
  {
    name: 'a pod of a StatefulSet in another API group',
    request: request([owner('apps.kruise.io/v1', 'StatefulSet', 'db')]),
    expected: 'apps.kruise.io/v1 StatefulSet db u1',
  },
  { name: 'a pod that a user creates', request: request([REPLICA_SET], {}, 'alice'), expected: undefined },
  { name: 'a dry run', request: request([REPLICA_SET], { dryRun: true }), expected: undefined },
  { name: 'an update', request: request([REPLICA_SET], { operation: 'UPDATE' }), expected: undefined },
  {
    name: 'a pod without a controller',
    request: request([{ ...REPLICA_SET, controller: false }]),
    expected: undefined,
  },
  { name: 'ownerReferences that are not a list', request: request('x'), expected: undefined },
  { name: 'an owner with the wrong type', request: request([null, { ...REPLICA_SET, name: 1 }]), expected: undefined },
  { name: 'an owner whose name is a command', request: request([owner('v1', 'Web', '$(id)')]), expected: undefined },
  { name: 'an owner whose kind is a command', request: request([owner('v1', 'a;id', 'web')]), expected: undefined },
  {
    name: 'an owner whose UID is too long',
    request: request([{ ...REPLICA_SET, uid: 'u'.repeat(318) }]),
    expected: undefined,
  },
  {
    name: 'an owner whose API version is too long',
    request: request([owner(`${'g'.repeat(318)}/v1`, 'ReplicaSet', 'web-5d4f')]),
    expected: undefined,
  },
  {
    name: 'an owner in a namespace whose name does not fit into a note',
    request: request([REPLICA_SET], { namespace: 'n'.repeat(2000) }),
    expected: undefined,
  },
  { name: 'a review without an object', request: request([], { object: null }), expected: undefined },
];

suite('the controller of a denied pod gets an event:', () => {
  for (const { name, request, expected } of CASES) {
    test(`${name}: ${expected === undefined ? 'no event' : 'an event about the owner'}`, () => {
      const { record, events } = createRig();
      record(request, DENIAL);
      const shown = events.map(({ regarding: { apiVersion, kind, metadata } }) =>
        [apiVersion, kind, metadata?.name, metadata?.uid].join(' '),
      );
      assert.deepEqual(shown, expected === undefined ? [] : [expected]);
    });
  }
});

test('the note of the event contains the cause and a command', () => {
  const { record, events } = createRig();
  record(request([REPLICA_SET]), DENIAL);
  record(request([REPLICA_SET]), deny(forbidden({ group: '', resource: 'pods' }, 'x', 'no SCC ü '.repeat(300))));
  const [first, second] = events;
  assert.deepEqual(first, {
    regarding: {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'web', namespace: 'shop', uid: 'deployment' },
    },
    type: 'Warning',
    reason: 'PodSecurityViolation',
    action: 'CreatePod',
    note: `${CAUSE}. To fix: kubectl get deployment/web -n shop -o yaml | portcullis check --level=baseline --kubernetes-version=v1.30 --fix=diff -f -`,
    reportingController: 'portcullis',
  });
  assert.equal(second?.reason, 'SCCViolation');
  assert.equal(Buffer.byteLength(second.note), 1024);
  assert.match(second.note, /^no SCC .*…\. To fix: portcullis explain deployment\/web -n shop$/);
});

test('a replica records a burst of at most 50 events, then 5 per second', () => {
  const { record, events, clock } = createRig();
  for (let count = 0; count < 200; count++) record(request([REPLICA_SET]), DENIAL);
  assert.equal(events.length, 50);
  clock.advance(2_000);
  for (let count = 0; count < 200; count++) record(request([REPLICA_SET]), DENIAL);
  assert.equal(events.length, 60);
});

test('a denied review without a user is reviewed without an error', async () => {
  const { record, events } = createRig();
  const server = await startAdmissionServer([{ path: '/deny', decide: () => DENIAL }], {
    onDenied: record,
  });
  try {
    const body = JSON.stringify({ request: { ...request([REPLICA_SET]), userInfo: undefined } });
    const response = await post(server, '/deny', body, 'application/json');
    assert.equal(response.status, 200);
    assert.deepEqual(
      server.log.map(({ msg, decision, err }) => [msg, decision, err]),
      [['reviewed', 'deny', undefined]],
    );
    assert.deepEqual(events, []);
  } finally {
    await server.stop();
  }
});
