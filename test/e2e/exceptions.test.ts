/**
 * Tests PodSecurityExceptions from their proposal to their expiry, including who may approve them, what they match, and
 * the level of the namespace.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { parse } from 'yaml';
import { AUTHORS_ANNOTATION } from '../../src/api/names.ts';
import { type JsonObject, objectMember } from '../../src/kube/types.ts';
import { hashSpec } from '../../src/views/exceptions.ts';
import { objectMetadata, responseMessage, responseObject } from '../support/answers.ts';
import { ASSETS, createSystem, startControlPlane, useSystem } from '../support/control-plane/index.ts';
import { create, createNamespace } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { runProgram } from '../support/memory-io.ts';

const GROUP = '/apis/policy.portcullis.dev/v1alpha1/namespaces/shop/podsecurityexceptions';
const MERGE = { 'content-type': 'application/merge-patch+json' };
const APPLY = { 'content-type': 'application/apply-patch+yaml' };
const IMAGE = 'registry.example.com/gateway';
const RBAC = 'rbac.authorization.k8s.io';
const as = (user: string) => ({ 'impersonate-user': user });

const SAFE = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'], add: ['NET_ADMIN'] } };
const template = (change: JsonObject = {}, container: JsonObject = {}): JsonObject => ({
  serviceAccountName: 'gateway',
  automountServiceAccountToken: false,
  securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
  containers: [{ name: 'proxy', image: `${IMAGE}:1`, securityContext: SAFE, ...container }],
  ...change,
});
const pod = (name: string, spec: JsonObject): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: 'shop' },
  spec,
});
const deployment: JsonObject = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'gateway', namespace: 'shop' },
  spec: {
    selector: { matchLabels: { app: 'gateway' } },
    template: { metadata: { labels: { app: 'gateway' } }, spec: template() },
  },
};

suite('exceptions', async () => {
  const { plane, system } = await useSystem({}, ASSETS === undefined ? {} : { podSecurityPlugin: 'on' });
  const kubeconfigs: Record<string, string> = {};

  const run = (user: string, ...args: readonly string[]) =>
    runProgram(['exception', ...args, '-n', 'shop', '--kubeconfig', kubeconfigs[user] ?? ''], {
      terminals: ['stdin'],
      stdin: 'yes\n',
    });
  const send = async (method: 'POST' | 'PUT' | 'PATCH', path: string, body: JsonObject, headers = {}) => {
    const answer = await plane.admin.send(method, path, body, headers);
    return answer.status < 300 ? '' : String(responseMessage(answer));
  };
  const createPod = (name: string, spec: JsonObject, query = '?dryRun=All'): Promise<string> =>
    send('POST', `/api/v1/namespaces/shop/pods${query}`, pod(name, spec));
  const label = (labels: JsonObject): Promise<string> =>
    send('PATCH', '/api/v1/namespaces/shop', { metadata: { labels } }, MERGE);
  const read = async (): Promise<JsonObject> => responseObject(await plane.admin.send('GET', `${GROUP}/gateway`));

  const rules = (verbs: readonly string[], resources: readonly string[], apiGroups: readonly string[]) => ({
    ...{ verbs, resources, apiGroups },
  });
  const roles: Readonly<Record<string, readonly JsonObject[]>> = {
    reader: [
      rules(['get', 'list'], ['*'], ['*']),
      rules(['create', 'update', 'patch', 'delete'], ['podsecurityexceptions'], ['policy.portcullis.dev']),
    ],
    forger: [rules(['patch', 'update'], ['podsecurityexceptions/status'], ['policy.portcullis.dev'])],
    approver: [rules(['approve'], ['podsecurityexceptions'], ['policy.portcullis.dev'])],
  };
  const subjects: Readonly<Record<string, readonly string[]>> = {
    reader: ['alice', 'bob', 'mallory'],
    forger: ['alice', 'bob', 'mallory'],
    approver: ['alice', 'bob'],
  };
  for (const [name, list] of Object.entries(roles)) {
    const metadata = { name };
    await create(plane.admin, { apiVersion: `${RBAC}/v1`, kind: 'ClusterRole', metadata, rules: list });
    const roleRef = { apiGroup: RBAC, kind: 'ClusterRole', name };
    const users = subjects[name]?.map((user) => ({ apiGroup: RBAC, kind: 'User', name: user }));
    const binding = { apiVersion: `${RBAC}/v1`, kind: 'ClusterRoleBinding', metadata, roleRef, subjects: users };
    assert.equal((await create(plane.admin, binding)).status, 201);
  }
  for (const user of ['alice', 'bob', 'mallory']) kubeconfigs[user] = await plane.kubeconfigFor(user, []);
  const labels = { 'portcullis.dev/scc': 'off', 'pod-security.kubernetes.io/enforce': 'restricted' };
  await createNamespace(plane.admin, 'shop', labels);
  for (const name of ['gateway', 'other']) {
    await create(plane.admin, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace: 'shop' } });
  }
  await system.install();
  await system.add(1);
  assert.equal((await create(plane.admin, deployment)).status, 201);

  let manifest: JsonObject;

  test('exception create prints the smallest exception for a live workload', async () => {
    const { code, stdout, stderr } = await run(
      'alice',
      ...['create', 'deployment/gateway', '--for', '14d', '--reason', 'SEC-123'],
    );
    assert.equal(code, 0, stderr);
    manifest = parse(stdout) as JsonObject;
    const { expiresAt, ...spec } = manifest['spec'] as JsonObject;
    assert.deepEqual(spec, {
      serviceAccountName: 'gateway',
      allow: [{ check: 'capabilities_restricted', container: 'proxy', image: IMAGE, values: ['NET_ADMIN'] }],
      reason: 'SEC-123',
    });
    assert.match(String(expiresAt), /^\d{4}-\d{2}-\d{2}T/);
  });

  test('exceptions are off by default', async () => {
    const message = await send('POST', GROUP, manifest, as('alice'));
    // The development cluster has no policy, but its webhooks read the settings.
    assert.match(
      message,
      ASSETS === undefined ? /mode is off|podsecurityexceptions/ : /mode (?:of|in) the settings is off/,
    );
  });

  test('an author cannot forge the record of authors while exceptions are off', async (t) => {
    if (ASSETS === undefined) {
      t.skip('the development cluster has no policy');
      return;
    }
    const metadata = { name: 'hidden', namespace: 'shop', annotations: { 'portcullis.dev/authors': '["x\\"alice"]' } };
    assert.match(await send('POST', GROUP, { ...manifest, metadata }, as('alice')), /the author is not recorded/);
  });

  test('a proposal does not apply until another user approves it', async () => {
    await system.configure({ podSecurity: { exceptions: { mode: 'approved' } } });
    await eventually(async () => {
      assert.equal(await send('POST', `${GROUP}?dryRun=All`, manifest, as('alice')), '');
    }, 60_000);
    const forged = {
      ...manifest,
      metadata: { ...(manifest['metadata'] as JsonObject), annotations: { 'portcullis.dev/authors': '["bob"]' } },
      status: { approval: { by: 'bob', at: '2026-01-01T00:00:00Z', specHash: hashSpec(manifest['spec']) } },
    };
    assert.equal(await send('POST', GROUP, forged, as('alice')), '');
    const stored = await read();
    assert.deepEqual((stored['metadata'] as JsonObject)['annotations'], { 'portcullis.dev/authors': '["alice"]' });
    assert.equal((stored['status'] as JsonObject | undefined)?.['approval'], undefined);
    assert.equal(
      await label({ 'portcullis.dev/enforce': 'restricted', 'pod-security.kubernetes.io/enforce': 'baseline' }),
      '',
    );
    // The PodSecurity plugin evaluates the pod first.
    assert.match(await createPod('early', template()), /violates PodSecurity "(?:restricted|baseline):latest"/);
  });

  test('self-approval and approval without the approve verb are denied', async () => {
    const self = await run('alice', 'approve', 'gateway');
    assert.match(self.stderr, /status\.approval: Forbidden: alice is its author and cannot approve it/);
    const without = await run('mallory', 'approve', 'gateway');
    assert.match(without.stderr, /cannot approve/);
    assert.equal(without.code, 2);
  });

  test('a spec that its author replaces during the approval is not approved', async () => {
    const metadata = { name: 'replaced', namespace: 'shop' };
    assert.equal(await send('POST', GROUP, { ...manifest, metadata }, as('alice')), '');
    async function* answer(): AsyncGenerator<string> {
      const allow = [{ check: 'hostNamespaces', values: ['hostPID'] }];
      assert.equal(await send('PATCH', `${GROUP}/replaced`, { spec: { allow } }, { ...MERGE, ...as('alice') }), '');
      yield 'yes\n';
    }
    const args = ['exception', 'approve', 'replaced', '-n', 'shop', '--kubeconfig', kubeconfigs['bob'] ?? ''];
    const { code, stderr } = await runProgram(args, { terminals: ['stdin'], stdin: answer() });
    assert.equal(code, 2);
    assert.match(stderr, /must be the hash of the current spec \([0-9a-f]{64}\): read the spec again/);
    assert.equal((await plane.admin.send('DELETE', `${GROUP}/replaced`)).status, 200);
  });

  const forgeries: readonly (readonly [name: string, method: 'PATCH' | 'PUT', headers: object])[] = [
    ['a merge patch', 'PATCH', MERGE],
    ['server-side apply', 'PATCH', APPLY],
  ];
  for (const [name, method, headers] of forgeries) {
    test(`an approval in the name of another user is denied: ${name}`, async () => {
      const approval = { by: 'bob', at: new Date().toISOString(), specHash: hashSpec(manifest['spec']) };
      const { apiVersion, kind } = manifest;
      const body = { apiVersion, kind, metadata: { name: 'gateway', namespace: 'shop' }, status: { approval } };
      const query = name === 'server-side apply' ? '?fieldManager=m&force=true' : '';
      const message = await send(method, `${GROUP}/gateway/status${query}`, body, { ...headers, ...as('mallory') });
      assert.match(message, /cannot approve/);
      assert.equal(((await read())['status'] as JsonObject | undefined)?.['approval'], undefined);
    });
  }

  test('an approved exception allows only the violations that it lists', async () => {
    // The exception requires a level that the plugin does not enforce.
    assert.equal(await label({ 'pod-security.kubernetes.io/enforce': 'privileged' }), '');
    const { code, stdout, stderr } = await run('bob', 'approve', 'gateway');
    assert.equal(code, 0, stderr);
    assert.match(stdout, /podsecurityexception\/gateway approved\n$/);
    await eventually(async () => assert.equal(await createPod('gateway', template()), ''), 30_000);
    assert.match(await createPod('case', template({}, { name: 'other' })), /violates PodSecurity "restricted:latest"/);
  });

  test('an exception does not apply to a level that the PodSecurity plugin enforces, or to an invalid label', async (t) => {
    if (ASSETS === undefined) {
      t.skip('the development cluster has no PodSecurity plugin');
      return;
    }
    assert.equal(await label({ 'pod-security.kubernetes.io/enforce': 'restricted' }), '');
    await eventually(async () => assert.match(await createPod('shadowed', template()), /violates PodSecurity/), 30_000);
    const isShadowed = async (expected: string): Promise<void> => {
      const { conditions = [] } = (await read())['status'] as { readonly conditions?: readonly JsonObject[] };
      assert.equal(conditions.find(({ type }) => type === 'Shadowed')?.['status'], expected);
    };
    await eventually(() => isShadowed('True'), 60_000);
    assert.match(await label({ 'portcullis.dev/enforce': 'strict' }), /portcullis\.dev\/enforce/);
    assert.equal(await label({ 'pod-security.kubernetes.io/enforce': 'privileged' }), '');
    await eventually(async () => assert.equal(await createPod('again', template()), ''), 30_000);
    await eventually(() => isShadowed('False'), 60_000);
  });

  test('updates of a running pod are evaluated with the exception', async () => {
    assert.equal(await createPod('running', template(), ''), '');
    const path = '/api/v1/namespaces/shop/pods/running';
    const strategic = { 'content-type': 'application/strategic-merge-patch+json' };
    const image = (to: string): JsonObject => ({ spec: { containers: [{ name: 'proxy', image: to }] } });
    assert.equal(await send('PATCH', `${path}?dryRun=All`, image(`${IMAGE}:2`), strategic), '');
    assert.match(await send('PATCH', `${path}?dryRun=All`, image('evil:1'), strategic), /violates PodSecurity/);
    const debug = { name: 'debug', image: `${IMAGE}:1`, securityContext: SAFE };
    assert.match(
      await send(
        'PATCH',
        `${path}/ephemeralcontainers?dryRun=All`,
        { spec: { ephemeralContainers: [debug] } },
        strategic,
      ),
      /violates PodSecurity/,
    );
  });

  test('exception list, explain and audit exemptions print the exception', async () => {
    const { stdout } = await run('bob', 'list');
    assert.match(stdout, /^shop +gateway +gateway +(?:Active|Unused) +\S+ +bob +\d+$/m);
    const explained = await runProgram([
      'explain',
      'deployment/gateway',
      '-n',
      'shop',
      '--kubeconfig',
      kubeconfigs['bob'] ?? '',
    ]);
    assert.match(
      explained.stdout,
      /^Deployment shop\/gateway: admitted\n(?:.*\n)*? {2}Exceptions {7}allowed by gateway$/m,
      explained.stderr,
    );
    const audited = await runProgram(['audit', 'exemptions', '--kubeconfig', kubeconfigs['bob'] ?? '']);
    assert.match(
      audited.stdout,
      /^exception +shop\/gateway +Pod Security +capabilities_restricted for ServiceAccount gateway until \S+, approved by bob: SEC-123/m,
      audited.stderr,
    );
  });

  test('an edit ends the approval, even if the approver reverts it', async () => {
    const edit = (reason: string, user: string): Promise<string> =>
      send('PATCH', `${GROUP}/gateway`, { spec: { reason } }, { ...MERGE, ...as(user) });
    assert.equal(await edit('other', 'bob'), '');
    await eventually(async () => assert.match(await createPod('edited', template()), /violates PodSecurity/), 30_000);
    const explained = await runProgram([
      'explain',
      'deployment/gateway',
      '-n',
      'shop',
      '--kubeconfig',
      kubeconfigs['bob'] ?? '',
    ]);
    assert.match(explained.stdout, /gateway: its spec has changed since the approval/);
    const self = await run('bob', 'approve', 'gateway');
    assert.match(self.stderr, /bob is its author and cannot approve it/);
    assert.equal((await read())['metadata'] !== undefined, true);
    assert.equal(
      ((await read())['metadata'] as { annotations: JsonObject }).annotations['portcullis.dev/authors'],
      '["alice","bob"]',
    );
  });

  test('an exception expires while pods run', async () => {
    assert.equal((await plane.admin.send('DELETE', `${GROUP}/gateway`)).status, 200);
    const expiresAt = new Date(Date.now() + 8_000).toISOString();
    const short = { ...manifest, spec: { ...(manifest['spec'] as JsonObject), expiresAt } };
    assert.equal(await send('POST', GROUP, short, as('alice')), '');
    assert.equal((await run('bob', 'approve', 'gateway')).code, 0);
    await eventually(async () => assert.equal(await createPod('short', template()), ''), 7_000);
    await eventually(async () => assert.match(await createPod('short', template()), /violates PodSecurity/), 20_000);
    assert.equal((await plane.admin.send('GET', '/api/v1/namespaces/shop/pods/running')).status, 200);
  });

  test('approvals and pods are denied while no replica runs', async () => {
    await system.retire();
    const body = { status: { approval: { by: 'bob', at: new Date().toISOString(), specHash: 'x' } } };
    const message = await send('PATCH', `${GROUP}/gateway/status`, body, { ...MERGE, ...as('bob') });
    assert.match(message, /failed calling webhook|is forbidden/);
    assert.match(await createPod('late', template()), /failed calling webhook/);
  });
});

test('the policy in the API server denies forged approvals even while no replica runs', async () => {
  const plane = await startControlPlane();
  const system = await createSystem(plane);
  try {
    await createNamespace(plane.admin, 'shop');
    await system.install();
    const rule = (verbs: readonly string[]): JsonObject => ({
      verbs,
      resources: ['*'],
      apiGroups: ['policy.portcullis.dev'],
    });
    for (const [user, verbs] of [
      ['mallory', ['create', 'get', 'update', 'patch']],
      ['flux', ['create', 'get', 'update', 'patch', 'approve']],
    ] as const) {
      const metadata = { name: user };
      await create(plane.admin, { apiVersion: `${RBAC}/v1`, kind: 'ClusterRole', metadata, rules: [rule(verbs)] });
      const roleRef = { apiGroup: RBAC, kind: 'ClusterRole', name: user };
      const subjects = [{ apiGroup: RBAC, kind: 'User', name: user }];
      await create(plane.admin, { apiVersion: `${RBAC}/v1`, kind: 'ClusterRoleBinding', metadata, roleRef, subjects });
    }
    const apply = async (user: string, through: string): Promise<string> => {
      const annotations = {
        [AUTHORS_ANNOTATION]: `["${user}"]`,
        'portcullis.dev/approved-by': 'bob',
        'portcullis.dev/approved-through': through,
      };
      const allow = [{ check: 'hostNamespaces', values: ['hostNetwork'] }];
      const answer = await plane.admin.send(
        'POST',
        `${GROUP}?dryRun=All`,
        {
          ...{
            apiVersion: 'policy.portcullis.dev/v1alpha1',
            kind: 'PodSecurityException',
            metadata: { name: 'e', annotations },
          },
          spec: { serviceAccountName: 'gateway', allow, expiresAt: '2099-01-01T00:00:00Z', reason: 'SEC-123' },
        },
        as(user),
      );
      return answer.status < 300 ? '' : String(responseMessage(answer));
    };
    await eventually(async () => {
      assert.match(
        await apply('mallory', 'flux'),
        /the user cannot approve podsecurityexceptions\.policy\.portcullis\.dev/,
      );
    }, 60_000);
    assert.match(
      await apply('flux', 'other'),
      /the annotation portcullis\.dev\/approved-through must be the requesting user/,
    );
    assert.equal(await apply('flux', 'flux'), '');
  } finally {
    try {
      await system.stop();
    } finally {
      await plane.stop();
    }
  }
});

test('exceptions apply to the upstream label without the PodSecurity plugin', async () => {
  const plane = await startControlPlane(ASSETS === undefined ? {} : { podSecurityPlugin: 'off' });
  const system = await createSystem(plane);
  try {
    const labels = { 'portcullis.dev/scc': 'off', 'pod-security.kubernetes.io/enforce': 'restricted' };
    await createNamespace(plane.admin, 'shop', labels);
    const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'gateway', namespace: 'shop' } };
    await create(plane.admin, account);
    await system.install();
    await system.add(1);
    await system.configure({ podSecurity: { exceptions: { mode: 'approved', selfApproval: true } } });
    const createPod = async (): Promise<string> => {
      const path = '/api/v1/namespaces/shop/pods?dryRun=All';
      const answer = await plane.admin.send('POST', path, pod('gateway', template()));
      return answer.status < 300 ? '' : String(responseMessage(answer));
    };
    await eventually(async () => assert.match(await createPod(), /violates PodSecurity "restricted:latest"/), 60_000);
    const spec = {
      serviceAccountName: 'gateway',
      allow: [{ check: 'capabilities_baseline', container: 'proxy', image: IMAGE, values: ['NET_ADMIN'] }],
      expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
      reason: 'SEC-123',
    };
    const exception = {
      apiVersion: 'policy.portcullis.dev/v1alpha1',
      kind: 'PodSecurityException',
      metadata: { name: 'gateway', namespace: 'shop' },
      spec,
    };
    await eventually(async () => {
      const answer = await plane.admin.send('POST', `${GROUP}?dryRun=All`, exception);
      // The webhook is registered as soon as it records the author.
      const annotations = objectMember(objectMetadata(responseObject(answer)), 'annotations');
      assert.ok(AUTHORS_ANNOTATION in annotations, answer.text);
    }, 60_000);
    assert.equal((await create(plane.admin, exception)).status, 201);
    const kubeconfig = await plane.kubeconfigFor('root', ['system:masters']);
    const args = ['exception', 'approve', 'gateway', '-n', 'shop', '--kubeconfig', kubeconfig];
    const { code, stderr } = await runProgram(args, { terminals: ['stdin'], stdin: 'yes\n' });
    assert.equal(code, 0, stderr);
    await eventually(async () => assert.equal(await createPod(), ''), 30_000);
  } finally {
    try {
      await system.stop();
    } finally {
      await plane.stop();
    }
  }
});
