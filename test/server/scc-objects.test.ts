/** What is said of SCCs themselves as they are written, through the real server. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { applyJsonPatch } from '../../src/dev-cluster/json-patch.ts';
import { isObject, type JsonObject, type Pod } from '../../src/kube/types.ts';
import { defaultScc } from '../../src/policy/scc/objects.ts';
import type { SccSettings } from '../../src/policy/scc/mode.ts';
import {
  createSccObjectsDefaultWebhook,
  createSccObjectsValidateWebhook,
} from '../../src/server/webhooks/scc-objects.ts';
import { startAdmissionServer, type TestServer } from '../support/admission-server.ts';
import { post } from '../support/https.ts';
import { laxScc, namespaceWith } from '../support/scc.ts';

const SETTINGS: SccSettings = {
  mode: 'enforce',
  exemptNamespaces: ['kube-system'],
  compatibility: {},
  preferUserNamespaces: false,
};
const DEFAULT = '/scc/objects/default';
const VALIDATE = '/scc/objects/validate';

function start(settings: Partial<SccSettings> = {}): Promise<TestServer> {
  const options = { settings: { ...SETTINGS, ...settings } };
  return startAdmissionServer([createSccObjectsDefaultWebhook(options), createSccObjectsValidateWebhook(options)]);
}

interface Response {
  readonly allowed: boolean;
  readonly status?: JsonObject;
  readonly patch?: string;
  readonly warnings?: readonly string[];
}

/** What the server answers to a review of an SCC, without the uid. */
async function ask(server: TestServer, path: string, object: unknown, change: JsonObject = {}): Promise<Response> {
  const kind = { group: 'security.openshift.io', version: 'v1', kind: 'SecurityContextConstraints' };
  const resource = { group: 'security.openshift.io', version: 'v1', resource: 'securitycontextconstraints' };
  const request = { uid: 'u', kind, resource, operation: 'CREATE', userInfo: { username: 'admin' }, object, ...change };
  const review = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request };
  const answer = await post(server, path, JSON.stringify(review), 'application/json');
  assert.equal(answer.status, 200, answer.body);
  const { response } = JSON.parse(answer.body) as { readonly response: Response & { readonly uid: string } };
  const { uid, ...rest } = response;
  assert.equal(uid, 'u');
  return rest;
}

function patched(object: unknown, { patch = '' }: Response): unknown {
  const ops = JSON.parse(Buffer.from(patch, 'base64').toString()) as readonly JsonObject[];
  return applyJsonPatch(object, ops);
}

function refusal(name: string, field: string, message: string, reason = 'FieldValueInvalid'): Response {
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

suite('an SCC is completed', () => {
  let server: TestServer;
  before(async () => {
    server = await start();
  });
  after(() => server.stop());

  const refused: readonly (readonly [name: string, fields: JsonObject, expected: Response])[] = [
    ['a list that is none', { volumes: 'all' }, refusal('short', 'volumes', 'Invalid value: "all": must be a list')],
    ['a number as text', { priority: '1' }, refusal('short', 'priority', 'Invalid value: "1": must be an integer')],
    [
      'deep inside',
      { fsGroup: { ranges: [{ min: true }] } },
      refusal('short', 'fsGroup.ranges[0].min', 'Invalid value: true: must be an integer'),
    ],
  ];
  for (const [name, fields, expected] of refused) {
    test(`refused: ${name}`, async () => {
      assert.deepEqual(await ask(server, DEFAULT, { ...SHORT, ...fields }), expected);
      assert.deepEqual(await ask(server, VALIDATE, { ...SHORT, ...fields }), expected);
    });
  }

  test('a short one becomes what the schema demands', async () => {
    assert.deepEqual(patched(SHORT, await ask(server, DEFAULT, SHORT)), defaultScc(SHORT));
  });

  test('on update, too', async () => {
    const response = await ask(server, DEFAULT, SHORT, { operation: 'UPDATE', oldObject: defaultScc(SHORT) });
    assert.deepEqual(patched(SHORT, response), defaultScc(SHORT));
  });

  test('a complete one stays as it is', async () => {
    assert.deepEqual(await ask(server, DEFAULT, defaultScc(SHORT)), { allowed: true });
  });

  test('unknown fields are none of its business', async () => {
    const object = { ...SHORT, ['__proto__x']: 1, extra: { a: [] } };
    assert.deepEqual(patched(object, await ask(server, DEFAULT, object)), defaultScc(object));
  });

  const others: readonly (readonly [name: string, change: JsonObject])[] = [
    ['a deletion', { operation: 'DELETE', object: null, oldObject: SHORT }],
    ['another resource', { resource: { group: '', version: 'v1', resource: 'pods' } }],
    ['a subresource', { subResource: 'status' }],
  ];
  for (const [name, change] of others) {
    test(`let through: ${name}`, async () => {
      assert.deepEqual(await ask(server, DEFAULT, SHORT, change), { allowed: true });
      assert.deepEqual(await ask(server, VALIDATE, SHORT, change), { allowed: true });
    });
  }
});

suite('an SCC is judged', () => {
  let server: TestServer;
  before(async () => {
    server = await start();
  });
  after(() => server.stop());

  const TYPE = 'invalid strategy type.  Valid values are';

  test('there is none', async () => {
    assert.deepEqual((await ask(server, VALIDATE, null)).status?.['code'], 422);
  });

  test('one error', async () => {
    assert.deepEqual(
      await ask(server, VALIDATE, laxScc({ name: 'a', priority: -1 })),
      refusal('a', 'priority', 'Invalid value: -1: priority cannot be negative'),
    );
  });

  test('several errors', async () => {
    const { status } = await ask(server, VALIDATE, laxScc({ name: 'a', runAsUser: {}, seLinuxContext: { type: 'x' } }));
    assert.equal(
      status?.['message'],
      `SecurityContextConstraints.security.openshift.io "a" is invalid: [runAsUser.type: Invalid value: "": ${TYPE} MustRunAs, MustRunAsNonRoot, MustRunAsRange, RunAsAny, seLinuxContext.type: Invalid value: "x": ${TYPE} MustRunAs, RunAsAny]`,
    );
    const details = status['details'];
    assert.ok(isObject(details) && Array.isArray(details['causes']) && details['causes'].length === 2);
  });

  test('a name that the server will make', async () => {
    const object = { ...laxScc({}), metadata: { generateName: 'a-' } };
    assert.deepEqual(await ask(server, VALIDATE, object), { allowed: true });
  });

  test('on update by the rules for new ones', async () => {
    const wrong = laxScc({ name: 'a', priority: -1 });
    const response = await ask(server, VALIDATE, wrong, { operation: 'UPDATE', oldObject: wrong });
    assert.equal(response.allowed, false);
  });

  test('huge lists are answered at once, in few words', async () => {
    const names = Array.from({ length: 4000 }, (_, index) => `a.${index}`);
    const object = laxScc({
      name: 'a',
      allowedUnsafeSysctls: names,
      forbiddenSysctls: names,
      requiredDropCapabilities: names,
      defaultAddCapabilities: names,
    });
    const startMs = performance.now();
    const { status } = await ask(server, VALIDATE, object);
    assert.ok(performance.now() - startMs < 5000);
    const details = status?.['details'];
    assert.ok(isObject(details) && Array.isArray(details['causes']) && details['causes'].length === 1000);
  });

  test('longer lists than are read', async () => {
    const names = Array.from({ length: 20_001 }, (_, index) => `a.${index}`);
    const object = laxScc({ name: 'a', volumes: names });
    const expected = refusal('a', 'volumes', 'Too many: 20001: must have at most 20000 items', 'FieldValueTooMany');
    assert.deepEqual(await ask(server, VALIDATE, object), expected);
    assert.deepEqual(await ask(server, DEFAULT, object), expected);
  });

  const numbers: readonly (readonly [fields: object, field: string, text: string])[] = [
    [{ priority: 2_147_483_648 }, 'priority', 'Invalid value: 2147483648: must be from -2147483648 to 2147483647'],
    [{ priority: 1e300 }, 'priority', 'Invalid value: 1e+300: must be from -2147483648 to 2147483647'],
    [
      { runAsUser: { type: 'MustRunAs', uid: 2 ** 60 } },
      'runAsUser.uid',
      'Invalid value: 1152921504606847000: must be from -9007199254740991 to 9007199254740991',
    ],
  ];
  for (const [fields, field, text] of numbers) {
    test(`a number out of bounds: ${JSON.stringify(fields)}`, async () => {
      const object = laxScc({ name: 'a', ...fields });
      for (const path of [DEFAULT, VALIDATE]) {
        assert.deepEqual(await ask(server, path, object), refusal('a', field, text, 'FieldValueInvalid'));
      }
    });
  }

  test('lists of sysctls that are longer than Linux has any', async () => {
    const names = Array.from({ length: 1001 }, (_, index) => `a.${index}`);
    assert.deepEqual(
      await ask(server, VALIDATE, laxScc({ name: 'a', allowedUnsafeSysctls: names, forbiddenSysctls: ['a.1'] })),
      refusal('a', 'allowedUnsafeSysctls', 'Too many: 1001: must have at most 1000 items', 'FieldValueTooMany'),
    );
  });

  test('one that is right', async () => {
    assert.deepEqual(await ask(server, VALIDATE, laxScc({ name: 'a' })), { allowed: true });
  });
});

const RANGES = { 'openshift.io/sa.scc.uid-range': '1000000000/10000', 'openshift.io/sa.scc.mcs': 's0:c1,c0' };

/** A pod that was admitted by `lax`, in a namespace with the label. */
function fill({ store }: TestServer, namespace: string, mode?: string): void {
  const labels = mode === undefined ? {} : { 'portcullis.dev/scc': mode };
  const made = namespaceWith(RANGES, namespace);
  store.put('Namespace', { metadata: { ...made.metadata, labels } });
  const metadata = { namespace, name: 'web', annotations: { 'openshift.io/scc': 'lax' } };
  const pod: Pod = { metadata, spec: { serviceAccountName: 'robot', containers: [{ name: 'c', image: 'i' }] } };
  store.put('Pod', pod);
}

suite('warnings', () => {
  let server: TestServer;
  before(async () => {
    server = await start({ compatibility: { brokenScc: 'refuse' } });
    server.store.put('SecurityContextConstraints', laxScc({}));
    fill(server, 'shop');
    fill(server, 'bank', 'report');
    fill(server, 'kube-system');
    fill(server, 'plain', 'off');
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
      'pods of namespaces in which SCCs count',
      { name: 'mine', priority: 1 },
      {},
      [
        'SCC "mine" would admit 2 pods instead of SCC "lax" in namespaces bank and shop when created again: it has higher priority',
      ],
    ],
    ['an SCC that nobody may use', { name: 'other', priority: 1 }, {}, []],
    [
      'an update that did not win them',
      { name: 'mine', priority: 1 },
      { operation: 'UPDATE', oldObject: laxScc({ name: 'mine', priority: 1 }) },
      [],
    ],
    [
      'an SCC that stops all others',
      { name: 'mine', runAsUser: { type: 'MustRunAs' } },
      {},
      ['SCC "mine" blocks every pod of the cluster: MustRunAs requires a UID'],
    ],
  ];
  for (const [name, fields, change, warnings] of cases) {
    test(name, async () => {
      const expected = warnings.length === 0 ? { allowed: true } : { allowed: true, warnings };
      assert.deepEqual(await ask(server, VALIDATE, laxScc(fields), change), expected);
    });
  }
});

test('nothing is judged where SCCs are off', async () => {
  const server = await start({ mode: 'off' });
  try {
    assert.deepEqual(await ask(server, DEFAULT, SHORT), { allowed: true });
    assert.deepEqual(await ask(server, VALIDATE, laxScc({ name: 'a', priority: -1 })), { allowed: true });
  } finally {
    await server.stop();
  }
});
