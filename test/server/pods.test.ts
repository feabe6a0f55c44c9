/** Tests the review of a pod by several policies, and the SCC mode in force. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createStore } from '../../src/cluster/store.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import { defined } from '../../src/kube/defined.ts';
import type { UserInfo } from '../../src/kube/types.ts';
import { createPodSecurity, DEFAULT_CONFIGURATION } from '../../src/policy/psa/index.ts';
import {
  buildPod,
  createSccTestWebhooks,
  createTestWebhooks,
  formatSccDenial,
  podRequest,
  putStandardSccs,
  RANGES,
  type SccRigOptions,
} from '../support/scc-webhooks.ts';

const ROOT = buildPod({ privileged: true });
const VIOLATION =
  'pods "web" is forbidden: violates PodSecurity "baseline:latest": privileged (container "c" must not set securityContext.privileged=true)';
const NO_SCC = formatSccDenial(
  [
    'provider restricted-v2: .containers[0].privileged: Invalid value: true: Privileged containers are not allowed',
    'provider restricted-v3: .spec.hostUsers: Invalid value: null: Host Users must be set to false',
    'provider restricted-v3: .containers[0].privileged: Invalid value: true: Privileged containers are not allowed',
  ],
  ' ',
);
const DEFAULTS = { ...DEFAULT_CONFIGURATION.defaults, enforce: 'baseline', warn: 'restricted' } as const;
const podSecurity = createPodSecurity({ ...DEFAULT_CONFIGURATION, defaults: DEFAULTS });

const denial = (decision: Decision): string | undefined => (decision.allowed ? undefined : decision.status.message);

async function validate(options: SccRigOptions, labels = {}, object: unknown = ROOT): Promise<Decision> {
  const rig = createSccTestWebhooks({ podSecurity, ...options });
  rig.putNamespace(labels);
  return await rig.decide('/validate/pods', podRequest(object));
}

suite('a pod that several policies deny or warn about', () => {
  const privileged = { 'pod-security.kubernetes.io/enforce': 'privileged' };

  test('is denied with the reasons of both policies', async () => {
    const decision = await validate({});
    assert.equal(denial(decision), `${VIOLATION}; ${NO_SCC}`);
    assert.deepEqual(decision.allowed ? undefined : [decision.status.code, decision.status.reason], [403, 'Forbidden']);
    assert.equal(decision.auditAnnotations?.['enforce-policy'], 'baseline:latest');
  });

  test('is denied with the unchanged message if only one policy denies it', async () => {
    assert.equal(denial(await validate({ settings: { mode: 'off' } })), VIOLATION);
    assert.equal(denial(await validate({}, privileged)), NO_SCC);
  });

  test('gets the warnings and audit annotations of both policies', async () => {
    const decision = await validate({ settings: { mode: 'report' } }, privileged);
    const { warnings = [], auditAnnotations, facts } = decision;
    assert.equal(decision.allowed, true);
    assert.match(warnings[0] ?? '', /^would violate PodSecurity "restricted:latest": privileged/);
    assert.equal(
      warnings[1],
      'would be denied if security context constraints were enforced: unable to validate against any security context constraint',
    );
    assert.deepEqual(auditAnnotations?.['enforce-policy'], 'privileged:latest');
    assert.equal(auditAnnotations?.['mode'], 'report');
    assert.equal(facts?.['mode'], 'report');
  });
});

test('policies review no requests that their registration does not select', async () => {
  const rig = createSccTestWebhooks({ podSecurity });
  rig.putNamespace();
  const services = { group: '', version: 'v1', resource: 'services' };
  const changes: readonly Partial<AdmissionRequest>[] = [
    { resource: services },
    { operation: 'DELETE' },
    { operation: 'UPDATE', subResource: 'status', oldObject: ROOT },
    { resource: { group: 'example.com', version: 'v1', resource: 'pods' } },
  ];
  for (const path of ['/validate/pods', '/mutate/pods', '/connect/pods', '/validate/nodes', '/validate/objects']) {
    for (const change of changes) assert.deepEqual(await rig.decide(path, podRequest(ROOT, change)), { allowed: true });
  }
});

interface ReviewOptions {
  readonly canRead?: boolean;
  readonly path?: string;
  readonly pod?: unknown;
  readonly userInfo?: UserInfo;
}

suite('SCCs are enforced after API servers send the pods that the mode concerns:', () => {
  const ENFORCE = { 'portcullis.dev/scc': 'enforce' };
  const cases: readonly (readonly [
    name: string,
    registered: string | undefined,
    labels: Readonly<Record<string, string>> | undefined,
    denied: boolean,
  ])[] = [
    ['webhooks registered for enforce mode', 'enforce', {}, true],
    ['webhooks registered for report mode, with enforce mode by default', 'report', {}, false],
    ['webhooks registered for report mode, with enforce mode in the label', 'report', ENFORCE, true],
    ['webhooks registered for report mode, in an unknown namespace', 'report', undefined, true],
    ['webhooks that are not registered, with enforce mode in the label', undefined, ENFORCE, false],
    ['webhooks registered for an unknown mode, with enforce mode in the label', 'other', ENFORCE, false],
  ];
  const review = async (
    registered: string | undefined,
    labels: Readonly<Record<string, string>> | undefined,
    { canRead = true, path = '/validate/pods', pod = ROOT, userInfo }: ReviewOptions = {},
  ): Promise<Decision> => {
    const store = createStore();
    const webhooks = createTestWebhooks(store, { isNewInstallation: true });
    putStandardSccs(store);
    if (labels) store.put('Namespace', { metadata: { name: 'shop', annotations: RANGES, labels } });
    if (canRead) {
      const annotations = registered === undefined ? {} : { 'portcullis.dev/registered-scc-mode': registered };
      store.put('ValidatingWebhookConfiguration', { metadata: { name: 'portcullis.dev', annotations } });
      store.markSynced();
    } else {
      for (const kind of ['Namespace', 'SecurityContextConstraints'] as const) store.markSynced(kind);
      store.remove('ValidatingWebhookConfiguration', 'portcullis.dev');
    }
    const webhook = webhooks.find((candidate) => candidate.path === path);
    assert.ok(webhook);
    return await webhook.decide(podRequest(pod, defined({ userInfo })), { store, now: () => 0, deadlineMs: 1 });
  };
  for (const [name, registered, labels, denied] of cases) {
    test(`${name}: ${denied ? 'enforced' : 'not enforced'}`, async () => {
      assert.equal((await review(registered, labels)).allowed, !denied);
      const mutate = { path: '/mutate/pods' };
      assert.equal((await review(registered, labels, mutate)).allowed, !denied);
      // Otherwise, a pod would not be defaulted if enforcement began between its two reviews.
      if (labels === undefined) return;
      const defaulted = await review(registered, labels, { ...mutate, pod: buildPod() });
      assert.match(JSON.stringify(defaulted), /^\{"allowed":true,.*"object":.*"openshift.io\/scc":"restricted-v2"/);
    });
  }
  test('a pod gets the warnings of one mode, not of both', async () => {
    for (const registered of ['report', 'enforce']) {
      const warnings: readonly string[][] = await Promise.all(
        ['/mutate/pods', '/validate/pods'].map(async (path) => {
          const decision = await review(registered, {}, { path, userInfo: { groups: ['system:masters'] } });
          return [...(decision.warnings ?? [])];
        }),
      );
      const verb = registered === 'report' ? 'would admit' : 'admits';
      for (const warning of warnings.flat()) assert.ok(warning.startsWith(`SCC "privileged" ${verb} the pod only`));
      assert.deepEqual(
        warnings.map(({ length }) => length),
        registered === 'report' ? [0, 1] : [1, 0],
      );
    }
  });
  test('every mode is in force if the replica cannot read webhook configurations', async () => {
    assert.equal(denial(await review(undefined, {}, { canRead: false })), NO_SCC);
  });
});
