import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc, { type Arbitrary } from 'fast-check';
import type { PodLike } from '../../../src/kube/types.ts';
import {
  checks,
  compareVersions,
  evaluatePod,
  type Evaluation,
  type Version,
} from '../../../src/policy/pss/library.ts';
import { pods, versions } from './arbitrary.ts';

const MANY = { numRuns: 3_000 };

test('baseline allows all pods that restricted allows, except for the findings of two checks', () => {
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

test('an evaluation has no side effects on any value, and its messages do not depend on the fields option', () => {
  fc.assert(
    fc.property(hostilePods(), hostilePods(), versions(), (pod, other, version) => {
      const before = JSON.stringify(pod);
      for (const level of ['baseline', 'restricted'] as const) {
        const evaluation = evaluatePod(pod, { level, version, fields: true });
        const { allowed, violations, reason, detail } = evaluation;
        assert.equal(allowed, violations.length === 0);
        assert.equal(allowed, reason === '' && detail === '');
        for (const violation of violations) assert.notDeepEqual(violation.fields, []);
        const copy = structuredClone(evaluation);
        evaluatePod(other, { level: 'baseline', version, fields: true });
        assert.deepEqual(evaluation, copy);
        assert.deepEqual(evaluatePod(pod, { level, version }), withoutFields(evaluation));
      }
      assert.equal(JSON.stringify(pod), before);
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

/** Generates any JSON value, or a pod with any JSON value in one field. */
function hostilePods(): Arbitrary<PodLike> {
  const near = fc.tuple(pods(), fc.jsonValue(), fc.nat()).map(([pod, value, place]) => withValueAt(pod, value, place));
  return fc.oneof(near, pods(), fc.jsonValue()) as Arbitrary<PodLike>;
}

/**
 * Returns a JSON copy of the pod with one value replaced. Values are numbered in the order in which
 * JSON.parse passes them to its reviver.
 */
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
