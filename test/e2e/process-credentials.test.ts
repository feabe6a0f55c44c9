/** Tests the credentials of replicas that run as processes, created with the commands in docs/how-to/processes.md. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { promisify } from 'node:util';
import {
  ASSETS,
  type ControlPlane,
  type Replica,
  startControlPlane,
  startReplica,
} from '../support/control-plane/index.ts';
import { apply, localObjects } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { hasKubectl } from '../support/kubectl.ts';

const needed = ASSETS === undefined || !hasKubectl ? 'KUBEBUILDER_ASSETS and kubectl are needed' : false;
const TEXT = await readFile('docs/how-to/processes.md', 'utf8');

/** Returns the shell block that contains the text. */
function blockWith(text: string): string {
  const blocks = [...TEXT.matchAll(/```sh\n([^]*?)```/g)].map(([, block = '']) => block);
  return blocks.find((block) => block.includes(text)) ?? assert.fail(`no block contains ${text}`);
}

suite('the credentials of a process outside the cluster', { skip: needed }, () => {
  let plane: ControlPlane;
  let folder: string;
  const replicas: Replica[] = [];
  /** Runs commands in the folder as the given user. */
  const run = async (script: string, user: string, groups: readonly string[] = []): Promise<string> => {
    const env = { ...process.env, KUBECONFIG: await plane.kubeconfigFor(user, groups) };
    const { stdout } = await promisify(execFile)('sh', ['-ec', script], { cwd: folder, env, timeout: 60_000 });
    return stdout;
  };
  const administrate = (script: string): Promise<string> => run(script, 'admin', ['system:masters']);
  const renew = (): Promise<string> => run(blockWith('create token'), 'token-renewer');
  const start = async (): Promise<Replica> => {
    const options = { kubeconfig: join(folder, 'replica.kubeconfig'), args: ['--webhook-url=https://127.0.0.1:8443'] };
    const replica = await startReplica(plane, options);
    replicas.push(replica);
    return replica;
  };
  before(async () => {
    plane = await startControlPlane();
    folder = await mkdtemp(join(plane.folder, 'process-'));
    await apply(plane.admin, localObjects(8443));
  });
  after(async () => {
    await Promise.all(replicas.map((replica) => replica.stop()));
    await plane.stop();
  });

  test('consist of a kubeconfig without a token and of a token that a restricted user renews', async () => {
    await administrate(blockWith('config set-cluster'));
    await assert.rejects(renew(), /cannot create resource "serviceaccounts\/token"/);
    await administrate(blockWith('create rolebinding portcullis-token'));
    await eventually(renew);
    assert.doesNotMatch(await readFile(join(folder, 'replica.kubeconfig'), 'utf8'), /client-certificate|token:/);
    const first = await readFile(join(folder, 'token'), 'utf8');
    const user = await administrate(
      'kubectl --kubeconfig=replica.kubeconfig auth whoami -o jsonpath={.status.userInfo.username}',
    );
    assert.equal(user, 'system:serviceaccount:portcullis:portcullis');
    await eventually(async () => {
      await renew();
      assert.notEqual(await readFile(join(folder, 'token'), 'utf8'), first);
    });
  });

  test('suffice to run a replica', async () => {
    const replica = await start();
    // The API server can reject watches of a new CustomResourceDefinition for some seconds.
    for (const path of ['/readyz/informer-sync', '/readyz/cluster']) {
      await eventually(async () => assert.equal((await replica.probe(path)).text, 'ok'));
    }
  });

  test('are reported by the probes if the API server rejects them', async () => {
    await writeFile(join(folder, 'token'), 'expired');
    const replica = await start();
    await eventually(async () => {
      const { status, text } = await replica.probe('/readyz/cluster');
      assert.equal(status, 500);
      assert.match(
        text,
        /^cluster failed: watches are failing, so decisions use the last known state: .*Namespace.*: Unauthorized\n$/,
      );
      const { text: sync } = await replica.probe('/readyz/informer-sync');
      assert.match(sync, /^informer-sync failed: not synced: .*: Unauthorized\n$/);
    });
  });
});
