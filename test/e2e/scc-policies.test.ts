/** The generated policies for SCCs in a kube-apiserver, without a server. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { parse } from 'yaml';
import type { JsonObject } from '../../src/kube/types.ts';
import { generateSccPolicies } from '../../src/policy/psa/scc-policies.ts';
import { assignScc, validateScc, type SccInput } from '../../src/policy/scc/index.ts';
import { defaultScc } from '../../src/policy/scc/objects.ts';
import { responseMessage, responseObject } from '../support/answers.ts';
import { ASSETS, startControlPlane, type ControlPlane } from '../support/control-plane/index.ts';
import { create } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { compliantPod } from '../support/pod-security.ts';
import { laxScc } from '../support/scc.ts';
import { naming, podWith, STANDARD } from '../policy/scc/requests.ts';

const skip = ASSETS === undefined && 'the development cluster has no ValidatingAdmissionPolicy';

const ROOT = join(import.meta.dirname, '../..');
const RESOURCE = '/apis/security.openshift.io/v1/securitycontextconstraints';
const SCCS = [...STANDARD, { ...defaultScc(laxScc({ name: 'null-subjects' })), users: null, groups: null }];
/** The SCCs that alice may use. */
const GRANTED = ['restricted-v2', 'anyuid', 'hostnetwork-v2'];
const RANGES = { 'openshift.io/sa.scc.uid-range': '1000650000/10000', 'openshift.io/sa.scc.mcs': 's0:c26,c5' };
const DEMO = { metadata: { name: 'demo', annotations: RANGES } };

function listObjects(): readonly object[] {
  const namespaces = [
    DEMO,
    { metadata: { name: 'plain' } },
    { metadata: { name: 'off', labels: { 'portcullis.dev/scc': 'off' } } },
  ];
  const apiGroup = 'rbac.authorization.k8s.io';
  const metadata = { name: 'alice' };
  const use = {
    apiGroups: ['security.openshift.io'],
    resources: ['securitycontextconstraints'],
    resourceNames: GRANTED,
    verbs: ['use'],
  };
  return [
    ...namespaces.map((namespace) => ({ apiVersion: 'v1', kind: 'Namespace', ...namespace })),
    {
      apiVersion: `${apiGroup}/v1`,
      kind: 'ClusterRole',
      metadata,
      rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['create'] }, use],
    },
    {
      apiVersion: `${apiGroup}/v1`,
      kind: 'ClusterRoleBinding',
      metadata,
      roleRef: { apiGroup, kind: 'ClusterRole', name: 'alice' },
      subjects: [{ apiGroup, kind: 'User', name: 'alice' }],
    },
    ...generateSccPolicies(
      { scc: { mode: 'enforce', exemptNamespaces: ['kube-system'], compatibility: {} }, fallbackLevel: 'restricted' },
      { sccNames: SCCS.map(({ metadata }) => metadata?.name ?? ''), namespace: 'portcullis', kubernetesMinor: 36 },
    ),
  ];
}

/** The pods of test/fixtures/pss without ephemeral containers, which cannot be created. */
function readPods(): JsonObject[] {
  const folder = join(ROOT, 'test/fixtures');
  return globSync('pss/**/*.yaml', { cwd: folder }).map((file) => {
    const { spec } = parse(readFileSync(join(folder, file), 'utf8')) as { readonly spec: JsonObject };
    return podWith({ ...spec, ephemeralContainers: undefined });
  });
}

suite('policies for SCCs', { skip }, () => {
  let plane: ControlPlane;

  async function send(object: object, { namespace = 'demo', user = 'alice' } = {}) {
    const { metadata, ...rest } = object as { readonly metadata?: object };
    const pod = { ...rest, apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, name: 'p', namespace } };
    const headers: Record<string, string> =
      user === 'admin' ? {} : { 'Impersonate-User': user, 'Impersonate-Group': 'system:authenticated' };
    return await plane.admin.send('POST', `/api/v1/namespaces/${namespace}/pods?dryRun=All`, pod, headers);
  }

  /** The denial without the names of the pod and of the policy; empty if the pod is admitted. */
  async function deny(object: object, options?: Parameters<typeof send>[1]): Promise<string> {
    const answer = await send(object, options);
    return answer.status === 201 ? '' : String(responseMessage(answer)).replace(/^.*denied request: /, '');
  }

  before(async () => {
    plane = await startControlPlane();
    for (const object of listObjects()) {
      const answer = await create(plane.admin, object as JsonObject);
      assert.equal(answer.status, 201, answer.text);
    }
    await eventually(async () => assert.notEqual(await deny(podWith({}), { namespace: 'plain' }), ''));
  });
  after(() => plane.stop());

  test('deny pods where SCCs are enforced until their definition exists', async () => {
    assert.match(await deny(compliantPod()), /^failed to configure (?:binding|policy): .*paramKind/);
    assert.equal(await deny(podWith({}), { namespace: 'off' }), '');
    const definition = readFileSync(join(ROOT, 'src/install/definitions/securitycontextconstraints.json'), 'utf8');
    assert.equal((await create(plane.admin, JSON.parse(definition) as JsonObject)).status, 201);
    await eventually(async () => {
      for (const scc of SCCS) {
        const { status, text } = await plane.admin.send('POST', RESOURCE, {
          ...defaultScc(scc),
          users: scc.users,
          groups: scc.groups,
        });
        assert.ok(status === 201 || status === 409, text);
      }
    });
    await eventually(async () => assert.equal(await deny(compliantPod()), ''));
  });

  const UNABLE = 'unable to validate against any security context constraint: [provider';
  const NOT_USABLE = (name: string): string => `${UNABLE} "${name}": Forbidden: not usable by user or serviceaccount]`;
  const HOST_POD = compliantPod({ hostNetwork: true }) as JsonObject;
  const VIOLATION = 'the pod violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)';

  const CASES: readonly (readonly [
    name: string,
    pod: JsonObject,
    denial: string,
    options?: Parameters<typeof send>[1],
  ])[] = [
    ['a forged annotation', naming('privileged', HOST_POD), NOT_USABLE('privileged')],
    ['the same by a user with access', naming('privileged', podWith({ hostNetwork: true })), '', { user: 'admin' }],
    ['users and groups that are null', naming('null-subjects', podWith({})), NOT_USABLE('null-subjects')],
    [
      'an unknown SCC',
      naming('nope', HOST_POD),
      `annotation openshift.io/scc names the unknown SCC "nope", and ${VIOLATION}`,
    ],
    ['no SCC', HOST_POD, `annotation openshift.io/scc names no SCC, and ${VIOLATION}`],
    [
      'a namespace without ranges',
      naming('anyuid', podWith({})),
      'error fetching namespace "plain": unable to find annotation openshift.io/sa.scc.uid-range',
      { namespace: 'plain' },
    ],
    [
      'fields of the pod and of its containers',
      naming('anyuid', HOST_POD),
      `${UNABLE} anyuid: Forbidden: .spec.securityContext.seccompProfile, .spec.securityContext.seLinuxOptions, .spec.hostNetwork, seccompProfile of container "c", capabilities of container "c"]`,
    ],
  ];
  for (const [name, pod, denial, options] of CASES) {
    test(name, async () => assert.equal(await deny(pod, options), denial));
  }

  test('decide as the validating pass for the named SCC', async () => {
    const counts = { allowed: 0, denied: 0, invalid: 0 };
    const canUse: SccInput['canUse'] = ({ username }, name) => username === 'alice' && GRANTED.includes(name);
    const input = {
      operation: 'CREATE',
      namespace: DEMO,
      userInfo: { username: 'alice', groups: ['system:authenticated'] },
    } as const;
    for (const [index, pod] of readPods().entries()) {
      const sccs = [...GRANTED, SCCS[index % SCCS.length]?.metadata?.name].map((name) =>
        SCCS.filter(({ metadata }) => metadata?.name === name),
      );
      await Promise.all(
        sccs.map(async (named) => {
          // The volume of the service account and the defaults are those of the API server.
          const stored = await send(pod, { namespace: 'off' });
          if (stored.status !== 201) {
            counts.invalid++;
            return;
          }
          const object = responseObject(stored);
          const decision = assignScc({ ...input, object, sccs: named, canUse: () => true });
          const name = named[0]?.metadata?.name ?? '';
          const sent = naming(name, (decision.allowed ? decision.object : object) as JsonObject);
          const expected = validateScc({ ...input, object: sent, sccs: named, canUse });
          const { status, text } = await send(sent);
          assert.equal(status === 201, expected.allowed, `${name}: ${text} ${JSON.stringify(sent)}`);
          counts[expected.allowed ? 'allowed' : 'denied']++;
        }),
      );
    }
    assert.ok(counts.allowed > 50 && counts.denied > 50, JSON.stringify(counts));
  });

  test('evaluate large pods within the limits of the API server', async () => {
    const containers = Array.from({ length: 240 }, (_, index) => ({ name: `c${index}`, image: 'i:1' }));
    const decision = assignScc({
      operation: 'CREATE',
      object: podWith({ containers }),
      namespace: DEMO,
      userInfo: { username: 'alice' },
      sccs: STANDARD,
      canUse: (_, name) => name === 'restricted-v2',
    });
    assert.ok(decision.allowed);
    assert.equal(await deny(decision.object as JsonObject), '');
  });
});
