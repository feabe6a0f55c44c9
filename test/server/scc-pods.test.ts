/**
 * Tests the SCC webhooks for pods (both passes) and for exec, including modes, denials, warnings, audit annotations and
 * metrics.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { matchesConditions } from '../../src/dev-cluster/match-conditions.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import { ApiError, createStatus, notFound, type Status } from '../../src/kube/status.ts';
import type { JsonObject, Pod, UserInfo } from '../../src/kube/types.ts';
import { createPodSecurity, DEFAULT_CONFIGURATION, type PodSecurityConfiguration } from '../../src/policy/psa/index.ts';
import { mayEnterEveryPod, type SccSettings, STANDARD_SCCS } from '../../src/policy/scc/index.ts';
import { CONNECT_PODS } from '../../src/server/webhooks/pods-connect.ts';
import { accessFromStore } from '../../src/views/access.ts';
import {
  ALICE,
  buildPod,
  createSccTestWebhooks,
  formatSccDenial,
  podRequest,
  RANGES,
  ROOT_DENIAL,
  ROOT_WARNINGS,
  type SccRigOptions,
  type SccTestWebhooks,
} from '../support/scc-webhooks.ts';

type Labels = Readonly<Record<string, string>>;

const ADMIN: UserInfo = { username: 'root', groups: ['system:masters'] };
const ROOT = buildPod({ runAsUser: 0 });
const UNKNOWN_MODE =
  'label portcullis.dev/scc: unknown mode "on", using "enforce"; must be one of enforce, report, off';
const OTHER_RESOURCE = { resource: { group: '', version: 'v1', resource: 'services' } };

/** The expected parts of a decision. */
interface Expected {
  readonly allowed: boolean;
  readonly message?: string;
  readonly warnings?: readonly string[];
  readonly facts?: object;
  /** The assigned SCC. Absent if the pod is unchanged. */
  readonly scc?: string;
}

function summarize(decision: Decision, request: AdmissionRequest): Expected {
  const { allowed, warnings = [], facts } = decision;
  const object = decision.allowed ? (decision.object as JsonObject | undefined) : undefined;
  const { annotations } = (object?.['metadata'] ?? {}) as { annotations?: Labels };
  const scc = object === request.object ? undefined : annotations?.['openshift.io/scc'];
  return {
    allowed,
    ...(decision.allowed ? {} : { message: decision.status.message }),
    ...(warnings.length === 0 ? {} : { warnings }),
    ...(facts === undefined ? {} : { facts }),
    ...(scc === undefined ? {} : { scc }),
  };
}

const UNCHANGED: Expected = { allowed: true };
const ASSIGNED: Expected = {
  allowed: true,
  scc: 'restricted-v2',
  facts: { scc: 'restricted-v2', subjectType: 'serviceaccount' },
};
const DENIED: Expected = { allowed: false, message: ROOT_DENIAL, warnings: ROOT_WARNINGS };
const REPORTED: Expected = {
  allowed: true,
  warnings: [
    'would be denied if security context constraints were enforced: unable to validate against any security context constraint',
    ...ROOT_WARNINGS,
  ],
  facts: { mode: 'report', verdict: 'deny', reason: ROOT_DENIAL },
};
const OFF = { 'portcullis.dev/scc': 'off' };
const REPORT = { 'portcullis.dev/scc': 'report' };
const ENFORCE = { 'portcullis.dev/scc': 'enforce' };

function createRig(settings: Partial<SccSettings> = {}, labels: Labels = {}): SccTestWebhooks {
  const rig = createSccTestWebhooks({ settings });
  for (const name of ['shop', 'kube-system']) {
    rig.store.put('Namespace', { metadata: { name, annotations: RANGES, labels } });
  }
  return rig;
}

suite('the webhook assigns an SCC, or reports it in report mode:', () => {
  const cases: readonly {
    readonly name: string;
    readonly path?: '/validate/pods';
    readonly settings?: Partial<SccSettings>;
    /** Labels of the namespace. */
    readonly labels?: Labels;
    readonly namespace?: string;
    readonly request?: Partial<AdmissionRequest>;
    readonly pod?: unknown;
    readonly expected: Expected;
  }[] = [
    { name: 'enforce mode denies a pod that no SCC admits', pod: ROOT, expected: DENIED },
    { name: 'enforce mode assigns an SCC', expected: ASSIGNED },
    {
      name: 'in report mode, /mutate/pods does not change the pod',
      settings: { mode: 'report' },
      pod: ROOT,
      expected: UNCHANGED,
    },
    {
      name: 'in report mode, /validate/pods warns that the pod would be denied',
      path: '/validate/pods',
      settings: { mode: 'report' },
      pod: ROOT,
      expected: REPORTED,
    },
    {
      name: 'in report mode with OpenShift compatibility, /validate/pods only warns with the denial',
      path: '/validate/pods',
      settings: { mode: 'report', compatibility: 'openshift' },
      pod: ROOT,
      expected: {
        ...REPORTED,
        warnings: [
          'would be denied if security context constraints were enforced: provider restricted-v2: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000660000, 1000669999]',
        ],
      },
    },
    {
      name: 'in report mode, /validate/pods allows a pod that would be assigned an SCC',
      path: '/validate/pods',
      settings: { mode: 'report' },
      expected: { allowed: true, facts: { mode: 'report', scc: 'restricted-v2', subjectType: 'serviceaccount' } },
    },
    {
      name: 'in report mode, /validate/pods warns if only the creator may use the SCC',
      path: '/validate/pods',
      settings: { mode: 'report' },
      pod: ROOT,
      request: { userInfo: ADMIN },
      expected: {
        allowed: true,
        warnings: [
          `SCC "anyuid" would admit the pod only because the pod's creator may use the SCC. Service account "default" may not use it, so such pods would fail when a controller creates them.`,
        ],
        facts: { mode: 'report', scc: 'anyuid', subjectType: 'user' },
      },
    },
    { name: 'off mode changes no pod', settings: { mode: 'off' }, pod: ROOT, expected: UNCHANGED },
    {
      name: 'off mode in the cluster overrides enforce mode in the label',
      settings: { mode: 'off' },
      labels: ENFORCE,
      pod: ROOT,
      expected: UNCHANGED,
    },
    { name: 'off mode in the label changes no pod', labels: OFF, pod: ROOT, expected: UNCHANGED },
    {
      name: 'report mode in the label, /validate/pods warns that the pod would be denied',
      path: '/validate/pods',
      labels: REPORT,
      pod: ROOT,
      expected: REPORTED,
    },
    {
      name: 'enforce mode in the label denies a pod although the cluster is in report mode',
      settings: { mode: 'report' },
      labels: ENFORCE,
      pod: ROOT,
      expected: DENIED,
    },
    {
      name: 'an unknown mode in the label denies a pod, with a warning',
      settings: { mode: 'report' },
      labels: { 'portcullis.dev/scc': 'on' },
      pod: ROOT,
      expected: { ...DENIED, warnings: [UNKNOWN_MODE, ...ROOT_WARNINGS] },
    },
    {
      name: 'an unknown mode in the label assigns an SCC, with a warning',
      labels: { 'portcullis.dev/scc': 'on' },
      expected: { ...ASSIGNED, warnings: [UNKNOWN_MODE] },
    },
    {
      name: 'a namespace that is exempt by default is not reviewed',
      namespace: 'kube-system',
      pod: ROOT,
      expected: UNCHANGED,
    },
    {
      name: 'a namespace that the settings exempt is not reviewed',
      settings: { exemptNamespaces: ['shop'] },
      labels: ENFORCE,
      pod: ROOT,
      expected: UNCHANGED,
    },
    {
      name: 'a namespace with a run level is not reviewed',
      labels: { 'openshift.io/run-level': '0' },
      pod: ROOT,
      expected: UNCHANGED,
    },
    { name: 'another resource is not reviewed', request: OTHER_RESOURCE, expected: UNCHANGED },
    {
      name: 'pods of another API group are not reviewed',
      request: { resource: { group: 'metrics.k8s.io', version: 'v1', resource: 'pods' } },
      expected: UNCHANGED,
    },
    { name: 'a subresource without a pod is not reviewed', request: { subResource: 'eviction' }, expected: UNCHANGED },
    { name: 'a Windows pod is not reviewed', pod: buildPod({}, { os: { name: 'windows' } }), expected: UNCHANGED },
    {
      name: 'an object that is not a pod is denied',
      pod: 7,
      expected: { allowed: false, message: 'object was marked as kind pod but was unable to be converted: 7' },
    },
    {
      name: 'a required SCC that does not exist is a denial',
      pod: { ...buildPod(), metadata: { name: 'web', annotations: { 'openshift.io/required-scc': 'none' } } },
      expected: {
        allowed: false,
        message:
          'failed to retrieve the required SCC "none": securitycontextconstraints.security.openshift.io "none" not found',
        warnings: [
          'Annotation openshift.io/required-scc requires SCC "none", which does not exist. Existing SCCs: anyuid, hostaccess, hostmount-anyuid, hostmount-anyuid-v2, hostnetwork, hostnetwork-v2, nested-container, nonroot, nonroot-v2, privileged, restricted and 2 more.',
        ],
      },
    },
  ];
  for (const { name, path = '/mutate/pods', settings, labels, namespace = 'shop', ...one } of cases) {
    test(name, async () => {
      const { request: change, pod = buildPod(), expected } = one;
      const request = podRequest(pod, { namespace, ...change });
      const decision = await createRig(settings, labels).decide(path, request);
      assert.deepEqual(summarize(decision, request), expected);
      if (!decision.allowed) assert.deepEqual([decision.status.code, decision.status.reason], [403, 'Forbidden']);
    });
  }

  test('a denial contains the name of the pod or the prefix of its generated name', async () => {
    const prefixed = { ...ROOT, metadata: { generateName: 'web-', namespace: 'shop' } };
    const cases = [
      [podRequest(ROOT), 'web'],
      [podRequest(ROOT, { name: '' }), 'web'],
      [podRequest(prefixed, { name: '' }), 'web-'],
      [podRequest({ ...ROOT, metadata: {} }, { name: '' }), 'Unknown'],
    ] as const;
    for (const [request, name] of cases) {
      const decision = await createRig().decide('/mutate/pods', request);
      assert.deepEqual(decision.allowed ? undefined : decision.status.details, { name, kind: 'pods' });
    }
  });

  test('in report mode, an audit annotation that OpenShift does not set contains the mode', async () => {
    const openshift = { reason: '"restricted-v2" is the only one not too restrictive and not denied' };
    const cases = [
      ['portcullis', { denied: 'anyuid', ...openshift, mode: 'report' }],
      ['openshift', { denied: 'anyuid', ...openshift }],
    ] as const;
    for (const [compatibility, expected] of cases) {
      const rig = createRig({ mode: 'report', compatibility });
      assert.deepEqual((await rig.decide('/validate/pods', podRequest(buildPod()))).auditAnnotations, {
        'enforce-policy': 'privileged:latest',
        ...expected,
      });
    }
  });
});

suite('/validate/pods reviews the assigned SCC:', () => {
  /** Returns the pod with the changes of the first pass. */
  async function assignedPod(
    rig: SccTestWebhooks,
  ): Promise<{ readonly spec: { readonly containers: readonly object[] } }> {
    const decision = await rig.decide('/mutate/pods', podRequest(buildPod()));
    assert.ok(decision.allowed);
    return decision.object as ReturnType<typeof assignedPod>;
  }
  const labeled = { metadata: { name: 'web', namespace: 'shop', labels: { a: 'b' } } };
  const cases: readonly {
    readonly name: string;
    readonly labels?: Labels;
    readonly request: (rig: SccTestWebhooks) => AdmissionRequest | Promise<AdmissionRequest>;
    readonly message?: RegExp;
    readonly warnings?: readonly string[];
    readonly facts?: object;
  }[] = [
    {
      name: 'an assigned pod',
      request: async (rig) => podRequest(await assignedPod(rig)),
      facts: { scc: 'restricted-v2', subjectType: 'serviceaccount' },
    },
    {
      name: 'an assigned pod with a privileged container added by another webhook',
      async request(rig) {
        const pod = await assignedPod(rig);
        const added = { name: 'evil', securityContext: { privileged: true } };
        return podRequest({ ...pod, spec: { ...pod.spec, containers: [...pod.spec.containers, added] } });
      },
      message:
        /^unable to validate against any security context constraint: \[.*provider restricted-v2: \.containers\[1\]\.privileged: Invalid value: true: Privileged containers are not allowed .*\]$/,
      warnings: [
        'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[1].securityContext.privileged=true.',
        'SCC "privileged" would admit the pod if service account "default" were allowed to use it. Bind ClusterRole "system:openshift:scc:privileged".',
      ],
    },
    {
      name: 'a pod without an assigned SCC',
      request: () => podRequest(buildPod()),
      message: /^unable to validate against any security context constraint: \[/,
    },
    {
      name: 'an SCC other than the required SCC',
      request() {
        const annotations = { 'openshift.io/required-scc': 'anyuid', 'openshift.io/scc': 'restricted-v2' };
        return podRequest({ ...buildPod(), metadata: { name: 'web', annotations } });
      },
      message: /^required scc\/anyuid does not match the suggested scc\/restricted-v2$/,
    },
    { name: 'label off', labels: OFF, request: () => podRequest(buildPod({ privileged: true })) },
    {
      name: 'a label added to a pod without an assigned SCC',
      request: () => podRequest({ ...buildPod(), ...labeled }, { operation: 'UPDATE', oldObject: buildPod() }),
    },
    { name: 'another resource', request: () => podRequest({}, OTHER_RESOURCE) },
  ];
  for (const { name, labels, request, message, warnings, facts } of cases) {
    test(name, async () => {
      const rig = createRig({}, labels);
      const decision = await rig.decide('/validate/pods', await request(rig));
      assert.equal(decision.allowed, message === undefined);
      if (decision.allowed) assert.equal(decision.object, undefined);
      else {
        assert.match(decision.status.message, message ?? /^$/);
        assert.deepEqual([decision.status.code, decision.status.reason], [403, 'Forbidden']);
      }
      if (warnings) assert.deepEqual(decision.warnings, warnings);
      assert.deepEqual(decision.facts, facts);
    });
  }

  test('validations are counted in metrics', async () => {
    const rig = createRig();
    await rig.decide('/validate/pods', podRequest(await assignedPod(rig)));
    await rig.decide('/validate/pods', podRequest(buildPod()));
    assert.deepEqual(await rig.series('portcullis_scc_validations_total'), [
      'portcullis_scc_validations_total{operation="create",mode="enforce",decision="allow",scc="restricted-v2",subject_type="serviceaccount"} 1',
      'portcullis_scc_validations_total{operation="create",mode="enforce",decision="deny",scc="",subject_type=""} 1',
    ]);
  });
});

suite('/connect/pods reviews exec and attach:', () => {
  const root = buildPod({ runAsUser: 0 }, { name: 'root' });
  const debugged = buildPod(
    {},
    { ephemeralContainers: [{ name: 'debug', image: 'i', securityContext: { privileged: true } }] },
  );
  /** Builds a request from Alice to open a stream to a container. */
  const connect = (name: string, change: Partial<AdmissionRequest> = {}): AdmissionRequest => {
    const options = { kind: 'PodExecOptions', apiVersion: 'v1', command: ['sh'] };
    return podRequest(options, { name, operation: 'CONNECT', subResource: 'exec', ...change });
  };
  const denial = (operation: string): string =>
    `${operation} operation is not allowed because the pod's security context exceeds your permissions: pods "root" is forbidden: ${ROOT_DENIAL}`;
  const forbidden = (message: string) => ({ code: 403, reason: 'Forbidden', message });
  /** Result of the GET request for the pod. The store contains both pods. */
  const get = (result: (signal?: AbortSignal) => Promise<unknown>): SccRigOptions => ({
    cluster: { get: (_kind, _name, _namespace, signal) => result(signal) as Promise<never> },
  });
  const cases: readonly {
    readonly name: string;
    readonly rig?: SccRigOptions;
    readonly labels?: Labels;
    readonly request: AdmissionRequest;
    readonly timeoutMs?: number;
    /** The message of the denial. Absent if the request is allowed. */
    readonly status?: Pick<Status, 'code' | 'reason' | 'message'>;
    readonly warnings?: readonly string[];
    readonly facts?: object;
  }[] = [
    {
      name: 'a pod that does not exist',
      request: connect('none'),
      status: { code: 404, reason: 'NotFound', message: 'pods "none" not found' },
    },
    { name: 'a pod that does not exist, label report', labels: REPORT, request: connect('none') },
    {
      name: 'an error of the API server',
      rig: get(() => Promise.reject(new ApiError(createStatus(500, 'InternalError', 'etcdserver: request timed out')))),
      request: connect('web'),
      status: forbidden('failed to get pod: etcdserver: request timed out'),
    },
    {
      name: 'an error of the API server, label report',
      rig: get(() => Promise.reject(new Error('connect ECONNREFUSED 127.0.0.1:6443'))),
      labels: REPORT,
      request: connect('web'),
    },
    {
      name: 'an unreachable API server',
      rig: get(() => Promise.reject(new Error('connect ECONNREFUSED 127.0.0.1:6443'))),
      request: connect('web'),
      status: forbidden('failed to get pod: connect ECONNREFUSED 127.0.0.1:6443'),
    },
    {
      name: 'an API server that does not respond within the timeout of the review',
      rig: get((signal) => pause(60_000, undefined, { signal })),
      request: connect('web'),
      timeoutMs: 800,
      status: forbidden('failed to get pod: no response within 0.3 s'),
    },
    {
      name: 'a response that is not the pod',
      rig: get(() => Promise.resolve({ kind: 'Status', apiVersion: 'v1', status: 'Success' })),
      request: connect('web'),
      status: forbidden('failed to get pod: the response is not the pod'),
    },
    {
      name: 'a name that forms another API path',
      rig: get(() => Promise.reject(new Error('unexpected request'))),
      request: connect('..'),
      status: { code: 404, reason: 'NotFound', message: 'pods ".." not found' },
    },
    {
      name: 'a pod that was deleted, but is in the store',
      rig: get(() => Promise.reject(new ApiError(notFound({ group: '', resource: 'pods' }, 'web')))),
      request: connect('web'),
      status: { code: 404, reason: 'NotFound', message: 'pods "web" not found' },
    },
    {
      name: 'a pod with an ephemeral container that is not in the store',
      rig: get(() => Promise.resolve(debugged)),
      request: connect('web'),
      status: forbidden(
        `exec operation is not allowed because the pod's security context exceeds your permissions: pods "web" is forbidden: ${formatSccDenial(
          [
            'provider restricted-v2: .ephemeralContainers[0].privileged: Invalid value: true: Privileged containers are not allowed',
            'provider restricted-v3: .spec.hostUsers: Invalid value: null: Host Users must be set to false',
            'provider restricted-v3: .ephemeralContainers[0].privileged: Invalid value: true: Privileged containers are not allowed',
          ],
        )}`,
      ),
      warnings: [
        'The closest usable SCC is "restricted-v2". It does not allow: spec.ephemeralContainers[0].securityContext.privileged=true.',
        'SCC "privileged" would admit the pod if service account "default" were allowed to use it. Bind ClusterRole "system:openshift:scc:privileged".',
      ],
    },
    {
      name: 'exec into a pod with more permissions',
      request: connect('root'),
      status: forbidden(denial('exec')),
      warnings: ROOT_WARNINGS,
    },
    {
      name: 'attach to a pod with more permissions',
      request: connect('root', { subResource: 'attach' }),
      status: forbidden(denial('attach')),
      warnings: ROOT_WARNINGS,
    },
    {
      name: 'exec into a pod with more permissions, label report',
      labels: REPORT,
      request: connect('root'),
      warnings: [
        `would be denied if security context constraints were enforced: exec operation is not allowed because the pod's security context exceeds your permissions: pods "root" is forbidden: unable to validate against any security context constraint`,
        ...ROOT_WARNINGS,
      ],
      facts: { mode: 'report', verdict: 'deny', reason: denial('exec') },
    },
    { name: 'label off', labels: OFF, request: connect('root') },
    {
      name: 'a user who may create the pod',
      request: connect('root', { userInfo: ADMIN }),
      facts: { scc: 'anyuid', subjectType: 'user' },
    },
    {
      name: 'a pod that its service account may create',
      request: connect('web'),
      facts: { scc: 'restricted-v2', subjectType: 'serviceaccount' },
    },
    { name: 'portforward', request: connect('root', { subResource: 'portforward' }) },
    { name: 'another operation', request: connect('root', { operation: 'CREATE' }) },
    { name: 'another resource', request: connect('root', OTHER_RESOURCE) },
  ];
  for (const { name, rig: options, labels, request, timeoutMs, status, warnings = [], facts } of cases) {
    test(name, async () => {
      const rig = createSccTestWebhooks(options);
      rig.putNamespace(labels);
      for (const pod of [root, buildPod()]) rig.store.put('Pod', pod as unknown as Pod);
      const decision = await rig.decide('/connect/pods', request, timeoutMs);
      assert.equal(decision.allowed, status === undefined);
      if (decision.allowed) assert.equal(decision.object, undefined);
      else {
        const { code, reason, message } = decision.status;
        assert.deepEqual({ code, reason, message }, status);
      }
      assert.deepEqual(decision.warnings ?? [], warnings);
      assert.deepEqual(decision.facts, facts);
    });
  }

  suite('API servers skip exec reviews for users of the privileged SCC only if the reviews would be allowed:', () => {
    const bound = { username: 'bound', groups: ['system:authenticated'] };
    const pod = buildPod({ runAsUser: 0 });
    const annotations = { 'openshift.io/required-scc': 'missing' };
    const requiring = { ...pod, metadata: { ...pod.metadata, annotations } };
    const standard = STANDARD_SCCS.find(({ scc }) => scc.metadata?.name === 'privileged')?.scc;
    const without = (change: object) => ({ ...standard, ...change });
    const cases: readonly {
      readonly name: string;
      readonly pod?: ReturnType<typeof buildPod>;
      /** The SCC `privileged`. If null, it does not exist. */
      readonly scc?: object | null;
      readonly settings?: SccRigOptions['settings'];
      readonly labels?: Labels;
      readonly ranges?: boolean;
      readonly userInfo?: typeof bound;
      /** True if the API server skips the webhook. */
      readonly isSkipped: boolean;
      readonly isAllowed: boolean;
    }[] = [
      { name: 'a pod that anyuid admits', isSkipped: true, isAllowed: true },
      { name: 'a pod with a privileged container', pod: debugged, isSkipped: true, isAllowed: true },
      { name: 'a pod that requires an SCC that does not exist', pod: requiring, isSkipped: true, isAllowed: true },
      { name: 'a namespace without ranges', ranges: false, isSkipped: true, isAllowed: true },
      {
        name: 'a privileged SCC with other users and groups',
        scc: without({ users: [], groups: ['x'] }),
        isSkipped: true,
        isAllowed: true,
      },
      { name: 'a missing privileged SCC', scc: null, isSkipped: false, isAllowed: false },
      {
        name: 'a privileged SCC that does not allow something that the pod does not need',
        scc: without({ allowHostPID: false }),
        isSkipped: false,
        isAllowed: true,
      },
      {
        name: 'a privileged SCC that does not allow what the pod needs',
        pod: debugged,
        scc: without({ allowPrivilegedContainer: false }),
        isSkipped: false,
        isAllowed: false,
      },
      {
        name: 'a pod that requires an SCC that does not exist, and a changed privileged SCC',
        pod: requiring,
        scc: without({ allowHostPID: false }),
        isSkipped: false,
        isAllowed: false,
      },
      {
        name: 'a pod that requires an SCC that does not exist, in OpenShift compatibility mode',
        pod: requiring,
        settings: { compatibility: 'openshift' },
        isSkipped: false,
        isAllowed: false,
      },
      {
        name: 'a user who may not use the privileged SCC',
        userInfo: { ...bound, username: 'eve' },
        isSkipped: false,
        isAllowed: false,
      },
      {
        name: 'a namespace in report mode',
        labels: REPORT,
        userInfo: { ...bound, username: 'eve' },
        isSkipped: false,
        isAllowed: true,
      },
      {
        name: 'a user with a binding in another namespace',
        userInfo: { ...bound, username: 'other' },
        isSkipped: false,
        isAllowed: false,
      },
    ];
    const bind = (namespace: string, name: string) => ({
      metadata: { name: 'privileged', namespace },
      roleRef: {
        apiGroup: 'rbac.authorization.k8s.io',
        kind: 'ClusterRole',
        name: 'system:openshift:scc:privileged',
      },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name }],
    });
    for (const { name, pod = root, scc, settings, labels, ranges = true, userInfo = bound, ...expected } of cases) {
      test(`${name}: ${expected.isSkipped ? 'skipped' : expected.isAllowed ? 'allowed' : 'denied'}`, async () => {
        const rig = createSccTestWebhooks(settings ? { settings } : {});
        const { store } = rig;
        rig.putNamespace(labels);
        if (!ranges) store.put('Namespace', { metadata: { name: 'shop' } });
        store.put('Pod', pod as unknown as Pod);
        if (scc === null) store.remove('SecurityContextConstraints', 'privileged');
        else if (scc) store.put('SecurityContextConstraints', scc);
        store.put('RoleBinding', bind('shop', 'bound'));
        store.put('RoleBinding', bind('elsewhere', 'other'));
        const request = connect(String(pod.metadata.name), { userInfo });
        const current = store.get('SecurityContextConstraints', 'privileged');
        const isRegistered = mayEnterEveryPod({ compatibility: settings?.compatibility ?? 'portcullis' }, current);
        const conditions = CONNECT_PODS.matchConditions as unknown as readonly JsonObject[];
        const isSkipped =
          isRegistered && matchesConditions(conditions, { ...request }, accessFromStore(store)) === false;
        const { allowed } = await rig.decide('/connect/pods', request, 100);
        assert.deepEqual({ isSkipped, isAllowed: allowed }, expected);
        // The match condition does not change any verdict.
        assert.ok(!isSkipped || allowed);
      });
    }
  });

  test('OpenShift compatibility mode sets no audit annotations', async () => {
    for (const mode of ['enforce', 'report'] as const) {
      const rig = createSccTestWebhooks({ settings: { mode, compatibility: 'openshift' } });
      rig.putNamespace();
      rig.store.put('Pod', root as unknown as Pod);
      for (const userInfo of [ADMIN, ALICE]) {
        const { allowed, auditAnnotations } = await rig.decide('/connect/pods', connect('root', { userInfo }));
        assert.deepEqual([allowed, auditAnnotations], [userInfo === ADMIN || mode === 'report', {}]);
      }
    }
  });

  test('decisions are counted in metrics, and have audit annotations', async () => {
    const rig = createRig();
    rig.store.put('Pod', root as unknown as Pod);
    await rig.decide('/connect/pods', connect('root'));
    const { auditAnnotations } = await rig.decide(
      '/connect/pods',
      connect('root', { subResource: 'attach', userInfo: ADMIN }),
    );
    assert.deepEqual(auditAnnotations, {
      denied: '',
      reason:
        '"anyuid" is most restrictive, not denied, and chosen over "hostmount-anyuid" because "anyuid" has higher priority',
    });
    assert.deepEqual(await rig.series('portcullis_scc_decisions_total'), [
      'portcullis_scc_decisions_total{operation="exec",mode="enforce",decision="deny",scc="",subject_type=""} 1',
      'portcullis_scc_decisions_total{operation="attach",mode="enforce",decision="allow",scc="anyuid",subject_type="user"} 1',
    ]);
  });
});

test('portcullis_scc_decisions_total counts decisions by mode, operation and SCC', async () => {
  const rig = createRig();
  const requests: readonly AdmissionRequest[] = [
    podRequest(buildPod()),
    podRequest(buildPod()),
    podRequest(ROOT),
    podRequest(buildPod({}, { os: { name: 'windows' } })),
    podRequest(buildPod({}, { name: 'old' }), { operation: 'UPDATE', oldObject: buildPod({ privileged: false }) }),
    podRequest(buildPod(), { namespace: 'kube-system' }),
  ];
  for (const request of requests) await rig.decide('/mutate/pods', request);
  rig.putNamespace(REPORT);
  await rig.decide('/validate/pods', podRequest(ROOT));
  const series = (rest: string, count: number): string => `portcullis_scc_decisions_total{${rest}} ${count}`;
  assert.deepEqual(await rig.series('portcullis_scc_decisions_total'), [
    series('operation="create",mode="enforce",decision="allow",scc="restricted-v2",subject_type="serviceaccount"', 2),
    series('operation="create",mode="enforce",decision="deny",scc="",subject_type=""', 1),
    series('operation="create",mode="enforce",decision="skip",scc="",subject_type=""', 1),
    series('operation="update",mode="enforce",decision="deny",scc="",subject_type=""', 1),
    series('operation="create",mode="report",decision="deny",scc="",subject_type=""', 1),
  ]);
});

suite(
  'the validating webhook admits or denies a new pod whose mutating call failed, because the floor may decide:',
  () => {
    const limited = { 'pod-security.kubernetes.io/enforce': 'baseline' };
    const exemptions = { usernames: ['alice'], namespaces: [], runtimeClasses: ['kata'] };
    const defaults = { ...DEFAULT_CONFIGURATION.defaults, enforce: 'baseline' };
    const named = { ...ROOT, metadata: { ...ROOT.metadata, annotations: { 'openshift.io/scc': 'restricted-v2' } } };
    const update = { ...podRequest(ROOT), operation: 'UPDATE', oldObject: buildPod({}) } as const;
    type Case = readonly [
      name: string,
      options: SccRigOptions,
      labels: Labels,
      request: AdmissionRequest,
      expected: boolean,
    ];
    const open = { failsOpen: true };
    const exempting = (lists: Partial<PodSecurityConfiguration['exemptions']>): SccRigOptions => ({
      ...open,
      podSecurity: createPodSecurity({
        ...DEFAULT_CONFIGURATION,
        exemptions: { ...exemptions, usernames: [], ...lists },
      }),
    });
    const cases: readonly Case[] = [
      ['webhooks fail closed', {}, limited, podRequest(ROOT), false],
      ['the level in the label limits pods', open, limited, podRequest(ROOT), true],
      [
        'the default level limits pods',
        { ...open, podSecurity: createPodSecurity({ ...DEFAULT_CONFIGURATION, defaults }) },
        {},
        podRequest(ROOT),
        true,
      ],
      ['no level limits pods', open, {}, podRequest(ROOT), false],
      [
        'the namespace is privileged',
        open,
        { 'pod-security.kubernetes.io/enforce': 'privileged' },
        podRequest(ROOT),
        false,
      ],
      ['the pod already names an SCC', open, limited, podRequest(named), false],
      ['the operation is an update', open, limited, update, false],
      ['exemptions exist, but do not apply', exempting({}), limited, podRequest(ROOT), true],
      ['the user is exempt', exempting({ usernames: ['alice'] }), limited, podRequest(ROOT), false],
      [
        'the runtime class is exempt',
        exempting({}),
        limited,
        podRequest({ ...ROOT, spec: { ...ROOT.spec, runtimeClassName: 'kata' } }),
        false,
      ],
      ['the namespace is exempt', exempting({ namespaces: ['shop'] }), limited, podRequest(ROOT), false],
    ];
    for (const [name, options, labels, request, expected] of cases) {
      test(`${expected ? 'admitted' : 'denied'} if ${name}`, async () => {
        const rig = createSccTestWebhooks(options);
        rig.putNamespace(labels);
        assert.equal((await rig.decide('/validate/pods', request)).allowed, expected);
      });
    }
  },
);
