/**
 * The Pod Security Standards: does a pod keep a level at a version? What is here sees the pod alone, never its
 * namespace, its requester or the cluster, and judges whatever is sent: nothing throws.
 */
import type { Check, Level, Finding, Version, Violation } from './types.ts';
import { compareVersions, parseVersion } from './version.ts';
import type { FieldError } from '../../kube/field-error.ts';
import type { PodLike } from '../../kube/types.ts';
import { checks } from './checks/index.ts';
import { decode, decodeUnchanged, forgetLarge, type Decoded, type DecodeError } from './decode.ts';
import { EVERY_POD, type PodFields } from './fields.ts';
import { createSelector, newestVersionOf, type SelectOptions, type SelectedCheck, type Selector } from './select.ts';
import { both } from './text.ts';

/** What makes a list of checks unusable; empty if nothing does. */
function registryErrors(checks: readonly Check[]): string[] {
  const levels = new Map(checks.map((check) => [check.id, check.level]));
  const repeated = checks.map(({ id }) => id).filter((id, index, ids) => ids.indexOf(id) !== index);
  return [
    ...new Set(repeated.map((id) => `check "${id}" is registered more than once`)),
    ...checks.flatMap((check) => [...checkErrors(check), ...overrideErrors(check, levels)]),
  ];
}

function checkErrors({ id, level, versions }: Check): string[] {
  const errors: string[] = [];
  if (level !== 'baseline' && level !== 'restricted') {
    errors.push(`check "${id}" has level "${String(level)}": must be baseline or restricted`);
  }
  if (versions.length === 0) errors.push(`check "${id}" has no versions`);
  const starts = versions.map(({ since }) => since);
  const bad = starts.filter((since) => since === 'latest' || parseVersion(since) === undefined);
  errors.push(
    ...bad.map((since) => `check "${id}" has a revision since "${since}": must be a version such as "v1.25"`),
  );
  starts.slice(1).forEach((since, index) => {
    const before = starts[index];
    if (before !== undefined && compareVersions(before, since) >= 0) {
      errors.push(`check "${id}" has a revision since "${since}" after one since "${before}": versions must rise`);
    }
  });
  return errors;
}

function overrideErrors({ id, level, versions }: Check, levels: ReadonlyMap<string, Level>): string[] {
  const overrides = [...new Set(versions.flatMap((revision) => revision.overrides ?? []))];
  if (overrides.length > 0 && level !== 'restricted') {
    return [`check "${id}" overrides others: only restricted checks may`];
  }
  return overrides
    .filter((other) => levels.has(other) && levels.get(other) !== 'baseline')
    .map((other) => `check "${id}" overrides "${other}", which is not a baseline check`);
}

export interface EvaluateOptions extends SelectOptions {
  /** Attach the offending fields to each violation. */
  readonly fields?: boolean;
}

/** The verdict on one pod. Both texts are empty if it is allowed. */
export interface Evaluation {
  readonly allowed: boolean;
  /** In the order of their checks: baseline before restricted, each by id. */
  readonly violations: readonly Violation[];
  /** The reasons, joined. */
  readonly reason: string;
  /** The reasons with their details, joined. */
  readonly detail: string;
}

export interface Evaluator {
  /** Judges a pod or a pod template. A version that is none counts as `latest`. */
  evaluatePod(pod: PodLike, options: EvaluateOptions): Evaluation;
  /** The same for a pod that has not changed since it was decoded or judged last: it is not read again. */
  evaluateUnchanged(pod: PodLike, options: EvaluateOptions): Evaluation;
  /** The checks that run at a policy, in order. */
  readonly checksAt: Selector;
  /** Newer versions are judged like this one. */
  readonly newestVersion: Version;
}

const ALLOWED: Evaluation = Object.freeze({
  allowed: true,
  violations: Object.freeze([]),
  reason: '',
  detail: '',
});

/**
 * Prepares the evaluation by a list of checks, in any order.
 * @throws Error if the list contradicts itself
 */
export function createEvaluator(registry: readonly Check[]): Evaluator {
  const errors = registryErrors(registry);
  if (errors.length > 0) throw new Error(`invalid checks: ${errors.join('; ')}`);
  const newestVersion = newestVersionOf(registry);
  const checksAt = createSelector(registry);
  const evaluate = ({ error, pod }: Decoded, options: EvaluateOptions): Evaluation => {
    const evaluation = run(error ? [undecodable(error)] : checksAt(options), pod, options);
    forgetLarge();
    return evaluation;
  };
  return {
    newestVersion,
    checksAt,
    evaluatePod: (pod, options) => (options.level === 'privileged' ? ALLOWED : evaluate(decode(pod), options)),
    evaluateUnchanged: (pod, options) =>
      options.level === 'privileged' ? ALLOWED : evaluate(decodeUnchanged(pod), options),
  };
}

export const { evaluatePod, evaluateUnchanged, checksAt, newestVersion } = createEvaluator(checks);

/** Every check has its say; there is no early end. */
function run(selection: readonly SelectedCheck[], pod: PodFields, options: EvaluateOptions): Evaluation {
  let violations: Violation[] | undefined;
  let reasons = '';
  let details = '';
  for (const { id, settings, check } of selection) {
    if ((settings & pod.settings) === 0) continue;
    const finding = check(pod);
    if (finding === undefined) continue;
    const violation = violationOf(id, finding, pod, options);
    if (violations) violations.push(violation);
    else violations = [violation];
    const reason = finding.reason || 'unknown forbidden reason';
    reasons = both(reasons, ', ', reason);
    details = both(details, ', ', finding.detail ? reason + ' (' + finding.detail + ')' : reason);
  }
  return violations ? { allowed: false, violations, reason: reasons, detail: details } : ALLOWED;
}

function violationOf(check: string, finding: Finding, pod: PodFields, options: EvaluateOptions): Violation {
  const { reason, detail } = finding;
  return options.fields === true ? { check, reason, detail, fields: finding.fields(pod) } : { check, reason, detail };
}

/** The one check of a pod that cannot be decoded. */
function undecodable({ path, value, message: detail }: DecodeError): SelectedCheck {
  const fields = (): FieldError[] => [{ type: 'FieldValueTypeInvalid', path, value, detail }];
  const check = (): Finding => ({
    reason: 'undecodable field',
    detail,
    fields,
  });
  return { id: 'decode', since: 'v1.0', settings: EVERY_POD, check };
}
