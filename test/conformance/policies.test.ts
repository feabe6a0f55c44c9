/**
 * Compares the generated policies with the recorded verdicts and texts of Pod Security. `PORTCULLIS_ALL_POLICY_CASES=1`
 * evaluates all cases instead of a sample (`npm test -- policies`).
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { parse } from 'yaml';
import { asStored, compileVariables } from '../../src/dev-cluster/cel.ts';
import { POD_SECURITY_LABELS } from '../../src/kube/well-known.ts';
import { createPodSecurity, DEFAULT_CONFIGURATION, generatePolicies } from '../../src/policy/psa/index.ts';
import {
  buildCelChecks,
  checks,
  evaluatePod,
  type Level,
  minorVersion,
  newestVersion,
  type Version,
} from '../../src/policy/pss/index.ts';
import { compilePolicy } from '../support/cel.ts';
import { readLines, RECORDED_VERSION } from '../support/conformance/cases.ts';
import { violatingPod } from '../support/pod-security.ts';

const ALL = process.env['PORTCULLIS_ALL_POLICY_CASES'] !== undefined;

/** The sample contains the lines whose index is a multiple of this number. */
const SAMPLE = 20;

function compilePolicies(mode: 'enforce' | 'warn') {
  const generated = generatePolicies(
    { podSecurity: createPodSecurity(DEFAULT_CONFIGURATION), emulationVersion: RECORDED_VERSION },
    { modes: 'all', kubernetesMinor: minorVersion(newestVersion) },
  );
  const compile = (level: Level) => {
    const name = `${mode}-${level}.psa.portcullis.dev`;
    const policy = generated.find(({ kind, metadata }) => !kind.endsWith('Binding') && metadata.name === name);
    return policy ? [[level, compilePolicy(policy)] as const] : [];
  };
  return new Map([...compile('baseline'), ...compile('restricted')]);
}

const policies = { enforce: compilePolicies('enforce'), warn: compilePolicies('warn') };

interface Expectation {
  readonly level: Level;
  readonly version: Version;
  /** The reasons with their details, or an empty text if the pod passes. */
  readonly text: string;
}

const counts = { verdicts: 0, texts: 0, warnings: 0, suppressed: 0 };

/** Compares the message of the policies with the recorded text. */
function verify(pod: unknown, { level, version, text }: Expectation, name: string): void {
  const request = { object: pod, labels: { [POD_SECURITY_LABELS.enforceVersion]: version } };
  const expected = text === '' ? undefined : `violates PodSecurity "${level}:${version}": ${text}`;
  assert.equal(policies.enforce.get(level)?.(request).message, expected, name);
  counts.verdicts++;
  if (text !== '') counts.texts++;
}

/** Compares the warning of the policies with the recorded text. A pod that enforce mode denies causes no warning. */
function verifyWarning(pod: unknown, enforced: Expectation, warned: Expectation, name: string): void {
  const { enforce, enforceVersion, warn, warnVersion } = POD_SECURITY_LABELS;
  const labels = {
    [enforce]: enforced.level,
    [enforceVersion]: enforced.version,
    [warn]: warned.level,
    [warnVersion]: warned.version,
  };
  const request = { object: pod, labels };
  const { level, version, text } = warned;
  const expected =
    enforced.text !== '' || text === '' ? undefined : `would violate PodSecurity "${level}:${version}": ${text}`;
  assert.equal(policies.warn.get(level)?.(request).message, expected, name);
  if (expected !== undefined) counts.warnings++;
  else if (text !== '') counts.suppressed++;
}

const FIXTURES = join(import.meta.dirname, '../fixtures');

function readFixture(file: string): unknown {
  return parse(readFileSync(join(FIXTURES, file), 'utf8'));
}

test('the policies deny the example of each check with the message of the webhook', () => {
  for (const { id, level, violation } of checks) {
    const pod = violatingPod({ violation });
    const policy = { level, version: 'latest', emulationVersion: RECORDED_VERSION } as const;
    verify(pod, { ...policy, text: evaluatePod(pod, policy).detail }, id);
  }
});

/** The variables of a level's checks, for the version in the request. */
const compiledChecks = new Map(
  (['baseline', 'restricted'] as const).map((level) => {
    const { variables } = buildCelChecks({ levels: [level] });
    const inputs = [
      { name: 'pod', expression: 'dyn(object)' },
      { name: 'minor', expression: 'request.minor' },
    ];
    return [level, compileVariables([...inputs, ...variables])] as const;
  }),
);

/** Compares the verdict and the text of one check. */
function verifyCheck(id: string, pod: unknown, { version, text }: Omit<Expectation, 'level'>, name: string): void {
  const level = checks.find((check) => check.id === id)?.level ?? 'restricted';
  const minor = minorVersion(version === 'latest' ? newestVersion : version);
  const run = compiledChecks.get(level)?.({ object: asStored(pod), request: { minor } });
  const results = [run?.(`variables.${id}`), run?.(`variables.${id}Text`)];
  assert.deepEqual(results, [text === '', text], `${id} ${version}: ${name}`);
  counts.verdicts++;
  if (text !== '') counts.texts++;
}

interface CheckFixture {
  readonly name: string;
  readonly version?: Version;
  readonly pod: unknown;
  readonly expected: string;
}

for (const { id } of checks) {
  test(`the policies decide as in test/fixtures/pss-checks/${id}.yaml`, () => {
    for (const { name, version = 'latest', pod, expected } of readFixture(`pss-checks/${id}.yaml`) as CheckFixture[]) {
      verifyCheck(id, pod, { version, text: expected }, name);
    }
  });
}

/** Adds a test for all lines of a file, or for a sample. */
function testSample<T>(file: string, compare: (given: T) => void): void {
  test(`the policies decide as in ${file}`, () => {
    for (const [index, line] of readLines<T>(file).entries()) if (ALL || index % SAMPLE === 0) compare(line);
  });
}

interface PodCase {
  readonly level: Level;
  readonly version: Version;
  readonly expect: 'pass' | 'fail';
  readonly name: string;
  readonly reasons?: readonly string[];
  readonly details?: readonly string[];
  readonly defaulting?: readonly string[];
  readonly pod: { readonly spec?: { readonly volumes?: readonly object[] } };
}

testSample<PodCase>('pss/pods.ndjson', ({ level, version, name, reasons = [], details = [], defaulting, pod }) => {
  const text = reasons.map((reason, index) => (details[index] ? `${reason} (${details[index]})` : reason)).join(', ');
  // API servers set an emptyDir on volumes that have no source.
  const volumes = pod.spec?.volumes?.map((volume) => ({
    ...(Object.keys(volume).length < 2 && { emptyDir: {} }),
    ...volume,
  }));
  const object = defaulting && volumes ? { ...pod, spec: { ...pod.spec, volumes } } : pod;
  verify(object, { level, version, text }, `${level}:${version} ${name}`);
});

interface CheckCase {
  readonly check: string;
  readonly case: string;
  readonly version: Version;
  readonly pod: unknown;
  readonly reason: string;
  readonly detail: string;
}

testSample<CheckCase>('pss/checks.ndjson', ({ check, case: name, version, pod, reason, detail }) => {
  verifyCheck(check, pod, { version, text: detail === '' ? reason : `${reason} (${detail})` }, name);
});

interface AggregateCase {
  readonly level: Level;
  readonly version: Version;
  readonly case: string;
  readonly emulationVersion?: Version;
  readonly pod: unknown;
  readonly message: string;
}

testSample<AggregateCase>('pss/aggregate.ndjson', ({ level, version, case: name, emulationVersion, pod, message }) => {
  if (level !== 'privileged' && emulationVersion === undefined) verify(pod, { level, version, text: message }, name);
});

interface RandomCase {
  readonly id: string;
  readonly pod: unknown;
  readonly expect: readonly {
    readonly level: Level;
    readonly versions: readonly Version[];
    readonly detail?: string;
  }[];
}

testSample<RandomCase>('random/pss-random.ndjson', ({ id, pod, expect }) => {
  const all = expect.flatMap(({ level, versions, detail: text = '' }) =>
    versions.map((version) => ({ level, version, text })),
  );
  for (const [index, warned] of all.entries()) {
    const { level, version } = warned;
    verify(pod, warned, `${id} ${level}:${version}`);
    const enforced = all[(index * 7 + 3) % all.length] ?? warned;
    const name = `${id} ${level}:${version}, enforce ${enforced.level}:${enforced.version}`;
    if (level !== 'privileged' && enforced.level !== 'privileged') verifyWarning(pod, enforced, warned, name);
  }
});

after(() => {
  const { verdicts, texts, warnings, suppressed } = counts;
  assert.ok(warnings > 50 && suppressed > 50, `${warnings} warnings, ${suppressed} denials without a warning`);
  if (ALL) {
    console.log(`${verdicts} verdicts, ${texts} texts and ${warnings} warnings are equal`);
    console.log(`${suppressed} denied pods cause no warning`);
  }
});
