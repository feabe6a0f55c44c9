import type { Check, Facts, Finding } from '../facts.ts';
import { apiServer } from './api-server.ts';
import { breakGlass } from './break-glass.ts';
import { certificates } from './certificates.ts';
import { configuration } from './configuration.ts';
import { deadlocks } from './deadlocks.ts';
import { floor } from './floor.ts';
import { installation, isDevCluster, isInstalled } from './installation.ts';
import { leases } from './leases.ts';
import { otherAdmission } from './other-admission.ts';
import { permissions } from './permissions.ts';
import { reachability } from './reachability.ts';
import { replicas } from './replicas.ts';
import { tiers } from './tiers.ts';
import { webhooks } from './webhooks.ts';

/** All checks, in the order of the report. */
export const CHECKS: readonly Check[] = [
  installation,
  apiServer,
  webhooks,
  floor,
  breakGlass,
  reachability,
  certificates,
  replicas,
  leases,
  permissions,
  configuration,
  otherAdmission,
  tiers,
  deadlocks,
];

/** The development cluster has no objects for these checks. */
const NOT_FOR_DEV_CLUSTER: readonly Check[] = [certificates, replicas, leases, permissions, deadlocks];

/** Evaluates the checks that apply to the cluster. */
export function evaluateChecks(facts: Facts): readonly Finding[] {
  const skipped = isDevCluster(facts) ? NOT_FOR_DEV_CLUSTER : [];
  const checks = isInstalled(facts) ? CHECKS.filter((check) => !skipped.includes(check)) : [installation];
  return checks.flatMap(({ name, evaluate }) => evaluate(facts).map((result) => ({ check: name, ...result })));
}
