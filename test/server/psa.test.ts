import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { createStore, type WritableStore } from '../../src/cluster/store.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import { DEFAULT_CONFIGURATION } from '../../src/policy/psa/configuration.ts';
import { createPodSecurity } from '../../src/policy/psa/configuration.ts';
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts';
import { createPsaWebhook } from '../../src/server/webhooks/psa.ts';
import { createWaitingRoom } from '../../src/server/waiting-room.ts';
import {
  compliantPod,
  deploymentRequest,
  hostNetworkPod,
  namespaceRequest,
  namespaceWith,
  PLAIN_DETAILS,
  plainPod,
  podRequest,
  type Labels,
} from '../support/pod-security.ts';

interface Rig {
  readonly store: WritableStore;
  readonly metrics: Metrics;
  decide(request: AdmissionRequest): Decision;
  /** The API server waits for so long. */
  decideIn(timeoutMs: number, request: AdmissionRequest): Promise<Decision>;
  /** Replaces the configuration in force. */
  configure(exemptNamespaces: readonly string[]): void;
}

/** The webhook over a store that holds the namespace `ns`. */
function rig(labels: Labels): Rig {
  const store = createStore();
  store.put('Namespace', namespaceWith(labels));
  const metrics = createMetrics({ version: '0.0.0' });
  let podSecurity = createPodSecurity(DEFAULT_CONFIGURATION);
  const waitingRoom = createWaitingRoom();
  const webhook = createPsaWebhook({ podSecurity: () => podSecurity, metrics: metrics.podSecurity, waitingRoom });
  return {
    store,
    metrics,
    decide: (request) => webhook.decide(request, { store, now: () => 0 }) as Decision,
    decideIn: (timeoutMs, request) =>
      Promise.resolve(webhook.decide(request, { store, now: () => 0, deadlineMs: timeoutMs })),
    configure(namespaces) {
      const exemptions = { ...DEFAULT_CONFIGURATION.exemptions, namespaces };
      podSecurity = createPodSecurity({ ...DEFAULT_CONFIGURATION, exemptions });
    },
  };
}

/** The series of pod security, without those that are 0. */
async function series(metrics: Metrics): Promise<string[]> {
  const text = await metrics.expose();
  return text.split('\n').filter((line) => line.startsWith('pod_security_') && !line.endsWith(' 0'));
}

test('series that exist from the start', async () => {
  const text = await rig({}).metrics.expose();
  assert.deepEqual(
    text.split('\n').filter((line) => line.startsWith('pod_security_')),
    [
      ...['create', 'update'].map(
        (operation) =>
          `pod_security_evaluations_total{decision="allow",policy_level="privileged",policy_version="latest",mode="enforce",request_operation="${operation}",resource="pod",subresource=""} 0`,
      ),
      ...['create', 'update'].flatMap((operation) =>
        ['pod', 'controller'].map(
          (resource) =>
            `pod_security_exemptions_total{request_operation="${operation}",resource="${resource}",subresource=""} 0`,
        ),
      ),
    ],
  );
  const help = text.split('\n').filter((line) => line.startsWith('# HELP pod_security_'));
  assert.equal(help.length, 3);
  for (const line of help) assert.match(line, /^# HELP \w+ \[ALPHA\] /);
});

interface CountCase {
  readonly name: string;
  readonly labels: Labels;
  readonly exempt?: readonly string[];
  readonly request: AdmissionRequest;
  readonly expected: readonly string[];
}

const evaluation = (decision: string, level: string, version: string, mode: string, request: string) =>
  `pod_security_evaluations_total{decision="${decision}",policy_level="${level}",policy_version="${version}",mode="${mode}",${request}} 1`;

const CREATE_POD = 'request_operation="create",resource="pod",subresource=""';
const CREATE_CONTROLLER = 'request_operation="create",resource="controller",subresource=""';

const COUNTS: readonly CountCase[] = [
  {
    name: 'an allowed pod',
    labels: { enforce: 'restricted', 'enforce-version': 'v1.30' },
    request: podRequest(compliantPod()),
    expected: [evaluation('allow', 'restricted', 'v1.30', 'enforce', CREATE_POD)],
  },
  {
    name: 'a refused pod, at versions that are not known yet',
    labels: { enforce: 'baseline', 'enforce-version': 'v1.999', audit: 'baseline' },
    request: podRequest(hostNetworkPod()),
    expected: [
      evaluation('deny', 'baseline', 'future', 'enforce', CREATE_POD),
      evaluation('deny', 'baseline', 'latest', 'audit', CREATE_POD),
    ],
  },
  {
    name: 'a privileged policy has no version',
    labels: { 'enforce-version': 'v1.20', warn: 'baseline' },
    request: podRequest(compliantPod(), {
      operation: 'UPDATE',
      requestSubResource: 'ephemeralcontainers',
      oldObject: plainPod(),
      object: { ...plainPod(), spec: { ...plainPod().spec, ephemeralContainers: [{ name: 'e' }] } },
    }),
    expected: [
      evaluation(
        'allow',
        'privileged',
        'latest',
        'enforce',
        'request_operation="update",resource="pod",subresource="ephemeralcontainers"',
      ),
    ],
  },
  {
    name: 'a warned workload with wrong labels',
    labels: { enforce: 'x', warn: 'baseline' },
    request: deploymentRequest({ spec: { template: hostNetworkPod() } }),
    expected: [
      evaluation('deny', 'baseline', 'latest', 'warn', CREATE_CONTROLLER),
      `pod_security_errors_total{fatal="false",${CREATE_CONTROLLER}} 1`,
    ],
  },
  {
    name: 'an exempt workload',
    labels: {},
    exempt: ['ns'],
    request: deploymentRequest({}),
    expected: [`pod_security_exemptions_total{${CREATE_CONTROLLER}} 1`],
  },
  {
    name: 'a pod that cannot be decoded',
    labels: { enforce: 'baseline' },
    request: podRequest(7),
    expected: [`pod_security_errors_total{fatal="true",${CREATE_POD}} 1`],
  },
  {
    name: 'namespaces count nowhere',
    labels: {},
    request: namespaceRequest('CREATE', namespaceWith({ enforce: 'x' }), null),
    expected: [],
  },
];

suite('what is counted', () => {
  for (const { name, labels, exempt = [], request, expected } of COUNTS) {
    test(name, async () => {
      const { decide, configure, metrics } = rig(labels);
      configure(exempt);
      decide(request);
      const sorted = (line: string) => line.replace(/\{(.*)\}/, (_all, list: string) => list.split(',').sort().join());
      assert.deepEqual((await series(metrics)).map(sorted), expected.map(sorted));
    });
  }
});

test('the store decides: a namespace that changes, one that is gone, pods of the namespace', () => {
  const { decide, store } = rig({ enforce: 'baseline' });
  const request = podRequest(hostNetworkPod());
  assert.equal(decide(request).allowed, false);
  store.put('Namespace', namespaceWith({ enforce: 'privileged' }));
  assert.equal(decide(request).allowed, true);
  store.put('Pod', hostNetworkPod());
  store.put('Pod', { ...hostNetworkPod(), metadata: { name: 'p', namespace: 'other' } });
  const tighten = namespaceRequest('UPDATE', namespaceWith({ enforce: 'baseline' }), namespaceWith({}));
  assert.deepEqual(decide(tighten).warnings, [
    'existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest"',
    'p: host namespaces',
  ]);
});

suite('a namespace that the store does not have yet', () => {
  const NOT_FOUND = 'Internal error occurred: failed to lookup namespace "ns"';
  const messageOf = (decision: Decision): string | undefined =>
    decision.allowed ? undefined : decision.status.message;

  test('is waited for, and counts as it is then', async () => {
    for (const [level, expected] of [
      ['baseline', 'pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'],
      ['privileged', undefined],
    ] as const) {
      const { decideIn, store, metrics } = rig({});
      store.remove('Namespace', 'ns');
      const deciding = decideIn(10_000, podRequest(hostNetworkPod()));
      setImmediate(() => store.put('Namespace', namespaceWith({ enforce: level })));
      assert.equal(messageOf(await deciding), expected);
      const counted = (await series(metrics)).filter((line) => line.startsWith('pod_security_errors_total'));
      assert.deepEqual(counted, [], 'only the answer that was given is counted');
    }
  });

  test('is not waited for longer than the API server waits', async () => {
    const { decideIn, store } = rig({});
    store.remove('Namespace', 'ns');
    assert.equal(messageOf(await decideIn(520, podRequest(hostNetworkPod()))), NOT_FOUND);
    assert.equal(messageOf(await decideIn(400, podRequest(hostNetworkPod()))), NOT_FOUND);
  });

  test('is not waited for if the request names none', () => {
    const decision = rig({}).decide(podRequest(hostNetworkPod(), { namespace: '' }));
    assert.equal(messageOf(decision), 'Internal error occurred: failed to lookup namespace ""');
  });
});

test('a new configuration holds for the next request', () => {
  const { decide, configure } = rig({ enforce: 'baseline' });
  const request = podRequest(hostNetworkPod());
  assert.equal(decide(request).allowed, false);
  configure(['ns']);
  assert.deepEqual(decide(request), { allowed: true, auditAnnotations: { exempt: 'namespace' } });
  configure([]);
  assert.equal(decide(request).allowed, false);
});

interface Exchange {
  readonly area: string;
  readonly name: string;
  readonly webhookCalls?: readonly { readonly body?: { readonly request?: AdmissionRequest } }[];
}

/** Pods of one container `c` that keep baseline and break restricted. */
const WARNED: Decision = {
  allowed: true,
  auditAnnotations: { 'enforce-policy': 'baseline:latest' },
  warnings: [`would violate PodSecurity "restricted:latest": ${PLAIN_DETAILS}`],
};
const SILENT: Decision = { allowed: true };
const ADVISED: Decision = { allowed: true, warnings: WARNED.warnings ?? [] };
const REFUSED: Decision = {
  allowed: false,
  status: {
    metadata: {},
    status: 'Failure',
    message:
      'pods "hn" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true), hostPort (container "c" uses hostPort 80)',
    reason: 'Forbidden',
    details: { name: 'hn', kind: 'pods' },
    code: 403,
  },
  auditAnnotations: { 'enforce-policy': 'baseline:latest' },
};
/** Two containers, both named. */
const warnedWith = (other: string): Decision => ({
  ...WARNED,
  warnings: [
    `would violate PodSecurity "restricted:latest": ${PLAIN_DETAILS.replaceAll('container "c"', `containers "c", "${other}"`)}`,
  ],
});

/** What a real API server sent, and the answer where the namespace `rec` enforces baseline and warns of restricted. */
const REVIEWS: Readonly<Record<string, Decision>> = {
  'pod create: the review that a webhook receives': WARNED,
  'pod create, server dry run': WARNED,
  'pod create with generateName': WARNED,
  'pod create by a user': WARNED,
  'pod create by a service account': WARNED,
  'pod label by merge patch': SILENT,
  'pod image update': WARNED,
  'ephemeral container': warnedWith('dbg'),
  'pod with resources': WARNED,
  resize: SILENT,
  'exec: the review that a webhook receives': SILENT,
  attach: SILENT,
  'deployment create': ADVISED,
  'cronjob create': ADVISED,
  'namespace label': SILENT,
  'namespace create': SILENT,
  'a legal map key named __proto__ and others that JavaScript treats specially': WARNED,
  'empty lists and nulls as they arrive': WARNED,
  'host network port defaulting': REFUSED,
  'seccomp annotation as it arrives': WARNED,
};

suite('reviews that a real API server sent', () => {
  const path = join(process.env['PORTCULLIS_CONFORMANCE'] ?? '../shared/conformance', 'apiserver/transcripts.ndjson');
  if (!existsSync(path)) {
    test('transcripts', { skip: `there is no ${path}` });
    return;
  }
  const exchanges = readFileSync(path, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Exchange)
    .filter(({ area }) => area === 'review');
  const { store, decide } = rig({});
  store.put('Namespace', {
    ...namespaceWith({ enforce: 'baseline', warn: 'restricted' }),
    metadata: { ...namespaceWith({ enforce: 'baseline', warn: 'restricted' }).metadata, name: 'rec' },
  });
  const answered = new Set<string>();
  for (const { name, webhookCalls = [] } of exchanges) {
    for (const { body } of webhookCalls) {
      const request = body?.request;
      if (!request) continue;
      answered.add(name);
      test(name, () => assert.deepEqual(decide(request), REVIEWS[name]));
    }
  }
  test('all of them are there', () => assert.deepEqual([...answered].sort(), Object.keys(REVIEWS).sort()));
});
