/**
 * Tests that ordinary pods start during break-glass with SCC enforcement and enforced Pod Security labels, and that
 * everything is restored afterwards.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { JsonObject, Namespace } from '../../src/kube/types.ts';
import { responseMessage } from '../support/answers.ts';
import { ASSETS, useSystem } from '../support/control-plane/index.ts';
import { allow, CREATE_PODS, createNamespace, localObjects } from '../support/control-plane/installation.ts';
import { REPLICA_USER } from '../support/control-plane/replica.ts';
import { eventually } from '../support/eventually.ts';

const MAIN = join(import.meta.dirname, '../../src/main.ts');
const ENFORCE = 'pod-security.kubernetes.io/enforce';
const WEBHOOKS = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/portcullis.dev';
const RECORD = 'portcullis.dev/break-glass-enforce';
const WAIT_MS = 60_000;
const CONTROLLER = 'system:serviceaccount:kube-system:replicaset-controller';
const NAMES = Array.from({ length: 40 }, (_, index) => `shop-${index}`);
/** The namespaces in which the test creates pods. */
const SAMPLES = [NAMES[0], NAMES[20], NAMES[39]].map(String);

interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

suite('break-glass', async () => {
  const { plane, system } = await useSystem(
    { objectsFor: (port) => localObjects(port) },
    ASSETS === undefined ? {} : { podSecurityPlugin: 'on' },
  );
  let pods = 0;

  /** Starts the program in a separate process. */
  const start = (args: readonly string[], config = kubeconfig) => {
    let child: ReturnType<typeof execFile> | undefined;
    const outcome = new Promise<Outcome>((resolve) => {
      const command = [MAIN, 'break-glass', ...args, `--kubeconfig=${config}`];
      const started = execFile(process.execPath, command, (_error, stdout, stderr) =>
        resolve({ code: started.exitCode, stdout, stderr }),
      );
      child = started;
    });
    return { outcome, interrupt: () => child?.kill('SIGINT') };
  };
  const run = (...args: readonly string[]): Promise<Outcome> => start(args).outcome;
  const list = async (labels = ''): Promise<readonly Namespace[]> => {
    const { body } = await plane.admin.send('GET', `/api/v1/namespaces?labelSelector=${encodeURIComponent(labels)}`);
    return (body as { readonly items: readonly Namespace[] }).items;
  };
  /** Returns the labels, annotations and owners of namespaces, without the metadata that each write changes. */
  const state = async (): Promise<unknown> =>
    (await list()).map(({ metadata: { name, labels, annotations, managedFields = [] } = {} }) => ({
      name,
      labels,
      annotations,
      owners: managedFields
        .map(({ manager, operation, fieldsV1 }) => JSON.stringify([manager, operation, fieldsV1]))
        .sort(),
    }));
  const label = async (name: string): Promise<string | undefined> =>
    (await list(`kubernetes.io/metadata.name=${name}`))[0]?.metadata?.labels?.[ENFORCE];
  /** Creates a pod without a security context. Returns the denial, if any. */
  const createPod = async (namespace: string, user: string): Promise<unknown> => {
    const object: JsonObject = {
      metadata: { name: `plain-${pods++}` },
      spec: { containers: [{ name: 'c', image: 'c' }] },
    };
    const path = `/api/v1/namespaces/${namespace}/pods`;
    const answer = await plane.admin.send('POST', path, object, { 'Impersonate-User': user });
    return answer.status === 201 ? undefined : responseMessage(answer);
  };
  const denials = async (): Promise<readonly unknown[]> => {
    const users = ['alice', CONTROLLER];
    const results = SAMPLES.flatMap((name) => users.map((user) => createPod(name, user)));
    return (await Promise.all(results)).filter((denial) => denial !== undefined);
  };

  const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
  await system.install();
  await allow(plane.admin, 'pod-creator', ['system:authenticated'], [CREATE_PODS]);
  for (const name of NAMES) await createNamespace(plane.admin, name);
  await system.add(2);
  await system.configure({ rollout: { phase: 'Enforce', raiseSettleTime: '1s' }, scc: { mode: 'enforce' } });
  await eventually(async () => {
    const labeled = await list(`${ENFORCE}=restricted`);
    assert.deepEqual(
      NAMES.filter((name) => !labeled.some(({ metadata }) => metadata?.name === name)),
      [],
    );
    assert.deepEqual(await denials(), []);
    // Webhooks fail closed a few seconds after they are registered. Break-glass restores their failure policies.
    assert.match(
      (await plane.admin.send('GET', WEBHOOKS)).text,
      /"name":"validate.pods.portcullis.dev".*?"failurePolicy":"Fail"/,
    );
  }, WAIT_MS);

  test(
    'with --keep-labels does not affect the denials of the PodSecurity plugin',
    { skip: ASSETS === undefined },
    async () => {
      assert.equal((await run('on', '--keep-labels')).code, 0);
      await eventually(async () => {
        const [denial, ...others] = await denials();
        assert.match(String(denial), /^pods "plain-\d+" is forbidden: violates PodSecurity "restricted:latest": /);
        assert.equal(others.length, 5);
      });
      assert.equal((await run('off')).code, 0);
      await eventually(async () => assert.deepEqual(await denials(), []));
    },
  );

  test('admits ordinary pods after it was interrupted and repeated, and then restores all labels and their owners', async () => {
    const original = await state();
    /** Interrupts the command after its first write. */
    const interrupt = async (action: string, isStarted: () => Promise<boolean>): Promise<void> => {
      const running = start([action]);
      for (const deadline = Date.now() + WAIT_MS; !(await isStarted());) assert.ok(Date.now() < deadline);
      running.interrupt();
      const { code, stdout } = await running.outcome;
      // On a fast machine, all namespaces may be changed before the signal arrives.
      if (code === 0) return;
      assert.equal(code, 130, stdout);
      assert.match(
        stdout,
        /^labels: interrupted: (?:relaxed|restored) in \d+ of \d+ namespaces?\. To continue, run the command again$/m,
      );
    };
    await interrupt('on', async () => (await list(RECORD)).length > 0);
    assert.equal((await run('status')).code, 1);
    const on = await run('on');
    assert.equal(on.code, 0, on.stderr);
    assert.equal((await list(RECORD)).length, NAMES.length);
    await eventually(async () => assert.deepEqual(await denials(), []));

    // The replicas do not restore labels or label new namespaces.
    await createNamespace(plane.admin, 'new');
    await pause(3_000);
    assert.equal(await label('new'), undefined);
    assert.equal((await list(RECORD)).length, NAMES.length);

    await system.retire();
    const refused = await run('off');
    assert.equal(refused.code, 2, refused.stdout);
    assert.match(
      refused.stderr,
      /^error: no replica is ready: https:\/\/\S+: .+, and no replica has renewed its Lease within 30 s\. /,
    );
    assert.deepEqual(await denials(), []);
    await system.add(2);

    await interrupt('off', async () => (await list(RECORD)).length < NAMES.length);
    const off = await run('off');
    assert.equal(off.code, 0, off.stderr);
    await eventually(async () => assert.equal(await label('new'), 'restricted'));
    await plane.admin.send('DELETE', '/api/v1/namespaces/new');
    await eventually(async () => assert.deepEqual(await state(), original));
    await eventually(async () => assert.deepEqual(await denials(), []));
  });

  test('can run with the permissions of a replica', async () => {
    const config = await plane.kubeconfigFor(REPLICA_USER, [
      'system:serviceaccounts',
      'system:serviceaccounts:portcullis',
    ]);
    const original = await state();
    for (const action of ['on', 'off']) {
      const { code, stdout, stderr } = await start([action], config).outcome;
      assert.deepEqual([code, stderr], [0, ''], stdout);
    }
    assert.deepEqual(await state(), original);
  });
});
