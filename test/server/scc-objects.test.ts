/** Tests the webhooks for SCC objects over TLS. */
import assert from 'node:assert/strict';
import { after, before, suite, test, type TestContext } from 'node:test';
import { createStore } from '../../src/cluster/store.ts';
import { applyJsonPatch } from '../../src/dev-cluster/json-patch.ts';
import { isObject, type JsonObject, type Pod } from '../../src/kube/types.ts';
import { defaultScc, type SccSettings } from '../../src/policy/scc/index.ts';
import { createDisclosure } from '../../src/server/disclosure.ts';
import { createEvaluations } from '../../src/server/evaluations.ts';
import { onlyRegistered } from '../../src/server/webhooks/index.ts';
import { createObjectWebhooks } from '../../src/server/webhooks/objects/index.ts';
import { createSccObjectReviewer } from '../../src/server/webhooks/objects/sccs.ts';
import { startAdmissionServer, type TestServer } from '../support/admission-server.ts';
import { post } from '../support/https.ts';
import { laxScc, namespaceWith } from '../support/scc.ts';

const SETTINGS: SccSettings = {
  mode: 'enforce',
  exemptNamespaces: ['kube-system'],
  compatibility: 'portcullis',
  preferUserNamespaces: false,
};
const DEFAULT = '/mutate/objects';
const VALIDATE = '/validate/objects';

function start(
  settings: Partial<SccSettings> = {},
  { store = createStore(), now = () => performance.now(), areClientsKnown = true } = {},
): Promise<TestServer> {
  const options = {
    settings: () => ({ ...SETTINGS, ...settings }),
    evaluate: createEvaluations(now),
    discloses: createDisclosure(areClientsKnown),
  };
  const webhooks = createObjectWebhooks({
    'securitycontextconstraints.security.openshift.io': createSccObjectReviewer(options),
  });
  return startAdmissionServer(
    webhooks.map((webhook) => onlyRegistered(webhook, () => ({ workloadResources: [] }))),
    { store },
  );
}

interface Response {
  readonly allowed: boolean;
  readonly status?: JsonObject;
  readonly patch?: string;
  readonly warnings?: readonly string[];
}

/** Sends a review of an SCC. Returns the response without the uid. */
async function send(server: TestServer, path: string, object: unknown, change: JsonObject = {}): Promise<Response> {
  const kind = { group: 'security.openshift.io', version: 'v1', kind: 'SecurityContextConstraints' };
  const resource = { group: 'security.openshift.io', version: 'v1', resource: 'securitycontextconstraints' };
  const request = { uid: 'u', kind, resource, operation: 'CREATE', userInfo: { username: 'admin' }, object, ...change };
  const review = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request };
  const reply = await post(server, path, JSON.stringify(review), 'application/json');
  assert.equal(reply.status, 200, reply.body);
  const { response } = JSON.parse(reply.body) as { readonly response: Response & { readonly uid: string } };
  const { uid, ...rest } = response;
  assert.equal(uid, 'u');
  return rest;
}

function patched(object: unknown, { patch = '' }: Response): unknown {
  const ops = JSON.parse(Buffer.from(patch, 'base64').toString()) as readonly JsonObject[];
  return applyJsonPatch(object, ops);
}

function denial(name: string, field: string, message: string, reason = 'FieldValueInvalid'): Response {
  return {
    allowed: false,
    status: {
      metadata: {},
      status: 'Failure',
      message: `SecurityContextConstraints.security.openshift.io "${name}" is invalid: ${field}: ${message}`,
      reason: 'Invalid',
      details: {
        name,
        group: 'security.openshift.io',
        kind: 'SecurityContextConstraints',
        causes: [{ reason, message, field }],
      },
      code: 422,
    },
  };
}

const SHORT = {
  apiVersion: 'security.openshift.io/v1',
  kind: 'SecurityContextConstraints',
  metadata: { name: 'short' },
  runAsUser: { type: 'RunAsAny' },
  seLinuxContext: { type: 'RunAsAny' },
};

suite('the webhooks default SCCs:', () => {
  let server: TestServer;
  before(async () => {
    server = await start();
  });
  after(() => server.stop());

  const denied: readonly (readonly [name: string, fields: JsonObject, expected: Response])[] = [
    [
      'an SCC with a string instead of a list',
      { volumes: 'all' },
      denial('short', 'volumes', 'Invalid value: "all": must be a list'),
    ],
    [
      'an SCC with a string instead of a number',
      { priority: '1' },
      denial('short', 'priority', 'Invalid value: "1": must be an integer'),
    ],
    [
      'an SCC with a nested field of the wrong type',
      { fsGroup: { ranges: [{ min: true }] } },
      denial('short', 'fsGroup.ranges[0].min', 'Invalid value: true: must be an integer'),
    ],
  ];
  for (const [name, fields, expected] of denied) {
    test(`${name} is denied`, async () => {
      assert.deepEqual(await send(server, DEFAULT, { ...SHORT, ...fields }), expected);
      assert.deepEqual(await send(server, VALIDATE, { ...SHORT, ...fields }), expected);
    });
  }

  test('a partial SCC gets all defaults', async () => {
    assert.deepEqual(patched(SHORT, await send(server, DEFAULT, SHORT)), defaultScc(SHORT));
  });

  test('an update gets all defaults', async () => {
    const response = await send(server, DEFAULT, SHORT, { operation: 'UPDATE', oldObject: defaultScc(SHORT) });
    assert.deepEqual(patched(SHORT, response), defaultScc(SHORT));
  });

  test('a complete SCC does not change', async () => {
    assert.deepEqual(await send(server, DEFAULT, defaultScc(SHORT)), { allowed: true });
  });

  test('a review without an object gets no patch, and the validating webhook denies it', async () => {
    for (const object of [undefined, null]) {
      assert.deepEqual(await send(server, DEFAULT, object), { allowed: true });
      assert.equal((await send(server, VALIDATE, object)).allowed, false);
    }
  });

  test('unknown fields do not change', async () => {
    const object = { ...SHORT, ['__proto__x']: 1, extra: { a: [] } };
    assert.deepEqual(patched(object, await send(server, DEFAULT, object)), defaultScc(object));
  });

  const others: readonly (readonly [name: string, change: JsonObject])[] = [
    ['a deletion of an SCC', { operation: 'DELETE', object: null, oldObject: SHORT }],
    ['a review of another resource', { resource: { group: '', version: 'v1', resource: 'pods' } }],
    ['a review of a subresource', { subResource: 'status' }],
  ];
  for (const [name, change] of others) {
    test(`${name} is allowed`, async () => {
      assert.deepEqual(await send(server, DEFAULT, SHORT, change), { allowed: true });
      assert.deepEqual(await send(server, VALIDATE, SHORT, change), { allowed: true });
    });
  }
});

suite('the validating webhook rejects invalid SCCs:', () => {
  let server: TestServer;
  before(async () => {
    server = await start();
  });
  after(() => server.stop());

  const TYPE = 'invalid strategy type.  Valid values are';

  test('a review without an object is denied', async () => {
    assert.deepEqual((await send(server, VALIDATE, null)).status?.['code'], 422);
  });

  test('a denial contains the error', async () => {
    assert.deepEqual(
      await send(server, VALIDATE, laxScc({ name: 'a', priority: -1 })),
      denial('a', 'priority', 'Invalid value: -1: priority cannot be negative'),
    );
  });

  test('a denial contains all errors', async () => {
    const { status } = await send(
      server,
      VALIDATE,
      laxScc({ name: 'a', runAsUser: {}, seLinuxContext: { type: 'x' } }),
    );
    assert.equal(
      status?.['message'],
      `SecurityContextConstraints.security.openshift.io "a" is invalid: [runAsUser.type: Invalid value: "": ${TYPE} MustRunAs, MustRunAsNonRoot, MustRunAsRange, RunAsAny, seLinuxContext.type: Invalid value: "x": ${TYPE} MustRunAs, RunAsAny]`,
    );
    const details = status['details'];
    assert.ok(isObject(details) && Array.isArray(details['causes']) && details['causes'].length === 2);
  });

  test('an SCC with a generated name is allowed', async () => {
    const object = { ...laxScc({}), metadata: { generateName: 'a-' } };
    assert.deepEqual(await send(server, VALIDATE, object), { allowed: true });
  });

  test('an update that keeps an existing error is denied', async () => {
    const wrong = laxScc({ name: 'a', priority: -1 });
    const response = await send(server, VALIDATE, wrong, { operation: 'UPDATE', oldObject: wrong });
    assert.equal(response.allowed, false);
  });

  test('the errors of long lists are limited to 1000, and validation takes at most 5 seconds of CPU time', async () => {
    const names = Array.from({ length: 4000 }, (_, index) => `a.${index}`);
    const object = laxScc({
      name: 'a',
      allowedUnsafeSysctls: names,
      forbiddenSysctls: names,
      requiredDropCapabilities: names,
      defaultAddCapabilities: names,
    });
    const start = process.cpuUsage();
    const { status } = await send(server, VALIDATE, object);
    assert.ok(process.cpuUsage(start).user < 5_000_000);
    const details = status?.['details'];
    assert.ok(isObject(details) && Array.isArray(details['causes']) && details['causes'].length === 1000);
  });

  test('lists above the limit are denied', async () => {
    const names = Array.from({ length: 20_001 }, (_, index) => `a.${index}`);
    const object = laxScc({ name: 'a', volumes: names });
    const expected = denial('a', 'volumes', 'Too many: 20001: must have at most 20000 items', 'FieldValueTooMany');
    assert.deepEqual(await send(server, VALIDATE, object), expected);
    assert.deepEqual(await send(server, DEFAULT, object), expected);
  });

  const numbers: readonly (readonly [fields: object, field: string, text: string])[] = [
    [{ priority: 2_147_483_648 }, 'priority', 'Invalid value: 2147483648: must be from -2147483648 to 2147483647'],
    [{ priority: 1e300 }, 'priority', 'Invalid value: 1e+300: must be an integer'],
    [
      { runAsUser: { type: 'MustRunAs', uid: 2 ** 64 } },
      'runAsUser.uid',
      'Invalid value: 18446744073709552000: must be an integer',
    ],
  ];
  for (const [fields, field, text] of numbers) {
    test(`a number out of range is denied: ${JSON.stringify(fields)}`, async () => {
      const object = laxScc({ name: 'a', ...fields });
      for (const path of [DEFAULT, VALIDATE]) {
        assert.deepEqual(await send(server, path, object), denial('a', field, text, 'FieldValueInvalid'));
      }
    });
  }

  test('IDs of 64 bits are accepted', async () => {
    const [id, range] = [2 ** 63, { min: 2 ** 53, max: 2 ** 63 }];
    const groups = { type: 'MustRunAs', ranges: [range] };
    const users = { type: 'MustRunAsRange', uid: id, uidRangeMin: -id, uidRangeMax: id };
    const object = laxScc({ name: 'a', runAsUser: users, fsGroup: groups, supplementalGroups: groups });
    assert.deepEqual(await send(server, VALIDATE, object), { allowed: true });
  });

  test('more than 1000 sysctls are denied', async () => {
    const names = Array.from({ length: 1001 }, (_, index) => `a.${index}`);
    assert.deepEqual(
      await send(server, VALIDATE, laxScc({ name: 'a', allowedUnsafeSysctls: names, forbiddenSysctls: ['a.1'] })),
      denial('a', 'allowedUnsafeSysctls', 'Too many: 1001: must have at most 1000 items', 'FieldValueTooMany'),
    );
  });

  test('a valid SCC is allowed', async () => {
    assert.deepEqual(await send(server, VALIDATE, laxScc({ name: 'a' })), { allowed: true });
  });
});

const RANGES = { 'openshift.io/sa.scc.uid-range': '1000000000/10000', 'openshift.io/sa.scc.mcs': 's0:c1,c0' };

/** Stores a namespace with a mode label and a pod that SCC `lax` admitted. */
function putPod({ store }: TestServer, namespace: string, mode?: string, name = 'web', status = {}): void {
  const labels = mode === undefined ? {} : { 'portcullis.dev/scc': mode };
  const { metadata: namespaceMetadata } = namespaceWith(RANGES, namespace);
  store.put('Namespace', { metadata: { ...namespaceMetadata, labels } });
  const metadata = { namespace, name, annotations: { 'openshift.io/scc': 'lax' } };
  const pod: Pod = { metadata, spec: { serviceAccountName: 'robot', containers: [{ name: 'c', image: 'i' }] }, status };
  store.put('Pod', pod);
}

suite('a change to an SCC causes the expected warnings:', () => {
  let server: TestServer;
  before(async () => {
    server = await start({});
    server.store.put('SecurityContextConstraints', laxScc({}));
    putPod(server, 'shop');
    putPod(server, 'bank', 'report');
    putPod(server, 'kube-system');
    putPod(server, 'plain', 'off');
    putPod(server, 'shop', undefined, 'done', { phase: 'Succeeded' });
    server.store.put('ClusterRole', {
      metadata: { name: 'r' },
      rules: [
        {
          apiGroups: ['security.openshift.io'],
          resources: ['securitycontextconstraints'],
          resourceNames: ['mine'],
          verbs: ['use'],
        },
      ],
    });
    for (const namespace of ['shop', 'bank', 'kube-system', 'plain']) {
      server.store.put('RoleBinding', {
        metadata: { name: 'b', namespace },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'r' },
        subjects: [{ kind: 'ServiceAccount', name: 'robot', namespace }],
      });
    }
  });
  after(() => server.stop());

  const cases: readonly (readonly [
    name: string,
    fields: JsonObject,
    change: JsonObject,
    warnings: readonly string[],
  ])[] = [
    [
      'an SCC that would admit pods of other SCCs',
      { name: 'mine', priority: 1 },
      {},
      [
        'SCC "mine" would admit 2 pods instead of SCC "lax" in namespaces bank and shop if recreated, because it has higher priority',
      ],
    ],
    ['an SCC without grants', { name: 'other', priority: 1 }, {}, []],
    [
      'an update with the same priority',
      { name: 'mine', priority: 1 },
      { operation: 'UPDATE', oldObject: laxScc({ name: 'mine', priority: 1 }) },
      [],
    ],
    [
      'an invalid SCC',
      { name: 'mine', runAsUser: { type: 'MustRunAs' } },
      {},
      ['SCC "mine" admits no pod: MustRunAs requires a UID'],
    ],
  ];
  for (const [name, fields, change, warnings] of cases) {
    test(name, async () => {
      const expected = warnings.length === 0 ? { allowed: true } : { allowed: true, warnings };
      assert.deepEqual(await send(server, VALIDATE, laxScc(fields), change), expected);
    });
  }
});

/** Starts a server with pods whose evaluation takes 10 ms each on its clock. */
async function startSlow(t: TestContext, pods: number) {
  const clock = { ms: 0 };
  /** The turn of the event loop in which each pod was evaluated. */
  const turns: number[] = [];
  let turn = 0;
  let immediate: NodeJS.Immediate | undefined;
  const countTurns = (): void => {
    turn++;
    immediate = setImmediate(countTurns);
  };
  countTurns();
  const stored = createStore();
  const get: typeof stored.get = (kind, ...names) => {
    if (kind === 'Namespace') {
      clock.ms += 10;
      turns.push(turn);
    }
    return stored.get(kind, ...names);
  };
  const server = await start({}, { store: { ...stored, get }, now: () => clock.ms });
  t.after(() => {
    clearImmediate(immediate);
    return server.stop();
  });
  server.store.put('SecurityContextConstraints', laxScc({}));
  for (let index = 0; index < pods; index++) putPod(server, 'shop', undefined, `web-${index}`);
  const evaluate = async (): Promise<readonly string[]> => {
    const scc = laxScc({ name: 'mine', priority: 1, users: ['system:serviceaccount:shop:robot'] });
    const { allowed, warnings = [] } = await send(server, VALIDATE, scc);
    assert.equal(allowed, true);
    return warnings;
  };
  return { clock, turns, evaluate };
}

suite('the evaluation of many pods for a change to an SCC', () => {
  const found = (pods: number): string =>
    `SCC "mine" would admit ${pods} pods instead of SCC "lax" in namespace shop if recreated, because it has higher priority`;
  const incomplete = (pods: number): string =>
    `SCC "mine" was evaluated for only ${pods} of 50 pods and may also admit other pods`;

  test('ends its turn of the event loop after 10 ms, even if several reviews start it', async (t) => {
    const { turns, evaluate } = await startSlow(t, 50);
    assert.deepEqual(await Promise.all([evaluate(), evaluate(), evaluate()]), Array(3).fill([found(50)]));
    assert.deepEqual([turns.length, new Set(turns).size], [150, 150]);
  });

  test('takes 2 s at first, and then a quarter of the time', async (t) => {
    const { clock, evaluate } = await startSlow(t, 50);
    for (let reviews = 0; reviews < 5; reviews++) assert.deepEqual(await evaluate(), [found(50)]);
    // During these 2.67 s, another 0.67 s of evaluation time became available.
    assert.deepEqual(await evaluate(), [found(17), incomplete(17)]);
    assert.deepEqual(await evaluate(), [incomplete(0)]);
    clock.ms += 5000;
    assert.deepEqual(await evaluate(), [found(50)]);
  });
});

test('a change to an SCC causes no warnings in OpenShift compatibility mode', async () => {
  const server = await start({ compatibility: 'openshift' });
  try {
    const blocking = laxScc({ name: 'mine', runAsUser: { type: 'MustRunAs' } });
    assert.deepEqual(await send(server, VALIDATE, blocking), { allowed: true });
  } finally {
    await server.stop();
  }
});

test('an SCC is allowed unchanged in off mode', async () => {
  const server = await start({ mode: 'off' });
  try {
    assert.deepEqual(await send(server, DEFAULT, SHORT), { allowed: true });
    assert.deepEqual(await send(server, VALIDATE, laxScc({ name: 'a', priority: -1 })), { allowed: true });
  } finally {
    await server.stop();
  }
});
