import assert from 'node:assert/strict';
import type { PodLike } from '../../src/kube/types.ts';
import {
  type Check,
  checks,
  createEvaluator,
  evaluatePod,
  type Level,
  type Policy,
  type Version,
} from '../../src/policy/pss/index.ts';
import { RECORDED_VERSION, testLines } from '../support/conformance/cases.ts';

interface PodCase extends Policy {
  expect: 'pass' | 'fail';
  name: string;
  reasons?: string[];
  details?: string[];
  defaulting?: string[];
  pod: PodLike;
}

interface CheckCase {
  check: string;
  case: string;
  version: Version;
  pod: PodLike;
  allowed: boolean;
  reason: string;
  detail: string;
}

interface AggregateCase extends Policy {
  case: string;
  emulationVersion?: Version;
  pod: PodLike;
  allowed: boolean;
  reasons: string[];
  details: string[];
  summary: string;
  message: string;
}

interface RegistryCase extends Policy {
  case: string;
  checks: { id: string; level: Check['level']; versions: { minimumVersion: Version; overrides: string[] }[] }[];
  expect: string[];
}

interface RandomCase {
  id: string;
  pod: PodLike;
  expect: { level: Level; versions: Version[]; allowed: boolean; reason?: string; detail?: string }[];
}

testLines<PodCase>('pss/pods.ndjson', (given) => {
  const pod = given.defaulting?.includes('volumes.emptyDir') ? withVolumeDefaults(given.pod) : given.pod;
  const { allowed, violations } = evaluatePod(pod, { ...given, emulationVersion: RECORDED_VERSION });
  assert.deepEqual(
    { allowed, reasons: violations.map(({ reason }) => reason), details: violations.map(({ detail }) => detail) },
    { allowed: given.expect === 'pass', reasons: given.reasons ?? [], details: given.details ?? [] },
    `${given.level}:${given.version} ${given.name}`,
  );
});

testLines<CheckCase>('pss/checks.ndjson', (given) => {
  const check = checks.find(({ id }) => id === given.check);
  assert.ok(check, given.check);
  const { allowed, violations } = createEvaluator([check]).evaluatePod(given.pod, {
    level: check.level,
    version: given.version,
  });
  assert.deepEqual(
    { allowed, reason: violations[0]?.reason ?? '', detail: violations[0]?.detail ?? '' },
    { allowed: given.allowed, reason: given.reason, detail: given.detail },
    `${given.check} ${given.version}: ${given.case}`,
  );
});

testLines<AggregateCase>('pss/aggregate.ndjson', (given) => {
  const { violations, ...rest } = evaluatePod(given.pod, { emulationVersion: RECORDED_VERSION, ...given });
  assert.deepEqual(
    { ...rest, reasons: violations.map(({ reason }) => reason), details: violations.map(({ detail }) => detail) },
    {
      allowed: given.allowed,
      reasons: given.reasons,
      details: given.details,
      reason: given.summary,
      detail: given.message,
    },
    `${given.level}:${given.version}: ${given.case}`,
  );
});

testLines<RegistryCase>('pss/registry.ndjson', (given) => {
  const registry = given.checks.map(({ id, level, versions }) => ({
    id,
    level,
    versions: versions.map(({ minimumVersion, overrides }) => ({
      since: minimumVersion,
      check: () => ({ reason: `${id}:${minimumVersion}`, detail: '', fields: () => [] }),
      cel: () => ({ passes: 'false', text: '""' }),
      overrides,
    })),
  }));
  const { violations } = createEvaluator(registry).evaluatePod({}, given);
  assert.deepEqual(
    violations.map(({ reason }) => reason),
    given.expect,
    `${given.level}:${given.version}: ${given.case}`,
  );
});

testLines<RandomCase>('random/pss-random.ndjson', (given) => {
  for (const { level, versions, allowed, reason = '', detail = '' } of given.expect) {
    for (const version of versions) {
      const { violations, ...result } = evaluatePod(given.pod, {
        level,
        version,
        emulationVersion: RECORDED_VERSION,
      });
      assert.deepEqual(result, { allowed, reason, detail }, `${given.id} ${level}:${version}`);
      assert.equal(violations.length === 0, allowed);
    }
  }
});

/** Sets an emptyDir on volumes that have no source, as the API server does. */
function withVolumeDefaults(pod: PodLike): PodLike {
  const spec = pod.spec;
  if (!spec?.volumes) return pod;
  const volumes = spec.volumes.map((volume) =>
    Object.keys(volume).some((key) => key !== 'name') ? volume : { ...volume, emptyDir: {} },
  );
  return { ...pod, spec: { ...spec, volumes } };
}
