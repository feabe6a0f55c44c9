/**
 * Tests that decisions do not change if large reviews are reduced to the fields that decisions read. Also tests the
 * limits, and valid pods of any size.
 */
import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import fc, { type Arbitrary } from 'fast-check';
import { parseJson, TooLargeError } from '../../src/cluster/json.ts';
import { createParser, startParseWorker } from '../../src/cluster/parser.ts';
import { reduceReview } from '../../src/cluster/reviews.ts';
import { createStore } from '../../src/cluster/store.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import { semanticEqual } from '../../src/kube/equality.ts';
import { diff } from '../../src/kube/json-patch.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { decodePod } from '../../src/policy/pod/index.ts';
import type { Webhook } from '../../src/server/webhook.ts';
import { podsFrom, readSeeds } from '../fuzz/pods.ts';
import * as requests from '../fuzz/requests.ts';
import { world } from '../fuzz/world.ts';
import { podReview } from '../support/reviews.ts';
import { ALL_WEBHOOKS, createTestWebhooks } from '../support/scc-webhooks.ts';

const RUNS = 300;

/** Creates all webhooks over a generated world. */
function createAll(): { readonly webhooks: readonly Webhook[]; readonly decide: Decide } {
  const [generated] = fc.sample(world, { seed: 3, numRuns: 1 });
  const store = createStore();
  const put = (kind: Kind, objects: readonly JsonObject[] = []): void => {
    for (const object of objects) store.put(kind, object);
  };
  put('Namespace', generated?.namespaces);
  put('SecurityContextConstraints', generated?.sccs);
  put('Pod', generated?.pods);
  store.markSynced();
  const workloadResources = [{ group: 'argoproj.io', version: '*', resource: 'rollouts' }];
  const now = (): number => 0;
  const webhooks = createTestWebhooks(store, { ...ALL_WEBHOOKS, workloadResources, now });
  const decide: Decide = async (webhook, request) => {
    const decision = await webhook.decide(request, { store, now: () => 0, deadlineMs: 0 });
    const { object, ...rest } = { object: undefined, ...decision };
    return { ...rest, patch: object === undefined ? [] : diff(request.object, object) };
  };
  return { webhooks: webhooks.filter(({ path }) => !['/connect/pods', '/validate/objects'].includes(path)), decide };
}

type Decide = (
  webhook: Webhook,
  request: AdmissionRequest,
) => Promise<Decision & { readonly patch: readonly unknown[] }>;

/** Members that no decision reads, by the object to which they are added. */
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

/** Adds unread members to the objects of requests. The members of the old object may differ. */
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

/** Returns a custom resource with a pod template. */
function rollouts(workloads: Arbitrary<JsonObject>): Arbitrary<JsonObject> {
  const type = { group: 'argoproj.io', version: 'v1alpha1' };
  return workloads.map((request) => ({
    ...request,
    kind: { ...type, kind: 'Rollout' },
    resource: { ...type, resource: 'rollouts' },
    object: { ...(request['object'] as object), apiVersion: 'argoproj.io/v1alpha1', kind: 'Rollout' },
  }));
}

/** Returns the reduced review, or the error. */
function reduce(json: string | Buffer, isWhole = false): JsonObject {
  try {
    return JSON.parse(reduceReview(() => parseJson(Buffer.from(json)), isWhole).text.toString()) as JsonObject;
  } catch (error) {
    assert.ok(error instanceof SyntaxError || error instanceof TooLargeError, String(error));
    return { error: error.message, isLimit: error instanceof TooLargeError };
  }
}

suite('a reduced large review', () => {
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
    test(`of ${name} has the same decision, patch, warnings and audit annotations as the complete review`, async () => {
      await fc.assert(
        fc.asyncProperty(grown(arbitrary()), async (json) => {
          const request = json as unknown as AdmissionRequest;
          // API servers send valid old objects, and include the type in objects.
          fc.pre(!isObject(request.oldObject) || decodePod(request.oldObject).error === undefined);
          fc.pre([request.object, request.oldObject].every(hasType));
          for (const webhook of webhooks) {
            const reduced = reduce(JSON.stringify({ request }), webhook.readsWholeObjects === true)['request'];
            const whole = structuredClone(request);
            const decisions = [
              await decide(webhook, reduced as AdmissionRequest),
              await decide(webhook, whole),
            ] as const;
            assert.deepEqual(...decisions, webhook.path);
          }
        }),
        { numRuns: RUNS, seed: 1 },
      );
    });
  }
});

const RELEVANT = 'the fields that decisions read exceed a limit';

suite('reading a large review:', () => {
  const read = (object: object, isWhole = false): JsonObject => {
    const review = podReview({});
    const request = { ...review.request, object };
    const text = JSON.stringify({ ...review, request });
    return reduce(
      text.replaceAll(/"(\d+) levels"/g, (_, levels) => '['.repeat(Number(levels)) + ']'.repeat(Number(levels))),
      isWhole,
    );
  };
  const pod = (spec: object, metadata: object = {}): object => ({ apiVersion: 'v1', kind: 'Pod', metadata, spec });
  const keys = (count: number): JsonObject =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, '']));
  const object = (envelope: JsonObject): JsonObject => (envelope['request'] as { object: JsonObject }).object;

  test('members that decisions do not read are dropped', () => {
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

  test('lists above the limit of a decoder are kept complete, so the decoder reports the limit', () => {
    const { containers } = object(read(pod({ containers: Array(6000).fill({}) })))['spec'] as JsonObject;
    assert.equal(
      decodePod(pod({ containers })).error?.message,
      'spec.containers: Too many: 6000: must have at most 5000 items',
    );
  });

  test('fields that decisions do not read may have as many levels as in API servers', () => {
    const managedFields = [{ manager: 'm', fieldsV1: '9900 levels' }];
    const before = pod({ containers: [] });
    assert.deepEqual(object(read(pod({ containers: [], nodeSelector: '9990 levels' }, { managedFields }))), before);
  });

  const rejected: readonly (readonly [name: string, object: object, isWhole: boolean, error: string])[] = [
    [
      'many members that are kept completely',
      pod({ nodeSelector: keys(300_000) }),
      true,
      `${RELEVANT}: more than 250000 values`,
    ],
    [
      'many members in an object of another kind',
      { apiVersion: 'argoproj.io/v1alpha1', kind: 'Rollout', spec: keys(300_000) },
      false,
      `${RELEVANT}: more than 250000 values`,
    ],
    ['many containers', pod({ containers: Array(300_000).fill({}) }), false, `${RELEVANT}: more than 250000 values`],
    [
      'a long image',
      pod({ containers: [{ image: 'x'.repeat(9 << 20) }] }),
      false,
      `${RELEVANT}: more than 8388608 bytes`,
    ],
    [
      'deep nesting in a field that decisions read',
      pod({ securityContext: '100 levels' }),
      false,
      `${RELEVANT}: nested more than 100 levels deep`,
    ],
    [
      'deep nesting in a custom resource',
      { apiVersion: 'argoproj.io/v1alpha1', kind: 'Rollout', spec: '9990 levels' },
      false,
      `${RELEVANT}: too many nested levels`,
    ],
    [
      'deeper nesting than API servers accept',
      pod({ nodeSelector: '10000 levels' }),
      false,
      'the review exceeds a limit: nested more than 10000 levels deep',
    ],
    [
      'many values in a field that decisions do not read',
      pod({ nodeSelector: Array(1_600_000).fill(0) }),
      false,
      'the review exceeds a limit: more than 1500000 values',
    ],
  ];
  for (const [name, input, isWhole, error] of rejected) {
    test(`a review with ${name} is rejected`, () => assert.deepEqual(read(input, isWhole), { error, isLimit: true }));
  }
});

suite('the text of a large review', () => {
  const wrap = (value: string): string => `{"request":{"object":{"spec":{"nodeSelector":${value}}}}}`;
  const values = fc.oneof(
    fc.json({ maxDepth: 5 }),
    fc
      .json({ maxDepth: 3 })
      .chain((json) =>
        fc
          .tuple(
            fc.nat(json.length),
            fc.nat(2),
            fc.constantFrom('', ...Array.from('{}[]",:\\-+.eE0a\u0000\n\ufeff\u007f ')),
          )
          .map(([at, removed, added]) => json.slice(0, at) + added + json.slice(at + removed)),
      ),
    fc.constantFrom(
      ...['01', '-', '-0', '1.', '.5', '1e', '1e+', '1E-5', '+1', 'nul', 'nullx', 'true1', 'NaN', 'Infinity', ''],
      ...['"', '"\\x"', '"\\u12g4"', '"\\u123"', '"\\ud800"', '"\t"', '"\\', "'a'", '[1,]', '{"a":1,}', '{a:1}'],
      ...['{"a"}', '{"a":}', '[,]', '{,}', '[1 2]', '{"a":1 "b":2}', '/**/1', '1//', '\u00a01', '1}', '1]', '[}', '{]'],
    ),
  );

  test('is accepted or rejected as by JSON.parse, even in fields that decisions do not read', () => {
    fc.assert(
      fc.property(values, (value) => {
        const text = wrap(value);
        let isValid = true;
        try {
          JSON.parse(text);
        } catch {
          isValid = false;
        }
        const reduced = reduce(text);
        assert.equal(reduced['error'] === undefined, isValid, `${value}: ${JSON.stringify(reduced)}`);
        assert.ok(isValid || reduced['isLimit'] === false);
      }),
      { numRuns: 5000, seed: 1 },
    );
  });

  const cases: readonly (readonly [name: string, json: string | Buffer, reduced: JsonObject])[] = [
    ['no value', '', { error: 'Unexpected end of JSON input', isLimit: false }],
    [
      'an incomplete review',
      '{"request":{',
      { error: "Expected property name or '}' in JSON at position 12 (line 1 column 13)", isLimit: false },
    ],
    [
      'bytes after the review',
      '{}}',
      { error: 'Unexpected non-whitespace character after JSON at position 2 (line 1 column 3)', isLimit: false },
    ],
    ['invalid UTF-8', Buffer.from([0x22, 0xff, 0x22]), { error: 'the body is not valid UTF-8', isLimit: false }],
    ['white space', ' {"kind" :\t"a" }\r\n', { kind: 'a' }],
    ['an empty review', '{}', {}],
    ['a request that is a number', '{"request":7}', { request: 7 }],
    [
      'members that occur twice',
      '{"request":{"uid":"a"},"request":{"uid":"b","kind":{"version":"v1","kind":"Pod"},"object":7,"object":{"spec":{"hostPID":false,"hostPID":true}}}}',
      { request: { uid: 'b', kind: { version: 'v1', kind: 'Pod' }, object: { spec: { hostPID: true } } } },
    ],
    [
      'names with escapes, and members before the kind',
      '{"request":{"object":{"spec":{"host\\u0050ID":true,"x":1},"kind":"Pod"},"kind":{"version":"v1","\\u006bind":"Pod"}}}',
      { request: { object: { spec: { hostPID: true }, kind: 'Pod' }, kind: { version: 'v1', kind: 'Pod' } } },
    ],
  ];
  for (const [name, json, reduced] of cases)
    test(`is reduced or rejected as expected: ${name}`, () => assert.deepEqual(reduce(json), reduced));

  test('keeps a member named __proto__', () => {
    const text =
      '{"request":{"kind":{"version":"v1","kind":"Pod"},"object":{"spec":{"securityContext":{"__proto__":{"a":1}}}}}}';
    assert.deepEqual(reduce(text), JSON.parse(text));
    const dropped = text.replace('"securityContext"', '"__proto__":{"hostPID":true},"securityContext"');
    assert.deepEqual(reduce(dropped), JSON.parse(text));
  });
});

suite('readLargeReview compares the objects of an update:', () => {
  const update = (object: object, oldObject: object): readonly [object: JsonObject, oldObject: JsonObject] => {
    const kind = { version: 'v1', kind: 'Pod' };
    const { request } = reduce(JSON.stringify({ request: { kind, object, oldObject } })) as { request: JsonObject };
    return [request['object'] as JsonObject, request['oldObject'] as JsonObject];
  };
  const inContainer = (container: object): object => ({ spec: { containers: [{ name: 'c', ...container }] } });
  const annotated = (annotations: object): object => ({ metadata: { annotations } });
  const env = Array.from({ length: 2000 }, (_, index) => ({ name: `e${index}` }));
  const long = Object.fromEntries(env.map(({ name }) => [name, '']));
  const cases: readonly (readonly [name: string, object: object, oldObject: object, isEqual: boolean])[] = [
    ['the same environment', inContainer({ env }), inContainer({ env }), true],
    ['another environment', inContainer({ env }), inContainer({ env: env.with(-1, { name: 'x' }) }), false],
    ['another short value', inContainer({ tty: true }), inContainer({ tty: false }), false],
    ['an empty and an absent list', inContainer({ env: [] }), inContainer({}), true],
    ['an empty and an absent struct', inContainer({ resources: { limits: {} } }), inContainer({}), true],
    ['null and an absent member', inContainer({ tty: null }), inContainer({}), true],
    ['an empty pointer', inContainer({ startup: {} }), inContainer({}), false],
    ['the same annotations', annotated(long), annotated(long), true],
    ['another annotation', annotated(long), annotated({ ...long, e7: 'x' }), false],
    ['a further annotation', annotated({ ...long, x: '' }), annotated(long), false],
    [
      'another source of a volume',
      { spec: { volumes: [{ secret: { a: 1 } }] } },
      { spec: { volumes: [{ secret: { a: 2 } }] } },
      false,
    ],
  ];
  for (const [name, object, oldObject, isEqual] of cases) {
    test(`${name}: ${isEqual ? 'equal' : 'different'}`, () => {
      const [reduced, old] = update(object, oldObject);
      assert.equal(semanticEqual(reduced, old), isEqual);
      assert.equal(semanticEqual(object, oldObject), isEqual);
      assert.ok(JSON.stringify([reduced, old]).length < 200_000);
    });
  }
});

suite('the worker for large reviews', () => {
  const body = JSON.stringify(podReview({ uid: 'u' }));

  test('starts again after a failure', async () => {
    const failing = (): Worker => new Worker('throw new Error("failed")', { eval: true });
    const starts = [failing, startParseWorker, startParseWorker];
    const parser = createParser(() => starts.shift()?.() ?? failing());
    const read = async (): Promise<unknown> =>
      JSON.parse((await parser.reduceReview(Buffer.from(body), false)).text.toString());
    await assert.rejects(read(), { message: 'failed' });
    const expected = reduce(body);
    assert.deepEqual(await read(), expected);
    const closing = parser.close();
    assert.deepEqual(await read(), expected, 'a review during the end of the worker');
    await closing;
    const rejected = assert.rejects(read(), { message: 'the worker ended' });
    await parser.close();
    await rejected;
  });

  test('ends after a large review to free its memory', async () => {
    let starts = 0;
    const parser = createParser(() => {
      starts++;
      return startParseWorker();
    });
    for (const size of [1_000_000, 9_000_000, 1000]) await parser.reduceReview(Buffer.from(body.padEnd(size)), false);
    assert.equal(starts, 2);
    await parser.close();
  });

  test('counts the values, and rejects a review that exceeds a limit or is not JSON', async () => {
    const parser = createParser(startParseWorker);
    const reduceText = (text: string) => parser.reduceReview(Buffer.from(text), false);
    assert.equal((await reduceText('{"apiVersion":"v1","kind":"x","request":{"uid":"a"}}')).values, 5);
    await assert.rejects(reduceText(`{"a":[${'0,'.repeat(1_500_000)}0]}`), {
      constructor: TooLargeError,
      message: 'the review exceeds a limit: more than 1500000 values',
    });
    await assert.rejects(reduceText('{'), { constructor: SyntaxError });
    await parser.close();
  });
});
