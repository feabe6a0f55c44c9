import type { Namespace, Pod } from '../../../kube/types.ts';
import { evaluatePod } from '../../pss/evaluate.ts';
import type { Policy, Version } from '../../pss/types.ts';
import { compareVersions } from '../../pss/version.ts';
import { resolvePolicies } from '../../psa/namespace-policy.ts';
import { printPolicy } from '../../psa/policy.ts';

/** What a pod would violate if user namespaces did not count. */
export interface HiddenViolations {
  /** `restricted:latest`, as the namespace has it. */
  readonly policy: string;
  readonly detail: string;
}

/** The checks that let pods with a user namespace pass, from v1.35 on. */
const RELAXED_CHECKS: ReadonlySet<string> = new Set(['procMount', 'runAsNonRoot', 'runAsUser']);
const NOTHING: Policy = { level: 'privileged', version: 'latest' };
const BEFORE_RELAXATIONS: Version = 'v1.34';

/**
 * What a pod violates of the level that its namespace enforces, judged as before the standards knew user namespaces, by
 * the checks that know them now; `undefined` if nothing. A namespace without a label enforces nothing.
 */
export function hiddenViolations(pod: Pod, namespace: Namespace | undefined): HiddenViolations | undefined {
  const { enforce } = resolvePolicies(namespace?.metadata?.labels, { enforce: NOTHING, audit: NOTHING, warn: NOTHING });
  const version = compareVersions(enforce.version, BEFORE_RELAXATIONS) > 0 ? BEFORE_RELAXATIONS : enforce.version;
  const { violations } = evaluatePod(pod, { level: enforce.level, version });
  const hidden = violations.filter(({ check }) => RELAXED_CHECKS.has(check));
  if (hidden.length === 0) return undefined;
  return {
    policy: printPolicy(enforce),
    detail: hidden.map(({ reason, detail }) => `${reason} (${detail})`).join(', '),
  };
}
