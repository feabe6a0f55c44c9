/**
 * Tests that the cost limits of API servers deny no update that the policies allow, even if pods have thousands of
 * containers or other items.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { readDocuments } from '../../src/config/yaml.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { responseMessage, responseObject } from '../support/answers.ts';
import { useControlPlane, withoutPolicies } from '../support/control-plane/index.ts';
import { create, createNamespace, localObjects } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { runProgram } from '../support/memory-io.ts';

const ENFORCE = 'pod-security.kubernetes.io/enforce';
const MERGE = { 'content-type': 'application/merge-patch+json' };
const STRATEGIC = { 'content-type': 'application/strategic-merge-patch+json' };

const repeat = <T>(count: number, item: (index: number) => T): T[] => Array.from({ length: count }, (_, i) => item(i));
const container = (name: string, more: JsonObject = {}): JsonObject => ({ name, image: 'i', ...more });
const one = [container('c')];
const VIOLATING = { metadata: { name: 'p' }, spec: { hostNetwork: true, containers: one } };

/** Pod specs with one long list each, keyed by the list. They cover all lists that the policies read. */
const SPECS: Readonly<Record<string, JsonObject>> = {
  containers: { containers: repeat(8000, (index) => container(`c${index}`)) },
  initContainers: { containers: one, initContainers: repeat(8000, (index) => container(`i${index}`)) },
  'containers and initContainers': {
    containers: repeat(4000, (index) => container(`c${index}`)),
    initContainers: repeat(4000, (index) => container(`i${index}`)),
  },
  volumes: { containers: one, volumes: repeat(10_000, (index) => ({ name: `v${index}`, emptyDir: {} })) },
  ports: { containers: [container('c', { ports: repeat(10_000, (index) => ({ containerPort: index + 1 })) })] },
  capabilities: {
    containers: [
      container('c', { securityContext: { capabilities: { add: repeat(10_000, (index) => `C${index}`) } } }),
    ],
  },
  sysctls: {
    containers: one,
    securityContext: { sysctls: repeat(10_000, (index) => ({ name: `net.x${index}`, value: '1' })) },
  },
};

suite('policies in the API server', { skip: withoutPolicies }, async () => {
  const plane = await useControlPlane({ podSecurityPlugin: 'off' });

  const send = async (
    method: 'POST' | 'PATCH',
    path: string,
    body: JsonObject,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<string> => {
    const answer = await plane.admin.send(method, path, body, headers);
    return answer.status < 300 ? '' : `${answer.status} ${String(responseMessage(answer))}`.slice(0, 500);
  };
  const pods = (namespace: string, name = '', subresource = ''): string =>
    `/api/v1/namespaces/${namespace}/pods${name === '' ? '' : `/${name}`}${subresource}`;
  const patchLabel = (name: string): Promise<string> =>
    send('PATCH', pods('strict', name), { metadata: { labels: { team: 'a' } } }, MERGE);

  const { minor = '' } = responseObject(await plane.admin.send('GET', '/version')) as Record<string, string>;
  const release = `--for-kubernetes=1.${Number.parseInt(minor)}`;
  const defaults = '--set=defaults={mode: apply, namespaceSelector: {}}';
  const { stdout, stderr } = await runProgram(['install', '--without-server', release, defaults]);
  assert.notEqual(stdout, '', stderr);
  const policies = readDocuments(stdout, 'policies').documents.map(({ value }) => value as JsonObject);
  const shipped = localObjects(0).filter(({ kind }) => String(kind).startsWith('ValidatingAdmissionPolicy'));
  for (const policy of [...policies, ...shipped]) {
    const answer = await create(plane.admin, policy);
    assert.equal(answer.status, 201, answer.text);
  }
  for (const name of ['strict', 'probe']) {
    const labels = name === 'probe' ? { [ENFORCE]: 'restricted' } : {};
    await createNamespace(plane.admin, name, labels);
  }
  await eventually(
    async () => assert.match(await send('POST', `${pods('probe')}?dryRun=All`, VIOLATING), /^403 /),
    30_000,
  );
  for (const [name, spec] of Object.entries(SPECS)) {
    const metadata = { name: name.toLowerCase().replaceAll(' ', '-') };
    assert.equal(await send('POST', pods('strict'), { metadata, spec }), '', name);
  }
  for (const count of [1000, 5000]) {
    const name = `ephemeral-${count}`;
    assert.equal(await send('POST', pods('strict'), { metadata: { name }, spec: { containers: one } }), '');
    const spec = { ephemeralContainers: repeat(count, (index) => container(`e${index}`)) };
    assert.equal(await send('PATCH', pods('strict', name, '/ephemeralcontainers'), { spec }, STRATEGIC), '', name);
  }
  assert.equal(
    await send('PATCH', '/api/v1/namespaces/strict', { metadata: { labels: { [ENFORCE]: 'restricted' } } }, MERGE),
    '',
  );
  await eventually(
    async () => assert.match(await send('POST', `${pods('strict')}?dryRun=All`, VIOLATING), /^403 /),
    30_000,
  );

  for (const list of [...Object.keys(SPECS), 'ephemeral 1000', 'ephemeral 5000']) {
    test(`admit labels on pods with long lists of ${list}`, async () => {
      assert.equal(await patchLabel(list.toLowerCase().replaceAll(' ', '-')), '');
    });
  }

  for (const [list, spec] of Object.entries(SPECS)) {
    test(`deny pods with long lists of ${list} with the reason`, async () => {
      const message = await send('POST', `${pods('probe')}?dryRun=All`, { metadata: { name: 'p' }, spec });
      assert.match(message, /^403 .*violates PodSecurity "restricted:latest": too many containers, volumes, ports,/);
    });
  }

  test('do not deny workloads whose templates have long lists', async () => {
    const app = { app: 'a' };
    for (const spec of Object.values(SPECS)) {
      const template = { metadata: { labels: app }, spec };
      const body = { metadata: { name: 'd' }, spec: { selector: { matchLabels: app }, template } };
      assert.equal(await send('POST', '/apis/apps/v1/namespaces/probe/deployments?dryRun=All', body), '');
    }
  });

  test('deny another ephemeral container in a pod with long lists, with the reason', async () => {
    for (const count of [1000, 5000]) {
      const spec = { ephemeralContainers: [container('new')] };
      const path = pods('strict', `ephemeral-${count}`, '/ephemeralcontainers');
      assert.match(await send('PATCH', path, { spec }, STRATEGIC), /^403 .*too many containers/);
    }
  });

  test('deny pods with many annotations, with the reason', async () => {
    const annotations = Object.fromEntries(repeat(10_000, (index) => [`a${index}`, '']));
    const body = { metadata: { name: 'p', annotations }, spec: { containers: one } };
    assert.match(await send('POST', `${pods('probe')}?dryRun=All`, body), /^403 .*too many containers/);
  });
});
