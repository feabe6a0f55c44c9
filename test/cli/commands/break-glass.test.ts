import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { readDocuments } from '../../../src/config/yaml.ts';
import type { Kinds } from '../../../src/kube/kinds.ts';
import { getMetadataOwners } from '../../../src/kube/managed-fields.ts';
import type { JsonObject, Namespace, ValidatingWebhookConfiguration } from '../../../src/kube/types.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { type Outcome, runProgram } from '../../support/memory-io.ts';
import { json, list, refusal, type Responder, startScriptedServer } from '../../support/scripted-server.ts';

const ROOT = '/apis/admissionregistration.k8s.io/v1';
const VALIDATING = `${ROOT}/validatingwebhookconfigurations`;
const MUTATING = `${ROOT}/mutatingwebhookconfigurations`;
const POLICIES = `${ROOT}/validatingadmissionpolicies`;
const JSON_PATCH = { 'content-type': 'application/json-patch+json' };

const fixture = 'test/fixtures/installation/webhooks.yaml';
const OBJECTS = readDocuments(await readFile(fixture, 'utf8'), fixture).documents.map(
  ({ value }) => value as JsonObject,
);

const REMAINING = `
If the PodSecurity plugin of the API servers is enabled, it continues to enforce:
- the default level of its configuration, in namespaces without the label pod-security.kubernetes.io/enforce
To restore: portcullis break-glass off
`;
const WHEN_ON = `
API servers apply the change within seconds, and then send no requests to Portcullis.
GitOps tools (Argo CD, Flux) may revert the change, so suspend them.
${REMAINING}`;
const WHEN_OFF = `
API servers apply the change within seconds, and Portcullis then enforces again. Pods that started while break-glass was on keep running.
`;

describe('break-glass', () => {
  let cluster: TestCluster;
  let kubeconfig: string;
  let renewal: Renewal;
  before(async () => {
    cluster = await startCluster();
    kubeconfig = await cluster.kubeconfig();
    await createEndpoint(cluster, true);
    renewal = startRenewal(cluster);
  });
  after(async () => {
    await renewal.stop();
    assert.deepEqual(cluster.errors, []);
    await cluster.stop();
  });
  beforeEach(async () => {
    for (const object of OBJECTS) {
      const path = object['kind'] === 'MutatingWebhookConfiguration' ? MUTATING : VALIDATING;
      const { name } = object['metadata'] as { readonly name: string };
      await cluster.admin.send('DELETE', `${path}/${name}`);
      assert.equal((await cluster.admin.send('POST', path, object)).status, 201);
    }
  });

  const run = (...args: readonly string[]): Promise<Outcome> =>
    runProgram(['break-glass', ...args], { env: { KUBECONFIG: kubeconfig } });

  /** Returns all webhook configurations without the metadata that every write changes. */
  async function stored(): Promise<unknown> {
    const lists = await Promise.all([VALIDATING, MUTATING].map((path) => cluster.admin.send('GET', path)));
    return lists.flatMap(({ body }) => (body as { items: JsonObject[] }).items.map(comparable));
  }

  test('on disables the webhooks, and off restores them', async () => {
    const original = await stored();
    assert.deepEqual(await run('on', '--reason', 'INC-1: nothing starts'), {
      code: 0,
      stdout: `validating portcullis.dev: off
mutating zz.portcullis.dev: off
${WHEN_ON}`,
      stderr: '',
    });
    const { body } = await cluster.admin.send('GET', `${VALIDATING}/portcullis.dev`);
    const { metadata, webhooks = [] } = body as ValidatingWebhookConfiguration;
    assert.deepEqual(
      webhooks.map(({ matchConditions }) => matchConditions),
      [
        [
          { name: 'own', expression: 'true' },
          { name: 'break-glass', expression: 'false' },
        ],
        [{ name: 'break-glass', expression: 'false' }],
        [{ name: 'break-glass', expression: 'false' }],
      ],
    );
    assert.equal(metadata?.annotations?.['portcullis.dev/break-glass-reason'], 'INC-1: nothing starts');
    assert.equal(metadata.annotations['portcullis.dev/break-glass-by'], 'admin');
    const since = metadata.annotations['portcullis.dev/break-glass-since'] ?? '';
    assert.match(since, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);

    assert.deepEqual(await run('status'), {
      code: 1,
      stdout: `PHASE        CONFIGURATION       WEBHOOK                                  FAILURE POLICY   STATE
validating   portcullis.dev      validate.pods.portcullis.dev             Fail             off
validating   portcullis.dev      fail-open.validate.pods.portcullis.dev   Ignore           off
validating   portcullis.dev      workloads.portcullis.dev                 Ignore           off
mutating     zz.portcullis.dev   mutate.pods.portcullis.dev               Fail             off

Since ${since} by admin: INC-1: nothing starts
Break-glass is on: API servers do not call Portcullis. To restore: portcullis break-glass off
`,
      stderr: '',
    });

    assert.deepEqual(await run('off'), {
      code: 0,
      stdout: `mutating zz.portcullis.dev: active
validating portcullis.dev: active
${WHEN_OFF}`,
      stderr: '',
    });
    assert.deepEqual(await stored(), original);
  });

  test('status names the configurations if they were disabled at different times', async () => {
    for (const [path, second] of [
      [`${VALIDATING}/portcullis.dev`, 1],
      [`${MUTATING}/zz.portcullis.dev`, 2],
    ] as const) {
      const annotations = { 'portcullis.dev/break-glass-since': `2026-01-15T11:00:0${second}Z` };
      const headers = { 'content-type': 'application/merge-patch+json' };
      assert.equal((await cluster.admin.send('PATCH', path, { metadata: { annotations } }, headers)).status, 200);
    }
    const { stdout } = await run('status');
    assert.match(
      stdout,
      /^portcullis\.dev: since 2026-01-15T11:00:01Z\nzz\.portcullis\.dev: since 2026-01-15T11:00:02Z$/m,
    );
    await run('off');
  });

  test('on and off change nothing when they are repeated', async () => {
    await run('on');
    const switched = await stored();
    assert.equal(
      (await run('on', '--reason', 'again')).stdout,
      `validating portcullis.dev: off already
mutating zz.portcullis.dev: off already

Nothing changed, because break-glass is already on.
${REMAINING}`,
    );
    assert.deepEqual(await stored(), switched);
    await run('off');
    const original = await stored();
    assert.deepEqual(await run('off'), {
      code: 0,
      stdout: `mutating zz.portcullis.dev: active already
validating portcullis.dev: active already

Nothing changed, because break-glass is already off.
`,
      stderr: '',
    });
    assert.deepEqual(await stored(), original);
  });

  const dryRuns: readonly (readonly [mode: string, stdout: string])[] = [
    [
      'server',
      `validating portcullis.dev: off (server dry run)
mutating zz.portcullis.dev: off (server dry run)
${REMAINING}`,
    ],
    [
      'client',
      `validating portcullis.dev: off (dry run)
mutating zz.portcullis.dev: off (dry run)
${REMAINING}`,
    ],
  ];
  for (const [mode, stdout] of dryRuns) {
    test(`a ${mode}-side dry run changes nothing`, async () => {
      const original = await stored();
      assert.deepEqual(await run('on', `--dry-run=${mode}`), { code: 0, stdout, stderr: '' });
      assert.deepEqual(await stored(), original);
    });
  }

  test('on disables the active webhooks of a partly disabled configuration', async () => {
    const value = [{ name: 'break-glass', expression: 'false' }];
    const ops = [{ op: 'add', path: '/webhooks/1/matchConditions', value }];
    await cluster.admin.send('PATCH', `${VALIDATING}/portcullis.dev`, ops, JSON_PATCH);
    const { code, stdout } = await run('status');
    assert.equal(code, 1);
    assert.match(stdout, /\nBreak-glass is on for only some webhooks or labels\. /);
    assert.equal((await run('on')).code, 0);
    assert.match((await run('status', '-o', 'json')).stdout, /"breakGlass": "on"/);
  });

  test('on records break-glass if only the match conditions were set', async () => {
    const value = [{ name: 'break-glass', expression: 'false' }];
    const ops = [{ op: 'add', path: '/webhooks/0/matchConditions', value }];
    await cluster.admin.send('PATCH', `${MUTATING}/zz.portcullis.dev`, ops, JSON_PATCH);
    assert.match((await run('on')).stdout, /^mutating zz\.portcullis\.dev: off$/m);
    const { body } = await cluster.admin.send('GET', `${MUTATING}/zz.portcullis.dev`);
    const { metadata } = body as ValidatingWebhookConfiguration;
    assert.equal(metadata?.annotations?.['portcullis.dev/break-glass-by'], 'admin');
  });

  test('on disables the floor policies first, and off restores them last', async () => {
    const name = 'floor.enforce-baseline.psa.portcullis.dev';
    const labels = { 'app.kubernetes.io/part-of': 'portcullis', 'app.kubernetes.io/component': 'floor' };
    const key = 'kubernetes.io/metadata.name';
    const matchExpressions = [{ key, operator: 'NotIn', values: ['portcullis'] }];
    const policy = {
      metadata: { name, labels },
      spec: { matchConstraints: { namespaceSelector: { matchExpressions } } },
    };
    // A copy of a configuration with the same labels belongs to the user who created it.
    const copy = { ...policy, metadata: { name: 'floor.example.com', labels } };
    for (const object of [copy, policy]) {
      assert.equal((await cluster.admin.send('POST', POLICIES, object)).status, 201);
    }
    const requirements = async (): Promise<unknown> => {
      const { body } = await cluster.admin.send('GET', `${POLICIES}/${name}`);
      return (body as Kinds['ValidatingAdmissionPolicy']).spec?.matchConstraints?.namespaceSelector?.matchExpressions;
    };
    assert.match((await run('on')).stdout, new RegExp(`^policy ${name}: off\nvalidating `));
    assert.deepEqual(await requirements(), [...matchExpressions, { key, operator: 'DoesNotExist' }]);
    assert.match((await run('status')).stdout, new RegExp(`^policy +${name} +${name} +Fail +off$`, 'm'));
    assert.match((await run('off')).stdout, new RegExp(`\npolicy ${name}: active\n`));
    assert.deepEqual(await requirements(), matchExpressions);
    for (const object of [copy, policy]) {
      await cluster.admin.send('DELETE', `${POLICIES}/${object.metadata.name}`);
    }
  });

  test('does not overwrite concurrent changes by other clients', async () => {
    const changes = (async () => {
      for (let seconds = 1; seconds <= 30; seconds++) {
        const ops = [{ op: 'add', path: '/webhooks/0/timeoutSeconds', value: seconds }];
        const path = `${VALIDATING}/portcullis.dev`;
        assert.equal((await cluster.admin.send('PATCH', path, ops, JSON_PATCH)).status, 200);
      }
    })();
    assert.equal((await run('on')).code, 0);
    await changes;
    const { body } = await cluster.admin.send('GET', `${VALIDATING}/portcullis.dev`);
    const [first] = (body as ValidatingWebhookConfiguration).webhooks ?? [];
    assert.equal(first?.timeoutSeconds, 30);
    assert.deepEqual(first.matchConditions?.at(-1), { name: 'break-glass', expression: 'false' });
  });
});

/** Creates a replica endpoint for the Service of the webhooks. */
async function createEndpoint({ admin }: TestCluster, ready: boolean): Promise<void> {
  await admin.send('POST', '/api/v1/namespaces', { metadata: { name: 'portcullis' } });
  const path = '/apis/discovery.k8s.io/v1/namespaces/portcullis/endpointslices';
  const labels = { 'kubernetes.io/service-name': 'portcullis' };
  const endpoints = [{ addresses: ['192.0.2.1'], conditions: { ready } }];
  await admin.send('DELETE', `${path}/replica`);
  const slice = { metadata: { name: 'replica', labels }, addressType: 'IPv4', endpoints, ports: [] };
  assert.equal((await admin.send('POST', path, slice)).status, 201);
}

const LEASES = '/apis/coordination.k8s.io/v1/namespaces/portcullis/leases';

interface Renewal {
  stop(): Promise<void>;
}

/** Renews the Lease of a replica until it is stopped. Like a killed replica, it does not delete the Lease. */
function startRenewal({ admin }: TestCluster): Renewal {
  const stopped = new AbortController();
  const renew = async (): Promise<void> => {
    const labels = { 'app.kubernetes.io/part-of': 'portcullis', 'app.kubernetes.io/component': 'replica' };
    await admin.send('POST', LEASES, { metadata: { name: 'a', labels } });
    while (!stopped.signal.aborted) {
      const spec = { holderIdentity: 'a', leaseDurationSeconds: 60, renewTime: microTime() };
      await admin.send('PATCH', `${LEASES}/a`, { spec }, { 'content-type': 'application/merge-patch+json' });
      await pause(100);
    }
  };
  const running = renew();
  return {
    stop: () => {
      stopped.abort();
      return running;
    },
  };
}

function microTime(): string {
  return new Date().toISOString().replace('Z', '000Z');
}

const SYNCER = 'pod-security-admission-label-synchronization-controller';
const ENFORCE = 'pod-security.kubernetes.io/enforce';
const VERSION = 'pod-security.kubernetes.io/enforce-version';
const WARN = 'pod-security.kubernetes.io/warn';
const RECORD = 'portcullis.dev/break-glass-enforce';

type Labels = Readonly<Record<string, string>>;

/** Changes labels as `kubectl label` does, as an update, or by server-side apply. `null` removes a label. */
interface LabelChange {
  readonly by: string;
  readonly labels: Readonly<Record<string, string | null>>;
  readonly apply?: boolean;
}

const RESTRICTED: Labels = { [ENFORCE]: 'restricted', [VERSION]: 'latest', [WARN]: 'restricted' };
const RELAXED: Labels = { ...RESTRICTED, [ENFORCE]: 'privileged', [RECORD]: 'restricted' };
const OURS: LabelChange = { by: SYNCER, labels: RESTRICTED, apply: true };

interface LabelCase {
  readonly name: string;
  readonly before: readonly LabelChange[];
  /** The labels during break-glass. Default: the labels before break-glass. */
  readonly on?: Labels;
  /** Changes while break-glass is on. */
  readonly meanwhile?: readonly LabelChange[];
  /** The labels after break-glass. Default: the labels before break-glass, with the same owners. */
  readonly off?: Labels;
  /** Lines of the output of `on` and `off` about labels. */
  readonly lines: readonly string[];
}

const SET = `labels: ${ENFORCE}=privileged set in 1 namespace`;
const RESTORED = `labels: ${ENFORCE} restored in 1 namespace`;
const KEPT = 'labels: kept in 1 namespace, changed by another client: shop';
const LOWERED = [
  'labels: lower than before in 1 namespace, changed by another client: shop. To restore restricted:',
  `  kubectl label --overwrite namespace shop ${ENFORCE}=restricted`,
];
const OLDER = [
  'labels: older version than before in 1 namespace, changed by another client: shop. To restore latest:',
  `  kubectl label --overwrite namespace shop ${VERSION}=latest`,
];
const LOST =
  'labels: not restored in 1 namespace whose former level is not recorded: shop. The label was removed. If the label syncer runs, it sets the label again';
const remains = (level: string, manager: string): readonly string[] => [
  `- ${level} in 1 namespace, by labels owned by ${manager}. To change them:`,
  `  kubectl label --overwrite namespace shop ${ENFORCE}=privileged`,
];

const LABEL_CASES: readonly LabelCase[] = [
  { name: 'set by Portcullis are relaxed and restored', before: [OURS], on: RELAXED, lines: [SET, RESTORED] },
  {
    name: 'set by an early label syncer release are relaxed and restored',
    before: [{ by: 'cluster-policy-controller', labels: RESTRICTED }],
    on: RELAXED,
    off: RESTRICTED,
    lines: [SET, RESTORED],
  },
  {
    name: 'set by Portcullis do not change if they admit all pods',
    before: [{ ...OURS, labels: { [ENFORCE]: 'privileged', [WARN]: 'restricted' } }],
    lines: [],
  },
  { name: 'that only warn do not change', before: [{ ...OURS, labels: { [WARN]: 'restricted' } }], lines: [] },
  {
    name: 'owned by another client do not change',
    before: [{ by: 'kubectl-label', labels: { [ENFORCE]: 'baseline' } }],
    lines: remains('baseline', 'kubectl-label'),
  },
  {
    name: 'with an unknown level, owned by another client, do not change',
    before: [{ by: 'helm', labels: { [ENFORCE]: 'strict' } }],
    lines: remains('strict', 'helm'),
  },
  {
    name: 'owned by both Portcullis and another client do not change',
    before: [OURS, { by: 'argocd', labels: { [ENFORCE]: 'restricted' }, apply: true }],
    lines: remains('restricted', `argocd, ${SYNCER}`),
  },
  {
    name: 'set by Portcullis are relaxed if another client owns the version label',
    before: [
      { ...OURS, labels: { [ENFORCE]: 'restricted' } },
      { by: 'kubectl-label', labels: { [VERSION]: 'v1.30' } },
    ],
    on: { [ENFORCE]: 'privileged', [VERSION]: 'v1.30', [RECORD]: 'restricted' },
    lines: [SET, RESTORED],
  },
  {
    name: 'owned by another client do not change if Portcullis owns only the version label',
    before: [
      { by: 'kubectl-label', labels: { [ENFORCE]: 'baseline' } },
      { ...OURS, labels: { [VERSION]: 'latest' } },
    ],
    lines: remains('baseline', 'kubectl-label'),
  },
  {
    name: 'keep a value that a user sets during break-glass',
    before: [OURS],
    on: RELAXED,
    meanwhile: [{ by: 'kubectl-label', labels: { [ENFORCE]: 'baseline' } }],
    off: { ...RESTRICTED, [ENFORCE]: 'baseline' },
    lines: [SET, ...LOWERED],
  },
  {
    name: 'keep an equal value that a user applies during break-glass',
    before: [OURS],
    on: RELAXED,
    meanwhile: [{ by: 'argocd', labels: { [ENFORCE]: 'privileged' }, apply: true }],
    off: { ...RESTRICTED, [ENFORCE]: 'privileged' },
    lines: [SET, ...LOWERED],
  },
  {
    name: 'stay removed if a user removes them during break-glass',
    before: [OURS],
    on: RELAXED,
    meanwhile: [{ by: 'kubectl-label', labels: { [ENFORCE]: null } }],
    off: { [VERSION]: 'latest', [WARN]: 'restricted' },
    lines: [SET, ...LOWERED],
  },
  {
    name: 'are restored in namespaces where a user changes other labels during break-glass',
    before: [OURS],
    on: RELAXED,
    meanwhile: [{ by: 'kubectl-label', labels: { [WARN]: 'baseline' } }],
    off: { ...RESTRICTED, [WARN]: 'baseline' },
    lines: [SET, RESTORED],
  },
  {
    name: 'keep a higher value that a user sets during break-glass',
    before: [{ ...OURS, labels: { [ENFORCE]: 'baseline' } }],
    on: { [ENFORCE]: 'privileged', [RECORD]: 'baseline' },
    meanwhile: [{ by: 'kubectl-label', labels: { [ENFORCE]: 'restricted' } }],
    off: { [ENFORCE]: 'restricted' },
    lines: [SET, KEPT],
  },
  ...[null, 'privileged', 'baseline'].map((level) => ({
    name: `are restored if a user changes the label with the former level to ${level}`,
    before: [OURS],
    on: RELAXED,
    meanwhile: [{ by: 'kubectl-label', labels: { [RECORD]: level } }],
    lines: [SET, RESTORED],
  })),
  {
    name: 'are reported if a user lowers them with the field manager of the label syncer',
    before: [OURS],
    on: RELAXED,
    meanwhile: [
      { by: 'kubectl-label', labels: { [RECORD]: null } },
      { by: SYNCER, labels: { [ENFORCE]: 'baseline' }, apply: true },
    ],
    off: { [ENFORCE]: 'baseline' },
    lines: [SET, ...LOWERED],
  },
  {
    name: 'are restored if a user applies a lower level with the field manager of the label syncer',
    before: [OURS],
    on: RELAXED,
    meanwhile: [{ by: SYNCER, labels: { ...RESTRICTED, [ENFORCE]: 'privileged' }, apply: true }],
    lines: [SET, RESTORED],
  },
  {
    name: 'are restored, but reported if a user applies an older version with the field manager of the label syncer',
    before: [OURS],
    on: RELAXED,
    meanwhile: [{ by: SYNCER, labels: { ...RESTRICTED, [ENFORCE]: 'privileged', [VERSION]: 'v1.0' }, apply: true }],
    off: { ...RESTRICTED, [VERSION]: 'v1.0' },
    lines: [SET, ...OLDER],
  },
  {
    name: 'are reported if the label syncer and another client apply a lower level',
    before: [OURS],
    on: RELAXED,
    meanwhile: [SYNCER, 'argocd'].map((by) => ({ by, labels: { [ENFORCE]: 'privileged' }, apply: true })),
    off: { [ENFORCE]: 'privileged' },
    lines: [SET, ...LOWERED],
  },
  {
    name: 'are reported if a user sets an older version',
    before: [OURS],
    on: RELAXED,
    meanwhile: [{ by: 'kubectl-label', labels: { [VERSION]: 'v1.0' } }],
    off: { ...RESTRICTED, [VERSION]: 'v1.0' },
    lines: [SET, ...OLDER],
  },
  {
    name: 'are reported if a user sets an older version and a lower level',
    before: [OURS],
    on: RELAXED,
    meanwhile: [{ by: 'kubectl-label', labels: { [ENFORCE]: 'baseline', [VERSION]: 'v1.0' } }],
    off: { ...RESTRICTED, [ENFORCE]: 'baseline', [VERSION]: 'v1.0' },
    lines: [SET, ...LOWERED, ...OLDER],
  },
  {
    name: 'keep a newer version that a user sets during break-glass',
    before: [
      { ...OURS, labels: { [ENFORCE]: 'restricted' } },
      { by: 'kubectl-label', labels: { [VERSION]: 'v1.30' } },
    ],
    on: { [ENFORCE]: 'privileged', [VERSION]: 'v1.30', [RECORD]: 'restricted' },
    meanwhile: [{ by: 'kubectl-label', labels: { [VERSION]: 'v1.31' } }],
    off: { [ENFORCE]: 'restricted', [VERSION]: 'v1.31' },
    lines: [SET, RESTORED],
  },
];

describe('namespace labels during break-glass', () => {
  let cluster: TestCluster;
  let kubeconfig: string;
  let renewal: Renewal;
  before(async () => {
    cluster = await startCluster();
    kubeconfig = await cluster.kubeconfig();
    await createEndpoint(cluster, true);
    renewal = startRenewal(cluster);
  });
  after(async () => {
    await renewal.stop();
    assert.deepEqual(cluster.errors, []);
    await cluster.stop();
  });
  beforeEach(async () => {
    for (const object of OBJECTS.slice(0, 2)) {
      const path = object['kind'] === 'MutatingWebhookConfiguration' ? MUTATING : VALIDATING;
      const { name } = object['metadata'] as { readonly name: string };
      await cluster.admin.send('DELETE', `${path}/${name}`);
      assert.equal((await cluster.admin.send('POST', path, object)).status, 201);
    }
  });
  afterEach(async () => {
    const { body } = await cluster.admin.send('GET', '/api/v1/namespaces');
    for (const { metadata } of (body as { readonly items: readonly Namespace[] }).items) {
      if (metadata?.name?.startsWith('shop')) await remove(metadata.name);
    }
  });

  const run = (args: readonly string[], environment = {}): Promise<Outcome> =>
    runProgram(['break-glass', ...args], { env: { KUBECONFIG: kubeconfig }, ...environment });
  const create = async (name: string): Promise<void> => {
    const namespace = { metadata: { name } };
    assert.equal((await cluster.admin.send('POST', '/api/v1/namespaces?fieldManager=test', namespace)).status, 201);
  };
  const remove = async (name: string): Promise<void> => {
    await cluster.admin.send('DELETE', `/api/v1/namespaces/${name}`);
    await cluster.cluster.idle();
  };
  const label = async (name: string, { by, labels, apply = false }: LabelChange): Promise<void> => {
    const path = `/api/v1/namespaces/${name}?fieldManager=${by}${apply ? '&force=true' : ''}`;
    const type = apply ? 'application/apply-patch+yaml' : 'application/merge-patch+json';
    const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
    const answer = await cluster.admin.send('PATCH', path, body, { 'content-type': type });
    assert.equal(answer.status, 200, answer.text);
  };
  const read = async (name: string): Promise<{ readonly labels: Labels; readonly owners: unknown }> => {
    const { body } = await cluster.admin.send('GET', `/api/v1/namespaces/${name}`);
    const { metadata } = body as Namespace;
    const labels = Object.entries(metadata?.labels ?? {}).filter(([key]) => key !== 'kubernetes.io/metadata.name');
    const owners = getMetadataOwners(metadata)
      ?.filter((owner) => owner.labels.size > 0)
      .map((owner) => ({ ...owner, time: '' }));
    return { labels: Object.fromEntries(labels), owners };
  };
  const labelLines = ({ stdout }: Outcome): readonly string[] =>
    stdout.split('\n').filter((line) => /^(?:labels: | |- (?!the default))/.test(line));

  for (const { name, before: changes, on, meanwhile = [], off, lines } of LABEL_CASES) {
    test(name, async () => {
      await create('shop');
      for (const change of changes) await label('shop', change);
      const original = await read('shop');
      const first = await run(['on']);
      assert.equal(first.code, 0, first.stdout);
      assert.deepEqual((await read('shop')).labels, on ?? original.labels);
      for (const change of meanwhile) await label('shop', change);
      const second = await run(['off']);
      assert.deepEqual([...labelLines(first), ...labelLines(second)], lines);
      assert.equal(second.code, lines.some((line) => line.includes(' than before in ')) ? 1 : 0);
      const restored = await read('shop');
      if (off) assert.deepEqual(restored.labels, off);
      else assert.deepEqual(restored, original);
    });
  }

  test('are changed by printed commands in the cluster that the flags select', async () => {
    const objects = [
      [POLICIES, 'enforce-restricted.psa.portcullis.dev', 'policies'],
      [`${ROOT}/mutatingadmissionpolicies`, 'defaults.portcullis.dev', 'defaults'],
    ] as const;
    for (const [path, name, component] of objects) {
      const labels = { 'app.kubernetes.io/part-of': 'portcullis', 'app.kubernetes.io/component': component };
      assert.equal((await cluster.admin.send('POST', path, { metadata: { name, labels }, spec: {} })).status, 201);
    }
    await create('shop-1');
    await label('shop-1', { by: 'kubectl-label', labels: { [ENFORCE]: 'baseline' } });
    await create('shop-2');
    await label('shop-2', OURS);
    const commands = async (action: string, flags: readonly string[]): Promise<readonly string[]> => {
      const { stdout } = await run([action, ...flags]);
      return [...stdout.matchAll(/(?:^ +|: )((?:kubectl|portcullis) .*?)(?=\. To |$)/gm)].map(
        ([, command = '']) => command,
      );
    };
    const policies =
      'app.kubernetes.io/name=portcullis,app.kubernetes.io/part-of=portcullis,app.kubernetes.io/component=policies';
    const expected = {
      status: ['portcullis break-glass on', 'portcullis break-glass off'],
      on: [
        `kubectl label --overwrite namespace shop-1 ${ENFORCE}=privileged`,
        `kubectl delete validatingadmissionpolicybindings -l ${policies}`,
        'kubectl delete mutatingadmissionpolicybindings -l app.kubernetes.io/part-of=portcullis',
        'portcullis break-glass off',
      ],
      off: [`kubectl label --overwrite namespace shop-2 ${VERSION}=latest`],
    };
    const file = `--kubeconfig=${kubeconfig}`;
    for (const flags of [[], ['--context=portcullis'], [file], [file, '--context=portcullis']]) {
      const value = [{ name: 'break-glass', expression: 'false' }];
      const ops = [{ op: 'add', path: '/webhooks/1/matchConditions', value }];
      assert.equal((await cluster.admin.send('PATCH', `${VALIDATING}/portcullis.dev`, ops, JSON_PATCH)).status, 200);
      for (const [action, list] of Object.entries(expected)) {
        if (action === 'off') await label('shop-2', { by: 'kubectl-label', labels: { [VERSION]: 'v1.0' } });
        const withFlags = list.map((command) => [command, ...flags].join(' '));
        assert.deepEqual(await commands(action, flags), withFlags, action);
      }
      await label('shop-2', { by: 'kubectl-label', labels: { [VERSION]: 'latest' } });
    }
    for (const [path, name] of objects) await cluster.admin.send('DELETE', `${path}/${name}`);
  });

  test('are kept with --keep-labels', async () => {
    await create('shop');
    await label('shop', OURS);
    const { stdout } = await run(['on', '--keep-labels']);
    assert.match(stdout, new RegExp(`\n- all ${ENFORCE} labels\nTo restore: `));
    assert.deepEqual((await read('shop')).labels, RESTRICTED);
  });

  for (const mode of ['client', 'server']) {
    test(`do not change in a ${mode}-side dry run`, async () => {
      const suffix = mode === 'server' ? ' (server dry run)' : ' (dry run)';
      await create('shop');
      await label('shop', OURS);
      const original = await read('shop');
      assert.deepEqual(labelLines(await run(['on', `--dry-run=${mode}`])), [`${SET}${suffix}`]);
      assert.deepEqual(await read('shop'), original);
      await run(['on']);
      const relaxed = await read('shop');
      assert.deepEqual(labelLines(await run(['off', `--dry-run=${mode}`])), [`${RESTORED}${suffix}`]);
      assert.deepEqual(await read('shop'), relaxed);
      await label('shop', { by: 'kubectl-label', labels: { [VERSION]: 'v1.0' } });
      const [title, restore] = OLDER;
      assert.deepEqual(labelLines(await run(['off', `--dry-run=${mode}`])), [`${title}${suffix}`, restore]);
    });
  }

  test('are reported by break-glass status, and change only once if break-glass on and off are repeated', async () => {
    await create('shop');
    await label('shop', OURS);
    const original = await read('shop');
    await run(['on']);
    const relaxed = await read('shop');
    assert.deepEqual(labelLines(await run(['on'])), [`labels: unchanged: ${ENFORCE}=privileged in 1 namespace`]);
    assert.deepEqual(await read('shop'), relaxed);
    const status = await run(['status']);
    assert.match(status.stdout, /\nThe enforce labels of 1 namespace are relaxed\.\nBreak-glass is on: /);
    assert.match((await run(['status', '-o', 'json'])).stdout, /"relaxedNamespaces": \[\s*"shop"\s*\]/);
    await run(['off']);
    assert.deepEqual(await read('shop'), original);
    assert.deepEqual(labelLines(await run(['off'])), []);
    assert.deepEqual(await read('shop'), original);
  });

  test('are removed and reported if the former level is not recorded', async () => {
    for (const record of [null, 'privileged']) {
      await create('shop');
      await label('shop', OURS);
      await run(['on']);
      await label('shop', { by: 'kubectl-label', labels: { [RECORD]: record } });
      const path = `${VALIDATING}/portcullis.dev`;
      const ops = [{ op: 'remove', path: '/metadata/annotations/portcullis.dev~1break-glass-levels' }];
      assert.equal((await cluster.admin.send('PATCH', path, ops, JSON_PATCH)).status, 200);
      const off = await run(['off']);
      assert.deepEqual([off.code, labelLines(off)], [1, [LOST]]);
      assert.deepEqual((await read('shop')).labels, { [VERSION]: 'latest', [WARN]: 'restricted' });
      await remove('shop');
    }
  });

  test('without a record are restored if a user applies a lower level with the field manager of the label syncer, but kept if another client also applies it', async () => {
    const cases = [
      [[SYNCER], RESTORED, 'restricted'],
      [[SYNCER, 'argocd'], KEPT, 'privileged'],
    ] as const;
    for (const [managers, line, level] of cases) {
      await create('shop');
      await label('shop', OURS);
      await run(['on']);
      for (const by of managers) await label('shop', { by, labels: { [ENFORCE]: 'privileged' }, apply: true });
      const path = `${VALIDATING}/portcullis.dev`;
      const ops = [{ op: 'remove', path: '/metadata/annotations/portcullis.dev~1break-glass-levels' }];
      assert.equal((await cluster.admin.send('PATCH', path, ops, JSON_PATCH)).status, 200);
      assert.deepEqual(labelLines(await run(['off'])), [line]);
      assert.equal((await read('shop')).labels[ENFORCE], level);
      await remove('shop');
    }
  });

  test('are recorded in a webhook configuration, and the record keeps the stricter level if break-glass on is repeated', async () => {
    const levels = async (): Promise<string | undefined> => {
      const { body } = await cluster.admin.send('GET', `${VALIDATING}/portcullis.dev`);
      return (body as ValidatingWebhookConfiguration).metadata?.annotations?.['portcullis.dev/break-glass-levels'];
    };
    for (const name of ['shop-1', 'shop-2']) await create(name);
    await label('shop-1', OURS);
    await label('shop-2', { ...OURS, labels: { [ENFORCE]: 'baseline' } });
    await run(['on']);
    assert.equal(await levels(), 'baseline:latest=shop-2;restricted:latest=shop-1');
    // A user pretends to be the label syncer, so the label is relaxed again.
    await label('shop-1', { by: 'kubectl-label', labels: { [RECORD]: null } });
    await label('shop-1', { by: SYNCER, labels: { [ENFORCE]: 'baseline' }, apply: true });
    await create('shop-3');
    await label('shop-3', OURS);
    await run(['on']);
    assert.equal(await levels(), 'baseline:latest=shop-2;restricted:latest=shop-1,shop-3');
    assert.deepEqual(labelLines(await run(['off'])), [`labels: ${ENFORCE} restored in 3 namespaces`]);
    assert.equal((await read('shop-1')).labels[ENFORCE], 'restricted');
    assert.equal(await levels(), undefined);
  });

  test('are relaxed and restored even if the API server rejects the record', async () => {
    for (const name of ['shop-1', 'shop-2']) {
      await create(name);
      await label(name, OURS);
    }
    // The API server accepts the match conditions of break-glass, because they add fewer bytes than the record.
    const annotations = { other: 'a'.repeat(256 * 1024 - 120) };
    const type = { 'content-type': 'application/merge-patch+json' };
    const path = `${VALIDATING}/portcullis.dev`;
    assert.equal((await cluster.admin.send('PATCH', path, { metadata: { annotations } }, type)).status, 200);
    const on = await run(['on']);
    assert.deepEqual(
      [on.code, labelLines(on)],
      [
        1,
        [
          `labels: ${ENFORCE}=privileged set in 2 namespaces`,
          `labels: levels recorded only in ${RECORD}: ValidatingWebhookConfiguration.admissionregistration.k8s.io "portcullis.dev" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes`,
        ],
      ],
    );
    assert.deepEqual(labelLines(await run(['off'])), [`labels: ${ENFORCE} restored in 2 namespaces`]);
  });

  test('are relaxed and restored even if no webhook is registered', async () => {
    await create('shop');
    await label('shop', OURS);
    const original = await read('shop');
    for (const path of [`${VALIDATING}/portcullis.dev`, `${MUTATING}/zz.portcullis.dev`]) {
      await cluster.admin.send('DELETE', path);
    }
    assert.equal((await run(['on'])).code, 0);
    assert.deepEqual((await read('shop')).labels, RELAXED);
    assert.equal((await run(['status'])).code, 1);
    assert.equal((await run(['off'])).code, 0);
    assert.deepEqual(await read('shop'), original);
  });

  test('are restored only after a replica is ready, or with --force', async () => {
    await create('shop');
    await label('shop', OURS);
    await run(['on']);
    await createEndpoint(cluster, false);
    const relaxed = await read('shop');
    assert.deepEqual(await run(['off']), {
      code: 2,
      stdout: '',
      stderr:
        "error: no replica is ready: Service portcullis/portcullis has no ready endpoint. Webhooks that fail closed would deny pods. Start the replicas (see 'portcullis doctor'), or enable the webhooks with --force\n",
    });
    assert.deepEqual(await read('shop'), relaxed);
    assert.equal((await run(['off', '--force'])).code, 0);
    assert.deepEqual((await read('shop')).labels, RESTRICTED);
    await createEndpoint(cluster, true);
  });

  test('are restored if replicas outside the cluster renew their Leases', async () => {
    const path = `${VALIDATING}/portcullis.dev`;
    const url = [{ op: 'add', path: '/webhooks/0/clientConfig', value: { url: 'https://127.0.0.1:1/' } }];
    await cluster.admin.send('DELETE', `${MUTATING}/zz.portcullis.dev`);
    assert.equal((await cluster.admin.send('PATCH', path, url, JSON_PATCH)).status, 200);
    await run(['on']);
    const refused =
      /^error: no replica is ready: https:\/\/127\.0\.0\.1:1: dial tcp 127\.0\.0\.1:1: connect: connection refused, and no replica has renewed its Lease within 30 s\. /;
    const renewTime = async (time: string): Promise<void> => {
      const patch = { 'content-type': 'application/merge-patch+json' };
      await cluster.admin.send('PATCH', `${LEASES}/a`, { spec: { renewTime: time } }, patch);
    };
    await renewal.stop();
    for (const time of ['2020-01-01T00:00:00.000000Z', '2120-01-01T00:00:00.000000Z', microTime()]) {
      await renewTime(time);
      assert.match((await run(['off'])).stderr, refused, time);
    }
    renewal = startRenewal(cluster);
    assert.equal((await run(['off'])).code, 0);
  });

  test('do not change if only policies enforce them, and break-glass on lists these policies', async () => {
    const part = { 'app.kubernetes.io/part-of': 'portcullis' };
    const objects = [
      [POLICIES, 'enforce-restricted.psa.portcullis.dev', { ...part, 'app.kubernetes.io/component': 'policies' }],
      [`${ROOT}/mutatingadmissionpolicies`, 'defaults.portcullis.dev', { ...part }],
      // The policy that limits the permissions of replicas stays active.
      [POLICIES, 'portcullis-namespaces', { ...part }],
    ] as const;
    for (const [path, name, labels] of objects) {
      const answer = await cluster.admin.send('POST', path, { metadata: { name, labels }, spec: {} });
      assert.equal(answer.status, 201, answer.text);
    }
    assert.match(
      (await run(['on'])).stdout,
      /\nAPI servers continue to evaluate:\n- policies of an installation without a server: enforce-restricted\.psa\.portcullis\.dev\. To stop them: kubectl delete validatingadmissionpolicybindings -l \S+=policies\n- policies that set defaults in pods: defaults\.portcullis\.dev\. To stop them: kubectl delete mutatingadmissionpolicybindings -l app\.kubernetes\.io\/part-of=portcullis\nTo restore: /,
    );
    for (const [path, name] of objects) await cluster.admin.send('DELETE', `${path}/${name}`);
  });
});

describe('break-glass rejects', () => {
  const mistakes: readonly (readonly [name: string, args: readonly string[], stderr: string])[] = [
    [
      'a command without an action',
      [],
      "error: missing required argument 'on|off|status'\nSee 'portcullis break-glass --help' for usage.\n",
    ],
    ['an unknown action', ['of'], 'error: unknown action "of": must be on, off or status\n'],
    [
      'two actions',
      ['on', 'off'],
      "error: too many arguments for 'break-glass'. Expected 1 argument but got 2: on, off.\nSee 'portcullis break-glass --help' for usage.\n",
    ],
    ['--reason with off', ['off', '--reason=x'], 'error: --reason requires the action "on"\n'],
    ['--keep-labels with off', ['off', '--keep-labels'], 'error: --keep-labels requires the action "on"\n'],
    ['--force with on', ['on', '--force'], 'error: --force requires the action "off"\n'],
    [
      'a command without a kubeconfig',
      ['on'],
      'error: no cluster to read: KUBECONFIG and HOME are not set; set --kubeconfig\n',
    ],
  ];
  for (const [name, args, stderr] of mistakes) {
    test(name, async () =>
      assert.deepEqual(await runProgram(['break-glass', ...args]), { code: 2, stdout: '', stderr }),
    );
  }
});

describe('break-glass reports', () => {
  const [psa, , foreign] = OBJECTS;
  const self = json({ status: { userInfo: { username: 'jo' } } }, 201);
  const beforeWrite = [list(psa), list(), list(), list(), list(), self];
  const annotations = { 'portcullis.dev/break-glass-since': '2026-01-15T11:00:00Z' };
  const switched = json({ ...psa, metadata: { name: 'portcullis.dev', annotations }, webhooks: [] });
  const again = { ...psa, metadata: { ...(psa?.['metadata'] as object), resourceVersion: '2' } };
  const cases: readonly (readonly [name: string, answers: readonly Responder[], expected: Outcome])[] = [
    [
      'a missing permission to list webhook configurations',
      [refusal(403, 'User "jo" cannot list them'), list()],
      { code: 2, stdout: '', stderr: 'error: SERVER: User "jo" cannot list them\n' },
    ],
    [
      'a cluster without Portcullis',
      [list(foreign), list(), list(), list(), list()],
      {
        code: 2,
        stdout: '',
        stderr: 'error: there are no webhook configurations with the label app.kubernetes.io/part-of=portcullis\n',
      },
    ],
    [
      'a missing permission to patch webhook configurations',
      [...beforeWrite, refusal(403, 'User "jo" cannot patch it')],
      {
        code: 1,
        stdout: `validating portcullis.dev: not changed: User "jo" cannot patch it\n${REMAINING}`,
        stderr: '',
      },
    ],
    [
      'a missing permission to list policies',
      [list(psa), list(), refusal(403, 'User "jo" cannot list policies'), list(), list(), self, switched],
      {
        code: 1,
        stdout: `validating portcullis.dev: off\n${WHEN_ON}`,
        stderr: 'policies not read: User "jo" cannot list policies\n',
      },
    ],
    [
      'a missing permission to list namespaces',
      [list(psa), list(), list(), list(), refusal(403, 'User "jo" cannot list namespaces'), self, switched],
      {
        code: 1,
        stdout: `validating portcullis.dev: off\n${WHEN_ON.replace('To restore', '- all pod-security.kubernetes.io/enforce labels\nTo restore')}`,
        stderr: 'namespaces not read: User "jo" cannot list namespaces\n',
      },
    ],
    [
      'a configuration that is deleted during the command',
      [...beforeWrite, refusal(404, 'not found')],
      {
        code: 0,
        stdout: `validating portcullis.dev: off already\n\nNothing changed, because break-glass is already on.\n${REMAINING}`,
        stderr: '',
      },
    ],
    [
      'a change that the API server rejects as invalid',
      [...beforeWrite, refusal(422, 'too many conditions')],
      {
        code: 1,
        stdout: `validating portcullis.dev: not changed: too many conditions\n${REMAINING}`,
        stderr: '',
      },
    ],
    [
      'an object that cannot be read again after a conflict',
      [...beforeWrite, refusal(409, 'conflict'), refusal(403, 'User "jo" cannot list')],
      {
        code: 1,
        stdout: `validating portcullis.dev: not changed: User "jo" cannot list\n${REMAINING}`,
        stderr: '',
      },
    ],
    [
      'a change that succeeds after a conflict',
      [...beforeWrite, refusal(409, 'the object has been modified'), list(again), switched],
      {
        code: 0,
        stdout: `validating portcullis.dev: off\n${WHEN_ON}`,
        stderr: '',
      },
    ],
  ];
  for (const [name, answers, expected] of cases) {
    test(name, async (t) => {
      const server = await startScriptedServer();
      t.after(() => server.stop());
      server.respond(...answers);
      const outcome = await runProgram(['break-glass', 'on'], { env: { KUBECONFIG: await server.kubeconfig() } });
      assert.deepEqual({ ...outcome, stderr: outcome.stderr.replace(server.url, 'SERVER') }, expected);
    });
  }
});

function comparable(object: JsonObject): unknown {
  const { name, labels, annotations } = object['metadata'] as JsonObject;
  return { name, labels, annotations, webhooks: object['webhooks'] };
}
