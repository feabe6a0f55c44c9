import { stateOf } from '../../break-glass.ts';
import { failsClosed, isAsked, ownWebhooks } from '../matching.ts';
import { printNames, type Check, type Facts, type Probe, type Remark } from '../facts.ts';

const FAILED = /failed calling webhook "([^"]+)": (.*)/s;
const DENIED = /admission webhook "([^"]+)" denied the request/;

/** API servers reach the webhooks that they must reach. */
export const reachable: Check = {
  name: 'reachable',
  judge(facts) {
    const asked = facts.probes.filter(({ id }) => id !== 'violating pod');
    const failures = asked.flatMap((probe) => failureOf(probe, facts));
    const answered = new Set(asked.flatMap((probe) => answeredBy(probe, facts)));
    const reached: readonly Remark[] = [...answered].map((where) => ({ severity: 'ok', where, what: 'answers' }));
    const failed = new Set(failures.map(({ where }) => where));
    const strange = asked.flatMap((probe) => refusalOf(probe));
    return [
      ...failures,
      ...reached.filter(({ where }) => !failed.has(where)),
      ...strange,
      ...untried(facts, answered, failed),
    ];
  },
};

const NAMES: Readonly<Record<Probe['id'], string>> = {
  namespace: 'a namespace',
  pod: 'a pod',
  scc: 'an SCC',
  'violating pod': 'a violating pod',
};

function whereOf({ id, namespace }: Probe): string {
  return namespace ? `${NAMES[id]} in ${namespace.name}` : NAMES[id];
}

function isOwn({ configurations }: Facts, name: string): boolean {
  return ownWebhooks(configurations).some(({ webhook }) => webhook.name === name);
}

function failureOf(probe: Probe, facts: Facts): readonly Remark[] {
  const [, name = '', error = ''] = FAILED.exec(probe.refusal ?? '') ?? [];
  if (name === '') return [];
  const what = `cannot be called for ${whereOf(probe)}: ${error}`;
  if (!isOwn(facts, name)) {
    const why = `this webhook of somebody else keeps ${whereOf(probe)} from being created`;
    return [
      {
        severity: 'problem',
        where: name,
        what,
        why,
        fix: 'kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations',
      },
    ];
  }
  const [, why, fix] = CAUSES.find(([pattern]) => pattern.test(error)) ?? UNKNOWN_CAUSE;
  return [{ severity: 'problem', where: name, what, why, fix: fix(facts.namespace) }];
}

type Cause = readonly [pattern: RegExp, why: string, fix: (namespace: string) => string];

/** What API servers say of webhooks that they cannot call, and what to do. */
const CAUSES: readonly Cause[] = [
  [
    /x509: certificate has expired/,
    'the serving certificate is out of date: it is renewed by the replica that leads',
    (namespace) => `kubectl -n ${namespace} rollout restart deployment portcullis`,
  ],
  [
    /x509: certificate is (?:valid for|not valid for)|doesn't contain any IP SANs/,
    'the serving certificate is for other names than the one by which it is called, or somebody else answers there',
    (namespace) => `kubectl -n ${namespace} get service portcullis -o wide`,
  ],
  [
    /x509:/,
    'caBundle of the webhook does not fit the serving certificate',
    (namespace) => `kubectl -n ${namespace} logs -l app.kubernetes.io/name=portcullis --tail=50`,
  ],
  [
    /service "[^"]*" not found/,
    'the Service is missing',
    (namespace) =>
      `portcullis install${namespace === 'portcullis' ? '' : ` --namespace ${namespace}`} | kubectl apply --server-side -f -`,
  ],
  [
    /no endpoints available|connection refused|EOF|connection reset/,
    'no replica is ready',
    (namespace) => `kubectl -n ${namespace} get pods -o wide`,
  ],
  [
    /deadline exceeded|Timeout exceeded|i\/o timeout|handshake timeout|no route to host/,
    'the way from the API server to the pods is blocked by a firewall or a NetworkPolicy, or the replicas hang',
    (namespace) => `kubectl -n ${namespace} get networkpolicies,endpointslices`,
  ],
  [
    /503|the cluster has not been read|the server is currently unable/,
    'the replica has not read the cluster yet, or may not',
    (namespace) => `kubectl -n ${namespace} logs -l app.kubernetes.io/name=portcullis --tail=50`,
  ],
];

const UNKNOWN_CAUSE: Cause = [
  /^/,
  'what it is asked about is refused where it fails closed, and goes unjudged elsewhere',
  (namespace) => `kubectl -n ${namespace} logs -l app.kubernetes.io/name=portcullis --tail=50`,
];

/** Our webhooks that have answered: one refused, or the request passed although they fail closed. */
function answeredBy({ object, refusal, namespace, group, resource, body }: Probe, facts: Facts): readonly string[] {
  const [, denier] = DENIED.exec(refusal ?? '') ?? [];
  if (denier !== undefined) return isOwn(facts, denier) ? [denier] : [];
  if (!object) return [];
  // A Namespace is judged by itself.
  const { labels = {} } = object.metadata;
  const self = { name: object.metadata.name, labels };
  const of = resource === 'namespaces' && group === '' ? self : namespace;
  const request = { operation: 'CREATE', group, resource, namespace: of, labels: labelsOf(body) } as const;
  return ownWebhooks(facts.configurations)
    .filter(({ webhook }) => failsClosed(webhook) && isAsked(webhook, request))
    .map(({ webhook }) => webhook.name);
}

function labelsOf(body: object): Readonly<Record<string, string>> {
  const { metadata } = body as { readonly metadata?: { readonly labels?: Readonly<Record<string, string>> } };
  return metadata?.labels ?? {};
}

/** A refusal that has nothing to do with webhooks: it says that the request got nowhere. */
function refusalOf(probe: Probe): readonly Remark[] {
  const { refusal } = probe;
  if (refusal === undefined || FAILED.test(refusal) || DENIED.test(refusal)) return [];
  return [{ severity: 'unknown', where: whereOf(probe), what: `could not be tried: ${refusal}` }];
}

/** Webhooks that no probe concerns, or whose failure nobody would be told of. */
function untried(facts: Facts, answered: ReadonlySet<string>, failed: ReadonlySet<string>): readonly Remark[] {
  const rest = ownWebhooks(facts.configurations)
    .map(({ webhook }) => webhook)
    .filter(({ name }) => !answered.has(name) && !failed.has(name));
  const [off, on] = [rest.filter((one) => stateOf(one) === 'off'), rest.filter((one) => stateOf(one) !== 'off')];
  const say = (webhooks: typeof rest, what: string): readonly Remark[] =>
    webhooks.length === 0 ? [] : [{ severity: 'info', where: printNames(webhooks.map(({ name }) => name)), what }];
  return [
    ...say(off, 'not tried: break-glass keeps API servers from asking them'),
    ...say(on, 'not tried: no dry run asks them, or the API server says nothing when they fail'),
  ];
}
