import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { type ClusterSource, findCluster, resolveCluster } from '../../src/cluster/cluster-source.ts';

let folder: string;
before(async () => void (folder = await mkdtemp(join(tmpdir(), 'portcullis-find-'))));
after(async () => await rm(folder, { recursive: true, force: true }));

const FIRST = `apiVersion: v1
kind: Config
current-context:
clusters:
- name: a
  cluster:
    server: https://a.test:6443/
    certificate-authority: pki/ca.crt
users:
- name: alice
  user:
    client-certificate: ../alice.crt
    client-key-data: dGhlIGtleQ==
    client-key: missing.key
    exec:
      command: bin/login
contexts:
- name: work
  context: {cluster: a, user: alice, namespace: shop}
- name: unknown-cluster
  context: {cluster: gone, user: alice}
- name: unknown-user
  context: {cluster: a, user: gone}
- name: anonymous
  context: {cluster: a}
`;

const SECOND = `current-context: play
clusters:
- name: a
  cluster: {server: https://other.test}
- name: b
  cluster: {server: https://b.test}
users:
- name: bob
  user: {token: t}
contexts:
- name: play
  context: {cluster: b, user: bob}
- name: work
  context: {cluster: b, user: bob}
`;

const ONLY_CONTEXT = 'current-context: c\ncontexts: [{name: c, context: {cluster: a}}]\n';

async function file(name: string, text: string): Promise<string> {
  const path = join(folder, name);
  await mkdir(join(path, '..'), { recursive: true });
  await writeFile(path, text);
  return path;
}

async function find(where: Partial<ClusterSource>) {
  return await resolveCluster({ env: {}, ...where });
}

describe('the cluster of a command', () => {
  test('comes from the file in the `kubeconfig` option, against whose directory relative paths are resolved', async () => {
    const kubeconfig = await file('a/config', FIRST);
    const plugin = `#!${process.execPath}\nconsole.log(JSON.stringify({ status: { token: 'by plugin' } }));\n`;
    const executable = await file('a/bin/login', plugin);
    await chmod(executable, 0o755);
    await file('a/pki/ca.crt', 'the authority');
    await file('alice.crt', 'the certificate');
    const env = { KUBECONFIG: await file('b/config', SECOND) };
    const { server, namespace, credentials } = await find({ kubeconfig, context: 'work', env });
    assert.deepEqual([server, namespace], ['https://a.test:6443', 'shop']);
    assert.deepEqual(await credentials(), {
      headers: { authorization: 'Bearer by plugin' },
      ca: 'the authority',
      cert: 'the certificate',
      key: 'the key',
    });
  });

  test('comes from all existing files in KUBECONFIG, of which the first that defines a name takes precedence', async () => {
    const files = [join(folder, 'missing'), '', await file('a/config', FIRST), await file('b/config', SECOND)];
    const env = { KUBECONFIG: files.join(delimiter) };
    const { server, namespace, credentials } = await find({ env });
    assert.deepEqual([server, namespace], ['https://b.test', 'default']);
    assert.deepEqual((await credentials()).headers, { authorization: 'Bearer t' });
    assert.equal((await find({ env, context: 'work' })).server, 'https://a.test:6443');
  });

  test('comes from the file in the home directory', async () => {
    await file('home/.kube/config', SECOND);
    const home = join(folder, 'home');
    for (const env of [{ HOME: home }, { USERPROFILE: home }, { HOME: join(folder, 'none'), USERPROFILE: home }])
      assert.equal((await find({ env })).server, 'https://b.test');
  });

  const empty: readonly (readonly [name: string, cluster: string, user: string, ca?: string])[] = [
    ['the paths of certificates', '{certificate-authority: ""}', '{token: t, client-certificate: "", client-key: ""}'],
    [
      'inline data',
      '{certificate-authority: pki/ca.crt, certificate-authority-data: ""}',
      '{token: t}',
      'the authority',
    ],
    ['the path of a token', '{}', '{token: t, tokenFile: ""}'],
    ['the proxy and the server name', '{proxy-url: "", tls-server-name: ""}', '{token: t}'],
    ['the impersonated user', '{}', '{token: t, as: ""}'],
  ];
  for (const [name, cluster, user, ca] of empty) {
    test(`does not depend on empty text in ${name}`, async () => {
      const text = `${ONLY_CONTEXT.replace('cluster: a', 'cluster: a, user: u')}clusters:
- {name: a, cluster: ${cluster.replace('{', '{server: "https://a.test", ')}}
users:
- {name: u, user: ${user}}
`;
      await file('a/pki/ca.crt', 'the authority');
      const { credentials } = await find({ kubeconfig: await file('a/empty', text) });
      const headers = { authorization: 'Bearer t' };
      assert.deepEqual(await credentials(), { headers, ca, cert: undefined, key: undefined });
    });
  }

  test('does not depend on incomplete entries that other contexts use', async () => {
    const kubeconfig = await file(
      'a/incomplete',
      `current-context: c
contexts:
- {name: c, context: {cluster: a}}
- {name: d, context: {cluster: "", user: ""}}
- {name: e, context: {cluster: b}}
clusters:
- {name: a, cluster: {server: "https://a.test"}}
- {name: b, cluster: {server: ""}}
`,
    );
    assert.equal((await find({ kubeconfig })).server, 'https://a.test');
  });

  test('may come from a context that sets no user', async () => {
    const { credentials } = await find({ kubeconfig: await file('a/config', FIRST), context: 'anonymous' });
    assert.deepEqual((await credentials()).headers, {});
  });
});

describe('no cluster is found', () => {
  test('and findCluster rejects a missing file in KUBECONFIG, but returns undefined for a missing file in the home directory', async () => {
    const env = { HOME: join(folder, 'home'), KUBECONFIG: join(folder, 'x') };
    await assert.rejects(findCluster({ env }), {
      name: 'UserError',
      message: `no cluster to read: there is no ${join(folder, 'x')}; set --kubeconfig`,
    });
    assert.equal(await findCluster({ env: { HOME: join(folder, 'none') } }), undefined);
  });

  const missing: readonly (readonly [name: string, where: () => Partial<ClusterSource>, message: string])[] = [
    [
      'if KUBECONFIG and HOME are not set',
      () => ({}),
      'no cluster to read: KUBECONFIG and HOME are not set; set --kubeconfig',
    ],
    [
      'if the home directory contains no kubeconfig',
      () => ({ env: { HOME: join(folder, 'none') } }),
      'no cluster to read: there is no <folder>/none/.kube/config; set --kubeconfig',
    ],
    [
      'if the files in KUBECONFIG do not exist',
      () => ({
        env: { HOME: join(folder, 'home'), KUBECONFIG: ['x', 'y'].map((name) => join(folder, name)).join(delimiter) },
      }),
      'no cluster to read: there is no <folder>/x, no <folder>/y; set --kubeconfig',
    ],
    [
      'if a pod has no token file',
      () => ({ env: { KUBERNETES_SERVICE_HOST: '10.0.0.1', KUBERNETES_SERVICE_PORT: '443' } }),
      'no cluster to read: KUBECONFIG and HOME are not set; set --kubeconfig',
    ],
    [
      'if the file in the options does not exist',
      () => ({ kubeconfig: join(folder, 'missing') }),
      'cannot read <folder>/missing: there is no such file',
    ],
  ];
  for (const [name, where, message] of missing) {
    test(name, async () => {
      await assert.rejects(find(where()), { name: 'UserError', message: message.replaceAll('<folder>', folder) });
    });
  }

  const NO_CONTEXT = 'there is no current-context: choose one with --context';
  const PLAY_WORK = 'the contexts are play, work';
  const named = (cluster: string): string => `${ONLY_CONTEXT}clusters:\n- {name: a, cluster: ${cluster}}`;
  const wrong: readonly (readonly [name: string, text: string, message: string, context?: string])[] = [
    [
      'a missing current context',
      FIRST,
      `${NO_CONTEXT}; the contexts are work, unknown-cluster, unknown-user, anonymous`,
    ],
    ['an unknown context', SECOND, `context "x" does not exist; ${PLAY_WORK}`, 'x'],
    ['an unknown cluster', FIRST, 'cluster "gone" of context "unknown-cluster" does not exist', 'unknown-cluster'],
    ['an unknown user', FIRST, 'user "gone" of context "unknown-user" does not exist', 'unknown-user'],
    ['a list instead of an object', '- a', 'not a kubeconfig: it does not contain an object'],
    ['clusters that are not a list', 'clusters: {}', 'clusters must be a list'],
    ['a cluster without a server', named('{server: ""}'), 'cluster "a" of context "c" has no server'],
    [
      'a context without a cluster',
      'contexts: [{name: c, context: {cluster: a}}, {name: d, context: {cluster: "", user: ""}}]',
      'context "d" has no cluster; the contexts are c',
      'd',
    ],
    ['a server that is not a URL', named('{server: a}'), 'server of cluster "a" must be an HTTP or HTTPS URL'],
    [
      'an unsupported proxy',
      named('{server: https://a, proxy-url: socks5://b}'),
      'proxy-url of cluster "a" must be an HTTP or HTTPS URL',
    ],
  ];
  for (const [name, text, message, context] of wrong) {
    test(`in a kubeconfig with ${name}`, async () => {
      const kubeconfig = await file('wrong', text);
      await assert.rejects(find({ kubeconfig, context }), { name: 'UserError', message: `${kubeconfig}: ${message}` });
    });
  }

  test('in a kubeconfig with a syntax error', async () => {
    await assert.rejects(find({ kubeconfig: await file('wrong', 'a: [') }), /^UserError: .+wrong:1:6: /);
  });
});

test('every kubeconfig results in a cluster, or in an error that contains the file name', async () => {
  const entry = (key: string, fields: Readonly<Record<string, fc.Arbitrary<unknown>>>) =>
    fc.array(
      fc.record({ name: value, [key]: fc.oneof(value, fc.record(fields, { requiredKeys: [] })) }, { requiredKeys: [] }),
      { maxLength: 2 },
    );
  const value: fc.Arbitrary<unknown> = fc.oneof(
    fc.constantFrom('a', 'https://a', '', true, null),
    fc.jsonValue({ maxDepth: 2 }),
  );
  const config = fc.record(
    {
      clusters: fc.oneof(
        value,
        entry('cluster', { server: value, 'certificate-authority': value, 'proxy-url': value }),
      ),
      users: fc.oneof(
        value,
        entry('user', {
          token: value,
          exec: fc.oneof(value, fc.record({ command: value, env: value })),
          as: value,
          'as-user-extra': value,
        }),
      ),
      contexts: fc.oneof(value, entry('context', { cluster: value, user: value })),
      'current-context': value,
    },
    { requiredKeys: [] },
  );
  await fc.assert(
    fc.asyncProperty(config, async (content) => {
      const kubeconfig = await file('any', JSON.stringify(content));
      await find({ kubeconfig }).catch((error: unknown) => {
        assert.ok(String(error).startsWith(`UserError: ${kubeconfig}: `), String(error));
      });
    }),
    { numRuns: 300 },
  );
});
