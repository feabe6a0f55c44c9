/** The requests that the service account of the replicas may not send, although RBAC permits most of them. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { ALL_FEATURES } from '../../src/install/settings.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { STANDARD_CLUSTER_ROLES, STANDARD_SCCS } from '../../src/policy/scc/standard.ts';
import { responseMessage, responseObject } from '../support/answers.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { REPLICA_USER, startControlPlane, type ControlPlane } from '../support/control-plane/index.ts';
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
/** The message of a denial by the policy. */
const denied = (object: string, reason: string): string =>
  `${object} is forbidden: ValidatingAdmissionPolicy '${POLICY}' with binding '${POLICY}' denied request: ${reason}`;
/** The message of a denial by RBAC. */
const unauthorized = (verb: string, resource: string, group: string, name = ''): string =>
  `${resource}.${group}${name === '' ? '' : ` "${name}"`} is forbidden: User "${REPLICA_USER}" cannot ${verb} resource "${resource}" in API group "${group}" at the cluster scope`;
const names = (resource: string, list: readonly string[]): string =>
  `the replicas of Portcullis may write only these ${resource}: ${list.join(', ')}`;
const standard = (resource: string): string =>
  `the replicas of Portcullis may write ${resource} only with their standard content`;
const OTHER_CLIENT = 'webhooks of Portcullis may call only its replicas';
const OTHER_RESOURCES = 'webhooks of Portcullis may review only the resources of its features';
const KEYS =
  'the replicas of Portcullis may change only these labels and annotations of namespaces: olm.auto-labeler.managed, openshift.io/sa.scc.mcs, openshift.io/sa.scc.supplemental-groups, openshift.io/sa.scc.uid-range, pod-security.kubernetes.io/audit, pod-security.kubernetes.io/audit-version, pod-security.kubernetes.io/enforce, pod-security.kubernetes.io/enforce-version, pod-security.kubernetes.io/warn, pod-security.kubernetes.io/warn-version, portcullis.dev/break-glass-enforce, security.openshift.io/MinimallySufficientPodSecurityStandard, security.openshift.io/scc.podSecurityLabelSync';
const FIXED = 'the replicas of Portcullis may not change finalizers, owners or the spec of a namespace';
const VALIDATING = 'validatingwebhookconfigurations';
const MUTATING = 'mutatingwebhookconfigurations';
const BINDINGS = ['system:openshift:scc:restricted-v2', 'system:openshift:scc:restricted-v3'];

interface Case {
  readonly name: string;
  readonly verb?: 'create' | 'apply' | 'merge' | 'delete';
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

const CASES: readonly Case[] = [
  // Policies of API servers are not subject to policies: RBAC permits only their own names, by server-side apply.
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
    name: 'apply the mutating policy of defaults while spec.defaults is off',
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
    name: 'create a webhook configuration of another name',
    object: configuration('ValidatingWebhookConfiguration', 'evil', webhook(OWN_URL, PODS)),
    message: denied(
      `${VALIDATING}.${ADMISSION} "evil"`,
      names(VALIDATING, ['psa.portcullis.dev', 'scc.portcullis.dev']),
    ),
  },
  {
    name: 'send reviews to another server',
    object: configuration('MutatingWebhookConfiguration', 'olm.portcullis.dev', webhook('https://evil.example/', PODS)),
    message: denied(`${MUTATING}.${ADMISSION} "olm.portcullis.dev"`, OTHER_CLIENT),
  },
  {
    name: 'send reviews to another service',
    object: configuration('MutatingWebhookConfiguration', 'olm.portcullis.dev', {
      ...webhook('', PODS),
      clientConfig: { service: { namespace: 'shop', name: 'portcullis' } },
    }),
    message: denied(`${MUTATING}.${ADMISSION} "olm.portcullis.dev"`, OTHER_CLIENT),
  },
  {
    name: 'change Secrets',
    object: configuration('MutatingWebhookConfiguration', 'olm.portcullis.dev', webhook(OWN_URL, SECRETS)),
    message: denied(`${MUTATING}.${ADMISSION} "olm.portcullis.dev"`, OTHER_RESOURCES),
  },
  {
    name: 'review Secrets',
    object: configuration('ValidatingWebhookConfiguration', 'psa.portcullis.dev', webhook(OWN_URL, SECRETS)),
    message: denied(`${VALIDATING}.${ADMISSION} "psa.portcullis.dev"`, OTHER_RESOURCES),
  },
  {
    name: 'review tokens of users',
    object: configuration(
      'ValidatingWebhookConfiguration',
      'psa.portcullis.dev',
      webhook(OWN_URL, { apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'] }),
    ),
    message: denied(`${VALIDATING}.${ADMISSION} "psa.portcullis.dev"`, OTHER_RESOURCES),
  },
  {
    name: 'review all resources',
    object: configuration(
      'ValidatingWebhookConfiguration',
      'psa.portcullis.dev',
      webhook(OWN_URL, { apiGroups: ['*'], resources: ['*'] }),
    ),
    message: denied(`${VALIDATING}.${ADMISSION} "psa.portcullis.dev"`, OTHER_RESOURCES),
  },
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
    name: 'aggregate the use of an SCC to the role edit',
    object: useRole('system:openshift:scc:privileged', {
      metadata: {
        name: 'system:openshift:scc:privileged',
        labels: { 'rbac.authorization.k8s.io/aggregate-to-edit': 'true' },
      },
    }),
    message: denied(`clusterroles.${RBAC} "system:openshift:scc:privileged"`, standard('clusterroles')),
  },
  {
    name: 'grant another SCC by a standard role',
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
    name: 'create an SCC of another name',
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
  {
    name: 'delete a namespace by its owner',
    verb: 'merge',
    object: namespace({ ownerReferences: [{ apiVersion: 'v1', kind: 'Namespace', name: 'gone', uid: 'gone' }] }),
    message: denied('namespaces "shop"', FIXED),
  },
  {
    name: 'block the deletion of a namespace',
    verb: 'merge',
    object: namespace({ finalizers: ['example.org/hold'] }),
    message: denied('namespaces "shop"', FIXED),
  },
  {
    name: 'disable SCCs in a namespace',
    verb: 'merge',
    object: namespace({ labels: { 'portcullis.dev/scc': 'off' } }),
    message: denied('namespaces "shop"', KEYS),
  },
  {
    name: 'remove a label of another prefix',
    verb: 'merge',
    object: namespace({ labels: { team: null }, annotations: { 'example.org/a': 'b' } }),
    message: denied('namespaces "shop"', KEYS),
  },
];

suite('the service account of the replicas', () => {
  let plane: ControlPlane;
  before(async () => {
    plane = await startControlPlane();
    await apply(plane.admin, localObjects(PORT, { features: ALL_FEATURES }));
    await create(plane.admin, namespace({ labels: { team: 'a' } }));
    const probe = configuration('ValidatingWebhookConfiguration', 'probe');
    await eventually(async () => assert.match((await send({ name: '', object: probe, message: '' })).text, /denied/));
  });
  after(() => plane.stop());

  const send = async ({ verb = 'create', object }: Case): Promise<ApiResponse> => {
    const { collection, path } = await resolvePaths(plane.admin, object);
    if (verb === 'create') return await plane.admin.send('POST', collection, object, REPLICA);
    if (verb === 'delete') return await plane.admin.send('DELETE', path, undefined, REPLICA);
    const type = verb === 'merge' ? MERGE : APPLY;
    return await plane.admin.send('PATCH', `${path}?fieldManager=test`, object, { ...type, ...REPLICA });
  };

  test('environment', (t) => t.diagnostic(`ran against: ${plane.title}`));

  for (const one of CASES) {
    test(`may not ${one.name}`, async () => {
      const isReal = plane.which === 'kube-apiserver';
      assert.equal(responseMessage(await send(one)), (isReal ? one.byApiserver : undefined) ?? one.message);
    });
  }

  test('may change labels of Pod Security', async () => {
    const object = namespace({ labels: { 'pod-security.kubernetes.io/enforce': 'baseline' } });
    assert.equal((await send({ name: '', verb: 'merge', object, message: '' })).status, 200);
  });

  test('the policy denies nothing to other users', async () => {
    const object = namespace({ labels: { team: 'b' }, finalizers: [] });
    assert.equal((await plane.admin.send('PATCH', SHOP, object, MERGE)).status, 200);
    assert.equal(responseObject(await create(plane.admin, binding('other', 'view')))['kind'], 'ClusterRoleBinding');
  });
});
