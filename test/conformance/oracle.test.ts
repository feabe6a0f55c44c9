/** The oracle, the independent implementation of the fuzz tests, compared with upstream and OpenShift. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readCases, skip, testLines } from '../support/conformance/cases.ts';
import { at, mapAt, textAt, type JsonObject } from '../support/oracle/json.ts';
import {
  evaluatePodSecurity,
  resolvePolicies,
  type Configuration,
  type Policy,
} from '../support/oracle/pod-security-admission.ts';
import { findReasons } from '../support/oracle/pod-security-standards.ts';
import {
  firstPass,
  isMetadataIgnorable,
  sccMode,
  OPENSHIFT,
  secondPass,
  type SccSurroundings,
} from '../support/oracle/scc-admission.ts';
import { computeDefaults, findMistakes } from '../support/oracle/scc-objects.ts';
import { sortSccs, computePoints, type Authorizer } from '../support/oracle/scc-order.ts';
import { parseBlock, createProvider } from '../support/oracle/scc-ranges.ts';
import { canonical } from '../support/oracle/semantic-equality.ts';

test('the oracle imports nothing from src', () => {
  const home = fileURLToPath(new URL('../support/oracle/', import.meta.url));
  for (const file of readdirSync(home)) {
    const text = readFileSync(join(home, file), 'utf8');
    for (const [, source = ''] of text.matchAll(/(?:from|import\(?)\s*'([^']+)'/g)) {
      assert.match(source, /^(\.\/|node:)/, `${file} imports ${source}`);
    }
  }
});

suite('Pod Security Standards', { skip }, () => {
  interface PodCase extends Policy {
    readonly name: string;
    readonly reasons?: readonly string[];
    readonly defaulting?: readonly string[];
    readonly pod: JsonObject;
  }
  testLines<PodCase>('pss/pods.ndjson', (given) => {
    const pod = given.defaulting ? withVolumeDefaults(given.pod) : given.pod;
    assert.deepEqual(findReasons(pod, given.level, given.version), given.reasons ?? [], given.name);
  });

  interface AggregateCase extends Policy {
    readonly case: string;
    readonly emulationVersion?: string;
    readonly pod: JsonObject;
    readonly reasons: readonly string[];
  }
  testLines<AggregateCase>('pss/aggregate.ndjson', ({ pod, level, version, emulationVersion, reasons, case: name }) => {
    assert.deepEqual(findReasons(pod, level, version, emulationVersion), reasons, name);
  });

  interface CheckCase {
    readonly check: string;
    readonly case: string;
    readonly version: string;
    readonly pod: JsonObject;
    readonly allowed: boolean;
    readonly reason: string;
  }
  testLines<CheckCase>('pss/checks.ndjson', ({ pod, version, allowed, reason, case: name }) => {
    if (allowed) return;
    const found = ['baseline', 'restricted'].flatMap((level) => findReasons(pod, level, version));
    assert.ok(found.includes(reason), `${name}: ${found.join()}`);
  });

  interface RandomCase {
    readonly id: string;
    readonly pod: JsonObject;
    readonly expect: readonly {
      readonly level: string;
      readonly versions: readonly string[];
      readonly reason?: string;
    }[];
  }
  testLines<RandomCase>('random/pss-random.ndjson.gz', ({ id, pod, expect }) => {
    for (const { level, versions, reason = '' } of expect) {
      for (const version of versions) {
        assert.equal(findReasons(pod, level, version).join(', '), reason, `${id} ${level}:${version}`);
      }
    }
  });
});

suite('Pod Security Admission', { skip }, () => {
  interface PolicyCase {
    readonly case: string;
    readonly defaults: Configuration['defaults'];
    readonly labels: Readonly<Record<string, string>>;
    readonly enforce: string;
    readonly audit: string;
    readonly warn: string;
    readonly errors?: readonly string[];
  }
  testLines<PolicyCase>('pss/policy.ndjson', (given) => {
    const { errors, ...policies } = resolvePolicies(new Map(Object.entries(given.labels)), {
      ...(given.defaults ? { defaults: given.defaults } : {}),
    });
    for (const mode of ['enforce', 'audit', 'warn'] as const) {
      assert.equal(`${policies[mode].level}:${policies[mode].version}`, given[mode], given.case);
    }
    assert.equal(errors.length, given.errors?.length ?? 0, given.case);
  });

  interface AdmissionCase {
    readonly case: string;
    readonly config: Configuration;
    readonly namespaces: Readonly<Record<string, Readonly<Record<string, string>>>>;
    readonly emulationVersion?: string;
    readonly request: JsonObject;
    readonly response: JsonObject;
  }
  testLines<AdmissionCase>('pss/admission.ndjson', ({ request, response, config, namespaces, ...given }) => {
    const verdict = evaluatePodSecurity(request, {
      configuration: config,
      types: 'all',
      ...(given.emulationVersion === undefined ? {} : { emulationVersion: given.emulationVersion }),
      namespaceLabels: (name) => (Object.hasOwn(namespaces, name) ? mapAt(namespaces, name) : undefined),
    });
    const annotations = mapAt(response, 'auditAnnotations');
    assert.deepEqual(
      [verdict.allowed, verdict.code, verdict.exempt, (verdict.audit ?? []).length > 0],
      [
        response['allowed'],
        at(response, 'status', 'code'),
        annotations.get('exempt'),
        annotations.has('audit-violations'),
      ],
      given.case,
    );
    if (textAt(request, 'resource', 'resource') === 'namespaces') return;
    assert.equal((verdict.warn ?? []).length > 0, at(response, 'warnings') !== undefined, given.case);
  });
});

interface Grant {
  readonly user?: string;
  readonly group?: string;
  readonly namespace?: string;
  readonly scc?: string;
  readonly sccs?: readonly string[];
}

function authorizerOf(grants: readonly Grant[]): Authorizer {
  return (subject, name, inNamespace) =>
    grants.some(({ user, group, namespace, scc, sccs = [scc ?? '*'] }) => {
      const isSubject = user === undefined ? subject.groups.includes(group ?? '') : user === subject.username;
      return isSubject && (namespace ?? inNamespace) === inNamespace && (sccs.includes('*') || sccs.includes(name));
    });
}

suite('security context constraints', { skip }, () => {
  interface Pass {
    readonly allowed: boolean;
    readonly object?: JsonObject;
  }
  interface RandomRequest extends JsonObject {
    readonly id: string;
    readonly sccs: readonly JsonObject[];
    readonly namespace: JsonObject;
    readonly grants: readonly Grant[];
    readonly expect: { readonly mutate?: Pass; readonly validate?: Pass };
  }
  for (const file of ['scc-admission-random', 'scc-second-pass-random']) {
    testLines<RandomRequest>(`random/${file}.ndjson.gz`, ({ id, sccs, namespace, grants, expect, ...given }) => {
      const surroundings = { sccs, namespace, authorizer: authorizerOf(grants), settings: OPENSHIFT };
      const request = { ...given, resource: { resource: 'pods' }, namespace: textAt(namespace, 'metadata', 'name') };
      const { mutate, validate } = expect;
      if (mutate) {
        const verdict = firstPass(request, surroundings);
        assert.equal(verdict.allowed, mutate.allowed, `${id}: ${verdict.why}`);
        if (verdict.allowed) assert.deepEqual(verdict.pod ?? given['object'], mutate.object ?? given['object'], id);
      }
      if (!validate) return;
      const verdict = secondPass({ ...request, object: mutate?.object ?? given['object'] }, surroundings);
      assert.equal(verdict.allowed, validate.allowed, `${id}: ${verdict.why}`);
    });
  }

  interface StepCase {
    readonly area: string;
    readonly name: string;
    readonly input: JsonObject;
    readonly expect: JsonObject;
  }
  const standard = readCases<readonly JsonObject[]>('scc/default-sccs.json', []);
  const steps = stepChecks(standard);
  const given = readCases<readonly StepCase[]>('scc/cases.json', []);
  for (const [area, check] of Object.entries(steps)) {
    test(area, () => {
      const inArea = given.filter((one) => one.area === area);
      assert.notEqual(inArea.length, 0);
      for (const { name, input, expect } of inArea) check(input, expect, `${area}: ${name}`);
    });
  }
});

type Step = (input: JsonObject, expect: JsonObject, name: string) => void;

/** The internal steps of the original that the oracle implements. */
function stepChecks(standard: readonly JsonObject[]): Readonly<Record<string, Step>> {
  const sccsOf = (input: JsonObject): readonly JsonObject[] =>
    input['sccsFrom'] === undefined ? withRequired(input['sccs'] as readonly JsonObject[]) : standard;
  const surroundingsOf = (input: JsonObject): SccSurroundings => ({
    sccs: sccsOf(input),
    namespace: input['namespace'] as JsonObject,
    authorizer: authorizerOf((input['grants'] ?? []) as readonly Grant[]),
    settings: OPENSHIFT,
  });
  const requestOf = (input: JsonObject): JsonObject => ({
    operation: input['operation'] ?? 'CREATE',
    subResource: input['subresource'] ?? '',
    resource: { resource: 'pods' },
    kind: { kind: 'Pod' },
    namespace: at(input, 'namespace', 'metadata', 'name'),
    userInfo: { username: at(input, 'user', 'name'), groups: at(input, 'user', 'groups') },
    object: input['pod'],
    oldObject: input['oldPod'],
  });
  return {
    'sort.order': (input, expect, name) => {
      const { sccs } = input;
      const ordered = sortSccs(typeof sccs === 'string' ? standard : (sccs as readonly JsonObject[]));
      assert.deepEqual(
        ordered.map((scc) => textAt(scc, 'metadata', 'name')),
        expect['names'],
        name,
      );
    },
    'sort.points': (input, expect, name) => {
      const { scc } = input;
      const found = typeof scc === 'string' ? standard.find((one) => textAt(one, 'metadata', 'name') === scc) : scc;
      assert.equal(computePoints(found as JsonObject), expect['points'], name);
    },
    'scc.default': ({ scc }, { fields, object }, name) => {
      const completed = { ...(scc as JsonObject), ...computeDefaults(scc as JsonObject) };
      for (const [field, value] of Object.entries((fields ?? object) as JsonObject)) {
        const found = at(completed, field);
        assert.equal(canonical(found ?? false), canonical(value ?? false), `${name}: ${field}`);
      }
    },
    'scc.validate': ({ scc }, expect, name) => {
      assert.equal(findMistakes(scc as JsonObject).length === 0, expect['valid'], name);
    },
    'annotations.parseBlock': ({ value }, expect, name) => {
      const block = parseBlock(value as string);
      assert.deepEqual(
        [block !== undefined, block?.min, block?.max],
        [expect['valid'], expect['start'], expect['end']],
        name,
      );
    },
    'provider.build': ({ scc, namespace }, expect, name) => {
      const annotations = mapAt(namespace, 'metadata', 'annotations');
      if (!annotations.has('openshift.io/sa.scc.uid-range') || !annotations.has('openshift.io/sa.scc.mcs')) return;
      assert.equal(createProvider(scc as JsonObject, namespace) !== undefined, expect['valid'], name);
    },
    'admission.ignoreMetadata': ({ newMetadata, oldMetadata }, { ignored }, name) => {
      assert.equal(isMetadataIgnorable({ metadata: newMetadata }, { metadata: oldMetadata }), ignored, name);
    },
    'admission.ignore': (input, { ignored }, name) => {
      const verdict = firstPass(requestOf(input), surroundingsOf({ ...input, sccs: [] }));
      // Without SCCs every pod that is evaluated is denied.
      assert.equal(verdict.allowed, ignored, name);
    },
    'admission.namespaceSkip': ({ namespace, labels }, { skipped }, name) => {
      const exempt = ['default', 'kube-system', 'kube-public', 'openshift', 'openshift-infra', 'openshift-node'];
      const mode = sccMode({ metadata: { name: namespace, labels } }, { exempt, mode: 'enforce' });
      assert.equal(mode === 'off', skipped, name);
    },
    'admission.admit': (input, expect, name) => {
      const request = requestOf(input);
      const verdict = firstPass(request, surroundingsOf(input));
      assert.equal(verdict.allowed, expect['allowed'], `${name}: ${verdict.why}`);
      if (expect['scc'] !== undefined) assert.equal(verdict.scc, expect['scc'], name);
      if (expect['subjectType'] !== undefined) assert.equal(verdict.subjectType, expect['subjectType'], name);
      if (expect['pod'] !== undefined) assert.equal(canonical(verdict.pod), canonical(expect['pod']), name);
      if (expect['validateAllowed'] === undefined) return;
      const second = secondPass({ ...request, object: verdict.pod ?? input['pod'] }, surroundingsOf(input));
      assert.equal(second.allowed, expect['validateAllowed'], `${name}: ${second.why}`);
    },
    'admission.validate': (input, expect, name) => {
      const verdict = secondPass(requestOf(input), surroundingsOf(input));
      assert.equal(verdict.allowed, expect['allowed'], `${name}: ${verdict.why}`);
    },
  };
}

/** Adds the SCCs without which OpenShift evaluates no pod. No user may use them. */
function withRequired(sccs: readonly JsonObject[]): readonly JsonObject[] {
  const names = sccs.map((scc) => textAt(scc, 'metadata', 'name'));
  const any = { type: 'RunAsAny' };
  const lax = { runAsUser: any, seLinuxContext: any, fsGroup: any, supplementalGroups: any };
  const missing = OPENSHIFT.required.filter((name) => !names.includes(name));
  return [...sccs, ...missing.map((name) => ({ ...lax, metadata: { name } }))];
}

/** Gives volumes without any source an emptyDir, as the API server does. */
function withVolumeDefaults(pod: JsonObject): JsonObject {
  const copy = structuredClone(pod) as { readonly spec: { readonly volumes?: Record<string, unknown>[] } };
  for (const volume of copy.spec.volumes ?? []) if (Object.keys(volume).length < 2) volume['emptyDir'] = {};
  return copy;
}
