import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, beforeEach, describe, test } from 'node:test';
import fc from 'fast-check';
import { planOff, planOn, webhookState } from '../../../src/cli/break-glass.ts';
import { parseWebhookConfiguration } from '../../../src/cli/installation.ts';
import { readDocuments } from '../../../src/config/yaml.ts';
import { applyJsonPatch } from '../../../src/dev-cluster/json-patch.ts';
import type { JsonObject, Kinds, ValidatingWebhookConfiguration } from '../../../src/kube/types.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { runProgram, type Outcome } from '../../support/memory-io.ts';
import { json, list, refusal, startScriptedServer, type Responder } from '../../support/scripted-server.ts';

const ROOT = '/apis/admissionregistration.k8s.io/v1';
const VALIDATING = `${ROOT}/validatingwebhookconfigurations`;
const MUTATING = `${ROOT}/mutatingwebhookconfigurations`;
const POLICIES = `${ROOT}/validatingadmissionpolicies`;
const JSON_PATCH = { 'content-type': 'application/json-patch+json' };

const fixture = 'test/fixtures/installation/webhooks.yaml';
const OBJECTS = readDocuments(await readFile(fixture, 'utf8'), fixture).documents.map(
  ({ value }) => value as JsonObject,
);

const WHEN_ON = `
API servers apply the change within seconds. They then send no request to Portcullis.
GitOps tools (Argo CD, Flux) may revert the change: suspend them.
To restore: portcullis break-glass off
`;
const WHEN_OFF = `
API servers apply the change within seconds. Portcullis then enforces again. Pods that started meanwhile keep running.
`;

describe('break-glass', () => {
  let cluster: TestCluster;
  let kubeconfig: string;
  before(async () => {
    cluster = await startCluster();
    kubeconfig = await cluster.kubeconfig();
  });
  after(async () => {
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
    runProgram(['break-glass', ...args, '--kubeconfig', kubeconfig]);

  /** All configurations without the metadata that every write changes. */
  async function stored(): Promise<unknown> {
    const lists = await Promise.all([VALIDATING, MUTATING].map((path) => cluster.admin.send('GET', path)));
    return lists.flatMap(({ body }) => (body as { items: JsonObject[] }).items.map(comparable));
  }

  test('on switches the webhooks off, off restores them', async () => {
    const original = await stored();
    assert.deepEqual(await run('on', '--reason', 'INC-1: nothing starts'), {
      code: 0,
      stdout: `validating psa.portcullis.dev: changed: psa.portcullis.dev, fail-open.psa.portcullis.dev, advise.psa.portcullis.dev off
mutating zz.scc.portcullis.dev: changed: mutate.scc.portcullis.dev off
${WHEN_ON}`,
      stderr: '',
    });
    const { body } = await cluster.admin.send('GET', `${VALIDATING}/psa.portcullis.dev`);
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
      stdout: `PHASE        CONFIGURATION           WEBHOOK                        FAILURE POLICY   STATE
validating   psa.portcullis.dev      psa.portcullis.dev             Fail             off
validating   psa.portcullis.dev      fail-open.psa.portcullis.dev   Ignore           off
validating   psa.portcullis.dev      advise.psa.portcullis.dev      Ignore           off
mutating     zz.scc.portcullis.dev   mutate.scc.portcullis.dev      Fail             off

Since ${since} by admin: INC-1: nothing starts
Break-glass is on: API servers do not call Portcullis. To restore: portcullis break-glass off
`,
      stderr: '',
    });

    assert.deepEqual(await run('off'), {
      code: 0,
      stdout: `mutating zz.scc.portcullis.dev: changed: mutate.scc.portcullis.dev active
validating psa.portcullis.dev: changed: psa.portcullis.dev, fail-open.psa.portcullis.dev, advise.psa.portcullis.dev active
${WHEN_OFF}`,
      stderr: '',
    });
    assert.deepEqual(await stored(), original);
  });

  test('a second run changes nothing', async () => {
    await run('on');
    const switched = await stored();
    assert.equal(
      (await run('on', '--reason', 'again')).stdout,
      `validating psa.portcullis.dev: unchanged: psa.portcullis.dev, fail-open.psa.portcullis.dev, advise.psa.portcullis.dev off
mutating zz.scc.portcullis.dev: unchanged: mutate.scc.portcullis.dev off

Nothing changed: break-glass is on already.
`,
    );
    assert.deepEqual(await stored(), switched);
    await run('off');
    const original = await stored();
    assert.deepEqual(await run('off'), {
      code: 0,
      stdout: `mutating zz.scc.portcullis.dev: unchanged: mutate.scc.portcullis.dev active
validating psa.portcullis.dev: unchanged: psa.portcullis.dev, fail-open.psa.portcullis.dev, advise.psa.portcullis.dev active

Nothing changed: break-glass is off already.
`,
      stderr: '',
    });
    assert.deepEqual(await stored(), original);
  });

  const dryRuns: readonly (readonly [mode: string, stdout: string])[] = [
    [
      'server',
      `validating psa.portcullis.dev: changed: psa.portcullis.dev, fail-open.psa.portcullis.dev, advise.psa.portcullis.dev off (server dry run)
mutating zz.scc.portcullis.dev: changed: mutate.scc.portcullis.dev off (server dry run)
`,
    ],
    [
      'client',
      `validating psa.portcullis.dev: changed: psa.portcullis.dev, fail-open.psa.portcullis.dev, advise.psa.portcullis.dev (dry run)
mutating zz.scc.portcullis.dev: changed: mutate.scc.portcullis.dev (dry run)
`,
    ],
  ];
  for (const [mode, stdout] of dryRuns) {
    test(`a dry run of the ${mode} changes nothing`, async () => {
      const original = await stored();
      assert.deepEqual(await run('on', `--dry-run=${mode}`), { code: 0, stdout, stderr: '' });
      assert.deepEqual(await stored(), original);
    });
  }

  test('on completes a configuration that is partly off', async () => {
    const value = [{ name: 'break-glass', expression: 'false' }];
    const ops = [{ op: 'add', path: '/webhooks/1/matchConditions', value }];
    await cluster.admin.send('PATCH', `${VALIDATING}/psa.portcullis.dev`, ops, JSON_PATCH);
    const { code, stdout } = await run('status');
    assert.equal(code, 1);
    assert.match(stdout, /\nBreak-glass is on for some webhooks only\. /);
    assert.equal((await run('on')).code, 0);
    assert.match((await run('status', '-o', 'json')).stdout, /"breakGlass": "on"/);
  });

  test('on records the use of break-glass where only the match conditions were set', async () => {
    const value = [{ name: 'break-glass', expression: 'false' }];
    const ops = [{ op: 'add', path: '/webhooks/0/matchConditions', value }];
    await cluster.admin.send('PATCH', `${MUTATING}/zz.scc.portcullis.dev`, ops, JSON_PATCH);
    assert.match((await run('on')).stdout, /^mutating zz\.scc\.portcullis\.dev: changed: /m);
    const { body } = await cluster.admin.send('GET', `${MUTATING}/zz.scc.portcullis.dev`);
    const { metadata } = body as ValidatingWebhookConfiguration;
    assert.equal(metadata?.annotations?.['portcullis.dev/break-glass-by'], 'admin');
  });

  test('on switches the policies of the floor off first, off restores them last', async () => {
    const name = 'floor.enforce-baseline.psa.portcullis.dev';
    const labels = { 'app.kubernetes.io/part-of': 'portcullis', 'app.kubernetes.io/component': 'floor' };
    const key = 'kubernetes.io/metadata.name';
    const matchExpressions = [{ key, operator: 'NotIn', values: ['portcullis'] }];
    const policy = {
      metadata: { name, labels },
      spec: { matchConstraints: { namespaceSelector: { matchExpressions } } },
    };
    // A copy with the same labels belongs to its creator.
    const copy = { ...policy, metadata: { name: 'floor.example.com', labels } };
    for (const object of [copy, policy]) {
      assert.equal((await cluster.admin.send('POST', POLICIES, object)).status, 201);
    }
    const requirements = async (): Promise<unknown> => {
      const { body } = await cluster.admin.send('GET', `${POLICIES}/${name}`);
      return (body as Kinds['ValidatingAdmissionPolicy']).spec?.matchConstraints?.namespaceSelector?.matchExpressions;
    };
    assert.match((await run('on')).stdout, new RegExp(`^policy ${name}: changed: ${name} off\nvalidating `));
    assert.deepEqual(await requirements(), [...matchExpressions, { key, operator: 'DoesNotExist' }]);
    assert.match((await run('status')).stdout, new RegExp(`^policy +${name} +${name} +Fail +off$`, 'm'));
    assert.match((await run('off')).stdout, new RegExp(`\npolicy ${name}: changed: ${name} active\n`));
    assert.deepEqual(await requirements(), matchExpressions);
    for (const object of [copy, policy]) {
      await cluster.admin.send('DELETE', `${POLICIES}/${object.metadata.name}`);
    }
  });

  test('a different condition with the same name is reported and kept', async () => {
    const value = [{ name: 'break-glass', expression: 'request.userInfo.username == "root"' }];
    const ops = [{ op: 'add', path: '/webhooks/0/matchConditions', value }];
    await cluster.admin.send('PATCH', `${MUTATING}/zz.scc.portcullis.dev`, ops, JSON_PATCH);
    const { code, stdout } = await run('on');
    assert.equal(code, 1);
    assert.match(
      stdout,
      /^mutating zz\.scc\.portcullis\.dev: unchanged: mutate\.scc\.portcullis\.dev unknown: another match condition has the name "break-glass"$/m,
    );
  });

  test('concurrent changes are kept', async () => {
    const changes = (async () => {
      for (let seconds = 1; seconds <= 30; seconds++) {
        const ops = [{ op: 'add', path: '/webhooks/0/timeoutSeconds', value: seconds }];
        const path = `${VALIDATING}/psa.portcullis.dev`;
        assert.equal((await cluster.admin.send('PATCH', path, ops, JSON_PATCH)).status, 200);
      }
    })();
    assert.equal((await run('on')).code, 0);
    await changes;
    const { body } = await cluster.admin.send('GET', `${VALIDATING}/psa.portcullis.dev`);
    const [first] = (body as ValidatingWebhookConfiguration).webhooks ?? [];
    assert.equal(first?.timeoutSeconds, 30);
    assert.equal(first && webhookState(first), 'off');
  });
});

describe('break-glass rejects', () => {
  const mistakes: readonly (readonly [name: string, args: readonly string[], stderr: string])[] = [
    [
      'no action',
      [],
      "error: missing required argument 'on|off|status'\nSee 'portcullis break-glass --help' for usage.\n",
    ],
    ['another action', ['of'], 'error: unknown action "of": must be on, off or status\n'],
    [
      'two actions',
      ['on', 'off'],
      "error: too many arguments for 'break-glass'. Expected 1 argument but got 2: on, off.\nSee 'portcullis break-glass --help' for usage.\n",
    ],
    ['a reason for off', ['off', '--reason=x'], 'error: --reason requires the action "on"\n'],
    [
      'no cluster',
      ['on'],
      'error: no cluster to read: KUBECONFIG and HOME are not set; name a kubeconfig with --kubeconfig\n',
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
  const again = json({ ...psa, metadata: { ...(psa?.['metadata'] as object), resourceVersion: '2' } });
  const cases: readonly (readonly [name: string, answers: readonly Responder[], expected: Outcome])[] = [
    [
      'missing permission to list',
      [refusal(403, 'User "jo" cannot list them'), list()],
      { code: 2, stdout: '', stderr: 'error: SERVER: User "jo" cannot list them\n' },
    ],
    [
      'a cluster without Portcullis',
      [list(foreign), list(), list()],
      {
        code: 2,
        stdout: '',
        stderr: 'error: there are no webhook configurations with the label app.kubernetes.io/part-of=portcullis\n',
      },
    ],
    [
      'missing permission to patch',
      [list(psa), list(), list(), self, refusal(403, 'User "jo" cannot patch it')],
      {
        code: 1,
        stdout: 'validating psa.portcullis.dev: not changed: User "jo" cannot patch it\n',
        stderr: '',
      },
    ],
    [
      'missing permission to list policies',
      [list(psa), list(), refusal(403, 'User "jo" cannot list policies'), self, json(psa)],
      {
        code: 1,
        stdout: `validating psa.portcullis.dev: changed: psa.portcullis.dev, fail-open.psa.portcullis.dev, advise.psa.portcullis.dev active\n${WHEN_ON}`,
        stderr: 'policies not read: User "jo" cannot list policies\n',
      },
    ],
    [
      'a configuration that is deleted meanwhile',
      [list(psa), list(), list(), self, refusal(404, 'not found')],
      {
        code: 0,
        stdout: `validating psa.portcullis.dev: was deleted meanwhile\n${WHEN_ON}`,
        stderr: '',
      },
    ],
    [
      'an invalid change',
      [list(psa), list(), list(), self, refusal(422, 'too many conditions'), json(psa)],
      {
        code: 1,
        stdout: 'validating psa.portcullis.dev: not changed: too many conditions\n',
        stderr: '',
      },
    ],
    [
      'a change after a conflict',
      [list(psa), list(), list(), self, refusal(422, 'testing value failed'), again, json(psa)],
      {
        code: 0,
        stdout: `validating psa.portcullis.dev: changed: psa.portcullis.dev, fail-open.psa.portcullis.dev, advise.psa.portcullis.dev active\n${WHEN_ON}`,
        stderr: '',
      },
    ],
  ];
  for (const [name, answers, expected] of cases) {
    test(name, async (t) => {
      const server = await startScriptedServer();
      t.after(() => server.stop());
      server.respond(...answers);
      const outcome = await runProgram(['break-glass', 'on', '--kubeconfig', await server.kubeconfig()]);
      assert.deepEqual({ ...outcome, stderr: outcome.stderr.replace(server.url, 'SERVER') }, expected);
    });
  }
});

test('off restores every configuration', () => {
  const condition = fc.record({
    name: fc.constantFrom('a', 'b', 'break-glass'),
    expression: fc.constantFrom('true', '1 == 2'),
  });
  const webhook = fc.record(
    {
      name: fc.constantFrom('psa.portcullis.dev', 'advise.psa.portcullis.dev', 'mutate.scc.portcullis.dev'),
      matchConditions: fc.uniqueArray(condition, { selector: ({ name }) => name, minLength: 1 }),
      timeoutSeconds: fc.nat(30),
    },
    { requiredKeys: ['name'] },
  );
  const key = fc.constantFrom('a', 'portcullis.dev/inject-ca-from', '__proto__', 'constructor');
  const metadata = fc.record({ annotations: fc.dictionary(key, fc.string(), { minKeys: 1 }) }, { requiredKeys: [] });
  fc.assert(
    fc.property(fc.record({ metadata, webhooks: fc.array(webhook) }), (object) => {
      const read = (value: unknown): ReturnType<typeof parseWebhookConfiguration> =>
        parseWebhookConfiguration('ValidatingWebhookConfiguration', value as ValidatingWebhookConfiguration);
      const broken = applyJsonPatch(object, planOn(read(object), { since: 'now', by: 'me', reason: '' }));
      assert.ok(read(broken).webhooks.every((one) => webhookState(one) !== 'active'));
      assert.deepEqual(planOn(read(broken), { since: 'later' }), []);
      const back = applyJsonPatch(broken, planOff(read(broken))) as { metadata: { annotations?: object } };
      // An empty map equals an absent map.
      if (Object.keys(back.metadata.annotations ?? { '': '' }).length === 0) delete back.metadata.annotations;
      assert.deepEqual(back, JSON.parse(JSON.stringify(object)));
      assert.deepEqual(planOff(read(back)), []);
    }),
  );
});

function comparable(object: JsonObject): unknown {
  const { name, labels, annotations } = object['metadata'] as JsonObject;
  return { name, labels, annotations, webhooks: object['webhooks'] };
}
