import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import { ApiError, createStatus, type Status } from '../../src/kube/status.ts';
import type { Pod, UserInfo } from '../../src/kube/types.ts';
import { createSccRig, podOf, podRequest, RANGES, type SccRigOptions } from '../support/scc-webhooks.ts';

const ADMIN: UserInfo = { username: 'root', groups: ['system:masters'] };
const ROOT = podOf({ runAsUser: 0 }, { name: 'root' });

/** Alice asks for a stream into a container. */
function connect(name: string, change: Partial<AdmissionRequest> = {}): AdmissionRequest {
  const options = { kind: 'PodExecOptions', apiVersion: 'v1', command: ['sh'] };
  return podRequest(options, { name, operation: 'CONNECT', subResource: 'exec', ...change });
}

interface ExecCase {
  readonly name: string;
  readonly rig?: SccRigOptions;
  readonly labels?: Readonly<Record<string, string>>;
  readonly request: AdmissionRequest;
  /** The refusal; absent where it is allowed. */
  readonly status?: Pick<Status, 'code' | 'reason' | 'message'>;
  readonly warnings?: readonly string[];
  readonly facts?: object;
}

const whyNot = (operation: string, name: string): string =>
  `${operation} operation is not allowed because the pod's security context exceeds your permissions: pods "${name}" is forbidden: unable to validate against any security context constraint: [provider "anyuid": Forbidden: not usable by user or serviceaccount, provider restricted-v2: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000660000, 1000669999], provider restricted-v3: .spec.hostUsers: Invalid value: null: Host Users must be set to false, provider restricted-v3: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000, 65534], ${[
    'restricted',
    'nested-container',
    'nonroot-v2',
    'nonroot',
    'hostmount-anyuid',
    'hostmount-anyuid-v2',
    'hostnetwork-v2',
    'hostnetwork',
    'hostaccess',
    'privileged',
  ]
    .map((scc) => `provider "${scc}": Forbidden: not usable by user or serviceaccount`)
    .join(', ')}]`;
const ADVICE = [
  'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.runAsUser=0.',
  'SCC "anyuid" would admit the pod if service account "default" were granted its use: bind ClusterRole "system:openshift:scc:anyuid".',
];
const forbidden = (message: string): NonNullable<ExecCase['status']> => ({ code: 403, reason: 'Forbidden', message });
const get = (answer: () => Promise<unknown>): SccRigOptions => ({
  cluster: { get: () => answer() as Promise<never> },
});

const CASES: readonly ExecCase[] = [
  {
    name: 'a pod that does not exist',
    request: connect('none'),
    status: { code: 404, reason: 'NotFound', message: 'pods "none" not found' },
  },
  {
    name: 'a pod that does not exist, where SCCs are only reported',
    labels: { 'portcullis.dev/scc': 'report' },
    request: connect('none'),
  },
  {
    name: 'a pod that cannot be read',
    rig: get(() => Promise.reject(new ApiError(createStatus(500, 'InternalError', 'etcdserver: request timed out')))),
    request: connect('none'),
    status: forbidden('failed to get pod: etcdserver: request timed out'),
  },
  {
    name: 'a pod that cannot be asked for',
    rig: get(() => Promise.reject(new Error('connect ECONNREFUSED 127.0.0.1:6443'))),
    request: connect('none'),
    status: forbidden('failed to get pod: connect ECONNREFUSED 127.0.0.1:6443'),
  },
  {
    name: 'a pod that the store lacks and the cluster has',
    rig: get(() => Promise.resolve(ROOT)),
    request: connect('root'),
    status: forbidden(whyNot('exec', 'root')),
    warnings: ADVICE,
  },
  {
    name: 'into a pod with more rights',
    request: connect('root'),
    status: forbidden(whyNot('exec', 'root')),
    warnings: ADVICE,
  },
  {
    name: 'attached to a pod with more rights',
    request: connect('root', { subResource: 'attach' }),
    status: forbidden(whyNot('attach', 'root')),
    warnings: ADVICE,
  },
  {
    name: 'into a pod with more rights, where SCCs are only reported',
    labels: { 'portcullis.dev/scc': 'report' },
    request: connect('root'),
    warnings: [
      `would be refused if security context constraints were enforced: exec operation is not allowed because the pod's security context exceeds your permissions: pods "root" is forbidden: unable to validate against any security context constraint`,
      ...ADVICE,
    ],
    facts: { mode: 'report', verdict: 'deny', reason: whyNot('exec', 'root') },
  },
  { name: 'off', labels: { 'portcullis.dev/scc': 'off' }, request: connect('root') },
  {
    name: 'by somebody who could create the pod',
    request: connect('root', { userInfo: ADMIN }),
    facts: { scc: 'anyuid', subjectType: 'user' },
  },
  {
    name: 'into a pod that its service account could have',
    request: connect('web'),
    facts: { scc: 'restricted-v2', subjectType: 'serviceaccount' },
  },
  { name: 'a port of the pod', request: connect('root', { subResource: 'portforward' }) },
  { name: 'the pod itself', request: connect('root', { operation: 'CREATE' }) },
  {
    name: 'another resource',
    request: connect('root', { resource: { group: '', version: 'v1', resource: 'services' } }),
  },
];

suite('streams into containers', () => {
  for (const { name, rig: options, labels = {}, request, status, warnings = [], facts } of CASES) {
    test(name, async () => {
      const rig = createSccRig(options);
      rig.store.put('Namespace', { metadata: { name: 'shop', annotations: RANGES, labels } });
      for (const pod of options?.cluster ? [] : [ROOT, podOf()]) rig.store.put('Pod', pod as unknown as Pod);
      const decision = await rig.ask('/scc/exec', request);
      assert.equal(decision.allowed, status === undefined);
      if (decision.allowed) assert.equal(decision.object, undefined, 'the options of the stream are not changed');
      else {
        const { code, reason, message } = decision.status;
        assert.deepEqual({ code, reason, message }, status);
      }
      assert.deepEqual(decision.warnings ?? [], warnings);
      assert.deepEqual(decision.facts, facts);
    });
  }

  test('into a pod of the store: answered at once', () => {
    const rig = createSccRig();
    rig.store.put('Namespace', { metadata: { name: 'shop', annotations: RANGES } });
    rig.store.put('Pod', ROOT as unknown as Pod);
    assert.ok(!(rig.ask('/scc/exec', connect('root')) instanceof Promise));
  });

  test('what is counted', async () => {
    const rig = createSccRig();
    rig.store.put('Namespace', { metadata: { name: 'shop', annotations: RANGES } });
    rig.store.put('Pod', ROOT as unknown as Pod);
    void rig.ask('/scc/exec', connect('root'));
    void rig.ask('/scc/exec', connect('root', { subResource: 'attach', userInfo: ADMIN }));
    assert.deepEqual(await rig.series('portcullis_scc_decisions_total'), [
      'portcullis_scc_decisions_total{operation="exec",mode="enforce",decision="deny",scc="",subject_type=""} 1',
      'portcullis_scc_decisions_total{operation="attach",mode="enforce",decision="allow",scc="anyuid",subject_type="user"} 1',
    ]);
  });

  test('the audit log is told as for a pod that is created', () => {
    const rig = createSccRig();
    rig.store.put('Namespace', { metadata: { name: 'shop', annotations: RANGES } });
    rig.store.put('Pod', ROOT as unknown as Pod);
    const { auditAnnotations } = rig.ask('/scc/exec', connect('root', { userInfo: ADMIN })) as Decision;
    assert.deepEqual(auditAnnotations, {
      denied: '',
      reason:
        '"anyuid" is most restrictive, not denied, and chosen over "hostmount-anyuid" because "anyuid" has higher priority',
    });
  });
});
