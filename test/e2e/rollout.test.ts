/**
 * Tests the rollout from a new installation to enforcement and back. Each test continues from the state of the previous
 * test.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { JsonObject } from '../../src/kube/types.ts';
import { objectMetadata, responseMessage, responseObject } from '../support/answers.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { type Replica, useSystem } from '../support/control-plane/index.ts';
import { create, localObjects } from '../support/control-plane/installation.ts';
import { refusedCalls, unusedPermissions } from '../support/control-plane/replica.ts';
import { eventually } from '../support/eventually.ts';
import { definition } from '../support/feature-gate.ts';
import { type RunningPod, watchSafety } from '../support/rollout-safety.ts';

const MERGE = { 'content-type': 'application/merge-patch+json' };
const APPLY = { 'content-type': 'application/apply-patch+yaml' };
const CONFIG = '/apis/config.openshift.io/v1alpha1/psaenforcementconfigs/cluster';
const PUBLISHED = '/api/v1/namespaces/portcullis/configmaps/portcullis-pod-security';
const REPORT = '/apis/openreports.io/v1alpha1/namespaces/legacy/reports/portcullis-pod-security';
const LEASES = '/apis/coordination.k8s.io/v1/namespaces/portcullis/leases';
const ENFORCE = 'pod-security.kubernetes.io/enforce';
const WARN = 'pod-security.kubernetes.io/warn';
const AUDIT = 'pod-security.kubernetes.io/audit';
const LEVEL = 'security.openshift.io/MinimallySufficientPodSecurityStandard';
const SYNC = 'security.openshift.io/scc.podSecurityLabelSync';
/** The warning for a change that the label syncer corrects. */
const CORRECTED = new RegExp(
  `Portcullis manages the Pod Security labels of this namespace and will set ${WARN}=privileged. To keep your change, also set the label ${SYNC}=false`,
);

/** The clock of the replicas is ahead of the cluster, so they treat new objects as older than a minute. */
const SKEW_MS = 120_000;
const SKEWED = {
  NODE_OPTIONS: `--import=${fileURLToPath(new URL('../support/clock-skew.ts', import.meta.url))}`,
  CLOCK_SKEW_MS: String(SKEW_MS),
};
const WAIT_MS = 40_000;

/** Namespaces, the SCC that their service accounts may use, and the resulting level. */
const MANAGED = [
  { name: 'plain', scc: 'restricted-v2', level: 'restricted', securityContext: {} },
  { name: 'rooted', scc: 'anyuid', level: 'baseline', securityContext: { runAsUser: 0 } },
  { name: 'mighty', scc: 'privileged', level: 'privileged', securityContext: { privileged: true } },
] as const;

function pod(namespace: string, name: string, scc: string, securityContext: JsonObject): JsonObject {
  const annotations = { 'openshift.io/required-scc': scc };
  const container = { name: 'c', image: 'registry.example.com/c:1', securityContext };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, annotations },
    spec: { containers: [container] },
  };
}

const ROOT: JsonObject = { runAsUser: 0 };

suite('during the rollout of enforcement,', async () => {
  const { plane, system } = await useSystem({
    objectsFor: (port) => localObjects(port, { policy: { scc: { mode: 'enforce' } } }),
  });

  const read = async (path: string): Promise<JsonObject> => responseObject(await plane.admin.send('GET', path));
  const patch = async (path: string, change: JsonObject): Promise<ApiResponse> => {
    const answer = await plane.admin.send('PATCH', path, change, MERGE);
    assert.equal(answer.status, 200, answer.text);
    return answer;
  };
  const succeeds = async (object: JsonObject): Promise<JsonObject> => {
    const answer = await create(plane.admin, object);
    assert.equal(answer.status, 201, answer.text);
    return responseObject(answer);
  };
  const getLabels = async (name: string): Promise<Readonly<Record<string, string>>> =>
    (objectMetadata(await read(`/api/v1/namespaces/${name}`))['labels'] ?? {}) as Readonly<Record<string, string>>;
  const enforced = async (): Promise<Readonly<Record<string, string | undefined>>> =>
    Object.fromEntries(
      await Promise.all(MANAGED.map(async ({ name }) => [name, (await getLabels(name))[ENFORCE]] as const)),
    );
  const configure = (phase: string): Promise<void> =>
    system.configure({ rollout: { phase, raiseSettleTime: '1s' }, scc: { mode: 'enforce' } });
  const switchFeature = async (to: 'enabled' | 'disabled'): Promise<void> => {
    const customNoUpgrade = { [to]: ['OpenShiftPodSecurityAdmission'] };
    const gate = {
      apiVersion: 'config.openshift.io/v1',
      kind: 'FeatureGate',
      metadata: { name: 'cluster' },
      spec: { featureSet: 'CustomNoUpgrade', customNoUpgrade },
    };
    const path = '/apis/config.openshift.io/v1/featuregates/cluster?fieldManager=test&force=true';
    await eventually(async () => {
      const answer = await plane.admin.send('PATCH', path, gate, APPLY);
      assert.ok(answer.status < 300, answer.text);
    });
  };
  const ask = (enforcementMode: string): Promise<ApiResponse> => patch(CONFIG, { spec: { enforcementMode } });
  const evaluateNow = async (): Promise<void> => {
    const time = new Date(Date.now() + SKEW_MS + 1000).toISOString();
    await patch(CONFIG, { metadata: { annotations: { 'portcullis.dev/evaluate': time } } });
  };
  /** Removes the limit that permits raising the default only every five minutes. */
  const forgetRaise = (): Promise<unknown> =>
    plane.admin.send(
      'PATCH',
      PUBLISHED,
      { metadata: { annotations: { 'portcullis.dev/raised-at': '2020-01-01T00:00:00Z' } } },
      MERGE,
    );

  interface RolloutStatus {
    readonly spec: unknown;
    readonly status: unknown;
    readonly violating: unknown;
    readonly conditions: Readonly<Record<string, string>>;
  }
  const rolloutStatus = async (): Promise<RolloutStatus> => {
    const { spec, status = {} } = (await read(CONFIG)) as {
      readonly spec: { readonly enforcementMode?: string };
      readonly status?: {
        readonly enforcementMode?: string;
        readonly violatingNamespaces?: readonly {
          readonly name: string;
          readonly state: string;
          readonly reason?: string;
        }[];
        readonly conditions?: readonly { readonly type: string; readonly status: string; readonly reason: string }[];
      };
    };
    return {
      spec: spec.enforcementMode ?? '',
      status: status.enforcementMode ?? '',
      violating: (status.violatingNamespaces ?? []).map(({ name, state, reason }) => [name, state, reason ?? '']),
      conditions: Object.fromEntries(
        (status.conditions ?? []).map(({ type, status: is, reason }) => [type, `${is}/${reason}`]),
      ),
    };
  };
  const reaches = async (
    wanted: Partial<Omit<RolloutStatus, 'conditions'>>,
    conditions: Readonly<Record<string, string>> = {},
  ) =>
    eventually(async () => {
      const now = await rolloutStatus();
      for (const [key, value] of Object.entries(wanted))
        assert.deepEqual(now[key as keyof RolloutStatus], value, JSON.stringify(now));
      for (const [type, value] of Object.entries(conditions))
        assert.equal(now.conditions[type], value, JSON.stringify(now));
    }, WAIT_MS);

  const LEVELS = Object.fromEntries(MANAGED.map(({ name, level }) => [name, level]));
  const NONE = Object.fromEntries(MANAGED.map(({ name }) => [name, undefined]));
  const publishedDefault = async (): Promise<unknown> => {
    const { annotations = {} } = objectMetadata(await read(PUBLISHED)) as { readonly annotations?: JsonObject };
    return annotations['portcullis.dev/pod-security-default'];
  };
  const expectEnforced = async (): Promise<void> => {
    await reaches({ status: 'Restricted' }, { Enforcing: 'True/Restricted', Progressing: 'False/AsExpected' });
    assert.equal(await publishedDefault(), 'restricted');
    assert.deepEqual(await enforced(), LEVELS);
    const refused = await create(plane.admin, pod('plain', 'refused', 'anyuid', ROOT));
    assert.equal(refused.status, 403, refused.text);
    assert.match(String(responseMessage(refused)), /violates PodSecurity "restricted:latest"/);
    await checkRecreation();
  };
  const expectNotEnforced = async (reason: string): Promise<void> => {
    await reaches({}, { Enforcing: `False/${reason}`, Progressing: 'False/AsExpected' });
    assert.equal(await publishedDefault(), 'privileged');
    assert.deepEqual(await enforced(), NONE);
    const free = pod('plain', 'free', 'anyuid', ROOT);
    const answer = await plane.admin.send('POST', '/api/v1/namespaces/plain/pods?dryRun=All', free);
    assert.equal(answer.status, 201, answer.text);
    await checkRecreation();
  };
  /** Checks with dry runs that the running pods would be admitted again. */
  const checkRecreation = async (): Promise<void> => {
    for (const { name, scc, securityContext } of MANAGED) {
      const again = pod(name, 'again', scc, securityContext);
      const answer = await plane.admin.send('POST', `/api/v1/namespaces/${name}/pods?dryRun=All`, again);
      assert.equal(answer.status, 201, answer.text);
    }
  };
  const leader = async (): Promise<Replica> =>
    eventually(async () => {
      const { spec } = (await read(`${LEASES}/portcullis`)) as { readonly spec: { readonly holderIdentity?: string } };
      const found = system.replicas.find((replica) =>
        replica.log().some(({ msg, identity }) => msg === 'leadership begins' && identity === spec.holderIdentity),
      );
      assert.ok(found);
      return found;
    });
  const kill = async (victim: Replica): Promise<void> => {
    await victim.stop('SIGKILL');
    await system.retire(victim);
  };
  /** Deletes the Lease of a replica, which otherwise stays valid for a minute. */
  const forget = async ({ port }: Replica): Promise<void> => {
    const { items } = (await read(LEASES)) as { readonly items: readonly JsonObject[] };
    const lease = items.map((item) => String(objectMetadata(item)['name'])).find((name) => name.endsWith(`-${port}`));
    assert.ok(lease);
    assert.equal((await plane.admin.send('DELETE', `${LEASES}/${lease}`)).status, 200);
  };
  const verifySafety = (): readonly string[] => {
    const { refusals, steps } = watch.evaluate();
    assert.deepEqual(refusals, []);
    return steps;
  };

  await patch('/api/v1/namespaces/kube-public', { metadata: { labels: { [ENFORCE]: 'restricted' } } });
  await system.install();
  await configure('Evaluate');
  await system.add(2, { env: SKEWED });
  const watch = await watchSafety(plane);
  after(() => watch.stop());

  test('a new installation evaluates namespaces, but enforces nothing', async () => {
    const running: RunningPod[] = [];
    for (const { name, scc, securityContext } of MANAGED) {
      await eventually(() => succeeds({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } }));
      await eventually(() =>
        succeeds({
          apiVersion: 'rbac.authorization.k8s.io/v1',
          kind: 'RoleBinding',
          metadata: { name: 'scc', namespace: name },
          roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: `system:openshift:scc:${scc}` },
          subjects: [{ kind: 'ServiceAccount', name: 'default', namespace: name }],
        }),
      );
      const object = pod(name, 'running', scc, securityContext);
      // Without a dry run, the pod would be created while no webhook is registered.
      await eventually(async () => {
        const answer = await plane.admin.send('POST', `/api/v1/namespaces/${name}/pods?dryRun=All`, object);
        assert.match(answer.text, /"openshift.io\/scc":/);
      }, WAIT_MS);
      running.push({ namespace: name, pod: await succeeds(object) });
    }
    watch.expect(running);
    await reaches(
      { spec: '', status: '', violating: [] },
      { Evaluated: 'True/Completed', ViolationsDetected: 'False/NoViolations', Enforcing: 'False/PhaseNotEnforcing' },
    );
    await eventually(async () => {
      for (const { name, level } of MANAGED) {
        const labels = await getLabels(name);
        assert.deepEqual([labels[AUDIT], labels[WARN]], [level, 'privileged']);
      }
    });
    await expectNotEnforced('PhaseNotEnforcing');
    verifySafety();
  });

  test('kube-system and kube-public are privileged, except for labels of other managers', async () => {
    const levels = await Promise.all(['default', 'kube-system', 'kube-public'].map(getLabels));
    assert.deepEqual(
      levels.map((labels) => labels[ENFORCE]),
      [undefined, 'privileged', 'restricted'],
    );
  });

  test('violations are reported, and the mode becomes Legacy', async () => {
    await succeeds(definition('openreports.io', 'v1alpha1', 'reports', 'Report', 'Namespaced'));
    await succeeds(definition('openreports.io', 'v1alpha1', 'clusterreports', 'ClusterReport', 'Cluster'));
    await succeeds({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'legacy' } });
    await eventually(() => succeeds(pod('legacy', 'root', 'anyuid', ROOT)));
    await eventually(async () => {
      await evaluateNow();
      assert.equal((await rolloutStatus()).spec, 'Legacy');
    }, WAIT_MS);
    await reaches(
      {
        spec: 'Legacy',
        status: '',
        violating: [['legacy', 'Current', 'PSALabel: ServiceAccount with insufficient SCCs']],
      },
      {
        ViolationsDetected: 'True/ViolatingNamespaces',
        LegacyProposed: 'True/WrittenByController',
        EvaluationConditionsDetected: 'True/PodSecurityUserSCC_PSViolationsDetected',
      },
    );
    await eventually(async () => assert.match(JSON.stringify(await read(REPORT)), /runAsNonRoot/));
    await configure('Enforce');
    await reaches({ spec: 'Legacy', status: 'Legacy' }, { Enforcing: 'False/LegacyMode' });
    await expectNotEnforced('LegacyMode');
    verifySafety();
  });

  test('a request for Restricted mode causes a warning that lists the violating namespaces', async () => {
    const { warnings } = await plane.admin.send(
      'PATCH',
      `${CONFIG}?dryRun=All`,
      { spec: { enforcementMode: 'Restricted' } },
      MERGE,
    );
    assert.match(warnings.join('\n'), /legacy/);
  });

  test('the cluster enforces once the violations are fixed and the request is cleared', async () => {
    await plane.admin.send('DELETE', '/api/v1/namespaces/legacy/pods/root?gracePeriodSeconds=0');
    await eventually(async () => {
      await evaluateNow();
      assert.deepEqual((await rolloutStatus()).violating, [
        ['legacy', 'Previous', 'PSALabel: ServiceAccount with insufficient SCCs'],
      ]);
    }, WAIT_MS);
    await eventually(async () => assert.match((await plane.admin.send('GET', REPORT)).text, /"fail":0/));
    // Only the administrator can clear Legacy mode.
    assert.equal((await rolloutStatus()).spec, 'Legacy');
    await ask('');
    await expectEnforced();
    const steps = verifySafety();
    assert.equal(steps.at(-1), 'default restricted', 'the default level is raised after all namespaces are labeled');
  });

  test('labels of users are kept, and changed labels of the syncer are restored', async () => {
    const path = '/api/v1/namespaces/plain';
    const labels = { [ENFORCE]: 'baseline', 'pod-security.kubernetes.io/enforce-version': 'v1.30' };
    await patch('/api/v1/namespaces/rooted', { metadata: { labels, annotations: { note: 'ours' } } });
    const change = { metadata: { labels: { [WARN]: null }, annotations: { [LEVEL]: 'privileged' } } };
    assert.match((await patch(path, change)).warnings.join('\n'), CORRECTED);
    await eventually(async () => {
      const { labels: now = {}, annotations = {} } = objectMetadata(await read(path)) as Record<string, JsonObject>;
      assert.deepEqual([now[WARN], annotations[LEVEL]], ['privileged', 'restricted']);
    });
    const kept = await getLabels('rooted');
    assert.deepEqual([kept[ENFORCE], kept['pod-security.kubernetes.io/enforce-version']], ['baseline', 'v1.30']);
    verifySafety();
  });

  test('the podSecurityLabelSync label disables and enables label management', async () => {
    const path = '/api/v1/namespaces/plain';
    await patch(path, { metadata: { labels: { [SYNC]: 'false' } } });
    await eventually(async () => {
      const { labels = {}, annotations = {} } = objectMetadata(await read(path)) as Record<string, JsonObject>;
      assert.deepEqual([labels[ENFORCE], annotations[LEVEL]], ['restricted', undefined]);
    });
    await patch(path, { metadata: { labels: { [WARN]: 'baseline' } } });
    await patch(path, { metadata: { labels: { [SYNC]: 'true' } } });
    await eventually(async () => assert.equal((await getLabels('plain'))[WARN], 'privileged'));
    const other = await patch(path, { metadata: { labels: { [WARN]: 'restricted' } } });
    assert.match(other.warnings.join('\n'), CORRECTED);
    await eventually(async () => assert.equal((await getLabels('plain'))[WARN], 'privileged'));
    await patch('/api/v1/namespaces/rooted', { metadata: { labels: { [SYNC]: 'true' } } });
    await eventually(async () =>
      assert.equal((await getLabels('rooted'))['pod-security.kubernetes.io/enforce-version'], 'latest'),
    );
    verifySafety();
  });

  suite('enforcement is turned off, and then on again, by', () => {
    const ways: readonly (readonly [
      name: string,
      reason: string,
      out: () => Promise<unknown>,
      back: () => Promise<unknown>,
    ])[] = [
      ['Legacy mode', 'LegacyMode', () => ask('Legacy'), () => ask('Restricted')],
      ['the feature gate', 'FeatureGateDisabled', () => switchFeature('disabled'), () => switchFeature('enabled')],
      ['the Evaluate phase', 'PhaseNotEnforcing', () => configure('Evaluate'), () => configure('Enforce')],
    ];
    before(async () => {
      await succeeds(definition('config.openshift.io', 'v1', 'featuregates', 'FeatureGate', 'Cluster'));
    });
    for (const [name, reason, out, back] of ways) {
      test(name, async () => {
        await out();
        await expectNotEnforced(reason);
        const down = verifySafety();
        assert.equal(down[0], 'default privileged', 'the default is lowered before labels are removed');
        await forgetRaise();
        await back();
        await expectEnforced();
        assert.equal(verifySafety().at(-1), 'default restricted', 'labels are added before the default is raised');
      });
    }
  });

  test('enforcement is turned off completely even if the leader is killed during the change', async () => {
    const led = await leader();
    await ask('Legacy');
    await eventually(async () => assert.equal(await publishedDefault(), 'privileged'));
    await kill(led);
    await system.add(1, { env: SKEWED });
    await forget(led);
    await expectNotEnforced('LegacyMode');
    verifySafety();
  });

  test('enforcement is turned on completely even if the leader is killed during the change', async () => {
    await forgetRaise();
    const led = await leader();
    await ask('Restricted');
    await eventually(async () => assert.ok(Object.values(await enforced()).some((level) => level !== undefined)));
    await kill(led);
    assert.equal(await publishedDefault(), 'privileged');
    await forget(led);
    await system.add(1, { env: SKEWED });
    await expectEnforced();
    assert.equal(verifySafety().at(-1), 'default restricted');
  });

  test('labels are kept while the Lease of a stopped replica is valid', async () => {
    const led = await leader();
    await kill(led);
    await ask('Legacy');
    await eventually(async () => assert.equal(await publishedDefault(), 'privileged'), WAIT_MS);
    await system.add(1, { env: SKEWED });
    await reaches({ status: 'Legacy' }, { Progressing: 'True/RevertingConfiguration' });
    await pause(2000);
    assert.deepEqual(await enforced(), LEVELS);
    await forget(led);
    await expectNotEnforced('LegacyMode');
    assert.equal(verifySafety()[0], 'default privileged');
  });

  test('an empty mode that another field manager owns is not overwritten', async () => {
    await eventually(() => succeeds(pod('legacy', 'root', 'anyuid', ROOT)));
    const declared = {
      apiVersion: 'config.openshift.io/v1alpha1',
      kind: 'PSAEnforcementConfig',
      metadata: { name: 'cluster' },
      spec: { enforcementMode: '' },
    };
    const answer = await plane.admin.send('PATCH', `${CONFIG}?fieldManager=argocd&force=true`, declared, APPLY);
    assert.equal(answer.status, 200, answer.text);
    await reaches(
      { spec: '', status: 'Legacy' },
      { LegacyProposed: 'True/SpecConflict', Enforcing: 'False/LegacyMode' },
    );
    await pause(1000);
    assert.equal((await rolloutStatus()).spec, '');
    await expectNotEnforced('LegacyMode');
  });

  test('pods that violate the level are denied in Restricted mode', async () => {
    verifySafety();
    const violating = await read('/api/v1/namespaces/legacy/pods/root');
    watch.expect([{ namespace: 'legacy', pod: violating }]);
    await forgetRaise();
    const { warnings } = await ask('Restricted');
    assert.match(warnings.join('\n'), /legacy/);
    await expectEnforced();
    const refused = await create(plane.admin, pod('legacy', 'root2', 'anyuid', ROOT));
    assert.equal(refused.status, 403, refused.text);
    const [first = '', ...more] = watch.evaluate().refusals;
    assert.equal(first, 'after Namespace legacy (label legacy restricted): legacy is restricted');
    assert.notEqual(more.length, 0);
  });

  test('replicas use exactly the permissions of the roles for the rollout', async () => {
    const calls = await plane.calls();
    assert.deepEqual(refusedCalls(calls), []);
    const roles = system.objects.filter(
      ({ kind, ...object }) =>
        /Role(?:Binding)?$/.test(String(kind)) && ROLES.test(String(objectMetadata(object)['name'])),
    );
    assert.equal(roles.length, 16);
    assert.deepEqual(unusedPermissions(roles, calls), UNUSED);
  });
});

const ROLES = /^portcullis-(rollout|config-observer|readiness|policy-reports|label-syncer|run-level-zero-labeler)$/;

/** The cluster serves only one API for reports, no namespace becomes exempt, and the guard is off. */
const UNUSED = [
  'lower podsecuritylevels.policy.portcullis.dev',
  'lower podsecuritylevels.policy.portcullis.dev',
  'delete reports.openreports.io named portcullis-pod-security',
  'delete clusterreports.openreports.io named portcullis-pod-security',
  'create policyreports.wgpolicyk8s.io named portcullis-pod-security',
  'patch policyreports.wgpolicyk8s.io named portcullis-pod-security',
  'delete policyreports.wgpolicyk8s.io named portcullis-pod-security',
  'create clusterpolicyreports.wgpolicyk8s.io named portcullis-pod-security',
  'delete clusterpolicyreports.wgpolicyk8s.io named portcullis-pod-security',
];
