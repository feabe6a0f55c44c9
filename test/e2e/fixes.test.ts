/** Tests that the API server accepts each random pod after its fix, if it accepts the pod before. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { fixText, podSecurityViolations } from '../../src/config/fix.ts';
import { readDocuments } from '../../src/config/yaml.ts';
import { isObject, type JsonObject, type PodLike } from '../../src/kube/types.ts';
import { checks } from '../../src/policy/pss/checks/index.ts';
import { pods, versions } from '../policy/pss/arbitrary.ts';
import { type ControlPlane, startControlPlane } from '../support/control-plane/index.ts';

const PODS = 400;

let plane: ControlPlane;
before(async () => {
  plane = await startControlPlane();
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default' } };
  await plane.admin.send('POST', '/api/v1/namespaces/default/serviceaccounts', account);
});
after(() => plane.stop());

/** Adds the fields that are required, and removes those that are always invalid in new pods. */
function complete({ metadata, spec }: PodLike): object {
  const { ephemeralContainers: _, ...rest }: JsonObject = isObject(spec) ? spec : {};
  const containersIn = (list: string): readonly object[] => {
    const items: unknown = rest[list];
    return (Array.isArray(items) ? (items as readonly unknown[]) : []).map((item, index) => {
      const { lifecycle: _lifecycle, livenessProbe: _probe, ports: _ports, ...container } = isObject(item) ? item : {};
      return { ...container, name: `${list.toLowerCase()}-${index}`, image: 'i' };
    });
  };
  const containers = containersIn('containers');
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { ...(isObject(metadata) ? metadata : {}), name: 'p' },
    spec: {
      ...rest,
      volumes: [],
      initContainers: containersIn('initContainers'),
      containers: containers.length === 0 ? [{ name: 'containers-0', image: 'i' }] : containers,
    },
  };
}

async function create(pod: unknown): Promise<readonly [isCreated: boolean, answer: string]> {
  const { status, text } = await plane.admin.send('POST', '/api/v1/namespaces/default/pods?dryRun=All', pod);
  return [status === 201, text];
}

test('the API server accepts the fixed pods', { timeout: 300_000 }, async () => {
  const ids = checks.map(({ id }) => id);
  const cases = fc.sample(
    fc.record({ pod: pods(), version: versions(), excepted: fc.subarray(ids), selectsWindows: fc.nat(9) }),
    { numRuns: PODS, seed: 1 },
  );
  let changed = 0;
  for (const { pod, version, excepted, selectsWindows } of cases) {
    const original = complete(pod) as { readonly spec: object };
    const nodeSelector = selectsWindows === 0 ? { 'kubernetes.io/os': 'windows' } : {};
    const value = { ...original, spec: { ...original.spec, nodeSelector } };
    const [isValid] = await create(value);
    if (!isValid) continue;
    const { text, changes } = fixText(JSON.stringify(value), '', (one) =>
      podSecurityViolations(one, { level: 'restricted', version }).filter(({ check }) => !excepted.includes(check)),
    );
    if (changes.length > 0) changed++;
    const [isFixedValid, answer] = await create(readDocuments(text, '').documents[0]?.value);
    assert.ok(isFixedValid, `${JSON.stringify(value)} is fixed to ${text}: ${answer}`);
  }
  assert.ok(changed > PODS / 8, String(changed));
});
