import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { POLICY_KINDS } from '../../../src/api/admission-policies.ts';
import { buildManifests, defaultSettings, PROFILES, staticWebhookConfigurations } from '../../../src/install/index.ts';
import { resourceName } from '../../../src/kube/resources.ts';
import type { KubeObject, Namespace, Node, PortcullisConfiguration } from '../../../src/kube/types.ts';
import { STANDARD_SCCS } from '../../../src/policy/scc/index.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { readCommands, runScript } from '../../support/documented.ts';
import { createInstaller, type Installer } from '../../support/installer.ts';
import { hasKubectl } from '../../support/kubectl.ts';
import { type Environment, type Outcome, runProgram } from '../../support/memory-io.ts';
import { list, refusal, type Responder, startScriptedServer } from '../../support/scripted-server.ts';

const PART_OF = { 'app.kubernetes.io/part-of': 'portcullis' };

/** Creates the objects that the replicas write. */
const WRITTEN: readonly KubeObject[] = [
  of('coordination.k8s.io/v1', 'Lease', 'portcullis', PART_OF),
  of('coordination.k8s.io/v1', 'Lease', 'portcullis-replica-a', PART_OF),
  of('v1', 'Secret', 'portcullis-serving-certificate', PART_OF),
];

function of(apiVersion: string, kind: string, name: string, labels: Readonly<Record<string, string>> = {}): KubeObject {
  return { apiVersion, kind, metadata: { name, namespace: 'portcullis', labels } };
}

const SCC = STANDARD_SCCS[0]?.scc;

const SETTINGS = { ...defaultSettings('1.2.3'), ...PROFILES.scc };
/** The leader has registered the webhooks. */
const INSTALLED: readonly KubeObject[] = [...buildManifests(SETTINGS), ...staticWebhookConfigurations(SETTINGS)];

/** Returns the names of all manifests of a kind in the order of the API server. */
function getNames(kind: string): readonly string[] {
  return INSTALLED.flatMap((one) => (one.kind === kind ? (one.metadata?.name ?? []) : [])).toSorted();
}

function deleted(group: string, ...kinds: readonly string[]): readonly string[] {
  const suffix = group === '' ? '' : `.${group}`;
  return kinds.flatMap((kind) => getNames(kind).map((name) => `${kind.toLowerCase()}s${suffix}/${name} deleted`));
}

const REMAIN = 'Remaining objects, and the commands that remove them:';
const DEFINITIONS_REMAIN =
  '- CustomResourceDefinitions with all their objects, such as settings and SCCs: portcullis uninstall --purge-crds';
const NAMESPACE_REMAINS = '- namespace portcullis: kubectl delete namespace portcullis';
const REMAINS = [REMAIN, DEFINITIONS_REMAIN, NAMESPACE_REMAINS];

/** The roles that permit the leader to restore deleted objects. */
const WRITERS = [
  'admission-policies',
  'label-syncer',
  'run-level-zero-labeler',
  'scc-grant-expiry',
  'serving-certificate',
  'uid-range-allocator',
  'webhook-configurations',
];
const REVOKED = WRITERS.map((role) => `clusterrolebindings.rbac.authorization.k8s.io/portcullis-${role} deleted`);

const VALIDATING = deleted('admissionregistration.k8s.io', 'ValidatingWebhookConfiguration');
const MUTATING = deleted('admissionregistration.k8s.io', 'MutatingWebhookConfiguration');
const BINDINGS = deleted('rbac.authorization.k8s.io', 'ClusterRoleBinding');

const replicas = (bindings: readonly string[]): readonly string[] => [
  'deployments.apps/portcullis deleted',
  ...bindings,
  ...deleted('rbac.authorization.k8s.io', 'RoleBinding'),
  'poddisruptionbudgets.policy/portcullis deleted',
  'services/portcullis deleted',
  'networkpolicies.networking.k8s.io/portcullis deleted',
  'validatingadmissionpolicybindings.admissionregistration.k8s.io/portcullis-exceptions deleted',
  'validatingadmissionpolicybindings.admissionregistration.k8s.io/portcullis-grants deleted',
  'validatingadmissionpolicybindings.admissionregistration.k8s.io/portcullis-service-account deleted',
  'validatingadmissionpolicybindings.admissionregistration.k8s.io/portcullis-settings deleted',
  'validatingadmissionpolicies.admissionregistration.k8s.io/portcullis-exceptions deleted',
  'validatingadmissionpolicies.admissionregistration.k8s.io/portcullis-grants deleted',
  'validatingadmissionpolicies.admissionregistration.k8s.io/portcullis-service-account deleted',
  'validatingadmissionpolicies.admissionregistration.k8s.io/portcullis-settings deleted',
  'resourcequotas/portcullis deleted',
  ...deleted('rbac.authorization.k8s.io', 'ClusterRole', 'Role'),
  'serviceaccounts/portcullis deleted',
  'leases.coordination.k8s.io/portcullis deleted',
  'leases.coordination.k8s.io/portcullis-replica-a deleted',
  'secrets/portcullis-serving-certificate deleted',
];

const PLANNED = [...VALIDATING, ...MUTATING, ...replicas(BINDINGS)];

const WAITING = 'Waiting 0 s for API servers to observe the deletion.';
const REMOVED = [
  ...REVOKED,
  ...VALIDATING,
  WAITING,
  ...MUTATING,
  WAITING,
  ...replicas(BINDINGS.filter((line) => !REVOKED.includes(line))),
];

const lines = (...texts: readonly string[]): string => texts.map((text) => `${text}\n`).join('');

describe('uninstall', () => {
  let cluster: TestCluster;
  let kubeconfig: string;
  let installer: Installer;
  before(async () => {
    cluster = await startCluster();
    kubeconfig = await cluster.kubeconfig();
    installer = createInstaller(cluster.admin);
  });
  after(async () => {
    assert.deepEqual(cluster.errors, []);
    await cluster.stop();
  });

  const create = (object: KubeObject): Promise<void> => installer.create(object);
  const get = (apiVersion: string, kind: string, name: string, namespace?: string): Promise<number> =>
    installer.getStatus({ apiVersion, kind, metadata: { name, ...(namespace === undefined ? {} : { namespace }) } });
  const run = (args: readonly string[] = [], surroundings: Environment = {}): Promise<Outcome> =>
    runProgram(['uninstall', '--wait=0s', ...args], { env: { KUBECONFIG: kubeconfig }, ...surroundings });

  beforeEach(async () => {
    for (let tries = 0; tries < 200 && (await get('v1', 'Namespace', 'portcullis')) === 200; tries++) {
      await cluster.admin.send('DELETE', '/api/v1/namespaces/portcullis');
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    for (const object of INSTALLED) await create(object);
    for (const object of WRITTEN) await create(object);
  });

  test('deletes nothing while another namespace contains an installation', async () => {
    const other = buildManifests({ ...SETTINGS, namespace: 'default' }).find(({ kind }) => kind === 'Deployment');
    assert.ok(other);
    await create(other);
    assert.deepEqual(await run(['--yes']), {
      code: 2,
      stdout: '',
      stderr:
        'error: Portcullis is also installed in namespace default, and both installations use the same roles and webhooks: run portcullis doctor for the namespace of the installation to keep, and apply its fixes\n',
    });
    await cluster.admin.send('DELETE', '/apis/apps/v1/namespaces/default/deployments/portcullis');
  });

  test('deletes webhooks first and keeps SCCs, and deletes nothing in a second run', async () => {
    assert.deepEqual(await run(['--yes']), {
      code: 0,
      stdout: lines(...REMOVED, ...REMAINS),
      stderr: '',
    });
    const crd = 'securitycontextconstraints.security.openshift.io';
    assert.equal(await get('apiextensions.k8s.io/v1', 'CustomResourceDefinition', crd), 200);
    const nothing = lines('Nothing to delete: Portcullis is not installed in namespace portcullis.', ...REMAINS);
    assert.deepEqual(await run(['--yes']), { code: 0, stdout: nothing, stderr: '' });
    // Without objects to delete, the command does not ask for confirmation.
    assert.deepEqual(await run([]), { code: 0, stdout: nothing, stderr: '' });
    assert.deepEqual(await run(['--dry-run=server']), { code: 0, stdout: nothing, stderr: '' });
    assert.deepEqual(await runProgram(['doctor', '--kubeconfig', kubeconfig]), {
      code: 1,
      stdout: lines(
        'problem  installation  namespace portcullis: Portcullis is not installed, because no webhook configuration or Deployment was found',
        '                       Fix: # install Portcullis, see portcullis install --help',
        '',
        '1 problem, 0 warnings',
      ),
      stderr: '',
    });
  });

  for (const [mode, suffix] of [
    ['server', ' (server dry run)'],
    ['client', ' (dry run)'],
  ]) {
    test(`changes nothing in a ${mode}-side dry run`, async () => {
      const stdout = lines(...PLANNED.map((line) => `${line}${suffix}`), ...REMAINS);
      assert.deepEqual(await run([`--dry-run=${mode}`]), { code: 0, stdout, stderr: '' });
      for (const { apiVersion = '', kind = '', metadata } of [...INSTALLED, ...WRITTEN]) {
        assert.equal(await get(apiVersion, kind, metadata?.name ?? '', metadata?.namespace), 200, kind);
      }
    });
  }

  const NOT_CONFIRMED = 'error: nothing was deleted: the response was not "yes"; use --yes to skip the confirmation\n';
  const answers: readonly (readonly [name: string, stdin: string])[] = [
    ['the answer no', 'no\n'],
    ['an empty answer', ''],
    ['an answer with yes and other words', 'yes, but\n'],
  ];
  for (const [name, stdin] of answers) {
    test(`deletes nothing after ${name}`, async () => {
      const { port } = cluster;
      const question = `This removes Portcullis from https://127.0.0.1:${port}, and ends all enforcement by Portcullis. Type "yes" to continue:\n`;
      assert.deepEqual(await run([], { stdin }), { code: 2, stdout: '', stderr: `${question}${NOT_CONFIRMED}` });
      assert.equal(await get('apps/v1', 'Deployment', 'portcullis', 'portcullis'), 200);
    });
  }

  test('deletes the installation after the answer yes', async () => {
    assert.equal((await run([], { stdin: 'yes\n' })).code, 0);
    assert.equal(await get('apps/v1', 'Deployment', 'portcullis', 'portcullis'), 404);
  });

  test('keeps objects and a namespace that do not have the label of Portcullis', async () => {
    const kinds = [
      ['v1', 'ConfigMap'],
      ['coordination.k8s.io/v1', 'Lease'],
      ['v1', 'ServiceAccount'],
    ] as const;
    for (const [apiVersion, kind] of kinds) await create(of(apiVersion, kind, 'mine'));
    const ops = [{ op: 'remove', path: '/metadata/labels/app.kubernetes.io~1part-of' }];
    const type = { 'content-type': 'application/json-patch+json' };
    await cluster.admin.send('PATCH', '/api/v1/namespaces/portcullis', ops, type);
    assert.deepEqual(await run(['--yes']), {
      code: 0,
      stdout: lines(...REMOVED, REMAIN, DEFINITIONS_REMAIN),
      stderr: '',
    });
    for (const [apiVersion, kind] of kinds) assert.equal(await get(apiVersion, kind, 'mine', 'portcullis'), 200, kind);
  });

  test('reports custom SCCs that are deleted with their CRD', async () => {
    const path = '/apis/security.openshift.io/v1/securitycontextconstraints';
    const webhooks = '/apis/admissionregistration.k8s.io/v1';
    await cluster.admin.send('DELETE', `${webhooks}/mutatingwebhookconfigurations/zz.portcullis.dev`);
    await cluster.admin.send('DELETE', `${webhooks}/validatingwebhookconfigurations/portcullis.dev`);
    for (const name of ['mine', 'restricted-v2']) {
      const scc = {
        ...SCC,
        apiVersion: 'security.openshift.io/v1',
        kind: 'SecurityContextConstraints',
        metadata: { name },
      };
      const answer = await cluster.admin.send('POST', path, scc);
      assert.equal(answer.status, 201, answer.text);
    }
    const { stdout } = await run(['--dry-run=server', '--purge-crds']);
    assert.deepEqual(
      stdout.split('\n').filter((line) => line.startsWith('securitycontextconstraints.')),
      ['securitycontextconstraints.security.openshift.io/mine is deleted with its CRD (server dry run)'],
    );
    for (const name of ['mine', 'restricted-v2']) await cluster.admin.send('DELETE', `${path}/${name}`);
  });

  test('prints commands for the cluster that its flags select', async () => {
    const file = `--kubeconfig=${kubeconfig}`;
    for (const flags of [[], ['--context=portcullis'], [file], [file, '--context=portcullis']]) {
      const { stdout } = await run(['--dry-run=client', ...flags]);
      const commands = [DEFINITIONS_REMAIN, NAMESPACE_REMAINS].map((line) => [line, ...flags].join(' '));
      assert.ok(stdout.endsWith(lines(REMAIN, ...commands)), stdout);
    }
  });

  test('lists SCC grants, and deletes them with the CRDs', async () => {
    const rbac = '/apis/rbac.authorization.k8s.io/v1';
    const role = 'system:openshift:scc:anyuid';
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role };
    const view = { ...roleRef, name: 'view' };
    const objects: readonly (readonly [path: string, name: string, content: object])[] = [
      ['clusterroles', role, { rules: [] }],
      ['clusterrolebindings', role, { roleRef }],
      ['namespaces/default/rolebindings', role, { roleRef }],
      ['namespaces/default/rolebindings', 'portcullis:scc:anyuid:web', { roleRef }],
      ['namespaces/default/rolebindings', 'viewer', { roleRef: view }],
    ];
    for (const [path, name, content] of objects) {
      const { status, text } = await cluster.admin.send('POST', `${rbac}/${path}`, { metadata: { name }, ...content });
      assert.equal(status, 201, text);
    }
    const { stdout: kept } = await run(['--dry-run=server']);
    assert.match(kept, /^- 4 roles and bindings that grant the use of SCCs: portcullis uninstall --purge-crds$/m);
    const { stdout: purged } = await run(['--dry-run=server', '--purge-crds']);
    const suffix = ' deleted (server dry run)';
    assert.deepEqual(
      purged.split('\n').filter((line) => /:scc:|viewer/.test(line)),
      [
        `clusterrolebindings.rbac.authorization.k8s.io/${role}${suffix}`,
        `rolebindings.rbac.authorization.k8s.io/portcullis:scc:anyuid:web in namespace default${suffix}`,
        `rolebindings.rbac.authorization.k8s.io/${role} in namespace default${suffix}`,
        `clusterroles.rbac.authorization.k8s.io/${role}${suffix}`,
      ],
    );
    for (const [path, name] of objects) await cluster.admin.send('DELETE', `${rbac}/${path}/${name}`);
  });

  test('does not mention SCCs if they are not installed', async () => {
    const crds = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
    for (const plural of ['rangeallocations', 'securitycontextconstraints']) {
      await cluster.admin.send('DELETE', `${crds}/${plural}.security.openshift.io`);
    }
    const approvers = '/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings';
    const roleRef = {
      apiGroup: 'rbac.authorization.k8s.io',
      kind: 'ClusterRole',
      name: 'portcullis-approve-exceptions',
    };
    await cluster.admin.send('POST', approvers, { metadata: { name: 'approvers' }, roleRef });
    const { stdout } = await run(['--dry-run=server']);
    assert.ok(
      stdout.endsWith(
        lines(
          REMAIN,
          '- CustomResourceDefinitions with all their objects, such as settings: portcullis uninstall --purge-crds',
          '- 1 role or binding that grants the use of exceptions or of lower levels: portcullis uninstall --purge-crds',
          NAMESPACE_REMAINS,
        ),
      ),
      stdout,
    );
    const { stderr } = await run(['--purge-crds'], { stdin: 'no\n' });
    assert.match(stderr, /^This removes Portcullis and its settings from https:/m);
    await cluster.admin.send('DELETE', `${approvers}/approvers`);
  });

  test('lists temporary grants, and deletes bindings of the roles for exceptions with the CRDs', async () => {
    const rbac = '/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings';
    const roleRef = {
      apiGroup: 'rbac.authorization.k8s.io',
      kind: 'ClusterRole',
      name: 'portcullis-approve-exceptions',
    };
    const name = 'portcullis:scc-until:anyuid:2030-01-01T00:00:00Z';
    const annotations = { 'portcullis.dev/grant-expires-at': '2030-01-01T00:00:00Z' };
    const objects = [
      { metadata: { name: 'approvers' }, roleRef },
      { metadata: { name, annotations }, roleRef: { ...roleRef, name: 'system:openshift:scc:anyuid' } },
    ];
    for (const object of objects) assert.equal((await cluster.admin.send('POST', rbac, object)).status, 201);
    const { stdout: kept } = await run(['--dry-run=server']);
    assert.deepEqual(
      kept.split('\n').filter((line) => /grant/.test(line) && line.startsWith('- ')),
      [
        '- 2 roles and bindings that grant the use of SCCs or of exceptions or of lower levels: portcullis uninstall --purge-crds',
        `- temporary grant ${name}, which no longer ends at 2030-01-01T00:00:00Z: kubectl -n default delete rolebindings ${name}`,
      ],
    );
    const { stdout: purged } = await run(['--yes', '--purge-crds']);
    assert.deepEqual(
      purged.split('\n').filter((line) => /in namespace default/.test(line)),
      ['approvers', name].map((one) => `rolebindings.rbac.authorization.k8s.io/${one} in namespace default deleted`),
    );
    assert.doesNotMatch(purged, /temporary grant/);
  });

  test('sets the status of the settings and of the rollout to report that nothing is enforced', async () => {
    const kinds = [
      ['/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations', 'Applied'],
      ['/apis/config.openshift.io/v1alpha1/psaenforcementconfigs', 'Enforcing'],
    ] as const;
    const time = '2026-01-01T00:00:00Z';
    const condition = (type: string) => ({ type, status: 'True', reason: 'A', message: 'b', lastTransitionTime: time });
    const merge = { 'content-type': 'application/merge-patch+json' };
    for (const [path, type] of kinds) {
      const created = await cluster.admin.send('POST', path, { metadata: { name: 'cluster' }, spec: {} });
      assert.equal(created.status, 201, created.text);
      const status = { conditions: [condition(type), condition('Other')] };
      const answer = await cluster.admin.send('PATCH', `${path}/cluster/status`, { status }, merge);
      assert.equal(answer.status, 200, answer.text);
    }
    const { stdout } = await run(['--yes']);
    assert.deepEqual(stdout.match(/^.* condition .*$/gm), [
      'portcullisconfigurations.config.portcullis.dev/cluster condition Applied set to False',
      'psaenforcementconfigs.config.openshift.io/cluster condition Enforcing set to False',
    ]);
    for (const [path, type] of kinds) {
      const { status } = (await cluster.admin.send('GET', `${path}/cluster`)).body as PortcullisConfiguration;
      const conditions = status?.conditions?.map((one) => `${one.type} ${one.status} ${one.reason}: ${one.message}`);
      assert.deepEqual(conditions, [`${type} False Uninstalled: Portcullis is not installed`, 'Other True A: b']);
      await cluster.admin.send('DELETE', `${path}/cluster`);
    }
  });

  test('turns levels that only Portcullis enforces into upstream labels', async () => {
    const [OWN, UPSTREAM] = ['portcullis.dev/enforce', 'pod-security.kubernetes.io/enforce'];
    const namespaces: readonly (readonly [name: string, labels: Readonly<Record<string, string>>])[] = [
      ['vault', { [OWN]: 'restricted', [UPSTREAM]: 'privileged' }],
      ['plain', { [OWN]: 'baseline' }],
      ['stricter', { [OWN]: 'baseline', [UPSTREAM]: 'restricted' }],
      ['exempt', { [OWN]: 'restricted' }],
      ['synced', { [OWN]: 'baseline' }],
    ];
    const path = '/api/v1/namespaces';
    for (const [name, labels] of namespaces) await cluster.admin.send('POST', path, { metadata: { name, labels } });
    const metadata = { name: 'synced', labels: { [UPSTREAM]: 'restricted' } };
    const syncer = `${path}/synced?fieldManager=pod-security-admission-label-synchronization-controller`;
    const synced = { apiVersion: 'v1', kind: 'Namespace', metadata };
    const applied = await cluster.admin.send('PATCH', syncer, synced, {
      'content-type': 'application/apply-patch+yaml',
    });
    assert.equal(applied.status, 200, applied.text);
    const configuration = '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations';
    const spec = { podSecurity: { exemptions: { namespaces: ['exempt'] } } };
    await cluster.admin.send('POST', configuration, { metadata: { name: 'cluster' }, spec });
    const raised = (suffix: string): readonly string[] => [
      `namespaces/plain label ${UPSTREAM}=baseline, because ${OWN}=baseline no longer applies, set${suffix}`,
      `namespaces/synced label ${UPSTREAM}=baseline, because ${OWN}=baseline no longer applies, set${suffix}`,
      `namespaces/vault label ${UPSTREAM}=restricted, because ${OWN}=restricted no longer applies, set${suffix}`,
    ];
    const level = async (name: string): Promise<unknown> => {
      const { metadata } = (await cluster.admin.send('GET', `${path}/${name}`)).body as Namespace;
      return metadata?.labels?.[UPSTREAM];
    };
    const { stdout: planned } = await run(['--dry-run=server']);
    assert.deepEqual(planned.match(/^.* no longer applies.*$/gm), raised(' (server dry run)'));
    assert.equal(await level('vault'), 'privileged');
    const { stdout, code } = await run(['--yes', '--purge-crds']);
    assert.equal(code, 0, stdout);
    assert.deepEqual(stdout.match(/^.* no longer applies.*$/gm), raised(''));
    const levels = await Promise.all(namespaces.map(async ([name]) => [name, await level(name)]));
    assert.deepEqual(levels, [
      ['vault', 'restricted'],
      ['plain', 'baseline'],
      ['stricter', 'restricted'],
      ['exempt', undefined],
      ['synced', 'baseline'],
    ]);
    assert.match(
      stdout,
      /^- labels portcullis\.dev\/enforce of exempt, plain, .*: kubectl label namespaces -l portcullis\.dev\/enforce portcullis\.dev\/enforce-$/m,
    );
    for (const [name] of namespaces) await cluster.admin.send('DELETE', `${path}/${name}`);
  });

  test('removes kubelet version conditions from nodes', async () => {
    const other = { key: 'team', effect: 'NoSchedule' };
    const taints = [{ key: 'portcullis.dev/kubelet-outdated', effect: 'NoSchedule' }, other];
    const metadata = { name: 'old', annotations: { 'example.com/a': 'b' } };
    const path = '/api/v1/nodes';
    const node = { apiVersion: 'v1', kind: 'Node', metadata, spec: { taints } };
    assert.equal((await cluster.admin.send('POST', path, node)).status, 201);
    const applied = async (at: string, fields: object): Promise<void> => {
      const object = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'old' }, ...fields };
      const type = { 'content-type': 'application/apply-patch+yaml' };
      const answer = await cluster.admin.send('PATCH', `${at}?fieldManager=kubelet-reporter`, object, type);
      assert.ok(answer.status < 300, answer.text);
    };
    const condition = { type: 'KubeletVersionBelowMinimum', status: 'True' };
    await applied(`${path}/old/status`, { status: { conditions: [condition] } });
    const annotations = { 'portcullis.dev/kubelet-version-state': 'outdated' };
    await applied(`${path}/old`, { metadata: { name: 'old', annotations } });
    const { stdout } = await run(['--yes']);
    assert.deepEqual(stdout.match(/^nodes\/.*$/gm), [
      'nodes/old kubelet version report removed',
      'nodes/old taint portcullis.dev/kubelet-outdated removed',
    ]);
    const { metadata: after, spec, status = {} } = (await cluster.admin.send('GET', `${path}/old`)).body as Node;
    assert.deepEqual([after?.annotations, spec?.taints], [metadata.annotations, [other]]);
    assert.deepEqual(status.conditions?.filter(({ type }) => type === condition.type) ?? [], []);
    await cluster.admin.send('DELETE', `${path}/old`);
  });

  describe('removes or keeps namespace labels and annotations:', () => {
    const [ENFORCE, AUDIT] = ['pod-security.kubernetes.io/enforce', 'pod-security.kubernetes.io/audit'];
    const LEVEL = 'security.openshift.io/MinimallySufficientPodSecurityStandard';
    const [UID, MCS] = ['openshift.io/sa.scc.uid-range', 'openshift.io/sa.scc.mcs'];
    const SYNCER = 'pod-security-admission-label-synchronization-controller';
    const ALLOCATOR = 'namespace-security-allocation-controller';
    const NAMES = ['own', 'shared', 'users'];

    const write = async (
      name: string,
      manager: string,
      fields: KubeObject['metadata'],
      type: string,
    ): Promise<void> => {
      const object = { apiVersion: 'v1', kind: 'Namespace', metadata: { name, ...fields } };
      const path = `/api/v1/namespaces/${name}?fieldManager=${manager}`;
      const { status, text } = await cluster.admin.send('PATCH', path, object, { 'content-type': type });
      assert.ok(status < 300, text);
    };
    const apply = (name: string, manager: string, fields: KubeObject['metadata']): Promise<void> =>
      write(name, manager, fields, 'application/apply-patch+yaml');
    const update = (name: string, manager: string, fields: KubeObject['metadata']): Promise<void> =>
      write(name, manager, fields, 'application/merge-patch+json');
    const read = async (): Promise<readonly unknown[]> =>
      await Promise.all(
        NAMES.map(async (name) => {
          const { metadata } = (await cluster.admin.send('GET', `/api/v1/namespaces/${name}`)).body as KubeObject;
          const labels = Object.entries(metadata?.labels ?? {}).filter(([key]) => !key.startsWith('kubernetes.io/'));
          return [Object.fromEntries(labels), metadata?.annotations ?? {}];
        }),
      );

    beforeEach(async () => {
      for (const name of NAMES) await apply(name, 'creator', {});
      const labels = { [ENFORCE]: 'baseline', [AUDIT]: 'baseline' };
      const annotations = { [LEVEL]: 'baseline' };
      for (const name of ['own', 'shared']) await apply(name, SYNCER, { labels, annotations });
      await apply('shared', 'gitops', { labels: { [ENFORCE]: 'baseline', team: 'a' } });
      await apply('users', 'gitops', { labels: { [ENFORCE]: 'restricted', 'portcullis.dev/scc': 'enforce' } });
      await update('own', ALLOCATOR, { annotations: { [UID]: '1/1', [MCS]: 's0' } });
      await update('users', 'kubectl', { annotations: { [UID]: '2/1', 'portcullis.dev/temporary-grants': '[]' } });
    });
    after(async () => {
      for (const name of NAMES) await cluster.admin.send('DELETE', `/api/v1/namespaces/${name}`);
    });

    const BEFORE = [
      [
        { [ENFORCE]: 'baseline', [AUDIT]: 'baseline' },
        { [LEVEL]: 'baseline', [UID]: '1/1', [MCS]: 's0' },
      ],
      [{ [ENFORCE]: 'baseline', [AUDIT]: 'baseline', team: 'a' }, { [LEVEL]: 'baseline' }],
      [
        { [ENFORCE]: 'restricted', 'portcullis.dev/scc': 'enforce' },
        { [UID]: '2/1', 'portcullis.dev/temporary-grants': '[]' },
      ],
    ];
    const REMAIN_IN_NAMESPACES = [
      '- labels portcullis.dev/scc of users: kubectl label namespaces -l portcullis.dev/scc portcullis.dev/scc-',
      '- annotation portcullis.dev/temporary-grants of users: kubectl annotate namespaces users portcullis.dev/temporary-grants-',
      '- annotations openshift.io/sa.scc.* that Portcullis set on own: kubectl annotate namespaces own openshift.io/sa.scc.uid-range- openshift.io/sa.scc.supplemental-groups- openshift.io/sa.scc.mcs-',
    ];
    const KEPT = '- Pod Security labels that Portcullis set on own, shared: portcullis uninstall';
    const cases: readonly {
      readonly name: string;
      readonly args: readonly string[];
      readonly result: readonly unknown[];
      readonly remains: readonly string[];
    }[] = [
      {
        name: 'only Pod Security labels set by Portcullis are removed',
        args: [],
        result: [
          [{}, { [UID]: '1/1', [MCS]: 's0' }],
          [{ [ENFORCE]: 'baseline', team: 'a' }, {}],
          [
            { [ENFORCE]: 'restricted', 'portcullis.dev/scc': 'enforce' },
            { [UID]: '2/1', 'portcullis.dev/temporary-grants': '[]' },
          ],
        ],
        remains: [DEFINITIONS_REMAIN, ...REMAIN_IN_NAMESPACES],
      },
      {
        name: '--keep-labels keeps the Pod Security labels',
        args: ['--keep-labels'],
        result: BEFORE,
        remains: [DEFINITIONS_REMAIN, KEPT, ...REMAIN_IN_NAMESPACES],
      },
      {
        name: '--keep-policies keeps the Pod Security labels',
        args: ['--keep-policies'],
        result: BEFORE,
        remains: [DEFINITIONS_REMAIN, KEPT, ...REMAIN_IN_NAMESPACES],
      },
      {
        name: '--purge-crds keeps ranges, and labels and annotations set by users',
        args: ['--purge-crds'],
        result: [
          [{}, { [UID]: '1/1', [MCS]: 's0' }],
          [{ [ENFORCE]: 'baseline', team: 'a' }, {}],
          [
            { [ENFORCE]: 'restricted', 'portcullis.dev/scc': 'enforce' },
            { [UID]: '2/1', 'portcullis.dev/temporary-grants': '[]' },
          ],
        ],
        remains: REMAIN_IN_NAMESPACES,
      },
    ];
    for (const { name, args, result, remains } of cases) {
      test(name, async () => {
        const list = (stdout: string): readonly string[] => stdout.slice(stdout.indexOf(REMAIN)).trim().split('\n');
        const dry = await run(['--dry-run=server', ...args]);
        assert.deepEqual(list(dry.stdout), [REMAIN, ...remains, NAMESPACE_REMAINS]);
        assert.deepEqual(await read(), BEFORE);
        const { code, stdout } = await run(['--yes', ...args]);
        assert.deepEqual(list(stdout), [REMAIN, ...remains, NAMESPACE_REMAINS]);
        assert.equal(code, 0, stdout);
        assert.deepEqual(await read(), result);
      });
    }

    test('deletes mutating webhooks after the labels, so the leader cannot restore the labels', async () => {
      const { stdout } = await run(['--yes']);
      const steps = [
        ...REMOVED.slice(0, REMOVED.indexOf(WAITING) + 1),
        `namespaces/own labels owned by ${SYNCER} removed`,
        `namespaces/shared labels owned by ${SYNCER} removed`,
        'Waiting 0 s for API servers to observe the label changes.',
        ...MUTATING,
      ];
      assert.deepEqual(stdout.split('\n').slice(0, steps.length), steps);
    });
  });

  test('removes Pod Security labels that break-glass relaxed', async () => {
    const labels = {
      'pod-security.kubernetes.io/enforce': 'privileged',
      'portcullis.dev/break-glass-enforce': 'restricted',
    };
    const relaxed = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'relaxed', labels } };
    const path = '/api/v1/namespaces/relaxed';
    const apply = { 'content-type': 'application/apply-patch+yaml' };
    await cluster.admin.send('PATCH', `${path}?fieldManager=portcullis-break-glass`, relaxed, apply);
    const { stdout } = await run(['--yes']);
    assert.match(stdout, /^namespaces\/relaxed labels owned by portcullis-break-glass removed$/m);
    const { body } = await cluster.admin.send('GET', path);
    assert.deepEqual((body as Namespace).metadata?.labels, { 'kubernetes.io/metadata.name': 'relaxed' });
    await cluster.admin.send('DELETE', path);
  });

  test('deletes the floor policies before the webhooks, starting with the bindings', async () => {
    const apiVersion = 'admissionregistration.k8s.io/v1';
    const name = 'floor.enforce-baseline.psa.portcullis.dev';
    const labels = { 'app.kubernetes.io/part-of': 'portcullis', 'app.kubernetes.io/component': 'floor' };
    for (const kind of POLICY_KINDS) await create({ apiVersion, kind, metadata: { name, labels } });
    const floor = POLICY_KINDS.toReversed().map((kind) => `${resourceName(kind)}/${name} deleted`);
    const expected = [...REVOKED, ...floor, ...REMOVED.slice(REVOKED.length)];
    const plan = await run(['--dry-run=client']);
    assert.equal(plan.stdout.match(/^\S+\/floor\..* deleted \(dry run\)$/gm)?.length, 2);
    assert.deepEqual(await run(['--yes']), {
      code: 0,
      stdout: lines(...expected, ...REMAINS),
      stderr: '',
    });
  });

  describe(
    'has the same result as the kubectl commands in the section',
    { skip: !hasKubectl && 'there is no kubectl' },
    () => {
      const commands = (heading: string): string => {
        const script = readCommands('docs/how-to/uninstall.md', heading).join('');
        return script.replaceAll('portcullis uninstall', 'portcullis uninstall --yes --wait=0s').replace('sleep 5', '');
      };
      const cases: readonly (readonly [heading: string, left: readonly string[]])[] = [
        ['Keep plain Pod Security labels', ['namespace/payments']],
        ['Manual uninstallation', []],
      ];
      for (const [heading, left] of cases) {
        test(heading, async () => {
          await create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'payments' } });
          const { code, stdout, stderr } = await runScript(commands(heading), kubeconfig);
          assert.equal(code, 0, `${stdout}${stderr}`);
          const kinds =
            'validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,clusterrolebindings';
          const part = '-l app.kubernetes.io/part-of=portcullis -o name';
          const remaining = await runScript(`kubectl get ${kinds} ${part}`, kubeconfig);
          assert.deepEqual(remaining, { code: 0, stdout: '', stderr: '' });
          const label = 'kubectl get namespaces -l pod-security.kubernetes.io/enforce=baseline -o name';
          assert.deepEqual((await runScript(label, kubeconfig)).stdout, lines(...left));
          await cluster.admin.send('DELETE', '/api/v1/namespaces/payments');
        });
      }
    },
  );

  test('keeps SCCs if another product has installed their CRD', async () => {
    const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
    const ops = [{ op: 'remove', path: '/metadata/labels/app.kubernetes.io~1part-of' }];
    const type = { 'content-type': 'application/json-patch+json' };
    await cluster.admin.send('PATCH', `${path}/securitycontextconstraints.security.openshift.io`, ops, type);
    const { code, stdout } = await run(['--yes', '--purge-crds']);
    const kept = 'SCCs and their roles are kept, because the SCC CRD belongs to another product.';
    const scc =
      'customresourcedefinitions.apiextensions.k8s.io/securitycontextconstraints.security.openshift.io deleted';
    const own = deleted('apiextensions.k8s.io', 'CustomResourceDefinition').filter((line) => line !== scc);
    assert.equal(stdout, lines(...REMOVED, kept, ...own, REMAIN, NAMESPACE_REMAINS));
    assert.equal(code, 0);
    await cluster.admin.send('DELETE', `${path}/securitycontextconstraints.security.openshift.io`);
  });
});

describe('uninstall deletes nothing', () => {
  const [hook] = INSTALLED.filter(({ kind }) => kind === 'ValidatingWebhookConfiguration');
  const KEPT =
    'All other objects are kept, because without them API servers would deny requests that match the webhooks.\n';
  /** Responds to lists of validating webhook configurations, and rejects every change. */
  const respond: Responder = (response, request) => {
    const isHook = request.url?.includes('/validatingwebhookconfigurations') === true;
    const answer =
      request.method === 'GET' ? list(...(isHook ? [hook] : [])) : refusal(403, 'User "jo" cannot delete it');
    answer(response, request);
  };
  const cases: readonly (readonly [name: string, respond: Responder, outcome: Outcome])[] = [
    [
      'if the cluster cannot be read',
      refusal(403, 'User "jo" cannot list them'),
      {
        code: 2,
        stdout: '',
        stderr: 'error: SERVER: User "jo" cannot list them\n',
      },
    ],
    [
      'if objects cannot be listed',
      (response, request) => {
        const isSecret = request.url?.includes('/secrets') === true;
        (isSecret ? refusal(403, 'User "jo" cannot list secrets') : respond)(response, request);
      },
      { code: 2, stdout: '', stderr: 'error: SERVER: User "jo" cannot list secrets\n' },
    ],
    [
      'if webhooks cannot be deleted',
      respond,
      {
        code: 1,
        stdout: `validatingwebhookconfigurations.admissionregistration.k8s.io/portcullis.dev not deleted: User "jo" cannot delete it\n${KEPT}`,
        stderr: '',
      },
    ],
  ];
  for (const [name, answer, outcome] of cases) {
    test(name, async (t) => {
      const server = await startScriptedServer();
      t.after(() => server.stop());
      server.respond(answer);
      const args = ['uninstall', '--yes', '--kubeconfig', await server.kubeconfig()];
      const { stderr, ...rest } = await runProgram(args);
      assert.deepEqual({ ...rest, stderr: stderr.replace(server.url, 'SERVER') }, outcome);
      assert.equal(
        server.requests.some(({ method }) => method === 'DELETE'),
        outcome.code === 1,
      );
      assert.deepEqual(
        server.requests.filter(({ method, url }) => method !== 'GET' && !url.includes('webhookconfigurations')),
        [],
      );
    });
  }
});
