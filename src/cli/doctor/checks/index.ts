import type { DoctorCheck, Facts, DoctorFinding, Severity } from '../facts.ts';
import { instruction } from '../fix.ts';
import { apiServer } from './api-server.ts';
import { breakGlass } from './break-glass.ts';
import { certificates } from './certificates.ts';
import { configuration } from './configuration.ts';
import { deadlocks } from './deadlocks.ts';
import { exceptions } from './exceptions.ts';
import { exemptions } from './exemptions.ts';
import { floor } from './floor.ts';
import { grants } from './grants.ts';
import { guard } from './guard.ts';
import { installation, isDevCluster, isInstalled } from './installation.ts';
import { leases } from './leases.ts';
import { otherAdmission } from './other-admission.ts';
import { policies } from './policies.ts';
import { reachability } from './reachability.ts';
import { replicas } from './replicas.ts';
import { rollout } from './rollout.ts';
import { tiers } from './tiers.ts';
import { webhooks } from './webhooks.ts';

/** All checks, in output order. */
const CHECKS: readonly DoctorCheck[] = [
  installation,
  apiServer,
  webhooks,
  floor,
  breakGlass,
  reachability,
  certificates,
  replicas,
  leases,
  configuration,
  rollout,
  exceptions,
  exemptions,
  grants,
  guard,
  otherAdmission,
  policies,
  tiers,
  deadlocks,
];

/** Checks that are skipped in the development cluster, which lacks the objects that they need. */
const NOT_FOR_DEV_CLUSTER: readonly DoctorCheck[] = [certificates, replicas, leases, deadlocks];

/** Evaluates the checks that apply to the cluster. */
export function evaluateChecks(facts: Facts): readonly DoctorFinding[] {
  const skipped = isDevCluster(facts) ? NOT_FOR_DEV_CLUSTER : [];
  const checks = isInstalled(facts) ? CHECKS.filter((check) => !skipped.includes(check)) : [installation];
  const findings = checks.flatMap(({ name, evaluate }) =>
    evaluate(facts).map((result) => ({ check: name, ...result })),
  );
  return findings.map((finding) => postponeFix(finding, findings));
}

/** Withholds a fix until the checks on which it depends have run and found no problems. */
function postponeFix(finding: DoctorFinding, findings: readonly DoctorFinding[]): DoctorFinding {
  const { after = [] } = finding.fix ?? {};
  const checksWith = (severity: Severity): string =>
    after
      .filter((name) => findings.some((finding) => finding.check === name && finding.severity === severity))
      .join(', ');
  const [failed, unread] = [checksWith('problem'), checksWith('unknown')];
  if (failed !== '')
    return { ...finding, fix: instruction(`first fix the problems that these checks report: ${failed}`) };
  if (unread !== '')
    return { ...finding, fix: instruction(`first resolve the read errors of these checks: ${unread}`) };
  return finding;
}
