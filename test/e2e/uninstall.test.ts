/** Uninstalls a customized, enforcing installation with the documented commands while pods are created. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { JsonObject } from '../../src/kube/types.ts';
import { objectMetadata, responseMessage, responseObject } from '../support/answers.ts';
import { ASSETS, useSystem } from '../support/control-plane/index.ts';
import { apply, create, localObjects } from '../support/control-plane/installation.ts';
import { readCommands, runScript, type ScriptOutcome } from '../support/documented.ts';
import { eventually } from '../support/eventually.ts';
import { hasKubectl } from '../support/kubectl.ts';

const APPLY = { 'content-type': 'application/apply-patch+yaml' };
const ENFORCE = 'pod-security.kubernetes.io/enforce';
const WAIT_MS = 60_000;

/** Returns the commands in a section, with confirmation and a short wait. */
function documented(heading: string): string {
  const [block = ''] = readCommands('docs/how-to/uninstall.md', heading);
  assert.notEqual(block, '', heading);
  return block.replaceAll('portcullis uninstall', 'portcullis uninstall --yes --wait=500ms');
}

/**
 * Pods in namespaces whose service accounts may use one SCC. With SCC defaults, the pod in `plain` complies with the
 * restricted level.
 */
const PODS = [
  { namespace: 'plain', scc: 'restricted-v2', securityContext: {} },
  { namespace: 'mighty', scc: 'privileged', securityContext: { privileged: true } },
  { namespace: 'gitops', scc: 'anyuid', securityContext: {} },
] as const;

function pod({ scc, securityContext }: { readonly scc: string; readonly securityContext: JsonObject }): JsonObject {
  const metadata = { name: 'loop', annotations: { 'openshift.io/required-scc': scc } };
  return { metadata, spec: { containers: [{ name: 'c', image: 'registry.example.com/c:1', securityContext }] } };
}

const RBAC = 'rbac.authorization.k8s.io';

/** Returns a RoleBinding that permits the default service account of a namespace to use an SCC. */
function grant(namespace: string, scc: string): readonly JsonObject[] {
  const type = { apiVersion: `${RBAC}/v1`, metadata: { name: 'scc', namespace } };
  const roleRef = { apiGroup: RBAC, kind: 'ClusterRole', name: `system:openshift:scc:${scc}` };
  return [
    { ...type, kind: 'RoleBinding', roleRef, subjects: [{ kind: 'ServiceAccount', name: 'default', namespace }] },
  ];
}

suite('uninstall', { skip: !hasKubectl && 'there is no kubectl' }, async () => {
  const { plane, system } = await useSystem(
    { objectsFor: (port) => localObjects(port) },
    ASSETS === undefined ? {} : { podSecurityPlugin: 'on' },
  );

  const run = (script: string): Promise<ScriptOutcome> => runScript(script, kubeconfig);
  const read = async (path: string): Promise<JsonObject> => responseObject(await plane.admin.send('GET', path));
  const labels = async (name: string): Promise<Readonly<Record<string, unknown>>> =>
    (objectMetadata(await read(`/api/v1/namespaces/${name}`))['labels'] ?? {}) as Readonly<Record<string, unknown>>;
  const enforced = async (): Promise<readonly unknown[]> =>
    await Promise.all(PODS.map(async ({ namespace }) => (await labels(namespace))[ENFORCE]));
  const applyAs = async (manager: string, object: JsonObject, resource: string): Promise<void> => {
    const { name } = objectMetadata(object);
    const path = `${resource}/${String(name)}?fieldManager=${manager}&force=true`;
    const answer = await plane.admin.send('PATCH', path, object, APPLY);
    assert.ok(answer.status < 300, answer.text);
  };
  const configure = async (): Promise<void> => {
    const settings = {
      apiVersion: 'config.portcullis.dev/v1alpha1',
      kind: 'PortcullisConfiguration',
      metadata: { name: 'cluster' },
      spec: { rollout: { phase: 'Enforce', raiseSettleTime: '1s' }, scc: { mode: 'enforce' } },
    };
    await applyAs('administrator', settings, '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations');
  };
  const requestEnforcement = async (): Promise<void> => {
    const apiVersion = 'config.openshift.io/v1alpha1';
    const object = {
      apiVersion,
      kind: 'PSAEnforcementConfig',
      metadata: { name: 'cluster' },
      spec: { enforcementMode: 'Restricted' },
    };
    await applyAs('administrator', object, `/apis/${apiVersion}/psaenforcementconfigs`);
  };
  /** Creates pods as dry runs until it is stopped. Resolves to the distinct denials. */
  const createPods = () => {
    const denials = new Set<string>();
    let isStopped = false;
    const loop = (async () => {
      for (let count = 0; !isStopped || count < 2; count++) {
        for (const one of PODS) {
          const path = `/api/v1/namespaces/${one.namespace}/pods?dryRun=All`;
          const answer = await plane.admin.send('POST', path, pod(one), { 'Impersonate-User': 'alice' });
          if (answer.status !== 201) denials.add(`${one.namespace}: ${String(responseMessage(answer))}`);
        }
        await pause(30);
      }
    })();
    return async (): Promise<readonly string[]> => {
      isStopped = true;
      await loop;
      return [...denials];
    };
  };
  /** Starts replicas, and waits until the settings of the cluster are enforced. */
  const start = async (): Promise<void> => {
    await system.add(2);
    const published = '/api/v1/namespaces/portcullis/configmaps/portcullis-pod-security';
    await eventually(async () => {
      const { annotations = {} } = objectMetadata(await read(published)) as { readonly annotations?: JsonObject };
      assert.equal(annotations['portcullis.dev/pod-security-default'], 'restricted');
      assert.deepEqual(await enforced(), ['restricted', 'privileged', 'baseline']);
    }, WAIT_MS);
    // Each replica reads the standard SCCs that the leader has created.
    await eventually(async () => {
      const stop = createPods();
      await pause(200);
      assert.deepEqual(await stop(), []);
    }, WAIT_MS);
  };

  const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
  for (const { namespace: name, scc } of PODS) {
    const object = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
    await create(plane.admin, object);
    await apply(plane.admin, grant(name, scc));
  }
  const labeled = { name: 'gitops', labels: { [ENFORCE]: 'baseline', team: 'shop' } };
  await applyAs('gitops', { apiVersion: 'v1', kind: 'Namespace', metadata: labeled }, '/api/v1/namespaces');
  const rules = [{ apiGroups: [''], resources: ['pods'], verbs: ['create'] }];
  const type = { apiVersion: `${RBAC}/v1`, metadata: { name: 'creator' } };
  const subjects = [{ apiGroup: RBAC, kind: 'User', name: 'alice' }];
  const roleRef = { apiGroup: RBAC, kind: 'ClusterRole', name: 'creator' };
  await apply(plane.admin, [
    { ...type, kind: 'ClusterRole', rules },
    { ...type, kind: 'ClusterRoleBinding', roleRef, subjects },
  ]);

  test('prints the planned deletions in a dry run', async () => {
    await system.install();
    await configure();
    await requestEnforcement();
    await start();
    const [dryRun = ''] = documented('Plan and confirm').split('\n');
    const plan = await run(dryRun);
    assert.equal(plan.code, 0, plan.stderr);
    assert.match(plan.stdout, /^namespaces\/plain labels owned by pod-security-\S+ removed \(server dry run\)$/m);
    assert.deepEqual(await enforced(), ['restricted', 'privileged', 'baseline']);
  });

  test('denies no pod while Portcullis enforces, and keeps labels of other managers', async () => {
    const stop = createPods();
    const { code, stdout, stderr } = await run('portcullis uninstall --yes --wait=500ms');
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' }, stdout);
    await system.retire();
    assert.deepEqual(await stop(), []);
    assert.deepEqual(await enforced(), [undefined, undefined, 'baseline']);
    assert.equal((await labels('gitops'))['team'], 'shop');
    assert.match(
      stdout,
      /\nRemaining objects, and the commands that remove them:\n- CustomResourceDefinitions with all their objects, /,
    );
  });

  test('leaves settings that a new installation keeps, so the documented commands end enforcement first', async () => {
    await eventually(() => system.install(), WAIT_MS);
    await start();
    const stop = createPods();
    const { code, stdout, stderr } = await run(documented('End enforcement first'));
    assert.equal(code, 0, `${stdout}${stderr}`);
    await system.retire();
    assert.deepEqual(await stop(), []);
    assert.deepEqual(await enforced(), [undefined, undefined, 'baseline']);
  });

  test('leaves objects that the printed commands remove', async () => {
    const list = 'portcullis uninstall --yes --wait=500ms';
    const { stdout } = await run(list);
    const commands = stdout.match(/^- .*/gm)?.map((line) => line.split(': ').at(-1) ?? '') ?? [];
    assert.deepEqual(
      commands.map((command) => command.split(' ').slice(0, 3).join(' ')),
      [
        ...Array.from({ length: 2 }, () => 'portcullis uninstall --purge-crds'),
        'kubectl annotate namespaces',
        'kubectl delete namespace',
      ],
    );
    const script = commands.join('\n').replaceAll('--purge-crds', '--purge-crds --yes --wait=500ms');
    const removed = await run(script);
    assert.equal(removed.code, 0, `${removed.stdout}${removed.stderr}`);
    assert.deepEqual(await run(list), {
      code: 0,
      stdout: 'Nothing to delete: Portcullis is not installed in namespace portcullis.\n',
      stderr: '',
    });
  });
});
