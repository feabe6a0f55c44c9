import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { runProgram } from '../../support/memory-io.ts';

const fixtures = join(import.meta.dirname, '../../fixtures/user-namespaces');
const cluster = await readFile(join(fixtures, 'cluster.yaml'), 'utf8');
const audit = (args: readonly string[], stdin = cluster) =>
  runProgram(['audit', 'user-namespaces', '-f', '-', ...args], { stdin });

describe('audit user-namespaces prints the findings', () => {
  for (const format of ['table', 'json', 'yaml']) {
    test(`as ${format}`, async () => {
      const expected = await readFile(join(fixtures, `expected/cluster.${format}.txt`), 'utf8');
      assert.deepEqual(await audit(['-o', format]), { code: 1, stdout: expected, stderr: '' });
    });
  }

  test('including finished pods with --include-completed', async () => {
    const { stdout } = await audit(['--include-completed']);
    assert.match(stdout, /^UN001 {2}high {6}Pod ci\/done {2,}SCC "nested-container" admitted the pod/m);
  });

  test('as names and without headers', async () => {
    const { stdout } = await audit(['-o', 'name']);
    assert.equal(stdout, 'node/old\ndeployment/builder\npod/builder-1-a\npod/web\nrolebinding/builders\n');
    assert.match((await audit(['-o', 'wide', '--no-headers'])).stdout, /^UN006 /);
  });

  test('of one namespace and of cluster-scoped objects with --namespace', async () => {
    const { stdout } = await audit(['-n', 'ci', '-o', 'json']);
    const { findings } = JSON.parse(stdout) as { findings: readonly { namespace?: string; kind: string }[] };
    const namespaces = new Set(findings.map(({ namespace }) => namespace));
    assert.deepEqual(namespaces, new Set([undefined, 'ci']));
  });

  test('in colors on a terminal', async () => {
    const { stdout } = await runProgram(['audit', 'user-namespaces', '-f', '-'], {
      stdin: cluster,
      terminals: ['stdout'],
    });
    assert.ok(stdout.includes('\nUN006  \u001b[31mhigh\u001b[39m      Node old'), stdout);
  });
});

describe('audit user-namespaces exits with code 0', () => {
  const nothing = '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"one"}}';
  const harmless = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'p', annotations: { 'openshift.io/scc': 'restricted-v3' } },
    spec: { hostUsers: false, containers: [{ name: 'a', image: 'a' }] },
  };
  const assumed =
    'Assumed: the 13 standard SecurityContextConstraints, with their ClusterRoles and ClusterRoleBindings';
  const cases: readonly (readonly [name: string, stdin: string, code: number, stdout: string])[] = [
    ['if there are no findings', nothing, 0, `${assumed}.\n\n0 high, 0 medium, 0 info\nNo action is needed.\n`],
    [
      'if all findings have severity info',
      JSON.stringify(harmless),
      0,
      'CODE   SEVERITY  OBJECT         FINDING\nUN007  info      Pod default/p  SCC "restricted-v3" admitted the pod and does not grant it more permissions without the user namespace\n\n' +
        `${assumed}; namespaces: default.\n\n0 high, 0 medium, 1 info\nNo action is needed.\n`,
    ],
  ];
  for (const [name, stdin, code, stdout] of cases) {
    test(name, async () => assert.deepEqual(await audit([], stdin), { code, stdout, stderr: '' }));
  }
});
