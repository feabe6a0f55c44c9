import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { CHECKS, judgeAll } from '../../../src/cli/doctor/checks/index.ts';
import { planProbes } from '../../../src/cli/doctor/gather.ts';
import { foresee } from '../../../src/cli/commands/doctor.ts';
import type { Facts, Finding, Probe } from '../../../src/cli/doctor/facts.ts';
import { configurationOf } from '../../../src/cli/installation.ts';
import { createAuthority } from '../../../src/tls/self-signed.ts';
import {
  deployment,
  HEALTHY,
  lease,
  namespace,
  NOW,
  registered,
  replica,
  SERVING,
  servingCertificate,
} from '../../support/doctor.ts';

const FOLDER = 'src/cli/doctor/checks';
const DAY_MS = 24 * 60 * 60 * 1000;
const LOGS = 'kubectl -n portcullis logs -l app.kubernetes.io/name=portcullis --tail=50';
const APPLY = 'portcullis install | kubectl apply --server-side -f -';

/** What is not fine about an installation that is healthy but for that. */
function complaints(change: Partial<Facts>): readonly Finding[] {
  return judgeAll({ ...HEALTHY, ...change }).filter(({ severity }) => severity !== 'ok');
}

const UNTRIED: Finding = {
  check: 'reachable',
  severity: 'info',
  where: 'fail-open.psa.portcullis.dev, kube-system.psa.portcullis.dev, advise.psa.portcullis.dev and 6 more',
  what: 'not tried: no dry run asks them, or the API server says nothing when they fail',
};

const UNTRIED_OFF = 'psa.portcullis.dev, fail-open.psa.portcullis.dev, kube-system.psa.portcullis.dev and 9 more';

test('nothing is wrong with a healthy installation', () => {
  assert.deepEqual(complaints({}), [UNTRIED]);
  assert.deepEqual(
    judgeAll(HEALTHY)
      .filter(({ severity }) => severity === 'ok')
      .map(({ check, where, what }) => `${check}: ${where}: ${what}`),
    [
      'api-server: API server: Kubernetes v1.36.3 has all that is needed',
      'webhooks: ValidatingWebhookConfiguration psa.portcullis.dev: has all 5 webhooks as this version of portcullis wants them',
      'webhooks: MutatingWebhookConfiguration zz.scc.portcullis.dev: has all 2 webhooks as this version of portcullis wants them',
      'webhooks: MutatingWebhookConfiguration objects.scc.portcullis.dev: has all 1 webhooks as this version of portcullis wants them',
      'webhooks: ValidatingWebhookConfiguration scc.portcullis.dev: has all 5 webhooks as this version of portcullis wants them',
      'break-glass: webhooks: break-glass is not in force',
      'reachable: psa.portcullis.dev: answers',
      'reachable: mutate.scc.portcullis.dev: answers',
      'reachable: validate.scc.portcullis.dev: answers',
      'certificates: secrets/portcullis-serving-certificate: the serving certificate is good until 2026-01-22T12:00:00Z',
      'certificates: caBundle: every webhook trusts what is served',
      'replicas: Deployment portcullis: 3 of 3 replicas ready',
      'replicas: PodDisruptionBudget: keeps nodes from being emptied all at once',
      'leases: Lease portcullis: a leads',
      'rights: service account: may do all that the replicas do',
      'configuration: configmaps/portcullis-configuration configuration.yaml: can be read',
      'arrangement: PodSecurity plugin: is off: Portcullis alone judges by Pod Security',
      'tiers: namespaces: none that looks like networking, DNS or storage fails closed',
      'deadlocks: namespace portcullis: no webhook that fails closed is asked about what the replicas need to start',
    ],
  );
});

const BROKEN = registered((webhook) => ({
  ...webhook,
  matchConditions: [...((webhook['matchConditions'] ?? []) as object[]), { name: 'break-glass', expression: 'false' }],
}));

const NOTHING: Partial<Facts> = {
  configurations: [],
  deployment: { value: undefined },
  leases: { value: [] },
  certificate: { value: { source: 'secrets/portcullis-serving-certificate', chain: undefined } },
  lacking: { value: [{ verb: 'list', group: '', resource: 'pods' }] },
};

test('where nothing is installed, nothing else is said', () => {
  const facts = { ...HEALTHY, ...NOTHING };
  assert.deepEqual(judgeAll(facts), [
    {
      check: 'installation',
      severity: 'problem',
      where: 'namespace portcullis',
      what: 'Portcullis is not installed: there is no webhook configuration and no Deployment of it',
      fix: 'portcullis install --help',
    },
  ]);
  assert.deepEqual(foresee(facts), []);
});

test('the development cluster of serve needs nothing but webhooks', () => {
  const server = { value: { version: 'v1.36.0+portcullis-dev', groups: ['security.openshift.io'] } };
  assert.deepEqual(complaints({ ...NOTHING, configurations: registered(), server }), [
    {
      check: 'installation',
      severity: 'info',
      where: 'API server',
      what: 'is the development cluster of portcullis serve, which needs no Deployment, certificates, Lease or rights in it',
    },
    UNTRIED,
  ]);
});

const AT_URL: Partial<Facts> = {
  settings: { ...HEALTHY.settings, webhooks: { url: 'https://127.0.0.1:8443' } },
  deployment: { value: undefined },
  configurations: registered((webhook) => ({ ...webhook, clientConfig: { url: 'https://127.0.0.1:8443/x' } })),
  atUrls: new Map([['https://127.0.0.1:8443', { unknown: 'https://127.0.0.1:8443: connection refused' }]]),
};

describe('with broken glass, going back is advised', () => {
  const off = (change: Partial<Facts>) =>
    complaints({ configurations: BROKEN, ...change }).find(({ check }) => check === 'break-glass')?.fix;
  const cases: readonly (readonly [name: string, change: Partial<Facts>, fix: string])[] = [
    ['where all is mended', {}, 'portcullis break-glass off # replicas are ready and certificates fit'],
    [
      'after replicas are ready',
      { deployment: { value: deployment(0) } },
      'first what is a problem below (replicas), or requests are refused again; then portcullis break-glass off',
    ],
    [
      'after replicas at URLs answer',
      { ...AT_URL, configurations: BROKEN },
      'first what is a problem below (replicas), or requests are refused again; then portcullis break-glass off',
    ],
    [
      'after certificates fit and somebody leads',
      {
        certificate: { value: { source: 'secrets/a', chain: undefined } },
        leases: { value: [] },
      },
      'first what is a problem below (certificates, leases), or requests are refused again; then portcullis break-glass off',
    ],
    [
      'after somebody has looked who may',
      { deployment: { unknown: 'forbidden' }, certificate: { unknown: 'forbidden' } },
      'first make sure of what could not be looked at (replicas, certificates); then portcullis break-glass off',
    ],
  ];
  for (const [name, change, fix] of cases) test(name, () => assert.equal(off(change), fix));

  test('and it is said why nothing was tried', () => {
    assert.deepEqual(
      complaints({ configurations: BROKEN }).filter(({ check }) => check === 'reachable'),
      [{ ...UNTRIED, where: UNTRIED_OFF, what: 'not tried: break-glass keeps API servers from asking them' }],
    );
  });
});

test('every check is registered once', async () => {
  const files = (await readdir(FOLDER)).filter((file) => file !== 'index.ts');
  const names = CHECKS.map(({ name }) => name);
  assert.equal(new Set(names).size, names.length);
  assert.equal(CHECKS.length, files.length);
});

/** With one of our webhooks changed. */
function withWebhook(name: string, change: object): Facts['configurations'] {
  return registered((webhook) => (webhook['name'] === name ? { ...webhook, ...change } : webhook));
}

const foreign = (webhook: object): Facts['configurations'] => [
  ...registered(),
  configurationOf('ValidatingWebhookConfiguration', {
    metadata: { name: 'policy' },
    webhooks: [
      {
        name: 'policy.example.com',
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
        clientConfig: { service: { namespace: 'policy', name: 'policy' } },
        rules: [{ apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['pods'] }],
        ...webhook,
      },
    ],
  }),
];

const podProbe = (answer: Partial<Probe>): Facts['probes'] => [
  ...HEALTHY.probes.filter(({ id }) => id !== 'pod'),
  { id: 'pod', group: '', resource: 'pods', body: {}, namespace: namespace('default'), ...answer },
];

const violating = (answer: Partial<Probe>): Facts['probes'] => [
  ...HEALTHY.probes.filter(({ id }) => id !== 'violating pod'),
  { id: 'violating pod', group: '', resource: 'pods', body: {}, namespace: namespace('portcullis'), ...answer },
];

const call = (error: string): string =>
  `Internal error occurred: failed calling webhook "mutate.scc.portcullis.dev": failed to call webhook: Post "https://portcullis.portcullis.svc:443/scc/mutate?timeout=15s": ${error}`;

/** What is said of a webhook that a pod could not be judged by. */
const unreachable = (error: string, why: string, fix: string): Omit<Finding, 'check'> => ({
  severity: 'problem',
  where: 'mutate.scc.portcullis.dev',
  what: `cannot be called for a pod in default: failed to call webhook: Post "https://portcullis.portcullis.svc:443/scc/mutate?timeout=15s": ${error}`,
  why,
  fix,
});

const cases: readonly (readonly [
  check: string,
  name: string,
  change: Partial<Facts>,
  expected: readonly Omit<Finding, 'check'>[],
])[] = [
  [
    'api-server',
    'that is too old',
    { server: { value: { version: 'v1.29.4', groups: [] } } },
    [
      {
        severity: 'problem',
        where: 'API server',
        what: 'Kubernetes v1.29.4 is older than v1.30',
        why: 'without match conditions it asks more than is needed, and break-glass cannot work',
        fix: 'upgrade the cluster',
      },
    ],
  ],
  [
    'api-server',
    'that was built without a version',
    { server: { value: { version: 'v0.0.0-master+$Format:%H$', groups: [] } } },
    [{ severity: 'unknown', where: 'API server', what: 'its version v0.0.0-master+$Format:%H$ says nothing' }],
  ],
  [
    'api-server',
    'that does not tell',
    { server: { unknown: 'the API server: forbidden' } },
    [{ severity: 'unknown', where: 'API server', what: 'the API server: forbidden' }],
  ],
  [
    'webhooks',
    'that nobody registered',
    { configurations: registered().slice(1) },
    [
      {
        severity: 'problem',
        where: 'ValidatingWebhookConfiguration psa.portcullis.dev',
        what: 'is not registered',
        why: 'nobody asks Portcullis about what it would judge',
        fix: APPLY,
      },
    ],
  ],
  [
    'webhooks',
    'that differ',
    {
      configurations: withWebhook('psa.portcullis.dev', {
        failurePolicy: 'Ignore',
        timeoutSeconds: 30,
        objectSelector: { matchLabels: { a: 'b' } },
      }),
    },
    [
      {
        severity: 'warning',
        where: 'psa.portcullis.dev',
        what: 'failurePolicy is "Ignore"; what this version of portcullis wants is "Fail"',
        why: 'it says whether pods start unjudged while nobody answers, or not at all',
        fix: APPLY,
      },
      {
        severity: 'warning',
        where: 'psa.portcullis.dev',
        what: 'objectSelector is {"matchLabels":{"a":"b"},"matchExpressions":[]}; what this version of portcullis wants is {"matchLabels":{},"matchExpressions":[]}',
        why: 'whoever may label an object may keep it from being judged',
        fix: APPLY,
      },
      {
        severity: 'warning',
        where: 'psa.portcullis.dev',
        what: 'timeoutSeconds is 30; what this version of portcullis wants is 5',
        why: 'requests fail early, or hang for long while nobody answers',
        fix: APPLY,
      },
    ],
  ],
  [
    'webhooks',
    'that ask somebody else',
    { configurations: withWebhook('exec.scc.portcullis.dev', { clientConfig: { url: 'https://127.0.0.1/other' } }) },
    [
      {
        severity: 'problem',
        where: 'exec.scc.portcullis.dev',
        what: 'path is "/other"; what this version of portcullis wants is "/scc/exec"',
        why: 'requests reach nobody, or somebody else',
        fix: APPLY,
      },
    ],
  ],
  [
    'webhooks',
    'of another version',
    { configurations: withWebhook('advise.psa.portcullis.dev', { name: 'old.psa.portcullis.dev' }) },
    [
      {
        severity: 'problem',
        where: 'advise.psa.portcullis.dev',
        what: 'is not registered',
        why: 'nobody asks Portcullis about what it would judge',
        fix: APPLY,
      },
      {
        severity: 'warning',
        where: 'old.psa.portcullis.dev',
        what: 'is unknown to this version of portcullis, in ValidatingWebhookConfiguration psa.portcullis.dev',
        why: 'API servers ask it all the same; it may be left from another version',
        fix: 'kubectl edit validatingwebhookconfiguration psa.portcullis.dev # take out its entry: a client-side apply leaves it there',
      },
    ],
  ],
  [
    'webhooks',
    'whose label is lost',
    {
      configurations: registered().map((one) =>
        one.name === 'psa.portcullis.dev' ? { ...one, metadata: { name: one.name } } : one,
      ),
    },
    [
      {
        severity: 'problem',
        where: 'ValidatingWebhookConfiguration psa.portcullis.dev',
        what: 'has no label app.kubernetes.io/part-of=portcullis',
        why: 'break-glass and uninstall would not find it',
        fix: 'kubectl label validatingwebhookconfiguration psa.portcullis.dev app.kubernetes.io/part-of=portcullis',
      },
    ],
  ],
  [
    'break-glass',
    'in force',
    {
      configurations: withWebhook('psa.portcullis.dev', {
        matchConditions: [{ name: 'break-glass', expression: 'false' }],
      }).map((one) => ({
        ...one,
        metadata: {
          ...one.metadata,
          annotations: {
            'portcullis.dev/break-glass-since': '2026-01-15T11:00:00Z',
            'portcullis.dev/break-glass-by': 'jo',
            'portcullis.dev/break-glass-reason': 'INC-1',
          },
        },
      })),
    },
    [
      {
        severity: 'problem',
        where: 'webhooks',
        what: 'break-glass is in force for psa.portcullis.dev, since 2026-01-15T11:00:00Z by jo: INC-1',
        why: 'nothing is refused or changed by them',
        fix: 'portcullis break-glass off # replicas are ready and certificates fit',
      },
    ],
  ],
  ...(
    [
      [
        'dial tcp 10.0.0.7:8443: connect: connection refused',
        'no replica is ready',
        'kubectl -n portcullis get pods -o wide',
      ],
      [
        'no endpoints available for service "portcullis"',
        'no replica is ready',
        'kubectl -n portcullis get pods -o wide',
      ],
      ['service "portcullis" not found', 'the Service is missing', APPLY],
      [
        'context deadline exceeded',
        'the way from the API server to the pods is blocked by a firewall or a NetworkPolicy, or the replicas hang',
        'kubectl -n portcullis get networkpolicies,endpointslices',
      ],
      [
        'tls: failed to verify certificate: x509: certificate signed by unknown authority',
        'caBundle of the webhook does not fit the serving certificate',
        LOGS,
      ],
      [
        'tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2026-01-15T12:00:00Z is after 2026-01-01T00:00:00Z',
        'the serving certificate is out of date: it is renewed by the replica that leads',
        'kubectl -n portcullis rollout restart deployment portcullis',
      ],
      [
        'tls: failed to verify certificate: x509: certificate is valid for a.example.com, not portcullis.portcullis.svc',
        'the serving certificate is for other names than the one by which it is called, or somebody else answers there',
        'kubectl -n portcullis get service portcullis -o wide',
      ],
    ] as const
  ).map(
    ([error, why, fix]) =>
      [
        'reachable',
        `with ${error}`,
        { probes: podProbe({ refusal: call(error) }) },
        [
          unreachable(error, why, fix),
          {
            ...UNTRIED,
            where: 'fail-open.psa.portcullis.dev, kube-system.psa.portcullis.dev, advise.psa.portcullis.dev and 7 more',
          },
        ],
      ] as const,
  ),
  [
    'reachable',
    'past a webhook of somebody else that fails',
    {
      probes: podProbe({
        refusal:
          'Internal error occurred: failed calling webhook "policy.example.com": failed to call webhook: context deadline exceeded',
      }),
    },
    [
      {
        severity: 'problem',
        where: 'policy.example.com',
        what: 'cannot be called for a pod in default: failed to call webhook: context deadline exceeded',
        why: 'this webhook of somebody else keeps a pod in default from being created',
        fix: 'kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations',
      },
      {
        ...UNTRIED,
        where: 'fail-open.psa.portcullis.dev, kube-system.psa.portcullis.dev, advise.psa.portcullis.dev and 8 more',
      },
    ],
  ],
  [
    'reachable',
    'by somebody who may not try',
    { probes: podProbe({ refusal: 'pods is forbidden: User "jo" cannot create resource "pods"' }) },
    [
      {
        severity: 'unknown',
        where: 'a pod in default',
        what: 'could not be tried: pods is forbidden: User "jo" cannot create resource "pods"',
      },
      {
        ...UNTRIED,
        where: 'fail-open.psa.portcullis.dev, kube-system.psa.portcullis.dev, advise.psa.portcullis.dev and 8 more',
      },
    ],
  ],
  [
    'certificates',
    'that are missing',
    { certificate: { value: { source: 'secrets/portcullis-serving-certificate', chain: undefined } } },
    [
      {
        severity: 'problem',
        where: 'secrets/portcullis-serving-certificate',
        what: 'holds no serving certificate',
        why: 'replicas serve one of their own that no API server trusts',
        fix: LOGS,
      },
    ],
  ],
  [
    'certificates',
    'that nobody renewed',
    {
      certificate: {
        value: { source: 'secrets/a', chain: servingCertificate(new Date(NOW.getTime() - 6.5 * DAY_MS), 7).cert },
      },
    },
    [
      {
        severity: 'warning',
        where: 'secrets/a',
        what: 'the serving certificate expires at 2026-01-16T00:00:00Z',
        why: 'it should have been renewed by now',
        fix: LOGS,
      },
    ],
  ],
  [
    'certificates',
    'that have expired',
    {
      certificate: {
        value: { source: 'secrets/a', chain: servingCertificate(new Date(NOW.getTime() - 8 * DAY_MS), 7).cert },
      },
    },
    [
      {
        severity: 'problem',
        where: 'secrets/a',
        what: 'the serving certificate has expired at 2026-01-14T12:00:00Z',
        why: 'API servers do not talk to replicas that serve it',
        fix: LOGS,
      },
      {
        severity: 'problem',
        where: 'psa.portcullis.dev, fail-open.psa.portcullis.dev, kube-system.psa.portcullis.dev and 9 more',
        what: 'secrets/a: the serving certificate has expired at 2026-01-14T12:00:00Z',
        why: 'API servers refuse the connection, and failurePolicy decides',
        fix: 'kubectl -n portcullis rollout restart deployment portcullis',
      },
    ],
  ],
  [
    'certificates',
    'of another authority',
    {
      certificate: {
        value: {
          source: 'secrets/a',
          chain: servingCertificate(NOW, 7, createAuthority({ now: NOW, days: 7 })).cert,
        },
      },
    },
    [
      {
        severity: 'problem',
        where: 'psa.portcullis.dev, fail-open.psa.portcullis.dev, kube-system.psa.portcullis.dev and 9 more',
        what: 'secrets/a: the serving certificate is not signed by a valid authority in caBundle',
        why: 'API servers refuse the connection, and failurePolicy decides',
        fix: 'kubectl -n portcullis rollout restart deployment portcullis',
      },
    ],
  ],
  [
    'certificates',
    'that a webhook was never told of',
    {
      configurations: withWebhook('exec.scc.portcullis.dev', {
        clientConfig: { service: { namespace: 'portcullis', name: 'portcullis', path: '/scc/exec', port: 443 } },
      }),
    },
    [
      {
        severity: 'problem',
        where: 'exec.scc.portcullis.dev',
        what: 'has no caBundle, in scc.portcullis.dev',
        why: 'API servers do not trust what the replicas serve',
        fix: 'kubectl -n portcullis get lease portcullis # the leader fills it in; does anybody lead?',
      },
    ],
  ],
  [
    'certificates',
    'that are not shown',
    { certificate: { unknown: 'secrets/a: forbidden' } },
    [
      { severity: 'unknown', where: 'serving certificate', what: 'secrets/a: forbidden' },
      {
        severity: 'unknown',
        where: 'psa.portcullis.dev, fail-open.psa.portcullis.dev, kube-system.psa.portcullis.dev and 9 more',
        what: 'secrets/a: forbidden',
      },
    ],
  ],
  [
    'replicas',
    'none of which is ready',
    { deployment: { value: deployment(0) } },
    [
      {
        severity: 'problem',
        where: 'Deployment portcullis',
        what: '0 of 3 replicas ready',
        why: 'nobody answers reviews',
        fix: 'kubectl -n portcullis describe pods -l app.kubernetes.io/name=portcullis',
      },
    ],
  ],
  [
    'replicas',
    'on one node, without a budget',
    {
      deployment: { value: deployment(2) },
      disruptionBudgets: { value: [] },
      pods: { value: [replica('n1'), replica('n1')] },
    },
    [
      {
        severity: 'warning',
        where: 'Deployment portcullis',
        what: '2 of 3 replicas ready',
        why: 'fewer are left to answer when another one ends',
        fix: 'kubectl -n portcullis describe pods -l app.kubernetes.io/name=portcullis',
      },
      {
        severity: 'warning',
        where: 'PodDisruptionBudget',
        what: 'is not there',
        why: 'all replicas may be evicted at once',
        fix: 'kubectl -n portcullis create poddisruptionbudget portcullis --selector=app.kubernetes.io/name=portcullis --max-unavailable=1',
      },
      {
        severity: 'warning',
        where: 'Deployment portcullis',
        what: 'all ready replicas run on node n1',
        why: 'nobody answers when that node goes',
        fix: 'kubectl -n portcullis rollout restart deployment portcullis',
      },
    ],
  ],
  [
    'replicas',
    'of which there is one',
    { deployment: { value: deployment(1, 1) }, pods: { value: [replica('n1')] } },
    [
      {
        severity: 'warning',
        where: 'Deployment portcullis',
        what: 'has only one replica',
        why: 'nobody answers while it is replaced',
        fix: 'kubectl -n portcullis scale deployment portcullis --replicas=3',
      },
    ],
  ],
  [
    'replicas',
    'that run elsewhere',
    { deployment: { value: undefined } },
    [{ severity: 'info', where: 'Deployment portcullis', what: 'is not there: replicas run elsewhere, if they do' }],
  ],
  [
    'replicas',
    'at a URL where nobody answers',
    { ...AT_URL, probes: [] },
    [
      { severity: 'info', where: 'Deployment portcullis', what: 'is not there: replicas run elsewhere, if they do' },
      {
        severity: 'problem',
        where: 'https://127.0.0.1:8443',
        what: 'no replica answers there: connection refused',
        why: 'nobody answers reviews',
        fix: 'start the replicas that listen there',
      },
    ],
  ],
  [
    'replicas',
    'at a URL that API servers reach, and this machine does not',
    AT_URL,
    [
      { severity: 'info', where: 'Deployment portcullis', what: 'is not there: replicas run elsewhere, if they do' },
      {
        severity: 'info',
        where: 'https://127.0.0.1:8443',
        what: 'no replica answers there: connection refused; but API servers reach one',
      },
    ],
  ],
  [
    'leases',
    'of a leader that is gone',
    { leases: { value: [lease('portcullis', new Date(NOW.getTime() - 60_000))] } },
    [
      {
        severity: 'problem',
        where: 'Lease portcullis',
        what: 'a led, but has not renewed it since 2026-01-15T11:59:00.000000Z',
        why: 'certificates are not renewed, namespaces get no ranges; what is decided already stays',
        fix: LOGS,
      },
    ],
  ],
  [
    'leases',
    'of a replica that serves another certificate',
    {
      leases: {
        value: [
          lease('portcullis', NOW),
          lease('portcullis-replica-b', NOW, {
            labels: { 'app.kubernetes.io/component': 'replica' },
            annotations: { 'portcullis.dev/serving-certificate': '00' },
          }),
        ],
      },
    },
    [
      {
        severity: 'warning',
        where: 'portcullis-replica-b',
        what: 'serves another certificate than the Secret holds',
        why: 'for a moment after a renewal that is so; if it stays, the replica does not see the Secret',
        fix: 'kubectl -n portcullis rollout restart deployment portcullis',
      },
    ],
  ],
  [
    'rights',
    'that are missing',
    {
      lacking: {
        value: [
          { verb: 'watch', group: '', resource: 'pods' },
          { verb: 'list', group: '', resource: 'pods' },
          { verb: 'use', group: 'security.openshift.io', resource: 'securitycontextconstraints', name: 'anyuid' },
          { verb: 'use', group: 'security.openshift.io', resource: 'securitycontextconstraints', name: 'privileged' },
          { verb: 'create', group: 'coordination.k8s.io', resource: 'leases', namespace: 'portcullis' },
        ],
      },
    },
    [
      {
        severity: 'problem',
        where: 'service account',
        what: 'may not list, watch pods; use securitycontextconstraints.security.openshift.io (anyuid, privileged); create leases.coordination.k8s.io in portcullis',
        why: 'replicas do not become ready, or controllers do not do their work',
        fix: APPLY,
      },
    ],
  ],
  [
    'configuration',
    'that is wrong',
    {
      configuration: {
        value: {
          source: 'configmaps/a b.yaml',
          text: 'apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\ndefault: {}\n',
        },
      },
    },
    [
      {
        severity: 'problem',
        where: 'configmaps/a b.yaml',
        what: 'strict decoding error: unknown field "default" (configmaps/a b.yaml:3:1, default)',
        why: 'replicas that run keep the last good one, new ones do not start',
        fix: 'kubectl -n portcullis edit configmaps a',
      },
    ],
  ],
  [
    'configuration',
    'that is gone',
    { configuration: { value: { source: 'configmaps/a b.yaml', text: undefined } } },
    [
      {
        severity: 'problem',
        where: 'configmaps/a b.yaml',
        what: 'is not there',
        why: 'replicas that run keep the last good one, new ones do not start',
        fix: 'kubectl -n portcullis edit configmaps a',
      },
    ],
  ],
  [
    'configuration',
    'that is wrong, and no process reads',
    { ...AT_URL, configuration: { value: { source: 'configmaps/a b.yaml', text: undefined } } },
    [
      {
        severity: 'info',
        where: 'configmaps/a b.yaml',
        what: 'is not there',
        why: 'only replicas of the Deployment read it, and none is ready; those that run as processes read the file of their --config',
        fix: 'kubectl -n portcullis edit configmaps a',
      },
    ],
  ],
  [
    'arrangement',
    'with the plugin of the API server',
    {
      probes: violating({
        refusal: 'pods "x" is forbidden: violates PodSecurity "restricted:latest": host namespaces (hostPID=true)',
      }),
    },
    [
      {
        severity: 'info',
        where: 'PodSecurity plugin',
        what: 'is on, too: it judges first by the same labels, and what it refuses Portcullis is not asked about; equal warnings are shown once',
        why: 'exemptions and defaults of the configuration of Portcullis lift nothing that the built-in plugin refuses',
      },
    ],
  ],
  [
    'arrangement',
    'in which nobody judges',
    { configurations: [] },
    [
      {
        severity: 'problem',
        where: 'PodSecurity plugin',
        what: 'is off, and psa.portcullis.dev is not registered',
        why: 'nobody judges pods by the labels of their namespaces',
        fix: APPLY,
      },
    ],
  ],
  [
    'arrangement',
    'that cannot be seen',
    { probes: violating({ refusal: 'exceeded quota' }) },
    [{ severity: 'unknown', where: 'PodSecurity plugin', what: 'could not see whether it is on: exceeded quota' }],
  ],
  [
    'arrangement',
    'with SCCs of OpenShift',
    { server: { value: { version: 'v1.32.1', groups: ['route.openshift.io'] } } },
    [
      {
        severity: 'problem',
        where: 'SCC admission',
        what: 'this cluster has its own (OpenShift), and zz.scc.portcullis.dev, objects.scc.portcullis.dev, scc.portcullis.dev are registered beside it',
        why: 'both choose an SCC for each pod, allot ranges to namespaces, and undo what the other one does',
        fix: 'portcullis install --profile=openshift | kubectl apply --server-side -f - && kubectl delete validatingwebhookconfiguration/scc.portcullis.dev mutatingwebhookconfiguration/zz.scc.portcullis.dev mutatingwebhookconfiguration/objects.scc.portcullis.dev --ignore-not-found',
      },
    ],
  ],
  [
    'tiers',
    'of networking, DNS and storage',
    {
      namespaces: {
        value: [
          namespace('portcullis'),
          namespace('calico-system'),
          namespace('tigera-operator', { 'portcullis.dev/admission': 'fail-open' }),
          namespace('ebs-csi'),
          namespace('csiszar'),
        ],
      },
    },
    [
      {
        severity: 'problem',
        where: 'namespace calico-system',
        what: 'looks like networking, and fails closed',
        why: 'after a cold start its pods wait for Portcullis, and Portcullis for the network',
        fix: 'kubectl label namespace calico-system portcullis.dev/admission=fail-open',
      },
      {
        severity: 'warning',
        where: 'namespace ebs-csi',
        what: 'looks like storage, and fails closed',
        why: 'after a cold start what needs volumes waits until Portcullis runs',
        fix: 'kubectl label namespace ebs-csi portcullis.dev/admission=fail-open',
      },
    ],
  ],
  [
    'deadlocks',
    'of our own making',
    { configurations: withWebhook('psa.portcullis.dev', { namespaceSelector: {}, matchConditions: [] }) },
    [
      {
        severity: 'problem',
        where: 'psa.portcullis.dev',
        what: 'fails closed, and is asked about CREATE pods in namespace portcullis',
        why: 'while no replica runs, none can start',
        fix: APPLY,
      },
    ],
  ],
  [
    'deadlocks',
    'with a webhook of somebody else',
    { configurations: foreign({ matchConditions: [{ name: 'a', expression: 'true' }] }) },
    [
      {
        severity: 'warning',
        where: 'policy.example.com (policy)',
        what: 'fails closed, and is asked about CREATE pods in namespace portcullis, unless its match conditions say otherwise',
        why: 'while it does not answer, no replica can start',
        fix: 'kubectl edit validatingwebhookconfiguration policy # leave namespace portcullis out by its namespaceSelector',
      },
    ],
  ],
  [
    'deadlocks',
    'of two that wait for each other',
    {
      configurations: foreign({}),
      namespaces: { value: [namespace('portcullis'), namespace('policy')] },
    },
    [
      {
        severity: 'problem',
        where: 'policy.example.com (policy)',
        what: 'fails closed, and is asked about CREATE pods in namespace portcullis',
        why: 'it runs in namespace policy, which fails closed for Portcullis: when both are down, neither can start',
        fix: 'kubectl edit validatingwebhookconfiguration policy # leave namespace portcullis out by its namespaceSelector',
      },
    ],
  ],
  ['deadlocks', 'with a webhook that fails open', { configurations: foreign({ failurePolicy: 'Ignore' }) }, []],
];

describe('the doctor looks at', () => {
  for (const [check, name, change, expected] of cases) {
    test(`${check} ${name}`, () => {
      assert.deepEqual(
        complaints(change).filter((finding) => finding.check === check),
        expected.map((finding) => ({ check, ...finding })),
      );
    });
  }
});

test('an outage is foreseen tier by tier', () => {
  const namespaces = [
    namespace('default'),
    namespace('kube-system'),
    namespace('network', { 'portcullis.dev/admission': 'fail-open' }),
    namespace('portcullis'),
    namespace('shop'),
  ];
  const outage = foresee({ ...HEALTHY, namespaces: { value: namespaces } });
  assert.deepEqual(
    foresee({ ...HEALTHY, configurations: BROKEN, namespaces: { value: namespaces } }),
    outage,
    'what will be when the glass is whole again',
  );
  const [closed, open, excluded, ...none] = outage;
  assert.deepEqual(none, []);
  assert.deepEqual(closed, {
    tier: 'fail-closed',
    pods: 'refused',
    namespaceLabels: 'refused',
    newNamespaces: 'refused',
    namespaces: ['default', 'shop'],
  });
  assert.deepEqual(open, {
    tier: 'fail-open',
    pods: 'start unjudged',
    namespaceLabels: 'change unjudged',
    newNamespaces: 'created unjudged',
    namespaces: ['kube-system', 'network'],
  });
  assert.equal(excluded?.tier, 'excluded');
  assert.equal(excluded.pods, 'start');
  assert.deepEqual(excluded.namespaces, ['portcullis']);
});

test('an outage is not foreseen where namespaces are not known', () => {
  assert.deepEqual(foresee({ ...HEALTHY, namespaces: { unknown: 'forbidden' } }), []);
});

test('dry runs are planned for each tier', () => {
  const planned = planProbes({
    installation: 'portcullis',
    configurations: registered(),
    namespaces: [
      namespace('a'),
      namespace('b', { 'pod-security.kubernetes.io/enforce': 'baseline' }),
      namespace('kube-system'),
      namespace('portcullis', { 'pod-security.kubernetes.io/enforce': 'restricted' }),
    ],
    groups: ['security.openshift.io'],
  });
  assert.deepEqual(
    planned.map(({ id, namespace: where }) => `${id} ${where?.name ?? ''}`),
    ['namespace ', 'pod b', 'pod kube-system', 'pod portcullis', 'violating pod portcullis', 'scc '],
  );
});

test('a serving certificate in the facts is trusted', () => assert.match(SERVING, /^-----BEGIN CERTIFICATE-----/));
