/** Security context constraints against what OpenShift answers. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import type { SecurityContextConstraints } from '../../src/kube/scc.ts';
import type { JsonObject, Namespace } from '../../src/kube/types.ts';
import { psaLevel } from '../../src/policy/rollout/scc-level.ts';
import { assignScc, validateScc, type SccDecision, type SccInput } from '../../src/policy/scc/index.ts';
import { STANDARD_SCCS } from '../../src/policy/scc/standard.ts';
import { canUseBy, laxScc, type Grant } from '../support/scc.ts';
import { ALLOCATION_AREAS } from '../support/scc-areas/allocation.ts';
import { admissionAreas, messageOf, withoutPrefixes } from '../support/scc-areas/admission.ts';
import type { Area, Case } from '../support/scc-areas/area.ts';
import { objectAreas } from '../support/scc-areas/objects.ts';
import { REVIEW_AREAS } from '../support/scc-areas/reviews.ts';
import { SCOPE_AREAS } from '../support/scc-areas/scope.ts';
import { STRATEGY_AREAS } from '../support/scc-areas/strategies.ts';

const folder = process.env['PORTCULLIS_CONFORMANCE'] ?? '../shared/conformance';
const skip = existsSync(folder) ? false : `no conformance data in ${folder}`;

const standard = skip ? [] : readJson<readonly SecurityContextConstraints[]>('scc/default-sccs.json');
const AREAS: Readonly<Record<string, Area>> = {
  ...STRATEGY_AREAS,
  ...objectAreas(standard),
  ...admissionAreas(standard),
  ...REVIEW_AREAS,
  ...ALLOCATION_AREAS,
  ...SCOPE_AREAS,
};

suite('the steps of the original', { skip }, () => {
  const cases = skip ? [] : readJson<readonly Case[]>('scc/cases.json');
  for (const [area, inArea] of Map.groupBy(cases, (one) => one.area)) {
    test(`${area}: ${inArea.length} cases, decided by ${AREAS[area]?.by ?? 'nothing'}`, async (t) => {
      for (const one of inArea) await t.test(one.name, () => checkIn(area, one));
    });
  }
});

function checkIn(area: string, one: Case): void {
  const found = AREAS[area];
  assert.ok(found, 'nothing decides this area');
  found.check(one);
}

test('the standard SCCs are those of the platform, descriptions apart', { skip }, () => {
  const withoutMetadata = (sccs: readonly SecurityContextConstraints[]) =>
    new Map(sccs.map(({ metadata, ...fields }) => [metadata?.name, fields]));
  assert.deepEqual(withoutMetadata(STANDARD_SCCS.map(({ scc }) => scc)), withoutMetadata(standard));
});

interface Pass {
  readonly allowed: boolean;
  readonly object?: JsonObject;
  readonly message?: string;
  readonly auditAnnotations?: Readonly<Record<string, string>>;
}

interface RandomRequest extends Omit<SccInput, 'canUse' | 'object'> {
  readonly id: string;
  readonly object: JsonObject;
  readonly grants: readonly Grant[];
  readonly expect: { readonly mutate?: Pass; readonly validate?: Pass };
}

for (const [file, passes] of [
  ['scc-admission-random', 2178],
  ['scc-second-pass-random', 570],
] as const) {
  test(`${file}: both passes`, { skip }, () => {
    let compared = 0;
    for (const request of readLines<RandomRequest>(`random/${file}.ndjson.gz`)) {
      const { mutate, validate } = request.expect;
      const input: SccInput = { ...request, canUse: canUseBy(request.grants), compatibility: 'openshift' };
      for (const [pass, decide, object] of [
        [mutate, assignScc, request.object],
        [validate, validateScc, mutate?.object ?? request.object],
      ] as const) {
        if (pass === undefined) continue;
        assert.deepEqual(outcomeOf(decide({ ...input, object }), object), expected(pass), request.id);
        compared++;
      }
    }
    assert.equal(compared, passes);
  });
}

function outcomeOf(decision: SccDecision, pod: JsonObject): Pass {
  const { allowed, auditAnnotations } = decision;
  const message = messageOf(decision, pod);
  return {
    allowed,
    auditAnnotations,
    ...(message === undefined ? {} : { message }),
    ...(decision.allowed && decision.object !== undefined ? { object: decision.object as JsonObject } : {}),
  };
}

function expected({ auditAnnotations = {}, ...pass }: Pass): Pass {
  return { ...pass, auditAnnotations: withoutPrefixes(auditAnnotations) };
}

suite('levels of SCCs', { skip }, () => {
  interface RandomScc {
    readonly id: string;
    readonly scc: SecurityContextConstraints;
    readonly namespace: Namespace;
    readonly expect: { readonly level: string; readonly error?: string };
  }

  test('scc-to-pss-random', () => {
    let compared = 0;
    for (const { id, scc, namespace, expect } of readLines<RandomScc>('random/scc-to-pss-random.ndjson.gz')) {
      const { level, error } = psaLevel(scc, namespace, { profile: 'upstream' });
      assert.deepEqual([level, error !== undefined], [expect.level, expect.error !== undefined], id);
      compared++;
    }
    assert.equal(compared, 1500);
  });

  interface LevelInput extends JsonObject {
    readonly namespaceAnnotations?: Readonly<Record<string, string>>;
    readonly scc?: JsonObject;
  }

  interface LevelExpect {
    readonly level?: string;
    readonly error?: boolean;
  }

  interface LevelCase {
    readonly area: string;
    readonly name: string;
    readonly input: LevelInput;
    readonly expect: LevelExpect;
    readonly productExpect?: LevelExpect;
  }

  /** All but the part of a case that is judged. */
  const strict = laxScc({
    allowPrivilegeEscalation: false,
    requiredDropCapabilities: ['ALL'],
    seLinuxContext: { type: 'MustRunAs' },
    runAsUser: { type: 'MustRunAsNonRoot' },
    seccompProfiles: ['runtime/default'],
    volumes: [],
  });

  const { cases } = skip ? { cases: [] } : readJson<{ readonly cases: readonly LevelCase[] }>('rollout/cases.json');
  for (const { area, name, input, expect, productExpect } of cases) {
    if (!area.startsWith('scc-to-pss/')) continue;
    test(`${area}: ${name}`, () => {
      const { namespaceAnnotations: annotations = {}, scc = {}, ...part } = input;
      const namespace = { metadata: { name: 'demo', annotations } };
      const whole = area === 'scc-to-pss/whole' ? laxScc({ ...scc, ...part }) : { ...strict, ...part };
      const upstream = psaLevel(whole, namespace, { profile: 'upstream' });
      if (expect.error) assert.ok(upstream.error !== undefined);
      // This part lets volumes pass that another part holds against the SCC.
      else if (area === 'scc-to-pss/hostDir')
        assert.equal(upstream.level === 'privileged', expect.level === 'privileged');
      else assert.deepEqual(upstream, { level: expect.level });
      if (!productExpect) return;
      assert.deepEqual(psaLevel(whole, namespace, { profile: 'accurate' }), { level: productExpect.level });
    });
  }
});

function readJson<T>(file: string): T {
  return JSON.parse(readFileSync(join(folder, file), 'utf8')) as T;
}

function readLines<T>(file: string): T[] {
  const text = gunzipSync(readFileSync(join(folder, file))).toString('utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as T);
}
