import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createAll } from '../../../src/cli/serve/dev-cluster.ts';
import { OLM_DEFINITIONS } from '../../../src/dev-cluster/index.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { runProgram } from '../../support/memory-io.ts';

const FILES = ['-f', 'test/fixtures/olm-namespaces.yaml'];

describe('olm status prints', () => {
  test('the namespaces of operators, one per row', async () => {
    const stdout = `\
NAMESPACE             OPERATORS      LABEL     SET BY             ROW   STATE                                             NEXT
openshift-logging     logging.v5     <none>    <none>             9     an operator is installed                          sets the label and the annotation
openshift-mine        <none>         "false"   <none>             7     not managed because the label has another owner   <none>
openshift-pipelines   pipelines.v1   "true"    olm-auto-labeler   3     managed                                           <none>
shop                  shop.v1        <none>    <none>             1     the name does not start with openshift-           <none>

Mode of the auto-labeler: managed.
`;
    assert.deepEqual(await runProgram(['olm', 'status', ...FILES]), { code: 0, stdout, stderr: '' });
  });

  test('the result for one namespace as JSON', async () => {
    const { stdout } = await runProgram(['olm', 'status', ...FILES, '-n', 'openshift-copies', '-o', 'json']);
    assert.deepEqual(JSON.parse(stdout), {
      isInstalled: true,
      mode: 'managed',
      namespaces: [
        {
          namespace: 'openshift-copies',
          operators: [],
          labelManagers: [],
          row: '8',
          action: 'none',
          reason: 'no operator is installed',
        },
      ],
      assumptions: [],
    });
  });

  test('the mode in the settings, and the namespaces that this mode does not change', async () => {
    const config = 'test/fixtures/config/olm-shipped.yaml';
    const { stdout } = await runProgram(['olm', 'status', ...FILES, '--config', config, '-n', 'openshift-logging']);
    assert.equal(
      stdout,
      `\
NAMESPACE           OPERATORS    LABEL    SET BY   ROW       STATE                      NEXT
openshift-logging   logging.v5   <none>   <none>   shipped   an operator is installed   sets the label

Mode of the auto-labeler: shipped.

Settings: ${config}.
`,
    );
  });

  const deployment = (args: readonly string[]): object => ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'portcullis', namespace: 'portcullis' },
    spec: {
      selector: { matchLabels: { a: 'b' } },
      template: {
        metadata: { labels: { a: 'b' } },
        spec: { containers: [{ name: 'portcullis', image: 'portcullis', args }] },
      },
    },
  });

  test('the reason why the auto-labeler is off or idle', async () => {
    const metadata = { name: 'olm-operator', namespace: 'openshift-operator-lifecycle-manager' };
    const lastTransitionTime = '2026-01-01T00:00:00Z';
    const condition = { type: 'OLMAvailable', status: 'False', reason: 'OLMNotInstalled', message: 'it is idle' };
    const conditions = [{ ...condition, lastTransitionTime }];
    const apiVersion = 'config.portcullis.dev/v1alpha1';
    const items = [
      { apiVersion: 'v1', kind: 'Namespace', metadata: { name: metadata.namespace } },
      { ...deployment([]), metadata },
      { apiVersion, kind: 'PortcullisConfiguration', metadata: { name: 'cluster' }, spec: {}, status: { conditions } },
    ];
    const stdin = JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
    const { stdout } = await runProgram(['olm', 'status', '-f', '-'], { stdin });
    assert.equal(
      stdout,
      `No namespaces with operators found.

Mode of the auto-labeler: off, because the Deployment olm-operator in ${metadata.namespace} labels namespaces.
OLMNotInstalled: it is idle.

Settings: PortcullisConfiguration "cluster".
`,
    );
  });

  const settings = (conditions: readonly object[]): object => ({
    apiVersion: 'config.portcullis.dev/v1alpha1',
    kind: 'PortcullisConfiguration',
    metadata: { name: 'cluster' },
    spec: {},
    status: { conditions },
  });
  const lastTransitionTime = '2026-01-01T00:00:00Z';
  const accepted = { type: 'Accepted', status: 'True', reason: 'Valid', message: '', lastTransitionTime };
  const available = { ...accepted, type: 'OLMAvailable', reason: 'Installed' };
  const installations: readonly (readonly [name: string, object: object, isInstalled: boolean])[] = [
    ['a Deployment without the OLM feature', deployment(['serve', '--features=kubelet']), false],
    ['a Deployment with the OLM feature', deployment(['serve', '--features=kubelet,olm']), true],
    ['replicas outside the cluster without the OLM feature', settings([accepted]), false],
    ['replicas outside the cluster with the OLM feature', settings([accepted, available]), true],
  ];
  for (const [name, object, isInstalled] of installations) {
    test(`whether the auto-labeler runs, with ${name}`, async () => {
      const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'openshift-demo' } };
      const owner = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'portcullis' } };
      const csv = {
        apiVersion: 'operators.coreos.com/v1alpha1',
        kind: 'ClusterServiceVersion',
        metadata: { name: 'demo.v1', namespace: 'openshift-demo' },
      };
      const stdin = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [namespace, owner, csv, object] });
      const { stdout } = await runProgram(['olm', 'status', '-f', '-'], { stdin });
      const rows = stdout.split('\n\n')[0] ?? '';
      assert.equal(/ sets the label and the annotation$/.test(rows), isInstalled, stdout);
      assert.equal(/^Mode of the auto-labeler: managed\.$/m.test(stdout), isInstalled, stdout);
      assert.equal(
        stdout.includes(
          'The auto-labeler does not run, because the olm feature is not installed. To install it: portcullis install --olm | kubectl apply --server-side -f -\n',
        ),
        !isInstalled,
      );
    });
  }
});

describe('olm status with a cluster', () => {
  let started: TestCluster;
  before(async () => void (started = await startCluster()));
  after(() => started.stop());

  const status = async (): Promise<string> => {
    const { stdout, stderr } = await runProgram(['olm', 'status', '--kubeconfig', await started.kubeconfig()]);
    assert.equal(stderr, '');
    return stdout;
  };

  test('reads the metadata of operators, whether or not the Operator Lifecycle Manager is installed', async () => {
    assert.equal(await status(), 'No namespaces with operators found.\n\nMode of the auto-labeler: managed.\n');
    const { cluster } = started;
    await createAll(
      cluster,
      OLM_DEFINITIONS.map((value) => ({ value, origin: 'olm' })),
    );
    const by = { fieldManager: 'test' };
    await cluster.create('Namespace', { metadata: { name: 'openshift-demo' } }, by);
    const metadata = { namespace: 'openshift-demo' };
    const spec = { install: { strategy: 'deployment' } };
    for (const name of ['a.v1', 'b.v1', 'c.v1', 'd.v1', 'e.v1']) {
      const csv = { metadata: { ...metadata, name }, spec };
      await cluster.create('ClusterServiceVersion', csv, by);
    }
    assert.match(await status(), /^openshift-demo {3}a\.v1, b\.v1, c\.v1 and 2 more .* 9 {5}an operator is installed/m);
  });
});
