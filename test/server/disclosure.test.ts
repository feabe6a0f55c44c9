/**
 * Tests that responses to forged reviews disclose nothing about other objects, because the client may be any pod of the
 * cluster. API servers receive all details.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Settings } from '../../src/config/settings.ts';
import type { AdmissionRequest } from '../../src/kube/admission.ts';
import type { PodSecurityException } from '../../src/kube/pod-security-exception.ts';
import type { JsonObject, Pod } from '../../src/kube/types.ts';
import { STANDARD_SCCS } from '../../src/policy/scc/index.ts';
import { hashSpec } from '../../src/views/exceptions.ts';
import {
  ALICE,
  buildPod,
  createSccTestWebhooks,
  formatSccDenial,
  podRequest,
  RANGES,
} from '../support/scc-webhooks.ts';

const UID = '5a0d3c0e-6f1d-4b8e-9a57-0f6a8f7b1c11';
const FORGED = '00000000-0000-0000-0000-000000000000';

/** Returns an object with the UID, as it is stored and sent as the old object of a review. */
function stored(uid: string | undefined, metadata: JsonObject, more: JsonObject = {}): JsonObject {
  return { ...more, metadata: { ...metadata, ...(uid === undefined ? {} : { uid }) } };
}

const SCC = {
  ...STANDARD_SCCS.find(({ scc }) => scc.metadata?.name === 'anyuid')?.scc,
  priority: 50,
  groups: ['system:authenticated'],
};

function update(
  kind: string,
  group: string,
  resource: string,
  objects: Pick<AdmissionRequest, 'object' | 'oldObject'>,
) {
  const version = group === '' || group.startsWith('security') ? 'v1' : 'v1alpha1';
  return podRequest(null, {
    kind: { group, version, kind },
    resource: { group, version, resource },
    operation: 'UPDATE',
    name: 'shop',
    ...objects,
  });
}

const exec = (name: string): AdmissionRequest =>
  podRequest({ kind: 'PodExecOptions' }, { name, operation: 'CONNECT', subResource: 'exec' });

const EXCEEDS = (name: string): string =>
  `exec operation is not allowed because the pod's security context exceeds your permissions: pods "${name}" is forbidden: `;
const withoutDetails = (name: string): string =>
  `${EXCEEDS(name)}unable to validate against any security context constraint: portcullis explain pod/${name} -n shop prints the reasons`;

interface Case {
  readonly name: string;
  readonly path: string;
  readonly request: (uid?: string) => AdmissionRequest;
  /** True if reviews from API servers contain the UID of the stored object. */
  readonly hasUid: boolean;
  /** The message and the warnings for an API server, and for another client. */
  readonly full: readonly string[];
  readonly limited: readonly string[];
}

const CASES: readonly Case[] = [
  {
    name: 'a namespace',
    path: '/validate/namespaces',
    request: (uid) =>
      update('Namespace', '', 'namespaces', {
        object: { kind: 'Namespace', apiVersion: 'v1', ...stored(uid, { name: 'shop', labels: LEVEL }) },
        oldObject: { kind: 'Namespace', apiVersion: 'v1', ...stored(uid, { name: 'shop' }) },
      }),
    hasUid: true,
    full: [
      'existing pods in namespace "shop" violate the new PodSecurity enforce level "baseline:latest"',
      'hidden: privileged',
    ],
    limited: [],
  },
  {
    name: 'an SCC',
    path: '/validate/objects',
    request: (uid) =>
      update('SecurityContextConstraints', 'security.openshift.io', 'securitycontextconstraints', {
        object: { ...SCC, metadata: { name: 'custom' } },
        oldObject: stored(uid, { name: 'custom' }, { ...SCC, priority: 0 }),
      }),
    hasUid: true,
    full: [
      'SCC "custom" is usable by all users, and its priority 50 puts it before anyuid and restricted-v2, so it will admit every pod that it allows',
      'SCC "custom" would admit 1 pod instead of SCC "restricted-v2" in namespace shop if recreated, because it has higher priority',
    ],
    limited: [
      'SCC "custom" is usable by all users, and its priority 50 puts it before anyuid and restricted-v2, so it will admit every pod that it allows',
      'SCC "custom" would admit 1 pod instead of SCC "restricted-v2" in 1 namespace if recreated, because it has higher priority',
    ],
  },
  {
    name: 'the settings',
    path: '/validate/objects',
    request: (uid) =>
      update('PortcullisConfiguration', 'config.portcullis.dev', 'portcullisconfigurations', {
        object: { metadata: { name: 'cluster' }, spec: { scc: { mode: 'enforce' } } },
        oldObject: stored(uid, { name: 'cluster' }, { spec: {} }),
      }),
    hasUid: true,
    full: [
      'the change to spec.podSecurity.exceptions ends 1 active exception: shop/hidden',
      'the settings make 1 namespace fail closed, so no pods can be created there while no replica responds: shop',
      'spec.scc.mode enforce denies new pods of 1 workload: Pod shop/hidden; portcullis scc plan --scc-mode enforce prints the reasons',
    ],
    limited: [
      'the change to spec.podSecurity.exceptions ends 1 active exception',
      'the settings make 1 namespace fail closed, so no pods can be created there while no replica responds',
      'spec.scc.mode enforce denies new pods of 1 workload; portcullis scc plan --scc-mode enforce prints the reasons',
    ],
  },
  {
    name: 'the settings for exceptions',
    path: '/validate/objects',
    request: (uid) =>
      update('PortcullisConfiguration', 'config.portcullis.dev', 'portcullisconfigurations', {
        object: { metadata: { name: 'cluster' }, spec: { podSecurity: { exceptions: { mode: 'off' } } } },
        oldObject: stored(uid, { name: 'cluster' }, { spec: { podSecurity: { exceptions: { mode: 'approved' } } } }),
      }),
    hasUid: true,
    full: ['the change to spec.podSecurity.exceptions ends 1 active exception: shop/hidden'],
    limited: ['the change to spec.podSecurity.exceptions ends 1 active exception'],
  },
  {
    name: 'exec into a pod',
    path: '/connect/pods',
    request: () => exec('hidden'),
    hasUid: false,
    full: [
      `${EXCEEDS('hidden')}${formatSccDenial([
        'provider restricted-v2: .containers[0].privileged: Invalid value: true: Privileged containers are not allowed',
        'provider restricted-v3: .spec.hostUsers: Invalid value: null: Host Users must be set to false',
        'provider restricted-v3: .containers[0].privileged: Invalid value: true: Privileged containers are not allowed',
      ])}`,
      'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.privileged=true.',
      'SCC "privileged" would admit the pod if service account "default" were allowed to use it. Bind ClusterRole "system:openshift:scc:privileged".',
    ],
    limited: [withoutDetails('hidden')],
  },
  {
    name: 'exec into a pod that does not exist',
    path: '/connect/pods',
    request: () => exec('missing'),
    hasUid: false,
    full: ['pods "missing" not found'],
    limited: [withoutDetails('missing')],
  },
];

const LEVEL = { 'pod-security.kubernetes.io/enforce': 'baseline' };

function approvedException(): PodSecurityException {
  const expiresAt = new Date(Date.now() + 60_000).toISOString();
  const spec = { serviceAccountName: 'default', allow: [{ check: 'privileged' }], expiresAt, reason: 'r' } as const;
  const approval = { by: 'alice', at: new Date().toISOString(), specHash: hashSpec(spec) };
  const annotations = { 'portcullis.dev/authors': '["alice"]' };
  return { metadata: { name: 'hidden', namespace: 'shop', annotations }, spec, status: { approval } };
}

/** Sends a review. Returns the message and the warnings. */
async function decide({ path, request }: Case, uid: string | undefined, areClientsKnown: boolean): Promise<string[]> {
  const mode = path === '/validate/objects' ? 'report' : 'enforce';
  const exceptions: Settings['exceptions'] = {
    ...{
      mode: 'approved',
      maxDurationMs: 1e9,
      forbiddenChecks: [],
      namespaces: [],
      selfApproval: true,
      trustedApprovers: [],
    },
  };
  const { store, decide: sendReview } = createSccTestWebhooks({ areClientsKnown, settings: { mode }, exceptions });
  store.put('PodSecurityException', approvedException());
  store.put('Namespace', stored(UID, { name: 'shop', annotations: RANGES }));
  if (path === '/validate/objects')
    store.put('SecurityContextConstraints', stored(UID, { name: 'custom' }, { ...SCC, priority: 0 }));
  store.put('PortcullisConfiguration', stored(UID, { name: 'cluster' }));
  const owned = { 'openshift.io/scc': 'restricted-v2' };
  const web = buildPod({}, { name: 'web' }) as Pod & JsonObject;
  store.put('Pod', { ...web, metadata: { ...web.metadata, annotations: owned } });
  store.put('Pod', buildPod({ privileged: true }, { name: 'hidden' }) as unknown as Pod);
  const decision = await sendReview(path, { ...request(uid), userInfo: ALICE });
  return [...(decision.allowed ? [] : [decision.status.message]), ...(decision.warnings ?? [])];
}

for (const reviewCase of CASES) {
  suite(`only API servers receive the details in a review of ${reviewCase.name}:`, () => {
    const cases = [
      ['an API server with a client certificate receives them', true, undefined, reviewCase.full],
      [
        'an API server without a client certificate receives them if its review contains the UID of the object',
        false,
        UID,
        reviewCase.hasUid ? reviewCase.full : reviewCase.limited,
      ],
      ['a client that does not know the UID does not receive them', false, undefined, reviewCase.limited],
      ['a client with a wrong UID does not receive them', false, FORGED, reviewCase.limited],
      ['a client with an empty UID does not receive them', false, '', reviewCase.limited],
    ] as const;
    for (const [client, areClientsKnown, uid, expected] of cases) {
      test(client, async () => assert.deepEqual(await decide(reviewCase, uid, areClientsKnown), expected));
    }
  });
}
