import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc, { type Arbitrary } from 'fast-check';
import type { PodLike } from '../../../src/kube/types.ts';
import { checks, compareVersions, evaluatePod, type Evaluation, type Version } from '../../../src/policy/pss/index.ts';
import { pods, versions } from './arbitrary.ts';

const MANY = { numRuns: 3_000 };

test('baseline allows the pods that restricted allows, with two exceptions', () => {
  let allowed = 0;
  fc.assert(
    fc.property(pods(), versions(), (pod, version) => {
      if (!evaluatePod(pod, { level: 'restricted', version }).allowed) return;
      allowed++;
      if (isRelaxedForWindows(pod, version) || hidesHostPath(pod)) return;
      assert.deepEqual(evaluatePod(pod, { level: 'baseline', version }).violations, []);
    }),
    MANY,
  );
  assert.ok(allowed > MANY.numRuns / 20, `only ${allowed} pods passed restricted`);
});

test('a value of any type is evaluated without an exception', () => {
  fc.assert(
    fc.property(hostilePods(), versions(), (pod, version) => {
      for (const level of ['baseline', 'restricted'] as const) {
        const { allowed, violations, reason, detail } = evaluatePod(pod, { level, version, fields: true });
        assert.equal(allowed, violations.length === 0);
        assert.equal(allowed, reason === '' && detail === '');
        for (const violation of violations) assert.notDeepEqual(violation.fields, []);
      }
    }),
    MANY,
  );
});

test('the texts do not depend on the option fields', () => {
  fc.assert(
    fc.property(hostilePods(), versions(), (pod, version) => {
      const withFields = evaluatePod(pod, { level: 'restricted', version, fields: true });
      assert.deepEqual(withoutFields(withFields), evaluatePod(pod, { level: 'restricted', version }));
    }),
    MANY,
  );
});

test('an evaluation does not depend on earlier evaluations', () => {
  fc.assert(
    fc.property(hostilePods(), hostilePods(), versions(), (pod, other, version) => {
      const before = evaluatePod(pod, { level: 'restricted', version });
      const copy = structuredClone(before);
      evaluatePod(other, { level: 'baseline', version, fields: true });
      assert.deepEqual(before, copy);
      assert.deepEqual(evaluatePod(pod, { level: 'restricted', version }), copy);
    }),
    MANY,
  );
});

test('the generated pods violate every check', () => {
  const violated = new Set<string>();
  fc.assert(
    fc.property(pods(), versions(), (pod, version) => {
      for (const level of ['baseline', 'restricted'] as const) {
        for (const { check } of evaluatePod(pod, { level, version }).violations) violated.add(check);
      }
    }),
    MANY,
  );
  assert.deepEqual([...violated].sort(), checks.map(({ id }) => id).sort());
});

test('an evaluation does not change the pod', () => {
  fc.assert(
    fc.property(hostilePods(), versions(), (pod, version) => {
      const before = JSON.stringify(pod);
      evaluatePod(pod, { level: 'restricted', version, fields: true });
      assert.equal(JSON.stringify(pod), before);
    }),
  );
});

/** Any JSON value, or a pod with any JSON value in one field. */
function hostilePods(): Arbitrary<PodLike> {
  const near = fc.tuple(pods(), fc.jsonValue(), fc.nat()).map(([pod, value, place]) => withValueAt(pod, value, place));
  return fc.oneof(near, pods(), fc.jsonValue()) as Arbitrary<PodLike>;
}

/** Returns a JSON copy of the pod with one value replaced. Values are counted in the order of JSON.parse. */
function withValueAt(pod: PodLike, value: unknown, place: number): unknown {
  const text = JSON.stringify(pod);
  let places = 0;
  JSON.parse(text, (_key, member: unknown) => (places++, member));
  let current = 0;
  return JSON.parse(text, (_key, member: unknown) => (current++ === place % places ? value : member));
}

function isRelaxedForWindows(pod: PodLike, version: Version): boolean {
  return pod.spec?.os?.name === 'windows' && compareVersions(version, 'v1.25') >= 0;
}

function hidesHostPath(pod: PodLike): boolean {
  return (pod.spec?.volumes ?? []).some((volume) => volume.hostPath !== undefined && Object.keys(volume).length > 1);
}

function withoutFields(evaluation: Evaluation): Evaluation {
  const violations = evaluation.violations.map(({ check, reason, detail }) => ({ check, reason, detail }));
  return { ...evaluation, violations };
}
