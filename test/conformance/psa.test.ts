/** Compares Pod Security Admission reviews and configurations with upstream. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { decodeConfiguration, findConfiguration, parsePodSecurity } from '../../src/config/configuration.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import { formatFieldError, formatFieldErrors } from '../../src/kube/field-error.ts';
import type { Pod } from '../../src/kube/types.ts';
import { UserError } from '../../src/kube/user-error.ts';
import {
  completeDefaults,
  DEFAULT_CONFIGURATION,
  DEFAULT_LIMITS,
  type PodSecurityConfiguration,
  type PodSecurityCount,
  printPolicy,
  resolvePolicies,
  reviewPodSecurity,
  validateConfiguration,
} from '../../src/policy/psa/index.ts';
import type { Version } from '../../src/policy/pss/index.ts';
import { readLines, RECORDED_VERSION } from '../support/conformance/cases.ts';

interface AdmissionCase {
  readonly case: string;
  readonly config: unknown;
  readonly namespaces: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly pods?: readonly Pod[];
  readonly listError?: string;
  readonly maxPods?: number;
  readonly timeoutMs?: number;
  readonly evalDelayMs?: number;
  readonly emulationVersion?: Version;
  readonly request: AdmissionRequest;
  readonly response: { readonly auditAnnotations?: Readonly<Record<string, string>> };
  readonly errorAnnotationPrefix?: string;
  readonly metrics?: readonly unknown[];
  readonly podsListed?: boolean;
}

conformance<AdmissionCase>('admission.ndjson', (given) => {
  let podsListed = false;
  let calls = 0;
  const { decision, counts } = reviewPodSecurity({
    request: given.request,
    podSecurity: parsePodSecurity({ file: 'config.json', text: JSON.stringify(given.config) }),
    emulationVersion: given.emulationVersion ?? RECORDED_VERSION,
    findNamespace(name) {
      const labels = given.namespaces[name];
      return labels && { metadata: { name, labels } };
    },
    listPods() {
      podsListed = true;
      return given.listError === undefined ? (given.pods ?? []) : undefined;
    },
    limits: {
      maxPods: given.maxPods ?? DEFAULT_LIMITS.maxPods,
      timeoutMs: given.timeoutMs ?? DEFAULT_LIMITS.timeoutMs,
    },
    // The clock is read once before the pods are listed, and then after each evaluation.
    now: () => calls++ * (given.evalDelayMs ?? 0),
  });
  const { error = '', ...auditAnnotations } = decision.auditAnnotations ?? {};
  if (given.errorAnnotationPrefix !== undefined) {
    assert.ok(error.startsWith(given.errorAnnotationPrefix), `annotation error: ${error}`);
    assert.ok(error.length > given.errorAnnotationPrefix.length, 'the error has no cause');
    assert.deepEqual(getResponse({ ...decision, auditAnnotations }), getResponse(given.response as Decision));
  } else assert.deepEqual(getResponse(decision), getResponse(given.response as Decision));
  assert.deepEqual(counts.map(printCount), given.metrics);
  if (given.podsListed !== undefined) assert.equal(podsListed, given.podsListed, 'pods listed');
});

/** Returns the response in the form of the cases, without the metadata of the status and without empty members. */
function getResponse(decision: Decision): unknown {
  const { auditAnnotations = {}, warnings = [], ...rest } = decision;
  const response = structuredClone(rest) as { status?: { metadata?: unknown } };
  delete response.status?.metadata;
  return { ...response, auditAnnotations: { ...auditAnnotations }, warnings: [...warnings] };
}

function printCount(count: PodSecurityCount): unknown {
  return count.metric === 'evaluations' ? { ...count, policy: printPolicy(count.policy) } : { ...count };
}

interface PolicyCase {
  readonly case: string;
  readonly defaults: Partial<PodSecurityConfiguration['defaults']>;
  readonly labels: Readonly<Record<string, string>>;
  readonly enforce: string;
  readonly audit: string;
  readonly warn: string;
  readonly errors: readonly string[];
  readonly aggregateError?: string;
}

conformance<PolicyCase>('policy.ndjson', (given) => {
  const { policies } = completeDefaults({ ...DEFAULT_CONFIGURATION.defaults, ...given.defaults });
  const { enforce, audit, warn, errors } = resolvePolicies(given.labels, policies);
  assert.deepEqual(
    { enforce: printPolicy(enforce), audit: printPolicy(audit), warn: printPolicy(warn) },
    { enforce: given.enforce, audit: given.audit, warn: given.warn },
  );
  assert.deepEqual(errors.map(formatFieldError), given.errors);
  if (given.aggregateError !== undefined) assert.equal(formatFieldErrors(errors), given.aggregateError);
});

interface ConfigCase {
  readonly case: string;
  readonly document: string;
  readonly loadErrorContains?: string;
  readonly defaults?: PodSecurityConfiguration['defaults'];
  readonly exemptions?: PodSecurityConfiguration['exemptions'];
  readonly validationErrors?: readonly string[];
  readonly completeError?: string;
  readonly validateError?: string;
}

/** The upstream webhook rejects the AdmissionConfiguration wrapper, but Portcullis accepts it. */
const DEVIATION = 'wrapped AdmissionConfiguration';

conformance<ConfigCase>('config.ndjson', (given) => {
  const load = () => {
    const node = findConfiguration({ file: 'config.yaml', text: given.document });
    return node ? decodeConfiguration(node) : DEFAULT_CONFIGURATION;
  };
  if (given.case === DEVIATION) {
    assert.deepEqual(load(), DEFAULT_CONFIGURATION);
    return;
  }
  if (given.loadErrorContains !== undefined) {
    const fragment = given.loadErrorContains;
    assert.throws(load, (error) => error instanceof UserError && error.message.includes(fragment));
    return;
  }
  const configuration = load();
  assert.deepEqual(configuration, { defaults: given.defaults, exemptions: given.exemptions });
  const { errors } = completeDefaults(configuration.defaults);
  const texts = errors.map(({ field, detail }) => `${field}: ${detail}`);
  assert.equal(texts.length > 1 ? `[${texts.join(', ')}]` : texts[0], given.completeError);
  const invalid = validateConfiguration(configuration);
  assert.deepEqual(invalid.map(formatFieldError), given.validationErrors);
  assert.equal(invalid.length === 0 ? undefined : formatFieldErrors(invalid), given.validateError);
});

/** Adds a suite for a file, with a test for each case. */
function conformance<Case extends { readonly case: string }>(file: string, verify: (given: Case) => void): void {
  suite(`reviews decide as in pss/${file}:`, () => {
    for (const given of readLines<Case>(`pss/${file}`)) test(given.case, () => verify(given));
  });
}
