/**
 * Security context constraints, with the server as a process, its development cluster, the example manifests, and users
 * that are not administrators. Each step is sent as the request that kubectl sends, and with kubectl itself if kubectl is
 * on the PATH.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { ApiClient } from '../support/api-client.ts';
import { connect } from '../support/kubeconfig.ts';
import { createKubectl, hasKubectl, type KubectlResult } from '../support/kubectl.ts';
import { argumentsOf, checkStep, rangeOf, SCC_STEPS, summaryOf } from '../support/scenarios/scc.ts';
import { serve, type Running } from '../support/serve-process.ts';

/** A namespace and a pod that is created immediately afterwards. */
const SUDDEN = {
  namespace: {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: 'sudden', labels: { 'portcullis.dev/scc': 'enforce' } },
  },
  pod: {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'quick', namespace: 'sudden', annotations: { 'openshift.io/required-scc': 'restricted-v2' } },
    spec: { containers: [{ name: 'c', image: 'registry.example.com/quick:1' }] },
  },
};

suite('security context constraints, by requests', () => {
  let running: Running;
  let client: ApiClient;
  before(async () => {
    running = await serve([]);
    client = await connect(running);
  });
  after(async () => {
    client.close();
    await running.stop();
  });

  for (const step of SCC_STEPS) {
    test(step.name, () => checkStep(client, step));
  }

  test('a pod is created immediately after its namespace', async () => {
    const { namespace, pod } = SUDDEN;
    assert.equal((await client.send('POST', '/api/v1/namespaces', namespace)).status, 201);
    const answer = await client.send('POST', '/api/v1/namespaces/sudden/pods', pod);
    assert.equal(answer.status, 201, answer.text);
    assert.deepEqual(await summaryOf(client, answer), {
      scc: 'restricted-v2',
      subject: 'serviceaccount',
      runAsUser: 'from the namespace',
    });
  });

  test('a short SCC is stored with its defaults', async () => {
    const { body } = await client.send('GET', '/apis/security.openshift.io/v1/securitycontextconstraints/web');
    const { fsGroup, users, allowPrivilegeEscalation, priority, userNamespaceLevel } = body as Record<string, unknown>;
    assert.deepEqual(
      { fsGroup, users, allowPrivilegeEscalation, priority, userNamespaceLevel },
      {
        fsGroup: { type: 'RunAsAny' },
        users: [],
        allowPrivilegeEscalation: false,
        priority: null,
        userNamespaceLevel: 'AllowHostLevel',
      },
    );
  });

  test('an invalid SCC is denied', async () => {
    const scc = {
      apiVersion: 'security.openshift.io/v1',
      kind: 'SecurityContextConstraints',
      metadata: { name: 'odd' },
      runAsUser: { type: 'MustRunAsRoot' },
      seLinuxContext: { type: 'RunAsAny' },
    };
    const answer = await client.send('POST', '/apis/security.openshift.io/v1/securitycontextconstraints', scc);
    assert.equal(answer.status, 422);
    assert.equal(
      (answer.body as { readonly message: string }).message,
      'admission webhook "objects.scc.portcullis.dev" denied the request: SecurityContextConstraints.security.openshift.io "odd" is invalid: runAsUser.type: Invalid value: "MustRunAsRoot": invalid strategy type.  Valid values are MustRunAs, MustRunAsNonRoot, MustRunAsRange, RunAsAny',
    );
  });
});

suite('security context constraints, by kubectl', { skip: hasKubectl ? false : 'kubectl is not on the PATH' }, () => {
  let running: Running;
  let client: ApiClient;
  let kubectl: (args: readonly string[], stdin?: string) => Promise<KubectlResult>;
  before(async () => {
    running = await serve([]);
    client = await connect(running);
    kubectl = createKubectl(running.kubeconfig);
  });
  after(async () => {
    client.close();
    await running.stop();
  });

  for (const step of SCC_STEPS) {
    test(step.name, async () => {
      const { code, stderr } = await kubectl(argumentsOf(step));
      const lines = stderr.split('\n').filter((line) => line !== '');
      const isWarning = (line: string): boolean => line.startsWith('Warning: ');
      // kubectl prints no warnings for a connection that was not upgraded.
      const warnings = step.exec === undefined ? (step.warnings ?? []) : [];
      assert.deepEqual(
        lines.filter(isWarning),
        warnings.map((text) => `Warning: ${text}`),
      );
      const rest = lines.filter((line) => !isWarning(line)).join('\n');
      const denied = step.denied?.replaceAll('RANGE', await rangeOf(client));
      if (denied === undefined) assert.deepEqual({ code, rest }, { code: 0, rest: '' });
      else assert.ok(code === 1 && rest.endsWith(denied), rest);
    });
  }

  test('one file contains a namespace and its first pod', async () => {
    const file = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [SUDDEN.namespace, SUDDEN.pod] });
    const { code, stdout, stderr } = await kubectl(['create', '-f', '-'], file);
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
    assert.equal(stdout, 'namespace/sudden created\npod/quick created\n');
  });

  test('kubectl get prints the columns of OpenShift', async () => {
    const { stdout } = await kubectl(['get', 'scc', 'restricted-v2', 'web']);
    assert.deepEqual(
      stdout.split('\n').map((line) => line.trimEnd().replaceAll(/ {2,}/g, ' | ')),
      [
        'NAME | PRIV | CAPS | SELINUX | RUNASUSER | FSGROUP | SUPGROUP | PRIORITY | READONLYROOTFS | VOLUMES',
        'restricted-v2 | false | ["NET_BIND_SERVICE"] | MustRunAs | MustRunAsRange | MustRunAs | RunAsAny | <no value> | false | ["configMap","csi","downwardAPI","emptyDir","ephemeral","image","persistentVolumeClaim","projected","secret"]',
        'web | false | <no value> | MustRunAs | MustRunAs | RunAsAny | RunAsAny | <no value> | false | ["configMap","emptyDir","projected","secret"]',
        '',
      ],
    );
  });
});
