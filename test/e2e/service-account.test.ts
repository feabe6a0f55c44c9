/** Tests requests that the service account of the replicas may not send, although RBAC permits most of them. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ALL_FEATURES, defaultSettings } from '../../src/install/settings.ts';
import { staticWebhookConfigurations } from '../../src/install/webhooks.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import { objectPath, resourcePath } from '../../src/kube/resources.ts';
import type { JsonObject, ObjectMeta } from '../../src/kube/types.ts';
import { STANDARD_CLUSTER_ROLES, STANDARD_SCCS } from '../../src/policy/scc/index.ts';
import { objectMetadata, responseMessage, responseObject } from '../support/answers.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { REPLICA_USER, useControlPlane } from '../support/control-plane/index.ts';
import { apply, create, localObjects, resolvePaths } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';

const PORT = 8443;
const REPLICA = { 'Impersonate-User': REPLICA_USER };
const MERGE = { 'content-type': 'application/merge-patch+json' };
const APPLY = { 'content-type': 'application/apply-patch+yaml' };
const ADMISSION = 'admissionregistration.k8s.io';
const RBAC = 'rbac.authorization.k8s.io';
const SHOP = '/api/v1/namespaces/shop';

const STRANGER = { apiGroup: RBAC, kind: 'User', name: 'mallory' };
const binding = (name: string, role: string, subject: JsonObject = STRANGER): JsonObject => ({
  apiVersion: `${RBAC}/v1`,
  kind: 'ClusterRoleBinding',
  metadata: { name },
  roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: role },
  subjects: [subject],
});
const webhook = (url: string, rule: JsonObject): JsonObject => ({
  name: 'x.portcullis.dev',
  clientConfig: { url },
  rules: [{ apiVersions: ['v1'], operations: ['CREATE'], ...rule }],
  sideEffects: 'None',
  admissionReviewVersions: ['v1'],
});
const podsOf = (...matchExpressions: readonly JsonObject[]): JsonObject => ({
  ...webhook(OWN_URL, PODS),
  namespaceSelector: { matchExpressions },
});
const byName = (operator: 'In' | 'NotIn', ...values: readonly string[]): JsonObject => ({
  key: 'kubernetes.io/metadata.name',
  operator,
  values,
});
const PODS = { apiGroups: [''], resources: ['pods'] };
const SECRETS = { apiGroups: [''], resources: ['secrets'] };
const OWN_URL = `https://127.0.0.1:${PORT}/`;
const configuration = (kind: string, name: string, ...webhooks: readonly JsonObject[]): JsonObject => ({
  apiVersion: `${ADMISSION}/v1`,
  kind,
  metadata: { name },
  webhooks,
});
const mutation = (name: string): JsonObject => ({
  apiVersion: `${ADMISSION}/v1`,
  kind: 'MutatingAdmissionPolicy',
  metadata: { name },
  spec: {
    reinvocationPolicy: 'Never',
    matchConstraints: {
      resourceRules: [
        { apiGroups: [RBAC], apiVersions: ['v1'], operations: ['UPDATE'], resources: ['clusterrolebindings'] },
      ],
    },
    mutations: [
      {
        patchType: 'JSONPatch',
        jsonPatch: { expression: `[JSONPatch{op: "add", path: "/subjects/-", value: object.subjects[0]}]` },
      },
    ],
  },
});
const secret = (name: string, type: string): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name, namespace: 'portcullis', annotations: { 'kubernetes.io/service-account.name': 'portcullis' } },
  type,
});
const [SCC] = STANDARD_SCCS.map(({ scc }) => scc as unknown as JsonObject);
const standardScc = (name: string, change: JsonObject): JsonObject => ({
  ...(STANDARD_SCCS.find(({ scc }) => scc.metadata?.name === name)?.scc as unknown as JsonObject),
  ...change,
});
const useRole = (name: string, change: JsonObject): JsonObject => ({
  ...(STANDARD_CLUSTER_ROLES.find(({ metadata }) => metadata?.name === name) as unknown as JsonObject),
  ...change,
});

const POLICY = 'portcullis-service-account';
/** Returns the message of a denial by the policy. */
const denied = (object: string, reason: string): string =>
  `${object} is forbidden: ValidatingAdmissionPolicy '${POLICY}' with binding '${POLICY}' denied request: ${reason}`;
/** Returns the message of a denial by RBAC. */
const unauthorized = (verb: string, resource: string, group: string, name = ''): string =>
  `${resource}.${group}${name === '' ? '' : ` "${name}"`} is forbidden: User "${REPLICA_USER}" cannot ${verb} resource "${resource}" in API group "${group}" at the cluster scope`;
const names = (resource: string, list: readonly string[]): string =>
  `the replicas of Portcullis may write only these ${resource}: ${list.join(', ')}`;
const standard = (resource: string): string =>
  `the replicas of Portcullis may write ${resource} only with their standard content`;
const OTHER_CLIENT = 'Portcullis webhooks may call only Portcullis replicas';
const OTHER_RESOURCES = 'Portcullis webhooks may review only the resources of Portcullis features';
const KEYS =
  'the replicas of Portcullis may change only these labels and annotations of namespaces: olm.auto-labeler.managed, openshift.io/sa.scc.mcs, openshift.io/sa.scc.supplemental-groups, openshift.io/sa.scc.uid-range, pod-security.kubernetes.io/audit, pod-security.kubernetes.io/audit-version, pod-security.kubernetes.io/enforce, pod-security.kubernetes.io/enforce-version, pod-security.kubernetes.io/warn, pod-security.kubernetes.io/warn-version, portcullis.dev/break-glass-enforce, portcullis.dev/temporary-grants, security.openshift.io/MinimallySufficientPodSecurityStandard, security.openshift.io/scc.podSecurityLabelSync';
const FIXED = 'the replicas of Portcullis may not change finalizers, owners or the spec of a namespace';
const INCLUDED = 'mutating Portcullis webhooks must exclude the namespaces kube-system and portcullis';
const NODE_KEYS =
  'the replicas of Portcullis may change only these labels and annotations of nodes: portcullis.dev/kubelet-version-state';
const REPORTED =
  'the replicas of Portcullis may change only the condition KubeletVersionBelowMinimum and the taint portcullis.dev/kubelet-outdated of nodes';
const VALIDATING = 'validatingwebhookconfigurations';
const MUTATING = 'mutatingwebhookconfigurations';
const BINDINGS = ['system:openshift:scc:restricted-v2', 'system:openshift:scc:restricted-v3'];

interface Case {
  readonly name: string;
  readonly verb?: 'create' | 'apply' | 'merge' | 'merge status' | 'delete';
  readonly object: JsonObject;
  readonly message: string;
  /** The message of kube-apiserver, if it differs. */
  readonly byApiserver?: string;
}

const namespace = (metadata: JsonObject): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name: 'shop', ...metadata },
});

const READY = { type: 'Ready', status: 'True', reason: 'KubeletReady', message: '' };
const STATUS = { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }], conditions: [READY] };
const NODE: JsonObject = {
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'worker', labels: { zone: 'a' } },
  spec: { taints: [{ key: 'dedicated', effect: 'NoSchedule' }] },
};
const node = (change: JsonObject): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'worker' },
  ...change,
});
const OUTDATED = { key: 'portcullis.dev/kubelet-outdated', effect: 'NoSchedule' };

/** Webhooks that select pods in kube-system or in the installation namespace. */
const TOO_WIDE: Readonly<Record<string, readonly JsonObject[]>> = {
  'all namespaces': [webhook(OWN_URL, PODS)],
  'the namespace kube-system': [podsOf(byName('In', 'kube-system'))],
  'all namespaces except the installation namespace': [podsOf(byName('NotIn', 'portcullis'))],
  'all namespaces except kube-system': [podsOf(byName('NotIn', 'kube-system', 'shop'))],
  'namespaces by another label': [podsOf({ ...byName('NotIn', 'kube-system', 'portcullis'), key: 'name' })],
  'all namespaces through a second webhook': [
    podsOf(byName('NotIn', 'kube-system', 'portcullis')),
    { ...webhook(OWN_URL, PODS), name: 'y.portcullis.dev' },
  ],
  'all namespaces, and SCCs': [
    {
      ...webhook(OWN_URL, {
        apiGroups: ['security.openshift.io', ''],
        resources: ['securitycontextconstraints', 'pods'],
      }),
    },
  ],
};

/** Rules for resources that no Portcullis webhook reviews, by resource and configuration name. */
const OTHER_RULES: readonly (readonly [name: string, resource: string, configuration: string, rule: JsonObject])[] = [
  ['change Secrets', MUTATING, 'zz.portcullis.dev', SECRETS],
  ['review Secrets', VALIDATING, 'portcullis.dev', SECRETS],
  [
    'review tokens of users',
    VALIDATING,
    'portcullis.dev',
    { apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'] },
  ],
  ['review all resources', VALIDATING, 'portcullis.dev', { apiGroups: ['*'], resources: ['*'] }],
];

const OWNERS = [{ apiVersion: 'v1', kind: 'Namespace', name: 'gone', uid: 'gone' }];

const NAMESPACE_CHANGES: readonly (readonly [name: string, change: JsonObject, reason: string])[] = [
  ['delete a namespace through its owner', { ownerReferences: OWNERS }, FIXED],
  ['block the deletion of a namespace', { finalizers: ['example.org/hold'] }, FIXED],
  ['disable SCCs in a namespace', { labels: { 'portcullis.dev/scc': 'off' } }, KEYS],
  ['remove a label that has another prefix', { labels: { team: null }, annotations: { 'example.org/a': 'b' } }, KEYS],
];

/** Changes to a node. Changes to the status and to labels are sent to the status subresource. */
const NODE_CHANGES: readonly (readonly [name: string, change: JsonObject, reason?: string])[] = [
  [
    'redirect the connections of API servers to another address of a kubelet',
    { status: { addresses: [{ type: 'InternalIP', address: '192.0.2.2' }] } },
  ],
  ['change the port of a kubelet', { status: { daemonEndpoints: { kubeletEndpoint: { Port: 1 } } } }],
  ['report that a node is not ready', { status: { conditions: [{ ...READY, status: 'False' }] } }],
  [
    'label a node in a status update',
    { metadata: { name: 'worker', labels: { 'node-role.kubernetes.io/control-plane': '' } } },
    NODE_KEYS,
  ],
  ['remove a taint owned by another client', { spec: { taints: [OUTDATED] } }],
  [
    'evict the pods of a node',
    {
      spec: {
        taints: [
          { key: 'dedicated', effect: 'NoSchedule' },
          { ...OUTDATED, effect: 'NoExecute' },
        ],
      },
    },
  ],
  ['mark a node as unschedulable', { spec: { unschedulable: true } }],
];

const CASES: readonly Case[] = [
  // Admission policies do not apply to admission policies, so RBAC permits the replicas to write only policies with the
  // names of Portcullis, through server-side apply.
  {
    name: 'create a mutating policy',
    object: mutation('evil'),
    message: unauthorized('create', 'mutatingadmissionpolicies', ADMISSION),
  },
  {
    name: 'apply a mutating policy',
    verb: 'apply',
    object: mutation('evil'),
    message: unauthorized('patch', 'mutatingadmissionpolicies', ADMISSION, 'evil'),
  },
  {
    name: 'apply the mutating policy for defaults while spec.defaults is off',
    verb: 'apply',
    object: mutation('defaults.portcullis.dev'),
    message: unauthorized('patch', 'mutatingadmissionpolicies', ADMISSION, 'defaults.portcullis.dev'),
  },
  {
    name: 'delete the policy that limits the service account',
    verb: 'delete',
    object: { apiVersion: `${ADMISSION}/v1`, kind: 'ValidatingAdmissionPolicy', metadata: { name: POLICY } },
    message: unauthorized('delete', 'validatingadmissionpolicies', ADMISSION, POLICY),
  },
  {
    name: 'delete its binding',
    verb: 'delete',
    object: { apiVersion: `${ADMISSION}/v1`, kind: 'ValidatingAdmissionPolicyBinding', metadata: { name: POLICY } },
    message: unauthorized('delete', 'validatingadmissionpolicybindings', ADMISSION, POLICY),
  },
  {
    name: 'create a webhook configuration with another name',
    object: configuration('ValidatingWebhookConfiguration', 'evil', webhook(OWN_URL, PODS)),
    message: denied(`${VALIDATING}.${ADMISSION} "evil"`, names(VALIDATING, ['portcullis.dev'])),
  },
  {
    name: 'send reviews to another server',
    object: configuration('MutatingWebhookConfiguration', 'zz.portcullis.dev', webhook('https://evil.example/', PODS)),
    message: denied(`${MUTATING}.${ADMISSION} "zz.portcullis.dev"`, OTHER_CLIENT),
  },
  {
    name: 'send reviews to another service',
    object: configuration('MutatingWebhookConfiguration', 'zz.portcullis.dev', {
      ...webhook('', PODS),
      clientConfig: { service: { namespace: 'shop', name: 'portcullis' } },
    }),
    message: denied(`${MUTATING}.${ADMISSION} "zz.portcullis.dev"`, OTHER_CLIENT),
  },
  ...OTHER_RULES.map(([name, resource, configurationName, rule]) => ({
    name,
    object: configuration(
      resource === MUTATING ? 'MutatingWebhookConfiguration' : 'ValidatingWebhookConfiguration',
      configurationName,
      webhook(OWN_URL, rule),
    ),
    message: denied(`${resource}.${ADMISSION} "${configurationName}"`, OTHER_RESOURCES),
  })),
  ...Object.entries(TOO_WIDE).map(([which, webhooks]) => ({
    name: `change the pods of ${which}`,
    object: configuration('MutatingWebhookConfiguration', 'zz.portcullis.dev', ...webhooks),
    message: denied(`${MUTATING}.${ADMISSION} "zz.portcullis.dev"`, INCLUDED),
  })),
  {
    name: 'bind cluster-admin',
    object: binding('evil', 'cluster-admin'),
    message: denied(`clusterrolebindings.${RBAC} "evil"`, names('clusterrolebindings', BINDINGS)),
    // The development cluster does not prevent the escalation of privileges.
    byApiserver: `clusterrolebindings.${RBAC} "evil" is forbidden: user "${REPLICA_USER}" (groups=["system:serviceaccounts" "system:serviceaccounts:portcullis" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}`,
  },
  {
    name: 'bind its own role to another user',
    object: binding('evil', 'portcullis-standard-sccs'),
    message: denied(`clusterrolebindings.${RBAC} "evil"`, names('clusterrolebindings', BINDINGS)),
  },
  {
    name: 'bind its own role to another user under a standard name',
    object: binding('system:openshift:scc:restricted-v2', 'portcullis-standard-sccs'),
    message: denied(
      `clusterrolebindings.${RBAC} "system:openshift:scc:restricted-v2"`,
      standard('clusterrolebindings'),
    ),
  },
  {
    name: 'aggregate the use of an SCC to the edit role',
    object: useRole('system:openshift:scc:privileged', {
      metadata: {
        name: 'system:openshift:scc:privileged',
        labels: { 'rbac.authorization.k8s.io/aggregate-to-edit': 'true' },
      },
    }),
    message: denied(`clusterroles.${RBAC} "system:openshift:scc:privileged"`, standard('clusterroles')),
  },
  {
    name: 'grant another SCC through a standard role',
    object: useRole('system:openshift:scc:restricted-v2', {
      rules: [
        {
          apiGroups: ['security.openshift.io'],
          resources: ['securitycontextconstraints'],
          resourceNames: ['privileged'],
          verbs: ['use'],
        },
      ],
    }),
    message: denied(`clusterroles.${RBAC} "system:openshift:scc:restricted-v2"`, standard('clusterroles')),
  },
  {
    name: 'delete a standard role through its owner',
    object: useRole('system:openshift:scc:anyuid', {
      metadata: { name: 'system:openshift:scc:anyuid', ownerReferences: OWNERS },
    }),
    message: denied(`clusterroles.${RBAC} "system:openshift:scc:anyuid"`, standard('clusterroles')),
  },
  {
    name: 'block the deletion of a standard SCC',
    object: standardScc('privileged', { metadata: { name: 'privileged', finalizers: ['example.org/hold'] } }),
    message: denied(
      'securitycontextconstraints.security.openshift.io "privileged"',
      standard('securitycontextconstraints'),
    ),
  },
  {
    name: 'create an SCC with another name',
    object: { ...SCC, metadata: { name: 'evil' } },
    message: denied(
      'securitycontextconstraints.security.openshift.io "evil"',
      names(
        'securitycontextconstraints',
        STANDARD_SCCS.map(({ scc }) => scc.metadata?.name ?? ''),
      ),
    ),
  },
  {
    name: 'grant the privileged SCC to all users in the SCC',
    object: standardScc('privileged', { groups: ['system:authenticated'] }),
    message: denied(
      'securitycontextconstraints.security.openshift.io "privileged"',
      standard('securitycontextconstraints'),
    ),
  },
  {
    name: 'create a token of a service account',
    object: secret('portcullis-serving-certificate', 'kubernetes.io/service-account-token'),
    message: denied(
      'secrets "portcullis-serving-certificate"',
      'the replicas of Portcullis may create only Secrets of the type Opaque',
    ),
  },
  {
    name: 'create another Secret',
    object: secret('other', 'Opaque'),
    message: denied('secrets "other"', names('secrets', ['portcullis-serving-certificate'])),
  },
  {
    name: 'create another ConfigMap',
    object: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'other', namespace: 'portcullis' } },
    message: denied('configmaps "other"', names('configmaps', ['portcullis-pod-security'])),
  },
  ...NAMESPACE_CHANGES.map(([name, change, reason]) => ({
    name,
    verb: 'merge' as const,
    object: namespace(change),
    message: denied('namespaces "shop"', reason),
  })),
  ...NODE_CHANGES.map(([name, change, reason = REPORTED]) => ({
    name,
    verb: 'status' in change || 'metadata' in change ? ('merge status' as const) : ('merge' as const),
    object: node(change),
    message: denied('nodes "worker"', reason),
  })),
  {
    name: 'delete a grant that does not expire',
    verb: 'delete',
    object: { apiVersion: `${RBAC}/v1`, kind: 'ClusterRoleBinding', metadata: { name: 'cluster-admin' } },
    message: denied(
      `clusterrolebindings.${RBAC} "cluster-admin"`,
      'the replicas of Portcullis may delete only standard bindings and bindings from "scc grant --for"',
    ),
  },
  {
    name: 'delete a node through its owner',
    verb: 'merge',
    object: node({ metadata: { name: 'worker', ownerReferences: OWNERS } }),
    message: denied('nodes "worker"', REPORTED),
  },
];

/** Settings whose webhook configurations the policy permits. */
const SETTINGS: Readonly<Record<string, JsonObject>> = {
  defaults: {},
  'enforced SCCs': { scc: { mode: 'enforce' } },
  'no exemptions': {
    scc: { mode: 'enforce', exemptNamespaces: [] },
    defaults: { mode: 'apply' },
    podSecurity: { defaults: { enforce: 'restricted' } },
    rollout: { phase: 'Disabled' },
    olm: { hardening: { mode: 'force' } },
    kubelet: { minimumVersion: '1.30.0', admission: { certificates: true, nodeWrites: true } },
  },
  'a namespace selector': {
    defaults: { mode: 'apply', namespaceSelector: { matchLabels: { defaults: 'apply' } } },
    scc: { mode: 'report', exemptNamespaces: ['shop'] },
    olm: { hardening: { mode: 'report' } },
  },
};

suite('the service account of the replicas', async () => {
  const plane = await useControlPlane();
  await apply(plane.admin, localObjects(PORT, { features: ALL_FEATURES, policy: { kubelet: { taint: true } } }));
  await create(plane.admin, namespace({ labels: { team: 'a' } }));
  await create(plane.admin, NODE);
  // API servers add a taint to new nodes.
  await plane.admin.send('PATCH', '/api/v1/nodes/worker', node({ spec: NODE['spec'] }), MERGE);
  await plane.admin.send('PATCH', '/api/v1/nodes/worker/status', node({ status: STATUS }), MERGE);

  const send = async ({ verb = 'create', object }: Case): Promise<ApiResponse> => {
    // API servers authorize a request before they look up the resource.
    const kind = object['kind'] as Kind;
    const { name = '', namespace: where = 'default' } = objectMetadata(object) as ObjectMeta;
    const [collection, path] = [resourcePath(kind, where), objectPath(kind, name, where)];
    if (verb === 'create') return await plane.admin.send('POST', collection, object, REPLICA);
    if (verb === 'delete') return await plane.admin.send('DELETE', path, undefined, REPLICA);
    const type = verb === 'apply' ? APPLY : MERGE;
    const target = verb === 'merge status' ? `${path}/status` : path;
    return await plane.admin.send('PATCH', `${target}?fieldManager=test`, object, { ...type, ...REPLICA });
  };
  const probe = configuration('ValidatingWebhookConfiguration', 'probe');
  await eventually(async () => assert.match((await send({ name: '', object: probe, message: '' })).text, /denied/));

  for (const one of CASES) {
    test(`may not ${one.name}`, async () => {
      const isReal = plane.which === 'kube-apiserver';
      assert.equal(responseMessage(await send(one)), (isReal ? one.byApiserver : undefined) ?? one.message);
    });
  }

  for (const [name, policy] of Object.entries(SETTINGS)) {
    test(`may register webhooks for settings with ${name}`, async () => {
      const settings = { ...defaultSettings('1.0.0'), features: ALL_FEATURES, policy };
      const configurations = staticWebhookConfigurations({ ...settings, webhooks: { url: OWN_URL.slice(0, -1) } });
      assert.ok(configurations.some(({ kind }) => kind === 'MutatingWebhookConfiguration'));
      for (const object of configurations as unknown as readonly JsonObject[]) {
        const { collection } = await resolvePaths(plane.admin, object);
        const answer = await plane.admin.send('POST', `${collection}?dryRun=All`, object, REPLICA);
        assert.equal(answer.status, 201, answer.text);
      }
    });
  }

  test('may report the kubelet version of a node, and taint the node', async () => {
    const report = { type: 'KubeletVersionBelowMinimum', status: 'True', reason: 'KubeletOutdated', message: 'old' };
    const status = node({ status: { conditions: [{ ...report, lastTransitionTime: '2026-01-01T00:00:00Z' }] } });
    const path = '/api/v1/nodes/worker';
    const apply = { ...APPLY, ...REPLICA };
    const answers = [
      await plane.admin.send('PATCH', `${path}/status?fieldManager=test&force=true`, status, apply),
      await plane.admin.send(
        'PATCH',
        `${path}/status?fieldManager=test&force=true`,
        node({ status: { conditions: [] } }),
        apply,
      ),
      await send({
        name: '',
        verb: 'merge',
        object: node({
          metadata: { name: 'worker', annotations: { 'portcullis.dev/kubelet-version-state': 'outdated' } },
          spec: { taints: [{ key: 'dedicated', effect: 'NoSchedule' }, OUTDATED] },
        }),
        message: '',
      }),
    ];
    for (const { status: code, text } of answers) assert.equal(code, 200, text);
  });

  test('may change Pod Security labels', async () => {
    const object = namespace({ labels: { 'pod-security.kubernetes.io/enforce': 'baseline' } });
    assert.equal((await send({ name: '', verb: 'merge', object, message: '' })).status, 200);
  });

  test('is restricted by a policy that does not restrict other users', async () => {
    const object = namespace({ labels: { team: 'b' }, finalizers: [] });
    assert.equal((await plane.admin.send('PATCH', SHOP, object, MERGE)).status, 200);
    assert.equal(responseObject(await create(plane.admin, binding('other', 'view')))['kind'], 'ClusterRoleBinding');
  });
});
