/** Pods of a namespace that the store does not hold yet, in clusters of each mode: what its labels say must count. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import type { Pod } from '../../src/kube/types.ts';
import type { SccMode } from '../../src/policy/scc/mode.ts';
import { createSccRig, podOf, podRequest, RANGES, type SccRig } from '../support/scc-webhooks.ts';

const ROOT = podOf({ runAsUser: 0 }, { hostUsers: false });
const CREATE = podRequest(ROOT);
const EXEC = podRequest({}, { operation: 'CONNECT', subResource: 'exec' });
const NOT_FOUND = 'error fetching namespace "shop": namespace "shop" not found';
const DENIED = [
  'anyuid',
  'restricted-v2',
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
];
const notUsable = (name: string): string => `provider "${name}": Forbidden: not usable by user or serviceaccount`;
const outOfRange = (name: string, range: string): string =>
  `provider ${name}: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [${range}]`;
const ERRORS = DENIED.flatMap((name) => {
  if (name !== 'restricted-v2') return [notUsable(name)];
  return [outOfRange(name, '1000660000, 1000669999'), outOfRange('restricted-v3', '1000, 65534')];
});
const refusal = (separator: string): string =>
  `unable to validate against any security context constraint: [${ERRORS.join(separator)}]`;
const EXEC_PREFIX = `exec operation is not allowed because the pod's security context exceeds your permissions: pods "web" is forbidden: `;

const PATHS: readonly {
  readonly path: string;
  readonly request: AdmissionRequest;
  readonly prefix: string;
  readonly separator: string;
}[] = [
  { path: '/scc/mutate', request: CREATE, prefix: '', separator: ', ' },
  { path: '/scc/validate', request: CREATE, prefix: '', separator: ' ' },
  { path: '/scc/exec', request: EXEC, prefix: EXEC_PREFIX, separator: ', ' },
];

interface ArrivalCase {
  readonly name: string;
  readonly cluster: SccMode;
  readonly labels: Readonly<Record<string, string>>;
  readonly refused: boolean;
}

const ARRIVALS: readonly ArrivalCase[] = [
  { name: 'report, enforced there', cluster: 'report', labels: { 'portcullis.dev/scc': 'enforce' }, refused: true },
  { name: 'report, a label of no mode', cluster: 'report', labels: { 'portcullis.dev/scc': 'on' }, refused: true },
  { name: 'report, no label', cluster: 'report', labels: {}, refused: false },
  { name: 'report, off there', cluster: 'report', labels: { 'portcullis.dev/scc': 'off' }, refused: false },
  { name: 'enforce, no label', cluster: 'enforce', labels: {}, refused: true },
  { name: 'enforce, reported there', cluster: 'enforce', labels: { 'portcullis.dev/scc': 'report' }, refused: false },
  { name: 'enforce, a run level', cluster: 'enforce', labels: { 'openshift.io/run-level': '1' }, refused: false },
];

const messageOf = (decision: Decision): string | undefined => (decision.allowed ? undefined : decision.status.message);

function createRig(mode: SccMode, namespace = 'shop'): SccRig {
  const rig = createSccRig({ settings: { mode } });
  rig.store.put('Pod', podOf({ runAsUser: 0 }, { hostUsers: false, namespace }) as unknown as Pod);
  return rig;
}

for (const { path, request, prefix, separator } of PATHS) {
  suite(path, () => {
    for (const { name, cluster, labels, refused } of ARRIVALS) {
      test(`the namespace arrives: ${name}`, async () => {
        const rig = createRig(cluster);
        const decision = rig.ask(path, request, 15_000);
        assert.ok(decision instanceof Promise, 'the labels are waited for');
        rig.store.put('Namespace', { metadata: { name: 'shop', labels, annotations: RANGES } });
        assert.equal(messageOf(await decision), refused ? prefix + refusal(separator) : undefined);
      });
    }

    for (const cluster of ['report', 'enforce'] as const) {
      test(`the namespace never arrives: ${cluster}`, async () => {
        const decision = await createRig(cluster).ask(path, request, 600);
        assert.equal(messageOf(decision), prefix + NOT_FOUND);
        assert.deepEqual(decision.warnings ?? [], []);
      });
    }

    test('off in the whole cluster: nobody waits', () => {
      const decision = createRig('off').ask(path, request, 15_000);
      assert.ok(!(decision instanceof Promise));
      assert.equal(decision.allowed, true);
    });

    test('exempt by its name: nobody waits', () => {
      const namespace = 'kube-system';
      const decision = createRig('report', namespace).ask(path, { ...request, namespace }, 15_000);
      assert.ok(!(decision instanceof Promise));
      assert.equal(decision.allowed, true);
    });
  });
}

test('what SCCs have nothing to do with does not wait', () => {
  for (const path of ['/scc/mutate', '/scc/validate']) {
    const decision = createRig('report').ask(path, podRequest(podOf({}, { os: { name: 'windows' } })), 15_000);
    assert.ok(!(decision instanceof Promise));
    assert.equal(decision.allowed, true);
  }
});
