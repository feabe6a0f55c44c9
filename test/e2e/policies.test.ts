/** Compares the generated policies with the PodSecurity plugin of a kube-apiserver for the same pods. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { readDocuments } from '../../src/config/yaml.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { MAX_POLICY_ITEMS } from '../../src/policy/psa/index.ts';
import { checks } from '../../src/policy/pss/index.ts';
import { responseMessage, responseObject } from '../support/answers.ts';
import { readLines } from '../support/conformance/cases.ts';
import { findMissingKind } from '../support/control-plane/discovery.ts';
import { type ControlPlane, useControlPlane, withoutPolicies } from '../support/control-plane/index.ts';
import { create, createNamespace } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { createKubectl } from '../support/kubectl.ts';
import { type Outcome, runProgram } from '../support/memory-io.ts';
import { compliantPod, hostNetworkPod, plainPod, violatingPod } from '../support/pod-security.ts';

const skip = withoutPolicies;

/** The policies of the namespaces. */
const POLICIES = ['baseline', 'restricted'].flatMap((level) =>
  ['v1.0', 'v1.18', 'v1.24', 'v1.34', 'latest'].map((version) => ({ level, version })),
);
type Policy = (typeof POLICIES)[number];

/** Returns the policy of warn mode in namespaces that enforce a policy. */
function warningOf(policy: Policy): Policy {
  return POLICIES[(POLICIES.indexOf(policy) + 3) % POLICIES.length] ?? policy;
}

/** The enforced policies whose namespaces warn about a stricter policy at every version of the API server. */
const WARNED = POLICIES.filter(
  (policy) => warningOf(policy).level === 'restricted' && (policy.level === 'baseline' || policy.version < 'v1.24'),
);

type Evaluator = 'plugin' | 'policy';

function namespaceOf(evaluator: Evaluator, mode: 'enforce' | 'warn', { level, version }: Policy): string {
  return `${evaluator}-${mode}-${level}-${version.replace('.', '-')}`;
}

function labelsOf(mode: 'enforce' | 'warn', { level, version }: Policy): Readonly<Record<string, string>> {
  const key = `pod-security.kubernetes.io/${mode}`;
  return { [key]: level, [`${key}-version`]: version };
}

function listNamespaces(evaluator: Evaluator): string[] {
  return POLICIES.flatMap((policy) =>
    (['enforce', 'warn'] as const).map((mode) => namespaceOf(evaluator, mode, policy)),
  );
}

/** Returns the examples of the checks and a sample of the recorded pods, with the fields that API servers require. */
function readPods(): JsonObject[] {
  const examples = [compliantPod(), ...checks.map(violatingPod)] as JsonObject[];
  const random = readLines<{ readonly pod: JsonObject }>('random/pss-random.ndjson').filter(
    (_, index) => index % 30 === 0,
  );
  return [...examples, ...random.map(({ pod }) => pod)].map((pod) => {
    const spec = (pod['spec'] ?? {}) as Readonly<Record<string, JsonObject[]>>;
    const complete = (list: readonly JsonObject[] = []) =>
      list.map((container) => ({ image: 'registry.example.com/i:1', ...container }));
    const { annotations } = (pod['metadata'] ?? {}) as JsonObject;
    const containers = { containers: complete(spec['containers']), initContainers: complete(spec['initContainers']) };
    // Pods with ephemeral containers cannot be created.
    return {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'p', annotations },
      spec: { ...spec, ...containers, ephemeralContainers: undefined },
    };
  });
}

/** Returns the status, message and warnings, without the text that API servers add for a policy. */
async function send(
  plane: ControlPlane,
  path: string,
  { metadata, ...object }: object & { readonly metadata?: object },
  user?: string,
) {
  const body = { ...object, metadata: { ...metadata, namespace: undefined } };
  const as = user === undefined ? {} : { 'impersonate-user': user, 'impersonate-group': 'system:masters' };
  const answer = await plane.admin.send('POST', `${path}?dryRun=All`, body, as);
  const plain = (text: string): string =>
    text
      .replaceAll(/ValidatingAdmissionPolicy '[^']+' with binding '[^']+'(?: denied request)?: /g, '')
      .replace('Validation failed for ', '')
      .replaceAll(/\b0x[0-9a-f]{6,}/g, 'POINTER');
  const message = answer.status === 201 ? '' : plain(String(responseMessage(answer)));
  return { status: answer.status, message, warnings: answer.warnings.map(plain).sort() };
}

/** Returns the text with each list of quoted names sorted and without duplicates. */
function sortLists(text: string): string {
  return text.replaceAll(/\\?"[^",]+"(?:, \\?"[^",]+")+/g, (list) => [...new Set(list.split(', '))].sort().join(', '));
}

/**
 * Returns a function that makes texts comparable, because the plugins of older API servers list sets, such as volume
 * types, in alphabetical order.
 */
async function findOrder(plane: ControlPlane): Promise<(text: string) => string> {
  const volumes = [
    { name: 'a', nfs: { server: 's', path: '/' } },
    { name: 'b', hostPath: { path: '/' } },
  ];
  const path = `/api/v1/namespaces/${namespaceOf('plugin', 'enforce', { level: 'restricted', version: 'latest' })}/pods`;
  const { message } = await send(plane, path, compliantPod({ volumes }));
  assert.match(message, /"nfs"/);
  return message.includes('"hostPath", "nfs"') ? sortLists : (text) => text;
}

async function applyPolicies(plane: ControlPlane, stdout: string): Promise<void> {
  for (const { value } of readDocuments(stdout, 'policies').documents) {
    const answer = await create(plane.admin, value as JsonObject);
    assert.equal(answer.status, 201, answer.text);
  }
}

async function writeAdmissionConfig(folder: string): Promise<string> {
  const file = join(folder, 'admission.json');
  const config = {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AdmissionConfiguration',
    plugins: [
      {
        name: 'PodSecurity',
        configuration: {
          apiVersion: 'pod-security.admission.config.k8s.io/v1',
          kind: 'PodSecurityConfiguration',
          exemptions: { namespaces: listNamespaces('policy') },
        },
      },
    ],
  };
  await writeFile(file, JSON.stringify(config));
  return file;
}

await suite('the policies, compared with the PodSecurity plugin,', { skip }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-policies-'));
  after(() => rm(folder, { recursive: true }));
  const admissionConfig = await writeAdmissionConfig(folder);
  const plane = await useControlPlane({ podSecurityPlugin: 'on', admissionConfig });
  const { minor = '' } = responseObject(await plane.admin.send('GET', '/version')) as Record<string, string>;
  const release = `1.${Number.parseInt(minor)}`;
  const exempt = `--set=podSecurity.exemptions.namespaces=[${listNamespaces('plugin').join()}]`;
  const { stdout } = await runProgram(['install', '--without-server', `--for-kubernetes=${release}`, exempt]);
  await applyPolicies(plane, stdout);
  for (const evaluator of ['plugin', 'policy'] as const) {
    for (const policy of POLICIES) {
      const other = warningOf(policy);
      for (const mode of ['enforce', 'warn'] as const) {
        const labels = {
          ...(mode === 'enforce' ? labelsOf('enforce', policy) : {}),
          ...labelsOf('warn', mode === 'enforce' ? other : policy),
        };
        const metadata = { name: namespaceOf(evaluator, mode, policy), labels };
        assert.equal((await create(plane.admin, { apiVersion: 'v1', kind: 'Namespace', metadata })).status, 201);
      }
    }
  }
  await eventually(async () => {
    for (const evaluator of ['plugin', 'policy'] as const) {
      for (const policy of POLICIES) {
        const pods = (mode: 'enforce' | 'warn') => `/api/v1/namespaces/${namespaceOf(evaluator, mode, policy)}/pods`;
        assert.equal((await send(plane, pods('enforce'), hostNetworkPod())).status, 403);
        assert.match((await send(plane, pods('warn'), hostNetworkPod())).warnings.join(), /would violate/);
      }
    }
  });

  test('have the same verdicts and messages for pods', async () => {
    const seen = { allowed: new Set<Policy>(), denied: new Set<Policy>(), warned: new Set<Policy>() };
    const order = await findOrder(plane);
    for (const pod of readPods()) {
      await Promise.all(
        POLICIES.map(async (policy) => {
          const [plugin, own] = await Promise.all(
            (['plugin', 'policy'] as const).map((evaluator) =>
              send(plane, `/api/v1/namespaces/${namespaceOf(evaluator, 'enforce', policy)}/pods`, pod),
            ),
          );
          const comparable = (answer: typeof own) => ({
            ...answer,
            message: order(answer?.message ?? '').replaceAll(/(?:plugin|policy)-enforce/g, 'ns'),
            warnings: answer?.warnings.map(order),
          });
          assert.deepEqual(comparable(own), comparable(plugin));
          if (own?.status === 201) seen.allowed.add(policy);
          if (own?.status === 403) seen.denied.add(policy);
          if (own?.warnings.some((text) => text.includes('would violate'))) seen.warned.add(policy);
        }),
      );
    }
    const list = (policies: ReadonlySet<Policy>): Policy[] => POLICIES.filter((policy) => policies.has(policy));
    assert.deepEqual(list(seen.allowed), POLICIES);
    assert.deepEqual(list(seen.denied), POLICIES);
    // Pods that comply with these policies violate the policies about which their namespaces warn. Policies with other
    // versions differ only if the API server knows both versions.
    assert.deepEqual(
      list(seen.warned).filter((policy) => WARNED.includes(policy)),
      WARNED,
    );
  });

  test('have the same warnings for workloads', async () => {
    let warned = 0;
    const order = await findOrder(plane);
    for (const pod of readPods()) {
      const { spec, metadata } = pod as { readonly spec: object; readonly metadata: object };
      const template = { metadata: { ...metadata, labels: { a: 'b' } }, spec };
      const deployment = { metadata: { name: 'd' }, spec: { selector: { matchLabels: { a: 'b' } }, template } };
      await Promise.all(
        POLICIES.slice(3).map(async (policy) => {
          const [plugin, own] = await Promise.all(
            (['plugin', 'policy'] as const).map((evaluator) =>
              send(plane, `/apis/apps/v1/namespaces/${namespaceOf(evaluator, 'warn', policy)}/deployments`, deployment),
            ),
          );
          assert.deepEqual([own?.status, own?.warnings.map(order)], [plugin?.status, plugin?.warnings.map(order)]);
          if (own?.warnings.some((text) => text.includes('would violate'))) warned++;
        }),
      );
    }
    assert.ok(warned > 100, String(warned));
  });

  test('differ only for pods with more items than policies can evaluate', async () => {
    const path = `/api/v1/namespaces/${namespaceOf('policy', 'enforce', { level: 'restricted', version: 'latest' })}/pods`;
    const [container] = compliantPod().spec?.containers ?? [];
    const repeat = <T>(count: number, item: (index: number) => T): T[] =>
      Array.from({ length: count }, (_, index) => item(index));
    const good = (count: number) =>
      compliantPod({ containers: repeat(count, (index) => ({ ...container, name: `c${index}` })) });
    const privileged = { privileged: true, capabilities: { add: [] } };
    const bad = compliantPod({
      containers: repeat(MAX_POLICY_ITEMS - 1, (index) => ({
        name: `c${index}`,
        image: 'i',
        securityContext: privileged,
      })),
    });
    const capabilities = { drop: ['ALL'], add: repeat(60_000, () => 'NET_BIND_SERVICE') };
    const large = compliantPod({}, { securityContext: { ...container?.securityContext, capabilities } });
    // The service account volume also counts as an item.
    assert.equal((await send(plane, path, good(MAX_POLICY_ITEMS - 1))).status, 201);
    // The text exceeds the message limit of 5 KiB.
    assert.deepEqual(await send(plane, path, bad), {
      status: 403,
      message: 'pods "p" is forbidden: violates PodSecurity "restricted"',
      warnings: [],
    });
    for (const pod of [good(MAX_POLICY_ITEMS + 1), good(3000), large]) {
      assert.match(
        (await send(plane, path, pod)).message,
        /violates PodSecurity "restricted:latest": too many containers, volumes, ports/,
      );
    }
  });

  test('are accepted by the oldest supported API servers', async () => {
    const { stdout } = await runProgram(['install', '--without-server', '--for-kubernetes=1.35']);
    for (const { value } of readDocuments(stdout, 'policies').documents) {
      const { kind, metadata } = value as { readonly kind: string; readonly metadata: { readonly name: string } };
      const resource = kind.endsWith('Binding') ? 'validatingadmissionpolicybindings' : 'validatingadmissionpolicies';
      const path = `/apis/admissionregistration.k8s.io/v1/${resource}?dryRun=All`;
      const object = { ...(value as object), metadata: { ...metadata, name: `old-${metadata.name}` } };
      const answer = await plane.admin.send('POST', path, object);
      assert.equal(answer.status, 201, answer.text);
    }
  });
});

suite('an installation without a server', { skip }, async () => {
  const plane = await useControlPlane();
  /** Reason why the policies cannot set defaults, or false. */
  const withoutDefaults = await findMissingKind(plane, 'MutatingAdmissionPolicy');
  const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
  const kubectl = createKubectl(kubeconfig);
  const program = (...args: readonly string[]) => runProgram([...args, `--kubeconfig=${kubeconfig}`]);
  const NAMESPACES = {
    default: {},
    strict: { 'pod-security.kubernetes.io/enforce': 'restricted' },
    completed: { defaults: 'apply' },
  };
  for (const [name, labels] of Object.entries(NAMESPACES)) {
    const answer = await createNamespace(plane.admin, name, labels);
    assert.ok([201, 409].includes(answer.status), answer.text);
  }
  const kata = { apiVersion: 'node.k8s.io/v1', kind: 'RuntimeClass', metadata: { name: 'kata' }, handler: 'kata' };
  assert.equal((await plane.admin.send('POST', '/apis/node.k8s.io/v1/runtimeclasses', kata)).status, 201);

  const DENIED = 'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)';
  const SETTINGS = [
    '--set=podSecurity.defaults.enforce=baseline',
    '--set=podSecurity.exemptions={namespaces: [kube-system], usernames: [root], runtimeClasses: [kata]}',
  ];
  const DEFAULTS = '--set=defaults={mode: apply, namespaceSelector: {matchLabels: {defaults: apply}}}';

  async function apply(manifests: string): Promise<void> {
    const { code, stderr } = await kubectl(['apply', '-f', '-'], manifests);
    assert.equal(code, 0, stderr);
  }

  async function run(...args: readonly string[]): Promise<Outcome> {
    const { stdout, ...rest } = await program(...args);
    const plain = (text: string): string =>
      text
        .replaceAll(plane.server, 'SERVER')
        .replaceAll(/ --kubeconfig=\S+/g, '')
        .replaceAll(/v\d+\.\d+\.\d[^\s:]*/g, 'VERSION');
    return { ...rest, stdout: plain(stdout), stderr: plain(rest.stderr) };
  }

  const post = (namespace: string, pod: object, user?: string) =>
    send(plane, `/api/v1/namespaces/${namespace}/pods`, pod, user);
  const isDenied = async (pod: object): Promise<boolean> => (await post('default', pod)).status === 403;

  test('enforces the default and the exemptions', async () => {
    const refused = await run('install', '--without-server', '--set=podSecurity.defaults.enforce=baseline');
    assert.deepEqual(refused, {
      code: 2,
      stdout: '',
      stderr:
        "error: podSecurity.defaults.enforce=baseline would deny system pods in namespace kube-system: exempt it with --set='podSecurity.exemptions.namespaces=[kube-system]', or label it: kubectl label namespace kube-system pod-security.kubernetes.io/enforce=privileged\n",
    });
    const install = ['install', '--without-server', ...SETTINGS];
    const complete = await program(...install, DEFAULTS);
    if (withoutDefaults !== false) {
      assert.match(
        complete.stderr,
        /^error: spec\.defaults\.mode is apply, but its MutatingAdmissionPolicy requires Kubernetes v1\.36 or newer, and the policies are for v1\.\d+: upgrade the API servers, or add --set=defaults\.mode=off\n$/,
      );
    }
    const { code, stdout, stderr } = withoutDefaults === false ? complete : await program(...install);
    assert.equal(code, 0, stderr);
    await apply(stdout);
    await eventually(async () => assert.ok(await isDenied(hostNetworkPod())));
    assert.equal((await post('default', hostNetworkPod())).message, `pods "p" is forbidden: ${DENIED}`);
    // API servers observe policies one at a time.
    await eventually(async () =>
      assert.match(
        (await post('strict', plainPod())).message,
        /violates PodSecurity "restricted:latest": allowPrivilege/,
      ),
    );
    for (const answer of [
      await post('default', plainPod()),
      await post('kube-system', hostNetworkPod()),
      await post('default', { ...hostNetworkPod(), spec: { ...hostNetworkPod().spec, runtimeClassName: 'kata' } }),
      await post('default', hostNetworkPod(), 'root'),
    ]) {
      assert.deepEqual(answer, { ...answer, status: 201 });
    }
    assert.equal((await post('default', hostNetworkPod(), 'alice')).status, 403);
  });

  const DAMAGED_DEFAULTS = `problem  policies         MutatingAdmissionPolicy/defaults.psa.portcullis.dev: does not exist
                          Impact: new pods do not get the configured defaults
                          Fix: portcullis install --without-server | kubectl apply -f -
`;
  const HEALTHY = `info  installation     installation: policies without a server: no namespace reviews, no metrics, no SCC admission and no enforcement rollout
ok    api-server       Kubernetes VERSION: the policies are for this version
ok    policies         policies: COUNT objects exist and match their settings
ok    enforcement      namespace default: a violating pod is denied by the default level baseline:latest
info  exemptions       spec.podSecurity.exemptions.usernames root: only pods that the user creates directly are exempt, because controllers create the pods of workloads
ok    other-admission  PodSecurity plugin: is disabled. Only the policies evaluate pods

0 problems, 0 warnings
`;
  const DAMAGED = `info     installation     installation: policies without a server: no namespace reviews, no metrics, no SCC admission and no enforcement rollout
ok       api-server       Kubernetes VERSION: the policies are for this version
problem  policies         ValidatingAdmissionPolicyBinding/enforce-baseline-unlabeled.psa.portcullis.dev: does not exist
                          Impact: pods are not evaluated according to the settings
                          Fix: portcullis install --without-server | kubectl apply -f -
DEFAULTSproblem  policies         ValidatingAdmissionPolicy/enforce-restricted.psa.portcullis.dev: differs from the object that its settings generate
                          Impact: pods are not evaluated according to the settings
                          Fix: portcullis install --without-server | kubectl apply -f -
problem  enforcement      namespace default: a violating pod is admitted
                          Impact: the default level baseline:latest is not enforced
                          Fix: portcullis install --without-server | kubectl apply -f -
info     exemptions       spec.podSecurity.exemptions.usernames root: only pods that the user creates directly are exempt, because controllers create the pods of workloads
ok       other-admission  PodSecurity plugin: is disabled. Only the policies evaluate pods

COUNT problems, 0 warnings
`;

  test('has a deleted or changed policy restored with the command that doctor prints', async () => {
    const hasDefaults = withoutDefaults === false;
    const healthy = HEALTHY.replace('COUNT', hasDefaults ? '17' : '15');
    const damaged = DAMAGED.replace('COUNT', hasDefaults ? '4' : '3').replace(
      'DEFAULTS',
      hasDefaults ? DAMAGED_DEFAULTS : '',
    );
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    await createNamespace(plane.admin, 'a-terminating', labels);
    await plane.admin.send('DELETE', '/api/v1/namespaces/a-terminating');
    assert.deepEqual(await run('doctor'), { code: 0, stdout: healthy, stderr: '' });
    const base = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic';
    await plane.admin.send('DELETE', `${base}ybindings/enforce-baseline-unlabeled.psa.portcullis.dev`);
    await plane.admin.send('DELETE', `${base.replace('validating', 'mutating')}ies/defaults.psa.portcullis.dev`);
    const changed = `${base}ies/enforce-restricted.psa.portcullis.dev`;
    const type = { 'content-type': 'application/merge-patch+json' };
    await plane.admin.send('PATCH', changed, { spec: { failurePolicy: 'Ignore' } }, type);
    await eventually(async () => assert.ok(!(await isDenied(hostNetworkPod()))));
    assert.deepEqual(await run('doctor'), { code: 1, stdout: damaged, stderr: '' });
    await apply((await program('install', '--without-server')).stdout);
    await eventually(async () => assert.ok(await isDenied(hostNetworkPod())));
    assert.deepEqual(await run('doctor'), { code: 0, stdout: healthy, stderr: '' });
  });

  test('lets other commands evaluate pods with the result of the policies', async () => {
    assert.match((await run('explain', 'namespace/default')).stdout, /^Namespace default: enforces baseline:latest\n/);
    const plan = await run('rollout', 'plan', '--level=restricted');
    assert.match(
      plan.stdout,
      /^Settings: annotation portcullis\.dev\/policy-settings of the policies in the API server\. Policies provide no namespace reviews/,
    );
    assert.match(plan.stdout, /\ndefault +baseline \(default\) +restricted +no violations/);
  });

  test('changes its settings without a gap in enforcement, and removes all policies when it is uninstalled', async () => {
    const weaker = await run('install', '--without-server', '--set=podSecurity.defaults.enforce=privileged');
    const refusal =
      'error: the settings would weaken enforcement: podSecurity.defaults.enforce from baseline to privileged: add --allow-weaker to accept this\n';
    assert.deepEqual(weaker, { code: 2, stdout: '', stderr: refusal });
    const restrict = ['install', '--without-server', '--set=podSecurity.defaults.enforce=restricted'];
    const { stdout, stderr } = await run(...restrict);
    assert.equal(
      stderr,
      `Note: Kubernetes VERSION at SERVER
obsolete: kubectl delete validatingadmissionpolicybindings enforce-baseline-unlabeled.psa.portcullis.dev
`,
    );
    await apply(stdout);
    await eventually(async () => assert.ok(await isDenied(plainPod())));
    // In a namespace with defaults, the same pod complies with the level.
    const completed = async () => {
      const answer = await plane.admin.send('POST', '/api/v1/namespaces/completed/pods?dryRun=All', plainPod());
      assert.equal(answer.status, 201, answer.text);
      return responseObject(answer)['spec'] as JsonObject;
    };
    if (withoutDefaults === false) {
      await eventually(async () =>
        assert.deepEqual((await completed())['securityContext'], {
          runAsNonRoot: true,
          seccompProfile: { type: 'RuntimeDefault' },
        }),
      );
    }
    assert.match((await run('upgrade')).stderr, /\nobsolete: kubectl delete /);
    const remaining = await run('uninstall', '--yes', '--wait=0s', '--keep-policies');
    assert.equal(remaining.code, 0);
    assert.match(remaining.stdout, /^- policies in the API server: portcullis uninstall$/m);
    assert.ok(await isDenied(plainPod()));
    if (withoutDefaults === false) await completed();
    const removed = await run('uninstall', '--yes', '--wait=0s');
    assert.equal(removed.code, 0);
    assert.equal(removed.stdout.match(/^validatingadmissionpolic\S+ deleted$/gm)?.length, 16);
    const mutating = removed.stdout.match(/^mutatingadmissionpolic\S+ deleted$/gm) ?? [];
    assert.equal(mutating.length, withoutDefaults === false ? 2 : 0);
    await eventually(async () => assert.ok(!(await isDenied(hostNetworkPod()))));
  });
});
