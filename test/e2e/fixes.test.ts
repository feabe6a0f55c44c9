/**
 * Tests that the API server accepts each random pod after its fix, if it accepts the pod before, and that strict
 * validation accepts pods whose misplaced fields have been moved.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { fixText, podSecurityViolations } from '../../src/config/fix.ts';
import { moveFields } from '../../src/config/misplaced-fields.ts';
import { readDocuments } from '../../src/config/yaml.ts';
import { isObject, type JsonObject, type PodLike } from '../../src/kube/types.ts';
import { checks } from '../../src/policy/pss/index.ts';
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

/** Adds the required fields, and removes the fields that are always invalid in new pods. */
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
  const path = '/api/v1/namespaces/default/pods?dryRun=All&fieldValidation=Strict';
  const { status, text } = await plane.admin.send('POST', path, pod);
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

/** Fields with a value, and the objects in which they are valid. */
const CONTEXT = { runAsUser: 1000, runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } };
const POD_CONTEXT = { fsGroup: 2000, supplementalGroups: [1], fsGroupChangePolicy: 'OnRootMismatch', ...CONTEXT };
const CONTAINER_CONTEXT = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
  privileged: true,
  procMount: 'Default',
  readOnlyRootFilesystem: true,
  ...CONTEXT,
};
const CONTAINER = {
  command: ['sh'],
  imagePullPolicy: 'Always',
  ports: [{ containerPort: 80 }],
  workingDir: '/tmp',
  securityContext: CONTAINER_CONTEXT,
};
const SPEC = {
  automountServiceAccountToken: false,
  hostNetwork: false,
  nodeSelector: { a: 'b' },
  serviceAccountName: 'default',
  tolerations: [{ operator: 'Exists' }],
  securityContext: POD_CONTEXT,
};

/** The names of the objects into which a field is put. */
const OWNERS = ['root', 'spec', 'context', 'container', 'containerContext'] as const;

const misplaced = fc.record({
  owner: fc.constantFrom(...OWNERS),
  field: fc.constantFrom(
    ...[SPEC, POD_CONTEXT, CONTAINER, CONTAINER_CONTEXT].flatMap((fields) => Object.entries(fields)),
  ),
  spelling: fc.constantFrom(
    (name: string) => name,
    (name: string) => name.toUpperCase(),
  ),
});

test('the API server accepts moved fields with strict field validation', { timeout: 300_000 }, async () => {
  const cases = fc.sample(fc.array(misplaced, { minLength: 1, maxLength: 3 }), { numRuns: PODS, seed: 1 });
  let moved = 0;
  for (const fields of cases) {
    const context: Record<string, unknown> = {};
    const containerContext: Record<string, unknown> = {};
    const container: Record<string, unknown> = { name: 'a', image: 'i', securityContext: containerContext };
    const spec: Record<string, unknown> = {
      securityContext: context,
      containers: [container, { name: 'b', image: 'i' }],
    };
    const root: Record<string, unknown> = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, spec };
    const owners = { root, spec, context, container, containerContext };
    for (const { owner, field, spelling } of fields) owners[owner][spelling(field[0])] ??= field[1];
    const { text, changes, unfixed } = fixText(JSON.stringify(root), '', () => [], { moveFields });
    if (unfixed.length > 0) continue;
    if (changes.length > 0) moved++;
    const [isValid, answer] = await create(readDocuments(text, '').documents[0]?.value);
    assert.ok(isValid, `${JSON.stringify(root)} is fixed to ${text}: ${answer}`);
  }
  assert.ok(moved > PODS / 8, String(moved));
});
