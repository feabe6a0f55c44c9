/** Tests that all commands treat finished Jobs and pods as objects that create no more pods, unlike CronJobs. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { runProgram } from '../support/memory-io.ts';

const SPEC = {
  restartPolicy: 'Never',
  serviceAccountName: 'builder',
  hostUsers: false,
  containers: [{ name: 'c', image: 'i', securityContext: { privileged: true, procMount: 'Unmasked' } }],
};
const COMPLETE = { conditions: [{ type: 'Complete', status: 'True' }] };
const REQUIRED = { 'openshift.io/required-scc': 'nested-container' };
const WITH_SCC = { 'openshift.io/scc': 'privileged' };

function job(name: string, more: object = {}): object {
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name, namespace: 'jobs' },
    spec: { template: { metadata: { annotations: REQUIRED }, spec: SPEC } },
    ...more,
  };
}

function pod(name: string, phase: string, controller?: string): object {
  const owner = { apiVersion: 'batch/v1', kind: 'Job', name: controller, uid: 'u', controller: true };
  const ownerReferences = controller === undefined ? [] : [owner];
  const metadata = { name, namespace: 'jobs', annotations: WITH_SCC, ownerReferences };
  return { apiVersion: 'v1', kind: 'Pod', metadata, spec: SPEC, status: { phase } };
}

const OWNED = {
  metadata: {
    name: 'nightly-1',
    namespace: 'jobs',
    ownerReferences: [{ apiVersion: 'batch/v1', kind: 'CronJob', name: 'nightly', uid: 'n', controller: true }],
  },
};

/** Finished objects have names that begin with `done`. All others create pods that the policies deny. */
const OBJECTS = [
  {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name: 'jobs',
      labels: { 'pod-security.kubernetes.io/enforce': 'baseline', 'portcullis.dev/scc': 'enforce' },
    },
  },
  job('done', { status: COMPLETE }),
  job('done-failed', { status: { conditions: [{ type: 'Failed', status: 'True' }] } }),
  pod('done-x', 'Succeeded', 'done'),
  pod('done-alone', 'Failed'),
  job('open'),
  job('nightly-1', { ...OWNED, status: COMPLETE }),
  pod('nightly-1-x', 'Succeeded', 'nightly-1'),
  {
    apiVersion: 'batch/v1',
    kind: 'CronJob',
    metadata: { name: 'nightly', namespace: 'jobs' },
    spec: {
      schedule: '@daily',
      jobTemplate: { spec: { template: { metadata: { annotations: REQUIRED }, spec: SPEC } } },
    },
  },
];
const STDIN = OBJECTS.map((object) => JSON.stringify(object)).join('\n');

const run = (args: string) => runProgram([...args.split(' '), '-f', '-'], { stdin: STDIN });

suite('no finished Jobs and pods are listed by', () => {
  for (const command of [
    'rollout plan -o json',
    'rollout status -n jobs -o json',
    'report -o json',
    'scc plan -o json',
    'audit user-namespaces -o json',
    'audit exemptions -o json',
  ]) {
    test(command, async () => {
      const { stdout, stderr } = await run(command);
      assert.equal(stderr, '');
      assert.doesNotMatch(stdout, /"(?:name|subject)": "done/);
      if (!command.startsWith('audit exemptions')) assert.match(stdout, /"name": "nightly"[^]*"name": "open"/);
    });
  }

  test('a count of the running pods of an SCC', async () => {
    const { sccs } = JSON.parse((await run('report -o json')).stdout) as {
      readonly sccs: readonly { readonly name: string; readonly pods: number }[];
    };
    assert.equal(sccs.find(({ name }) => name === 'privileged')?.pods, 0);
  });
});

test('explain states that finished Jobs and pods create no more pods', async () => {
  const { code, stdout } = await run('explain job/done job/done-failed pod/done-alone -n jobs --offline');
  assert.deepEqual(
    stdout.split('\n').filter((line) => /^\S/.test(line) && !line.startsWith('Assumed')),
    [
      ...['Job jobs/done', 'Job jobs/done-failed', 'Pod jobs/done-alone'].map(
        (name) => `${name}: finished, creates no more pods`,
      ),
      '0 admitted, 0 denied, 3 finished',
    ],
  );
  assert.equal(code, 0);
  const json = await run('explain job/done -n jobs --offline -o json');
  const { objects } = JSON.parse(json.stdout) as { readonly objects: readonly object[] };
  const [{ allowed, finished, denials } = {}] = objects as readonly Record<string, unknown>[];
  assert.deepEqual({ allowed, finished, denials }, { allowed: true, finished: true, denials: [] });
});

test('exception create and scc create reject finished Jobs and pods', async () => {
  const message = 'error: job/done has finished and creates no more pods\n';
  const exception = await run('exception create job/done -n jobs --offline --for 1h --reason x');
  assert.deepEqual([exception.code, exception.stderr], [2, message]);
  const scc = await run('scc create custom job/done -n jobs --offline --dry-run=client');
  assert.deepEqual([scc.code, scc.stderr], [2, message]);
});

test('check evaluates the pods that an API server would create from the manifest of a finished Job, and warns about the status', async () => {
  const { code, stderr, stdout } = await run('check --level baseline');
  assert.equal(code, 1);
  assert.match(stdout, /^Job jobs\/done violates PodSecurity "baseline:latest"$/m);
  assert.match(
    stderr,
    /^warning: stdin:2:1: Job "done" has finished, but the status is ignored because API servers ignore it when an object is created$/m,
  );
  assert.equal(stderr.match(/^warning: .*has finished/gm)?.length, 6);
});
