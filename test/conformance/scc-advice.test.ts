/** Follows the advice for the recorded denials literally, and expects that the pods are admitted afterwards. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { parse } from 'yaml';
import { parsePath } from '../../src/config/yaml.ts';
import type { SecurityContextConstraints } from '../../src/kube/scc.ts';
import { type JsonObject, valueAt, withValueAt } from '../../src/kube/types.ts';
import {
  decidePod,
  defaultScc,
  type DisallowedField,
  explainPod,
  type PodDenial,
  type PodInput,
  type SccInput,
  validateSccObject,
} from '../../src/policy/scc/index.ts';
import { readLines } from '../support/conformance/cases.ts';
import { accessBy, type Grant } from '../support/scc.ts';

interface Recorded extends Omit<SccInput, 'access' | 'object' | 'sccs'> {
  readonly id: string;
  readonly object: JsonObject;
  readonly sccs: readonly SecurityContextConstraints[];
  readonly grants: readonly Grant[];
}

type Input = PodInput & { readonly object: JsonObject; readonly sccs: readonly SecurityContextConstraints[] };

function readInput({ object, namespace, userInfo, sccs, grants }: Recorded): Input {
  return { object, namespace, userInfo, sccs, access: accessBy(grants), compatibility: 'portcullis' };
}

/** Returns the SCC as an API server stores it. */
function stored(scc: SecurityContextConstraints): SecurityContextConstraints {
  assert.deepEqual(validateSccObject(scc), []);
  return defaultScc(scc);
}

/** Applies a change such as `add NET_ADMIN to allowedCapabilities`. */
function changeScc(scc: SecurityContextConstraints, change: string): SecurityContextConstraints {
  const fields = scc as Readonly<Record<string, unknown>>;
  const [, verb = '', items = '', list = ''] = /^(add|remove) (.+) (?:to|from) (\w+)$/.exec(change) ?? [];
  if (verb !== '') {
    const names = items.split(',').map((item) => item.replaceAll('"', ''));
    const values = names.map((item) => (list === 'allowedFlexVolumes' ? { driver: item } : item));
    const old = (fields[list] ?? []) as readonly unknown[];
    const rest = old.filter((item) => !values.some((value) => JSON.stringify(value) === JSON.stringify(item)));
    return { ...scc, [list]: verb === 'add' ? [...rest, ...values] : rest };
  }
  const [, field = '', value = ''] = /^set (\w+)=(.+)$/.exec(change) ?? [];
  assert.notEqual(field, '', change);
  return { ...scc, [field]: parse(value) as unknown };
}

/** Removes a field, or sets it if the SCC requires a value. */
function changePod(pod: JsonObject, { path, values }: DisallowedField): unknown {
  const steps = parsePath(path);
  const field = String(steps.at(-1));
  const set = (value: unknown): unknown => withValueAt(pod, steps, value);
  if (/^host(?:Network|PID|IPC)$|^privileged$|^allowPrivilegeEscalation$|^hostUsers$/.test(field)) return set(false);
  if (field === 'runAsNonRoot' || field === 'readOnlyRootFilesystem') return set(true);
  const owner = valueAt(pod, steps.slice(0, -1));
  if (field === 'add') {
    return set((valueAt(pod, steps) as readonly unknown[]).filter((name) => !values.includes(name)));
  }
  const removed = /^(.*\.(?:seccompProfile|seLinuxOptions))\./.exec(path)?.[1];
  if (removed !== undefined) return withValueAt(pod, parsePath(removed), undefined);
  if (steps[1] === 'volumes') return withValueAt(pod, steps.slice(0, 3), null);
  if (steps[2] === 'sysctls')
    return withValueAt(pod, steps.slice(0, -1), { name: 'net.ipv4.ip_unprivileged_port_start', value: '1' });
  assert.ok(owner !== undefined, path);
  return set(undefined);
}

/** Removes fields that are undefined, and volumes that are null. */
function asSent(pod: unknown): JsonObject {
  return JSON.parse(JSON.stringify(pod), (key, value: unknown) =>
    key === 'volumes' && Array.isArray(value) ? value.filter((volume) => volume !== null) : value,
  ) as JsonObject;
}

const counts = { denied: 0, fields: 0, corrected: 0, copied: 0, granted: 0 };

function follow(input: Input, denial: PodDenial): void {
  const decide = (changed: Partial<Input>) => decidePod({ ...input, ...changed });
  const { closest, suggestedScc, grantable, corrections } = denial;
  const all = { access: { canUse: () => true } };
  if (grantable !== undefined) {
    counts.granted++;
    const canUse: Input['access']['canUse'] = (subject, scc, namespace) =>
      scc === grantable || input.access.canUse(subject, scc, namespace);
    const verdict = decide({ access: { canUse } });
    assert.equal(verdict.outcome, 'admitted', `grant ${grantable}`);
  }
  const corrected =
    corrections === undefined ? input.object : corrections.changes.reduce<JsonObject>(correct, input.object);
  if (corrections?.scc !== undefined) {
    counts.corrected++;
    assert.equal(decide({ object: asSent(corrected) }).outcome, 'admitted', corrections.changes.join());
  }
  if (suggestedScc !== undefined) {
    counts.copied++;
    const original = input.sccs.find(({ metadata }) => metadata?.name === suggestedScc.original);
    assert.ok(original);
    const copy = stored(suggestedScc.changes.reduce(changeScc, defaultScc(original)));
    const verdict = decide({ ...all, sccs: [copy], object: asSent(corrected) });
    assert.equal(verdict.outcome, 'admitted', `${suggestedScc.original}: ${suggestedScc.changes.join()}`);
  }
  if (closest !== undefined) {
    counts.fields++;
    const scc = input.sccs.filter(({ metadata }) => metadata?.name === closest.scc);
    const object = closest.disallowedFields.reduce<unknown>(
      (pod, field) => changePod(pod as JsonObject, field),
      input.object,
    );
    const { decision } = explainPod({ ...input, ...all, sccs: scc, object: asSent(object) });
    assert.ok(
      decision.allowed,
      `${closest.scc}: ${JSON.stringify(closest.disallowedFields)} ${decision.allowed ? '' : decision.status.message}`,
    );
  }
}

/** Applies a change such as `remove spec.securityContext.seLinuxOptions, which is empty`. */
function correct(pod: JsonObject, change: string): JsonObject {
  const [, removed = ''] = /^remove (.+), which is (?:empty|deprecated)$/.exec(change) ?? [];
  const [, value = '', path = removed] = /^write (\S+) instead of \S+ in (.+)$/.exec(change) ?? [];
  assert.notEqual(path, '', change);
  return withValueAt(pod, parsePath(path), value === '' ? undefined : value) as JsonObject;
}

suite('the advice for a recorded denial admits the pod of', () => {
  const requests = readLines<Recorded>('random/scc-admission-random.ndjson').filter(
    ({ operation, expect }: Recorded & { expect?: { mutate?: { allowed: boolean } } }) =>
      operation === 'CREATE' && expect?.mutate?.allowed === false,
  );
  for (const request of requests) {
    test(request.id, () => {
      const input = readInput(request);
      const verdict = decidePod(input);
      if (verdict.outcome !== 'denied') return;
      counts.denied++;
      follow(input, verdict);
    });
  }
  test('every kind of advice occurs in the recorded denials', () => {
    assert.ok(
      counts.denied > 600 &&
        counts.granted > 400 &&
        counts.copied > 300 &&
        counts.fields > 500 &&
        counts.corrected > 20,
      JSON.stringify(counts),
    );
  });
});
