/** Compares SCC decisions with those of OpenShift. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { SecurityContextConstraints } from '../../src/kube/scc.ts';
import type { JsonObject, Namespace } from '../../src/kube/types.ts';
import { psaLevel } from '../../src/policy/psa/index.ts';
import {
  assignScc,
  defaultScc,
  type SccDecision,
  type SccInput,
  STANDARD_SCCS,
  standardScc,
  validateScc,
} from '../../src/policy/scc/index.ts';
import { type Case, readCases, readLines, testAreas } from '../support/conformance/cases.ts';
import {
  admissionAreas,
  denialMessage,
  REVIEW_AREAS,
  SCOPE_AREAS,
  withoutPrefixes,
} from '../support/conformance/scc-admission.ts';
import { ALLOCATION_AREAS, objectAreas } from '../support/conformance/scc-objects.ts';
import { STRATEGY_AREAS } from '../support/conformance/scc-strategies.ts';
import { accessBy, type Grant, laxScc } from '../support/scc.ts';

const standard = readCases<readonly SecurityContextConstraints[]>('scc/default-sccs.json');

suite('SCC admission agrees with the recorded results', () => {
  testAreas(readCases<readonly Case[]>('scc/cases.json'), {
    ...STRATEGY_AREAS,
    ...objectAreas(standard),
    ...admissionAreas(standard),
    ...REVIEW_AREAS,
    ...ALLOCATION_AREAS,
    ...SCOPE_AREAS,
  });
});

test('in OpenShift compatibility mode, the standard SCCs equal those of OpenShift except for their metadata', () => {
  const withoutMetadata = (sccs: readonly SecurityContextConstraints[]) =>
    new Map(sccs.map(({ metadata, ...fields }) => [metadata?.name, fields]));
  assert.deepEqual(
    withoutMetadata(STANDARD_SCCS.map((one) => standardScc(one, 'openshift'))),
    withoutMetadata(standard.map(defaultScc)),
  );
});

interface Pass {
  readonly allowed: boolean;
  readonly object?: JsonObject;
  readonly message?: string;
  readonly auditAnnotations?: Readonly<Record<string, string>>;
}

interface RandomRequest extends Omit<SccInput, 'access' | 'object'> {
  readonly id: string;
  readonly object: JsonObject;
  readonly grants: readonly Grant[];
  readonly expect: { readonly mutate?: Pass; readonly validate?: Pass };
}

for (const [file, passes] of [
  ['scc-admission-random', 2178],
  ['scc-second-pass-random', 570],
] as const) {
  test(`both passes of SCC admission decide as in ${file}`, () => {
    let compared = 0;
    for (const request of readLines<RandomRequest>(`random/${file}.ndjson`)) {
      const { mutate, validate } = request.expect;
      const input: SccInput = { ...request, access: accessBy(request.grants), compatibility: 'openshift' };
      for (const [pass, decide, object] of [
        [mutate, assignScc, request.object],
        [validate, validateScc, mutate?.object ?? request.object],
      ] as const) {
        if (pass === undefined) continue;
        assert.deepEqual(getOutcome(decide({ ...input, object }), object), expected(pass), request.id);
        compared++;
      }
    }
    assert.equal(compared, passes);
  });
}

function getOutcome(decision: SccDecision, pod: JsonObject): Pass {
  const { allowed, auditAnnotations } = decision;
  const message = denialMessage(decision, pod);
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

suite('the Pod Security levels of SCCs agree with the recorded results', () => {
  interface RandomScc {
    readonly id: string;
    readonly scc: SecurityContextConstraints;
    readonly namespace: Namespace;
    readonly expect: { readonly level: string; readonly error?: string };
  }

  test('scc-to-pss-random', () => {
    let compared = 0;
    for (const { id, scc, namespace, expect } of readLines<RandomScc>('random/scc-to-pss-random.ndjson')) {
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

  /** Defaults for fields that a case does not set. */
  const strict = laxScc({
    allowPrivilegeEscalation: false,
    requiredDropCapabilities: ['ALL'],
    seLinuxContext: { type: 'MustRunAs' },
    runAsUser: { type: 'MustRunAsNonRoot' },
    seccompProfiles: ['runtime/default'],
    volumes: [],
  });

  const { cases } = readCases<{ readonly cases: readonly LevelCase[] }>('rollout/cases.json');
  for (const { area, name, input, expect, productExpect } of cases) {
    if (!area.startsWith('scc-to-pss/')) continue;
    test(`${area}: ${name}`, () => {
      const { namespaceAnnotations: annotations = {}, scc = {}, ...part } = input;
      const namespace = { metadata: { name: 'demo', annotations } };
      const whole = area === 'scc-to-pss/whole' ? laxScc({ ...scc, ...part }) : { ...strict, ...part };
      const upstream = psaLevel(whole, namespace, { profile: 'upstream' });
      if (expect.error) assert.ok(upstream.error !== undefined);
      // The upstream function that reads hostDir ignores other volumes, which may also raise the level.
      else if (area === 'scc-to-pss/hostDir')
        assert.equal(upstream.level === 'privileged', expect.level === 'privileged');
      else assert.deepEqual(upstream, { level: expect.level });
      if (!productExpect) return;
      assert.deepEqual(psaLevel(whole, namespace, { profile: 'accurate' }), { level: productExpect.level });
    });
  }
});
