/**
 * Tests that every review receives a decision. The decision depends on the content of the review or, if a limit
 * prevents its evaluation, follows a single rule.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, suite, test } from 'node:test';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';
import { createStore } from '../../src/cluster/store.ts';
import { createAdmission } from '../../src/dev-cluster/admission/index.ts';
import { createStorage } from '../../src/dev-cluster/storage.ts';
import { type AdmissionRequest, allow } from '../../src/kube/admission.ts';
import { LIMITS } from '../../src/kube/limits.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { createQueue, createTurns } from '../../src/server/limits.ts';
import {
  attributes,
  createRequestContext,
  object,
  rejectionStatus,
  resource,
} from '../dev-cluster/admission/support.ts';
import { startAdmissionServer, type TestServer } from '../support/admission-server.ts';
import { post, sendRaw } from '../support/https.ts';
import { createRecorder } from '../support/recorder.ts';
import { podReview } from '../support/reviews.ts';
import { ALL_WEBHOOKS, createTestWebhooks } from '../support/scc-webhooks.ts';

const JSON_TYPE = 'application/json';
const PSA = '/validate/pods';
const MUTATE = '/mutate/pods';
const UID = podReview({}).request.uid;

/** Starts all webhooks over namespaces of several levels and SCC modes. */
function startAll(): Promise<TestServer> {
  const store = createStore();
  const webhooks = createTestWebhooks(store, { ...ALL_WEBHOOKS, settings: { mode: 'report', exemptNamespaces: [] } });
  const put = (name: string, labels: Record<string, string>): void => {
    const annotations = {
      'openshift.io/sa.scc.uid-range': '1000/1000',
      'openshift.io/sa.scc.mcs': 's0:c1,c0',
      'openshift.io/sa.scc.supplemental-groups': '1000/1000',
    };
    store.put('Namespace', { metadata: { name, labels, annotations } });
  };
  put('privileged', { 'pod-security.kubernetes.io/enforce': 'privileged', 'portcullis.dev/scc': 'off' });
  put('restricted', { 'pod-security.kubernetes.io/enforce': 'restricted', 'portcullis.dev/scc': 'enforce' });
  put('levels', { 'pod-security.kubernetes.io/enforce': 'restricted', 'portcullis.dev/scc': 'off' });
  put('report', { 'pod-security.kubernetes.io/warn': 'restricted' });
  return startAdmissionServer(webhooks, { store });
}

interface Response {
  readonly uid: string;
  readonly allowed: boolean;
  readonly warnings?: readonly string[];
  readonly status?: { readonly message: string; readonly reason: string; readonly code: number };
}

async function send(server: TestServer, path: string, body: string): Promise<Response> {
  const reply = await post(server, `${path}?timeout=10s`, body, JSON_TYPE);
  assert.equal(reply.status, 200, reply.body.slice(0, 300));
  return (JSON.parse(reply.body) as { readonly response: Response }).response;
}

function review(changes: Partial<AdmissionRequest>): string {
  const { object: newPod, oldObject: oldPod, ...change } = changes;
  const objects = { ...(newPod ? { object: newPod } : {}), ...(oldPod ? { oldObject: oldPod } : {}) };
  const { request, ...rest } = podReview({ namespace: 'restricted' });
  const { object: pod, oldObject, ...envelope } = request;
  // API servers send the objects at the end of a review.
  return JSON.stringify({ ...rest, request: { ...envelope, ...change, object: pod, oldObject, ...objects } });
}

const RESTRICTED = {
  allowPrivilegeEscalation: false,
  runAsNonRoot: true,
  runAsUser: 1500,
  capabilities: { drop: ['ALL'] },
  seccompProfile: { type: 'RuntimeDefault' },
};
const env = (length: number): readonly object[] => Array<object>(length).fill({ name: 'a' });
const pod = (spec: object, annotations: object = {}): object => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'web', namespace: 'restricted', annotations },
  spec,
});

suite('large reviews of pods are decided by their content:', () => {
  let server: TestServer;
  before(async () => {
    server = await startAll();
  });
  after(() => server.stop());

  const container = { name: 'c', image: 'i', securityContext: RESTRICTED };
  const debug = { name: 'debug', image: 'i', securityContext: { privileged: true } };
  const padded = { containers: [{ ...container, env: env(120_000) }] };
  const maps = Object.fromEntries(Array.from({ length: 190_000 }, (_, index) => [`k${index}`, '']));
  const cases: readonly {
    readonly name: string;
    readonly request: Partial<AdmissionRequest>;
    readonly psa: RegExp | true;
    readonly scc: RegExp | true;
  }[] = [
    {
      name: 'a privileged pod with 195,000 environment variables and a character that is not ASCII',
      request: {
        object: pod(
          {
            hostNetwork: true,
            containers: [{ ...container, securityContext: { privileged: true }, env: env(195_000) }],
          },
          { x: 'é' },
        ),
      },
      psa: /^pods "web" is forbidden: violates PodSecurity "restricted:latest": host namespaces \(hostNetwork=true\), privileged \(container "c"/,
      scc: /unable to validate against any security context constraint/,
    },
    {
      name: 'a compliant pod with 195,000 environment variables and 190,000 annotations',
      request: { object: pod({ containers: [{ ...container, env: env(195_000) }], nodeSelector: maps }, maps) },
      psa: true,
      scc: true,
    },
    {
      name: 'a privileged ephemeral container in a compliant pod with 120,000 environment variables',
      request: {
        operation: 'UPDATE',
        subResource: 'ephemeralcontainers',
        requestSubResource: 'ephemeralcontainers',
        object: pod({ ...padded, ephemeralContainers: [debug] }, { x: 'é' }),
        oldObject: pod(padded, { x: 'é' }),
      },
      psa: /^pods "web" is forbidden: violates PodSecurity "restricted:latest": privileged \(container "debug"/,
      scc: /unable to validate against any security context constraint/,
    },
    {
      name: 'an update that only changes fields that are not read',
      request: { operation: 'UPDATE', object: pod(padded), oldObject: pod(padded) },
      psa: true,
      scc: true,
    },
  ];
  for (const { name, request, psa, scc } of cases) {
    test(name, async () => {
      for (const [path, expected] of [
        [PSA, psa],
        [MUTATE, scc],
      ] as const) {
        const namespace = path === PSA ? 'levels' : 'restricted';
        const response = await send(server, path, review({ ...request, namespace }));
        if (expected === true) assert.equal(response.allowed, true, `${path}: ${response.status?.message}`);
        else assert.match(response.status?.message ?? 'allowed', expected, path);
      }
    });
  }
});

suite('a pod with more containers than can be evaluated is denied', () => {
  let server: TestServer;
  before(async () => {
    server = await startAll();
  });
  after(() => server.stop());

  const CONTAINERS = { initContainers: [{}], containers: Array<object>(5000).fill({}) };
  const TOO_MANY = 'spec.containers: Too many: 5001: must have at most 5000 items';
  const REPORTED = `would be denied if security context constraints were enforced: ${TOO_MANY}`;
  const DENIED = [TOO_MANY, 'RequestEntityTooLarge', 413];
  const WORKLOAD = {
    kind: { group: 'apps', version: 'v1', kind: 'Deployment' },
    resource: { group: 'apps', version: 'v1', resource: 'deployments' },
    object: { apiVersion: 'apps/v1', kind: 'Deployment', spec: { template: { spec: CONTAINERS } } },
  };
  const cases: readonly (readonly [
    path: string,
    name: string,
    change: Partial<AdmissionRequest>,
    /** The warnings of an allowed request, or the message, reason and code of a denial. */
    expected: readonly (string | number)[],
  ])[] = [
    [PSA, 'where restricted is enforced', {}, DENIED],
    [PSA, 'where policies only warn', { namespace: 'report' }, [TOO_MANY, REPORTED]],
    [PSA, 'where no level applies', { namespace: 'privileged' }, []],
    [
      '/validate/workloads',
      'of a workload',
      { namespace: 'report', ...WORKLOAD },
      [TOO_MANY.replace('spec', 'spec.template.spec')],
    ],
    [
      PSA,
      'in the old object',
      { namespace: 'levels', operation: 'UPDATE', oldObject: pod(CONTAINERS), object: pod({}) },
      DENIED,
    ],
    [MUTATE, 'where SCCs are enforced', {}, DENIED],
    [MUTATE, 'where SCCs are reported', { namespace: 'report' }, []],
    [MUTATE, 'where SCCs are off', { namespace: 'privileged' }, []],
  ];
  for (const [path, name, change, expected] of cases) {
    for (const padding of ['', 'x'.repeat(200_000)]) {
      test(`${path}: ${name}, in a ${padding ? 'large' : 'small'} review`, async () => {
        const request = { object: pod(CONTAINERS), ...change };
        const object = { ...(request.object as object), status: { padding } };
        const { allowed, warnings = [], status } = await send(server, path, review({ ...request, object }));
        assert.deepEqual(allowed ? warnings : [status?.message, status?.reason, status?.code], expected);
      });
    }
  }
});

/** Returns a review that is not evaluated because of its depth. The deepest valid object has about 20 levels. */
const TOO_DEEP = 'the fields that decisions read exceed a limit: nested more than 100 levels deep';
function deepReview(change: Partial<AdmissionRequest>): string {
  const more = { spec: 'DEEP', padding: 'x'.repeat(200_000) };
  return review({ object: { ...(podReview({}).request.object as object), ...more }, ...change }).replace(
    '"DEEP"',
    '['.repeat(200) + ']'.repeat(200),
  );
}

suite('a review that exceeds a limit is decided without an evaluation', () => {
  let server: TestServer;
  before(async () => {
    server = await startAll();
  });
  after(() => server.stop());

  const DEPLOYMENT = { group: 'apps', version: 'v1', resource: 'deployments' };
  const NAMESPACES = { group: '', version: 'v1', resource: 'namespaces' };
  const SCCS = { group: 'security.openshift.io', version: 'v1', resource: 'securitycontextconstraints' };
  const SETTINGS = { group: 'config.portcullis.dev', version: 'v1alpha1', resource: 'portcullisconfigurations' };
  const NODES_CONFIG = { group: 'config.openshift.io', version: 'v1', resource: 'nodes' };
  const NODES = { group: '', version: 'v1', resource: 'nodes' };
  const LEASES = { group: 'coordination.k8s.io', version: 'v1', resource: 'leases' };
  const EXEC = { operation: 'CONNECT', subResource: 'exec' } as const;
  const routes: readonly (readonly [
    path: string,
    case_: string,
    change: Partial<AdmissionRequest>,
    allowed: boolean,
  ])[] = [
    [PSA, 'a pod where restricted is enforced', {}, false],
    [PSA, 'a pod where privileged is enforced', { namespace: 'privileged' }, true],
    [PSA, 'a pod where policies only warn', { namespace: 'report' }, true],
    [PSA, 'a pod in an unknown namespace', { namespace: 'missing' }, false],
    ['/validate/workloads', 'a workload', { resource: DEPLOYMENT }, true],
    ['/validate/namespaces', 'a namespace', { resource: NAMESPACES }, false],
    [MUTATE, 'a pod where SCCs are enforced', {}, false],
    [MUTATE, 'a pod where SCCs are reported', { namespace: 'report' }, true],
    [MUTATE, 'a pod where SCCs are off', { namespace: 'privileged' }, true],
    [MUTATE, 'a pod in an unknown namespace', { namespace: 'missing' }, false],
    ['/connect/pods', 'exec where SCCs are enforced', EXEC, false],
    ['/connect/pods', 'exec where SCCs are reported', { ...EXEC, namespace: 'report' }, true],
    ['/mutate/objects', 'an SCC', { resource: SCCS }, false],
    ['/validate/objects', 'an SCC', { resource: SCCS }, false],
    ['/validate/objects', 'the settings', { resource: SETTINGS }, true],
    ['/validate/objects', 'a minimum kubelet version', { resource: NODES_CONFIG }, false],
    ['/validate/nodes', 'a registration', { resource: NODES }, false],
    ['/validate/nodes', 'a report', { resource: NODES, operation: 'UPDATE', subResource: 'status' }, true],
    ['/validate/nodes', 'a Lease', { resource: LEASES, operation: 'UPDATE' }, false],
  ];
  for (const [path, name, change, allowed] of routes) {
    test(`${path}: ${name} is ${allowed ? 'allowed with a warning' : 'denied'}`, async () => {
      const response = await send(server, path, deepReview(change));
      const status = { metadata: {}, status: 'Failure', message: TOO_DEEP, reason: 'RequestEntityTooLarge', code: 413 };
      assert.deepEqual(response, {
        uid: UID,
        allowed,
        ...(allowed ? { warnings: [TOO_DEEP] } : { status }),
      });
    });
  }

  const EXCEPTIONS = { group: 'policy.portcullis.dev', version: 'v1alpha1', resource: 'podsecurityexceptions' };
  const OLM = 'OLM hardening: the pod is not hardened, because it is nested more than 100 levels deep';
  const small: readonly (readonly [path: string, change: Partial<AdmissionRequest>, allowed: boolean, text: string])[] =
    [
      ['/mutate/objects', { resource: EXCEPTIONS }, false, TOO_DEEP],
      ['/validate/objects', { resource: EXCEPTIONS }, false, TOO_DEEP],
      ['/validate/objects', { resource: SETTINGS }, true, TOO_DEEP],
      ['/mutate/pods', { namespace: 'levels' }, true, OLM],
    ];
  for (const [path, change, allowed, text] of small) {
    const { resource } = change.resource ?? { resource: 'OLM pods' };
    test(`${path}: a small review of ${resource} with 9,000 levels is ${allowed ? 'allowed with a warning' : 'denied'}`, async () => {
      const object = {
        metadata: { labels: { 'olm.catalogSource': 'cat' } },
        spec: { containers: [{ name: 'c' }], volumes: [{ f: 'DEEP' }] },
      };
      const body = review({ ...change, object }).replace('"DEEP"', '['.repeat(9000) + ']'.repeat(9000));
      const { allowed: isAllowed, status, warnings } = await send(server, path, body);
      assert.deepEqual([isAllowed, status?.message ?? warnings], [allowed, allowed ? [text] : text]);
    });
  }

  const unfinished = [
    { name: 'where restricted is enforced', namespace: 'restricted', allowed: false },
    { name: 'where restricted only warns', namespace: 'report', allowed: true },
  ];
  for (const { name, namespace, allowed } of unfinished) {
    test(`a body that does not arrive before the timeout ${name} is ${allowed ? 'allowed with a warning' : 'denied'}`, async () => {
      const head = `POST ${PSA}?timeout=1s HTTP/1.1\r\nHost: x\r\nContent-Type: ${JSON_TYPE}\r\nContent-Length: 9000000\r\n\r\n`;
      const socket = connect({ host: '127.0.0.1', port: server.port, ca: server.ca });
      const startMs = performance.now();
      socket.write(head + deepReview({ namespace }));
      const [data] = (await Promise.race([
        new Promise((resolve) => socket.once('data', (...received) => resolve(received))),
        sleep(5000, ['no response'], { ref: false }),
      ])) as [Buffer | string];
      assert.ok(performance.now() - startMs < 1000, 'the response is late');
      socket.destroy();
      const message = 'the memory for reviews is exhausted, and the body did not arrive in time; try again';
      assert.match(data.toString(), new RegExp(`"uid":"${UID}","allowed":${allowed}`));
      assert.ok(data.toString().includes(message));
    });
  }
});

/** The documented response statuses, with requests that receive them. */
const HEAD = 'POST /allow HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n';
const raw =
  (text: string) =>
  async (server: TestServer): Promise<Answer> => {
    const received = await sendRaw(server, text);
    return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(received)?.[1]), body: '' };
  };
const to = (path: string, body: string) => (server: TestServer) => post(server, path, body, JSON_TYPE);

interface Answer {
  readonly status: number;
  readonly body: string;
}
type Outcome = 'admitted' | 'denied';

const STATUSES: readonly (readonly [
  status: string,
  case_: string,
  send: (server: TestServer) => Promise<Answer>,
  fail: Outcome,
  ignore: Outcome,
])[] = [
  ['200', 'an allowed review', to('/allow', review({})), 'admitted', 'admitted'],
  ['200', 'a review beyond a limit', to('/allow', deepReview({})), 'denied', 'denied'],
  ['200', 'a review beyond a limit, of a webhook that only warns', to('/warn', deepReview({})), 'admitted', 'admitted'],
  ['400', 'no review', to('/allow', '{'), 'denied', 'admitted'],
  ['404', 'an unknown path', to('/nothing', review({})), 'denied', 'admitted'],
  ['411', 'a chunked body', raw(`${HEAD}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`), 'denied', 'admitted'],
  ['413', 'more than 24 MiB', raw(`${HEAD}Content-Length: 25165825\r\n\r\n`), 'denied', 'admitted'],
  ['413', 'a limit without a uid', to('/allow', deepReview({}).replace('"uid"', '"id"')), 'denied', 'admitted'],
  ['414', 'a long URL', to(`/allow?timeout=${'1'.repeat(16_000)}`, review({})), 'denied', 'admitted'],
  ['414', 'an unknown long path', to(`/${'%2e'.repeat(5000)}`, review({})), 'denied', 'admitted'],
  ['417', 'an expectation', raw(`${HEAD}Expect: tea\r\nContent-Length: 0\r\n\r\n`), 'denied', 'admitted'],
  ['431', 'long headers', raw(`${HEAD}X: ${'x'.repeat(16 << 10)}\r\n\r\n`), 'denied', 'admitted'],
  ['500', 'a defect', to('/defect', review({})), 'denied', 'admitted'],
  ['503', 'an unsynced replica', to('/allow', review({})), 'denied', 'admitted'],
  ['503', 'a limit of an unsynced replica', to('/allow', deepReview({})), 'denied', 'admitted'],
];
/** 401 and 403 require client certificates, and 408 requires a wait of 35 s. Other tests cover them. */
const OTHER_STATUSES = ['401', '403', '408'];

/** Returns the reaction of an API server to a response about a pod. */
async function admit({ status, body }: Answer, failurePolicy: 'Fail' | 'Ignore'): Promise<Outcome> {
  const storage = createStorage();
  storage.create(resource('namespaces'), object('Namespace', 'a'));
  const rules = [{ apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*/*'], scope: '*' }];
  const webhook = { name: 'w', clientConfig: { url: 'https://w' }, rules, sideEffects: 'None', failurePolicy };
  const kind = 'ValidatingWebhookConfiguration';
  storage.create(resource('validatingwebhookconfigurations'), object(kind, 'c', { webhooks: [webhook] }));
  const admission = createAdmission({
    reader: storage,
    access: () => false,
    call: ({ review: { request } }) => {
      if (status !== 200) return Promise.resolve({ ok: false, error: `status ${status}` });
      const { uid } = request as { readonly uid: string };
      return Promise.resolve({ ok: true, review: JSON.parse(body.replace(UID, uid)) as JsonObject });
    },
  });
  const created = attributes({ resource: 'configmaps', object: object('ConfigMap', 'c', {}, 'a') });
  const denial = await rejectionStatus(() => admission.validate(created, createRequestContext().context));
  return denial ? 'denied' : 'admitted';
}

suite('the status of a response determines whether API servers apply the failure policy:', () => {
  for (const [status, name, sendTo, fail, ignore] of STATUSES) {
    test(`${status} for ${name}: ${fail} under Fail, ${ignore} under Ignore`, async (t) => {
      const webhooks = [
        { path: '/allow', decide: () => allow() },
        { path: '/warn', enforces: () => false, decide: () => allow() },
        { path: '/defect', decide: () => Promise.reject(new Error('a defect')) },
      ];
      const server = await startAdmissionServer(webhooks, {
        isSynced: !name.includes('unsynced'),
      });
      t.after(() => server.stop());
      const answer = await sendTo(server);
      assert.equal(String(answer.status), status, answer.body);
      assert.deepEqual([await admit(answer, 'Fail'), await admit(answer, 'Ignore')], [fail, ignore]);
    });
  }

  test('they are documented', async () => {
    const page = await readFile(new URL('../../docs/reference/endpoints.md', import.meta.url), 'utf8');
    const rows = [...page.matchAll(/^\| ([\d, ]+) \|.*\| (\w+) \| (\w+) \|$/gm)];
    const documented = rows.flatMap(([, codes = '', ...outcomes]) =>
      codes.split(', ').map((code) => `${code} ${outcomes.join(' ')}`),
    );
    const tested = STATUSES.map(([status, , , fail, ignore]) => `${status} ${fail} ${ignore}`);
    const expected = [...tested, ...OTHER_STATUSES.map((status) => `${status} denied admitted`)];
    assert.deepEqual([...new Set(documented)].sort(), [...new Set(expected)].sort());
  });
});

test('values in forged reviews add no series to metrics', async (t) => {
  const store = createStore();
  const settings = { mode: 'enforce', exemptNamespaces: [] } as const;
  const recorder = createRecorder('silent');
  const webhooks = createTestWebhooks(store, { ...ALL_WEBHOOKS, settings }, recorder);
  for (const scc of ['enforce', 'report']) {
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted', 'portcullis.dev/scc': scc };
    store.put('Namespace', { metadata: { name: scc, labels } });
  }
  const server = await startAdmissionServer(webhooks, { store });
  t.after(() => server.stop());
  let sent = 0;
  const forge = (): string => `forged-${sent++}`;
  const send = async (): Promise<void> => {
    const replies: Promise<unknown>[] = [];
    for (const namespace of ['enforce', 'report', forge()]) {
      for (const operation of ['CREATE', 'UPDATE', 'DELETE', 'CONNECT'] as const) {
        for (const subResource of ['', forge()]) {
          const { request, ...envelope } = podReview({ namespace, operation, name: forge() });
          const annotations = {
            'openshift.io/scc': forge(),
            'security.openshift.io/validated-scc-subject-type': forge(),
          };
          const object = {
            metadata: { annotations },
            spec: { runtimeClassName: forge(), containers: [{ name: 'c' }] },
          };
          const userInfo = { username: forge(), groups: [forge()], extra: { [forge()]: [forge()] } };
          const forged = {
            ...request,
            subResource,
            requestSubResource: subResource,
            userInfo,
            object,
            oldObject: object,
          };
          for (const { path } of webhooks) {
            for (const resource of [request.resource, { group: forge(), version: forge(), resource: forge() }]) {
              replies.push(
                post(
                  server,
                  `${path}?timeout=1s`,
                  JSON.stringify({ ...envelope, request: { ...forged, resource } }),
                  JSON_TYPE,
                ),
              );
            }
          }
        }
      }
    }
    replies.push(post(server, `/${forge()}`, '{}', JSON_TYPE));
    await Promise.all(replies);
  };
  const readSeries = async (): Promise<readonly string[]> => {
    const text = `${await recorder.metrics.expose()}\n${await server.metrics.expose()}`;
    return text.split('\n').flatMap((line) => /^(?:pod_security|portcullis)_\w+\{.*\}/.exec(line)?.[0] ?? []);
  };
  await send();
  const series = await readSeries();
  assert.ok(
    series.some((line) => line.startsWith('portcullis_scc_decisions_total')),
    series.join('\n'),
  );
  assert.deepEqual(
    series.filter((line) => line.includes('forged')),
    [],
  );
  await send();
  assert.deepEqual(await readSeries(), series);
});

test('displaced reviews leave the queue of small reviews, so they do not delay later reviews from their address', async () => {
  let nowMs = 0;
  const { wait } = createQueue(() => (nowMs += 10));
  // The first review does not wait, because the main thread has time for it.
  assert.equal(await wait('a', 0), true);
  const ended: string[] = [];
  const review = (name: string, bytes: number): void =>
    void wait('a', bytes).then((isNext) => ended.push(`${name} ${isNext ? 'is next' : 'is displaced'}`));
  for (let index = 0; index < 100; index++) review(String(index), LIMITS.queuedReviewsBytes);
  review('last', 0);
  for (let rounds = 0; rounds < 10; rounds++) await Promise.resolve();
  const count = ended.filter((text) => text.endsWith('is displaced')).length;
  assert.deepEqual([count, ended.length], [100, 100], 'the displaced reviews end without a turn of the event loop');
  await nextTurn();
  await nextTurn();
  assert.equal(ended.at(-1), 'last is next', 'the remaining review takes the next turn');
});

test('a small review that other reviews from its address displace is denied with the reason', async (t) => {
  let nowMs = 0;
  const server = await startAdmissionServer([{ path: '/allow', decide: () => allow() }], { now: () => (nowMs += 6) });
  t.after(() => server.stop());
  const send = async (): Promise<JsonObject> => {
    const payload = review({ object: 'x'.repeat(60_000) });
    const { body } = await server.app.inject({
      method: 'POST',
      url: '/allow',
      payload,
      headers: { 'content-type': JSON_TYPE },
    });
    return (JSON.parse(body) as { readonly response: JsonObject }).response;
  };
  const responses = await Promise.all(Array.from({ length: 500 }, send));
  const denied = responses.filter(({ allowed }) => allowed === false);
  assert.ok(denied.length > 0 && denied.length < responses.length, `${denied.length} are denied`);
  const message = 'too many concurrent reviews; try again';
  const details = { retryAfterSeconds: 1 };
  const status = { metadata: {}, status: 'Failure', message, reason: 'TooManyRequests', details, code: 429 };
  for (const response of denied) assert.deepEqual(response, { uid: UID, allowed: false, status });
});

test('a body that cannot be parsed causes no warning of Node in the queue of large bodies', async (t) => {
  const warnings: Error[] = [];
  const listen = (warning: Error): void => void warnings.push(warning);
  process.on('warning', listen);
  t.after(() => process.off('warning', listen));
  const { take } = createTurns(() => performance.now());
  await assert.rejects(take(() => Promise.reject(new SyntaxError('no JSON'))));
  await take(() => Promise.resolve());
  await nextTurn();
  assert.deepEqual(warnings, []);
});
