/** Large reviews are reduced to the fields that decisions read: equal decisions, limits, legal pods of any size. */
import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import fc, { type Arbitrary } from 'fast-check';
import { createStore } from '../../src/cluster/store.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import { diff } from '../../src/kube/json-patch.ts';
import { isObject, type JsonObject, type Kind } from '../../src/kube/types.ts';
import { createPodSecurity, DEFAULT_CONFIGURATION } from '../../src/policy/psa/configuration.ts';
import { DEFAULT_FIELDS } from '../../src/policy/psa/defaults.ts';
import { decodePod } from '../../src/policy/pod/pod.ts';
import { estimateMemory, projectRequest, readLargeReview } from '../../src/server/large-review.ts';
import { createReviewReader, startWorker } from '../../src/server/review-reader.ts';
import type { Webhook } from '../../src/server/webhook.ts';
import { createWebhooks } from '../../src/server/webhooks/index.ts';
import { podsFrom, readSeeds } from '../fuzz/pods.ts';
import * as requests from '../fuzz/requests.ts';
import { world } from '../fuzz/world.ts';
import { createRecorder } from '../support/recorder.ts';
import { podReview } from '../support/reviews.ts';
import { putStandardSccs } from '../support/scc-webhooks.ts';

const RUNS = 300;

/** Creates all webhooks over a generated world. */
function createAll(): { readonly webhooks: readonly Webhook[]; readonly decide: Decide } {
  const [generated] = fc.sample(world, { seed: 3, numRuns: 1 });
  const store = createStore();
  putStandardSccs(store);
  const put = (kind: Kind, objects: readonly JsonObject[] = []): void => {
    for (const object of objects) store.put(kind, object);
  };
  put('Namespace', generated?.namespaces);
  put('SecurityContextConstraints', generated?.sccs);
  put('Pod', generated?.pods);
  store.markSynced();
  const podSecurity = createPodSecurity(DEFAULT_CONFIGURATION);
  const webhooks = createWebhooks({
    ...createRecorder('info'),
    podSecurity: () => podSecurity,
    workloadResources: () => [{ group: 'argoproj.io', version: '*', resource: 'rollouts' }],
    scc: () => ({
      mode: 'enforce',
      exemptNamespaces: [],
      compatibility: {},
      preferUserNamespaces: false,
      authorization: 'rbac',
    }),
    podDefaults: () => ({ mode: 'apply', fields: DEFAULT_FIELDS, namespaceSelector: {}, exemptNamespaces: [] }),
    olmHardening: () => 'fill',
    cluster: {
      get: () => Promise.reject(new Error('no pod')),
      reviewAccess: () => Promise.reject(new Error('no access')),
    },
    now: () => 0,
  });
  const decide: Decide = (webhook, request) => {
    const decision = webhook.decide(request, { store, now: () => 0, isRepeated: true });
    assert.ok(!(decision instanceof Promise) && 'allowed' in decision, webhook.path);
    const { object, ...rest } = { object: undefined, ...decision };
    return { ...rest, patch: object === undefined ? [] : diff(request.object, object) };
  };
  return { webhooks: webhooks.filter(({ path }) => path !== '/scc/exec'), decide };
}

type Decide = (webhook: Webhook, request: AdmissionRequest) => Decision & { readonly patch: readonly unknown[] };

/** Members that no decision reads, by the object that they are added to. */
const UNREAD: readonly ((object: JsonObject, value: string) => JsonObject)[] = [
  (object, value) => inSpec(object, { nodeSelector: { [value]: '' } }),
  (object, value) => inSpec(object, { tolerations: [{ key: value }], schedulingGates: [{ name: value }] }),
  (object, value) => ({ ...object, status: { message: value } }),
  (object, value) => inMetadata(object, { labels: { app: value } }),
  (object, value) => inMetadata(object, { annotations: { [value]: '' } }),
  (object, value) => inMetadata(object, { managedFields: [{ manager: value }], finalizers: [value] }),
  (object, value) => inSpec(object, { volumes: [{ name: 'v', configMap: { items: [{ key: value }] } }] }),
  (object, value) => inContainers(object, { env: [{ name: value }] }),
  (object, value) =>
    inContainers(object, { args: [value], volumeMounts: [{ name: value }], resources: { limits: {} } }),
];

function inMember(object: JsonObject, key: string, more: JsonObject): JsonObject {
  const member = object[key];
  return isObject(member) ? { ...object, [key]: { ...member, ...more } } : object;
}

function inMetadata(object: JsonObject, more: JsonObject): JsonObject {
  const { metadata } = object;
  const [key = '', value] = Object.entries(more)[0] ?? [];
  const before = isObject(metadata) ? metadata[key] : undefined;
  return inMember(object, 'metadata', isObject(value) && isObject(before) ? { [key]: { ...before, ...value } } : more);
}

function inSpec(object: JsonObject, more: JsonObject): JsonObject {
  return inMember(object, 'spec', more);
}

function inContainers(object: JsonObject, more: JsonObject): JsonObject {
  const { containers } = isObject(object['spec']) ? object['spec'] : {};
  if (!Array.isArray(containers)) return object;
  return inSpec(object, {
    containers: containers.map((container: unknown) => (isObject(container) ? { ...container, ...more } : container)),
  });
}

/** Adds unread members to the objects of requests: equal ones, or different ones in the old object. */
function grown(arbitrary: Arbitrary<JsonObject>): Arbitrary<JsonObject> {
  const changes = fc.array(fc.tuple(fc.nat({ max: UNREAD.length - 1 }), fc.constantFrom('a', 'a', 'b')), {
    maxLength: 4,
  });
  return fc.tuple(arbitrary, changes).map(([request, chosen]) => {
    const grow = (object: unknown, isOld: boolean): unknown =>
      !isObject(object)
        ? object
        : chosen.reduce((grows, [index, old]) => UNREAD[index]?.(grows, isOld ? old : 'a') ?? grows, object);
    return { ...request, object: grow(request['object'], false), oldObject: grow(request['oldObject'], true) };
  });
}

function hasType(object: unknown): boolean {
  return !isObject(object) || [object['apiVersion'], object['kind']].every((value) => typeof value !== 'object');
}

/** A custom resource with a pod template. */
function rollouts(workloads: Arbitrary<JsonObject>): Arbitrary<JsonObject> {
  const type = { group: 'argoproj.io', version: 'v1alpha1' };
  return workloads.map((request) => ({
    ...request,
    kind: { ...type, kind: 'Rollout' },
    resource: { ...type, resource: 'rollouts' },
    object: { ...(request['object'] as object), apiVersion: 'argoproj.io/v1alpha1', kind: 'Rollout' },
  }));
}

suite('a reduced request', () => {
  let seeds: readonly JsonObject[] = [];
  const { webhooks, decide } = createAll();
  before(async () => {
    seeds = await readSeeds();
  });

  const cases: readonly (readonly [name: string, () => Arbitrary<JsonObject>])[] = [
    ['a new pod', () => requests.creates(podsFrom(seeds))],
    ['a changed pod', () => requests.updates(podsFrom(seeds), () => undefined)],
    ['a workload', () => requests.workloads(podsFrom(seeds))],
    ['a custom resource', () => rollouts(requests.workloads(podsFrom(seeds)))],
    ['a namespace', () => requests.namespaces],
    ['an SCC', () => requests.sccObjects],
  ];
  for (const [name, arbitrary] of cases) {
    test(`of ${name} has the same decisions, patches, warnings and audit annotations`, () => {
      fc.assert(
        fc.property(grown(arbitrary()), (json) => {
          const request = json as unknown as AdmissionRequest;
          // API servers send valid old objects, and objects with their type.
          fc.pre(!isObject(request.oldObject) || decodePod(request.oldObject).error === undefined);
          fc.pre([request.object, request.oldObject].every(hasType));
          for (const webhook of webhooks) {
            const reduced = structuredClone(projectRequest(structuredClone(request), webhook.readsWholeObjects));
            assert.deepEqual(decide(webhook, reduced), decide(webhook, request), webhook.path);
          }
        }),
        { numRuns: RUNS, seed: 1 },
      );
    });
  }
});

suite('limits of a large review', () => {
  const read = (object: object, isWhole = false): JsonObject => {
    const review = podReview({});
    const request = { ...review.request, object };
    return readLargeReview(Buffer.from(JSON.stringify({ ...review, request })), isWhole);
  };
  const pod = (spec: object, metadata: object = {}): object => ({ apiVersion: 'v1', kind: 'Pod', metadata, spec });
  const keys = (count: number): JsonObject =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, '']));
  const object = (envelope: JsonObject): JsonObject => (envelope['request'] as { object: JsonObject }).object;

  test('members that no decision reads are dropped', () => {
    const container = { name: 'c', image: 'i', env: [{ name: 'e' }], args: ['a'], ports: [{ containerPort: 1 }] };
    const volumes = [
      { name: 'v', configMap: { items: [{ key: 'k' }] } },
      { name: 'x', newSource: { a: 1 } },
    ];
    const spec = { containers: [container], volumes, nodeSelector: keys(3) };
    const metadata = {
      annotations: { ...keys(20_000), 'openshift.io/scc': 's' },
      labels: keys(3),
      managedFields: [{}],
    };
    assert.deepEqual(
      object(read(pod(spec, metadata))),
      pod(
        {
          containers: [{ name: 'c', image: 'i', ports: [{}] }],
          volumes: [
            { name: 'v', configMap: {} },
            { name: 'x', newSource: { a: 1 } },
          ],
        },
        { annotations: { 'openshift.io/scc': 's' } },
      ),
    );
  });

  const lists: readonly (readonly [count: number, kept: number])[] = [
    [5000, 5000],
    [6000, 6000],
    [900_000, 20_001],
  ];
  for (const [count, kept] of lists) {
    test(`${count} containers become ${kept} items`, () => {
      const { containers } = object(read(pod({ containers: Array(count).fill({}) })))['spec'] as JsonObject;
      assert.ok(Array.isArray(containers));
      assert.equal(containers.length, kept);
      const { error } = decodePod(pod({ containers }));
      const expected = `spec.containers: Too many: ${kept}: must have at most ${count < 20_000 ? 5000 : 20_000} items`;
      assert.equal(error?.message, count === 5000 ? undefined : expected);
    });
  }

  const rejected: readonly (readonly [name: string, object: object, isWhole: boolean, error: string])[] = [
    [
      '2 million objects',
      pod({ a: Array(2_000_000).fill({}) }),
      false,
      'the review would take more than 96 MiB of memory',
    ],
    [
      'many whole members',
      pod({ nodeSelector: keys(300_000) }),
      true,
      'the review has more than 250000 values that are read',
    ],
  ];
  for (const [name, given, isWhole, error] of rejected) {
    test(`${name}: rejected`, () => assert.deepEqual(read(given, isWhole), { error, status: 413 }));
  }

  test('the memory of a text is estimated with its structure', () => {
    assert.equal(estimateMemory(Buffer.from('{"a":[1,"b{,"]}')), 64 + 1 + 160 + 32 + 32 + 3 + 15);
    assert.equal(estimateMemory(Buffer.from('["é"]')), 2 * (32 + 2 + 6));
  });
});

suite('the worker of large reviews', () => {
  test('starts again after a failure', async () => {
    const failing = (): Worker => new Worker('throw new Error("failed")', { eval: true });
    const starts = [failing, startWorker, startWorker];
    const reader = createReviewReader(() => starts.shift()?.() ?? failing());
    const body = Buffer.from(JSON.stringify(podReview({ uid: 'u' })));
    await assert.rejects(reader.read(Buffer.from(body), false), { message: 'failed' });
    const { envelope, body: returned } = await reader.read(Buffer.from(body), false);
    assert.equal('request' in envelope && envelope.request.uid, 'u');
    assert.deepEqual(returned, body);
    const closing = reader.close();
    const again = await reader.read(Buffer.from(body), false);
    assert.deepEqual(again.body, body, 'a review during the end of the worker');
    await closing;
    const unanswered = reader.read(Buffer.from(body), false);
    const rejected = assert.rejects(unanswered, { message: 'the worker ended' });
    await reader.close();
    await rejected;
  });
});
