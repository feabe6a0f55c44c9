/**
 * The table of attacks by clients without credentials, with the requests of each attack. The routes come from the
 * registry of webhooks.
 */
import type { AdmissionRequest } from '../../src/kube/admission.ts';
import { AUTHORIZER_PATH } from '../../src/server/kubelet-authorizer.ts';
import { WEBHOOK_REGISTRATIONS } from '../../src/server/webhooks/index.ts';
import { hashSpec } from '../../src/views/exceptions.ts';
import { podReview } from '../support/reviews.ts';
import type { Attack } from './attacker.ts';
import { ENFORCED, UNENFORCED } from './tenant-attacks.ts';

export interface StrangerAttack extends Omit<Attack, 'port' | 'protocol' | 'sent'> {
  readonly name: string;
  /** The attacked port. The port of the probes is served without TLS. */
  readonly port: 'reviews' | 'probes';
  /**
   * True if the attack consists of many valid reviews. Many reviews delay others, as the security model states, so the
   * latency is not limited.
   */
  readonly isFlood?: boolean;
  /** Name of the tenant attack whose objects exist during this attack. */
  readonly after?: string;
  /** Builds the requests. */
  requests(): readonly string[];
}

/** Placeholder for a number that differs for each request. */
const NONCE = 'NONCE_____';
const MIB = 1024 * 1024;

/** The routes of the review port. */
export const ROUTES: readonly string[] = [
  ...new Set([...WEBHOOK_REGISTRATIONS.map(({ path }) => path), AUTHORIZER_PATH, '/']),
];
const PROBES = ['/', '/livez', '/healthz', '/readyz', '/readyz/cluster', '/readyz/scc', '/metrics'] as const;
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT', 'PRI'] as const;

interface HttpRequest {
  readonly method?: string;
  readonly target: string;
  readonly headers?: string;
  readonly body?: string;
  /** The declared length of the body. Defaults to the actual length. */
  readonly length?: number;
}

function formatRequest({ method = 'POST', target, headers = '', body = '', length }: HttpRequest): string {
  const declared = length ?? Buffer.byteLength(body);
  return `${method} ${target} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${declared}\r\n${headers}\r\n${body}`;
}

function toRoutes(request: Omit<HttpRequest, 'target'> & { readonly query?: string }): string[] {
  return ROUTES.map((route) => formatRequest({ ...request, target: `${route}${request.query ?? '?timeout=10s'}` }));
}

/** Formats a review with changes to its request. The objects contain no byte that JSON escapes. */
function formatReview(change: Partial<AdmissionRequest>, path: string): string {
  const { request, ...review } = podReview({ namespace: ENFORCED });
  return formatRequest({
    target: `${path}?timeout=10s`,
    body: JSON.stringify({ ...review, request: { ...request, ...change } }),
  });
}

const PRIVILEGED = { containers: [{ name: 'web', image: 'web:1', securityContext: { privileged: true } }] };
const REPLICASET_CONTROLLER = {
  username: 'system:serviceaccount:kube-system:replicaset-controller',
  groups: ['system:serviceaccounts', 'system:authenticated'],
};

function deniedPod(
  metadata: object,
  userInfo: AdmissionRequest['userInfo'] = REPLICASET_CONTROLLER,
): Partial<AdmissionRequest> {
  return {
    userInfo,
    object: {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'web', namespace: ENFORCED, ...metadata },
      spec: PRIVILEGED,
    },
  };
}

function ownedBy(fields: object): object {
  const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web', uid: 'x', controller: true };
  return { ownerReferences: [{ ...owner, ...fields }] };
}

const LONG = `${'u'.repeat(120_000)}${NONCE}`;
const GROUPS = Array.from({ length: 98 }, (_, index) => `${index}${'g'.repeat(1000)}${NONCE}`);

/** Returns a review of the update of an object without a namespace. */
function updateOf(
  [group, version, kind, resource]: readonly [group: string, version: string, kind: string, resource: string],
  object: object,
  oldObject: object,
  more: Partial<AdmissionRequest> = {},
): Partial<AdmissionRequest> {
  const requestKind = { group, version, kind };
  const requestResource = { group, version, resource };
  return {
    ...{ kind: requestKind, resource: requestResource, requestKind, requestResource, operation: 'UPDATE' },
    ...{ userInfo: REPLICASET_CONTROLLER, object, oldObject },
    ...more,
  };
}

function namespaceObject(name: string, level: string): object {
  const labels = { 'kubernetes.io/metadata.name': name, 'pod-security.kubernetes.io/enforce': level };
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
}

function approval(): Partial<AdmissionRequest> {
  const apiVersion = 'policy.portcullis.dev/v1alpha1';
  const metadata = { name: NONCE, namespace: ENFORCED, annotations: { 'portcullis.dev/authors': '["mallory"]' } };
  const spec = {
    serviceAccountName: 'default',
    allow: [{ check: 'hostNamespaces' }],
    expiresAt: new Date(Date.now() + 24 * 3_600_000).toISOString().replace(/\.\d+/, ''),
    reason: 'x',
  };
  const old = { apiVersion, kind: 'PodSecurityException', metadata, spec };
  const at = new Date().toISOString().replace(/\.\d+/, '');
  const status = { approval: { by: 'alice', at, specHash: hashSpec(spec) } };
  return updateOf(
    ['policy.portcullis.dev', 'v1alpha1', 'PodSecurityException', 'podsecurityexceptions'],
    { ...old, status },
    old,
    {
      namespace: ENFORCED,
      name: NONCE,
      subResource: 'status',
      requestSubResource: 'status',
      userInfo: { username: 'alice', groups: GROUPS },
    },
  );
}

const settingsReview = (mode: string): object => ({
  apiVersion: 'config.portcullis.dev/v1alpha1',
  kind: 'PortcullisConfiguration',
  metadata: { name: 'cluster' },
  spec: { scc: { mode } },
});

const SCC = {
  apiVersion: 'security.openshift.io/v1',
  kind: 'SecurityContextConstraints',
  metadata: { name: 'anyuid' },
  priority: 10,
  users: Array.from({ length: 20_000 }, (_, index) => `system:serviceaccount:${ENFORCED}:a${index}`),
  groups: [],
};

function accessReview(fields: object): string {
  const body = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SubjectAccessReview',
    spec: {
      user: `system:node:${NONCE}`,
      groups: ['system:nodes', 'system:authenticated'],
      resourceAttributes: { verb: 'get', resource: 'pods', namespace: ENFORCED, name: 'x' },
      ...fields,
    },
  };
  return formatRequest({ target: `${AUTHORIZER_PATH}?timeout=10s`, body: JSON.stringify(body) });
}

/** Replaces a value with as many empty objects as fit into a body that is parsed immediately. */
function widen(request: string): string {
  const [head = '', body = ''] = request.split('\r\n\r\n');
  const wide = body.replace('"WIDE"', () => `[${'{},'.repeat((127_000 - body.length) / 3)}{}]`);
  return `${head.replace(/Content-Length: \d+/, `Content-Length: ${wide.length}`)}\r\n\r\n${wide}`;
}

/** Number of connections of attacks that rely on the content of requests rather than on the number of connections. */
const CONNECTIONS = 4;

const DIGITS = '1'.repeat(15_000);

export const STRANGER_ATTACKS: readonly StrangerAttack[] = [
  {
    name: 'every route and method',
    port: 'reviews',
    connections: CONNECTIONS,
    isRepeated: true,
    requests: () =>
      METHODS.flatMap((method) =>
        [...ROUTES, '*', '//', '/%', '/validate/pods/', `/${'a/'.repeat(7000)}`].map((target) =>
          formatRequest({ method, target, ...(method === 'GET' || method === 'HEAD' ? {} : { body: '{}' }) }),
        ),
      ),
  },
  {
    name: 'long timeouts in the URL',
    port: 'reviews',
    connections: CONNECTIONS,
    isRepeated: true,
    requests: () =>
      [
        `?timeout=${DIGITS}`,
        `?timeout=${DIGITS}.${DIGITS.slice(0, 500)}`,
        `?timeout=${'1h'.repeat(7000)}`,
        `?timeout=${'.1'.repeat(7000)}x`,
      ].flatMap((query) => toRoutes({ query, body: JSON.stringify(podReview({ namespace: ENFORCED })) })),
  },
  {
    name: 'long URLs',
    port: 'reviews',
    connections: CONNECTIONS,
    isRepeated: true,
    requests: () =>
      ['?', '?timeout=1s&', '?%', '?timeout=%', '#'].flatMap((query) =>
        ['a=1&', '&', '%41', '%', '=', '?', '+'].flatMap((text) =>
          toRoutes({ query: query + text.repeat(15_000 / text.length), body: '{}' }).slice(0, 4),
        ),
      ),
  },
  {
    name: 'headers',
    port: 'reviews',
    connections: CONNECTIONS,
    isRepeated: true,
    requests: () =>
      [
        toRoutes({ headers: 'a:b\r\n'.repeat(3000), body: '{}' }),
        toRoutes({ headers: `X: ${'x'.repeat(15_000)}\r\n`, body: '{}' }),
        toRoutes({ headers: `Cookie: ${'a=b; '.repeat(3000)}\r\n`, body: '{}' }),
        toRoutes({ headers: 'Expect: 100-continue\r\n', body: '{}' }),
        toRoutes({ headers: 'Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n', body: '{}' }),
        toRoutes({ headers: `Content-Encoding: gzip\r\nAccept-Encoding: ${'gzip,'.repeat(2500)}\r\n`, body: '{}' }),
        toRoutes({
          headers: `Traceparent: ${'0'.repeat(15_000)}\r\nContent-Type: ${'a/b;'.repeat(50)}\r\n`,
          body: '{}',
        }),
      ].flat(),
  },
  {
    name: 'pipelined requests',
    port: 'reviews',
    connections: CONNECTIONS,
    isRepeated: true,
    requests: () => [
      'GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(5000),
      'GET /x HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(5000),
      formatReview({}, '/validate/pods').repeat(500),
      formatReview(deniedPod({}), '/mutate/pods').repeat(500),
    ],
  },
  {
    name: 'chunked bodies',
    port: 'reviews',
    connections: CONNECTIONS,
    isRepeated: true,
    requests: () =>
      ROUTES.flatMap((route) => {
        const head = `POST ${route}?timeout=10s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`;
        return [
          `${head}${'1\r\n \r\n'.repeat(200_000)}0\r\n\r\n`,
          `${head}1;${'x'.repeat(15_000)}\r\n \r\n`.repeat(3),
          `${head}1\r\n \r\n0\r\n${'a: b\r\n'.repeat(3000)}\r\n`,
        ];
      }),
  },
  {
    name: 'bodies of 23 MiB',
    port: 'reviews',
    connections: 8,
    addresses: ['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5'],
    isRepeated: true,
    requests: () =>
      [' '.repeat(23 * MIB), `{"a":"${'x'.repeat(23 * MIB)}"}`, '['.repeat(23 * MIB)].flatMap((body, index) =>
        toRoutes({ body }).slice(index, index + 1),
      ),
  },
  {
    name: 'deep and wide JSON',
    port: 'reviews',
    connections: CONNECTIONS,
    isRepeated: true,
    requests: () =>
      [
        '['.repeat(2 * MIB) + ']'.repeat(2 * MIB),
        '{"a":'.repeat(500_000) + '1' + '}'.repeat(500_000),
        `[${'{},'.repeat(MIB)}1]`,
        `{${'"a":1,'.repeat(MIB / 2)}"b":1}`,
        `"${'\\u003c'.repeat(500_000)}"`,
        `[${'1e999,'.repeat(500_000)}${'9'.repeat(100_000)}]`,
        '\ud800'.repeat(100_000),
      ].flatMap((value) => {
        const body = JSON.stringify(podReview({ namespace: ENFORCED, spec: { affinity: 'PLACEHOLDER' } })).replace(
          '"PLACEHOLDER"',
          () => value,
        );
        return toRoutes({ body });
      }),
  },
  {
    name: 'slow bodies',
    port: 'reviews',
    connections: 1000,
    addresses: ['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5'],
    requests: () => toRoutes({ length: 31 * MIB, body: ' ' }),
    trickle: ' ',
  },
  {
    name: 'slow headers',
    port: 'reviews',
    connections: 1500,
    addresses: ['127.0.0.2', '127.0.0.3'],
    requests: () => ROUTES.map((route) => `POST ${route} HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(10_000)}`),
    trickle: 'x',
  },
  {
    name: 'denied pods with long owners',
    port: 'reviews',
    connections: CONNECTIONS,
    isRepeated: true,
    nonce: NONCE,
    requests: () =>
      ['uid', 'apiVersion', 'kind', 'name'].flatMap((field) =>
        ['/validate/pods', '/mutate/pods', '/validate/pods'].map((path) =>
          formatReview(deniedPod(ownedBy({ [field]: LONG })), path),
        ),
      ),
  },
  {
    name: 'denied pods with many owners',
    port: 'reviews',
    connections: CONNECTIONS,
    isRepeated: true,
    nonce: NONCE,
    requests: () =>
      ['/validate/pods', '/mutate/pods', '/validate/pods'].map((path) =>
        formatReview(
          deniedPod({ ...ownedBy({ uid: NONCE, name: `web-${NONCE}` }), name: NONCE, labels: { a: NONCE } }),
          path,
        ),
      ),
  },
  {
    name: 'pods of users with many groups',
    port: 'reviews',
    connections: CONNECTIONS,
    isRepeated: true,
    nonce: NONCE,
    requests: () =>
      ['/mutate/pods', '/validate/pods', '/connect/pods'].map((path) =>
        formatReview(
          path === '/connect/pods'
            ? execReview({ username: `u${NONCE}`, groups: GROUPS })
            : { ...deniedPod({}, { username: `u${NONCE}`, groups: GROUPS }) },
          path,
        ),
      ),
  },
  {
    name: 'forged approvals',
    port: 'reviews',
    connections: CONNECTIONS,
    isRepeated: true,
    nonce: NONCE,
    requests: () => ['/validate/objects', '/mutate/objects'].map((path) => formatReview(approval(), path)),
  },
  {
    name: 'namespace updates',
    port: 'reviews',
    connections: CONNECTIONS,
    isRepeated: true,
    requests: () =>
      [ENFORCED, UNENFORCED].map((name) =>
        formatReview(
          updateOf(
            ['', 'v1', 'Namespace', 'namespaces'],
            namespaceObject(name, 'restricted'),
            namespaceObject(name, 'privileged'),
            {
              name,
              namespace: name,
            },
          ),
          '/validate/pods',
        ),
      ),
  },
  {
    name: 'exec in large pods',
    port: 'reviews',
    isFlood: true,
    after: 'Pod: escaped characters',
    connections: 200,
    addresses: ['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5'],
    isRepeated: true,
    requests: () =>
      Array.from({ length: 60 }, (_, index) =>
        formatReview({ ...execReview(REPLICASET_CONTROLLER), name: `attack-${index}` }, '/connect/pods'),
      ),
  },
  {
    name: 'wide objects that wait',
    port: 'reviews',
    isFlood: true,
    after: 'Pod: escaped characters',
    connections: 400,
    addresses: ['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5'],
    isRepeated: true,
    nonce: NONCE,
    requests: () =>
      [
        formatReview({ ...execReview(REPLICASET_CONTROLLER), object: { command: 'WIDE' } }, '/connect/pods'),
        formatReview(approval(), '/validate/objects').replace('"status":{', '"status":{"wide":"WIDE",'),
        formatReview({ ...deniedPod({ wide: 'WIDE' }), namespace: NONCE }, '/mutate/pods'),
        formatReview({ ...deniedPod({ wide: 'WIDE' }), namespace: NONCE }, '/validate/pods'),
      ].map(widen),
  },
  {
    name: 'settings, SCCs and enforcement',
    port: 'reviews',
    connections: CONNECTIONS,
    isRepeated: true,
    requests: () => [
      formatReview(
        updateOf(
          ['config.portcullis.dev', 'v1alpha1', 'PortcullisConfiguration', 'portcullisconfigurations'],
          settingsReview('enforce'),
          settingsReview('report'),
        ),
        '/validate/objects',
      ),
      ...['/mutate/objects', '/validate/objects'].map((path) =>
        formatReview(
          updateOf(['security.openshift.io', 'v1', 'SecurityContextConstraints', 'securitycontextconstraints'], SCC, {
            ...SCC,
            users: [],
          }),
          path,
        ),
      ),
      formatReview(
        updateOf(
          ['config.openshift.io', 'v1alpha1', 'PSAEnforcementConfig', 'psaenforcementconfigs'],
          {
            spec: { enforcementMode: 'Restricted' },
            status: {
              violatingNamespaces: Array.from({ length: 20_000 }, (_, index) => ({
                name: `n${index}`,
                state: 'Current',
              })),
            },
          },
          { spec: {} },
        ),
        '/validate/objects',
      ),
    ],
  },
  {
    name: 'kubelet authorizer',
    port: 'reviews',
    connections: CONNECTIONS,
    isRepeated: true,
    nonce: NONCE,
    requests: () => [
      accessReview({}),
      accessReview({ groups: Array.from({ length: 500 }, (_, index) => `${index}${'g'.repeat(100)}`) }),
      accessReview({ user: `system:node:${'n'.repeat(60_000)}${NONCE}` }),
      accessReview({ extra: { x: Array.from({ length: 10_000 }, () => 'x') } }),
      accessReview({ groups: Array.from({ length: 5000 }, () => 'x'.repeat(1000)) }),
    ],
  },
  {
    name: 'probes',
    port: 'probes',
    connections: 60,
    isRepeated: true,
    requests: () =>
      METHODS.flatMap((method) =>
        [
          ...PROBES,
          `/readyz?${'verbose&'.repeat(1800)}`,
          `/readyz?verbose&${'exclude=x&'.repeat(1500)}`,
          `/${'a'.repeat(15_000)}`,
        ].map((target) =>
          formatRequest({ method, target, ...(method === 'GET' || method === 'HEAD' ? {} : { body: '{}' }) }),
        ),
      ),
  },
  {
    name: 'pipelined requests to probes',
    port: 'probes',
    connections: CONNECTIONS,
    isRepeated: true,
    requests: () => PROBES.map((target) => formatRequest({ method: 'GET', target }).repeat(5000)),
  },
  {
    name: 'bodies to probes',
    port: 'probes',
    connections: 60,
    requests: () => PROBES.map((target) => formatRequest({ target, length: 31 * MIB, body: ' '.repeat(2 * MIB) })),
    trickle: ' '.repeat(10_000),
  },
];

function execReview(userInfo: AdmissionRequest['userInfo']): Partial<AdmissionRequest> {
  return {
    kind: { group: '', version: 'v1', kind: 'PodExecOptions' },
    requestKind: { group: '', version: 'v1', kind: 'PodExecOptions' },
    operation: 'CONNECT',
    subResource: 'exec',
    requestSubResource: 'exec',
    name: 'attack-0',
    userInfo,
    object: { apiVersion: 'v1', kind: 'PodExecOptions', command: ['sh'], container: 'web', stdin: true },
    oldObject: null,
  };
}
