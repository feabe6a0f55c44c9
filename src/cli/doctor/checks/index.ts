import type { Check, Facts, Finding } from '../facts.ts';
import { access } from './access.ts';
import { apiServer } from './api-server.ts';
import { arrangement } from './arrangement.ts';
import { breakGlass } from './break-glass.ts';
import { certificates } from './certificates.ts';
import { configuration } from './configuration.ts';
import { deadlocks } from './deadlocks.ts';
import { installed, isInstalled, isServedFromWithin } from './installed.ts';
import { leases } from './leases.ts';
import { reachable } from './reachable.ts';
import { registered } from './registered.ts';
import { replicas } from './replicas.ts';
import { tiers } from './tiers.ts';

/** All checks, in the order of the report. */
export const CHECKS: readonly Check[] = [
  installed,
  apiServer,
  registered,
  breakGlass,
  reachable,
  certificates,
  replicas,
  leases,
  access,
  configuration,
  arrangement,
  tiers,
  deadlocks,
];

/** What all checks make of the facts. */
export function judgeAll(facts: Facts): readonly Finding[] {
  return checksFor(facts).flatMap(({ name, judge }) => judge(facts).map((remark) => ({ check: name, ...remark })));
}

/** What can be said at all: of what is not there, not that everything is missing. */
function checksFor(facts: Facts): readonly Check[] {
  if (!isInstalled(facts)) return [installed];
  const needless: readonly Check[] = isServedFromWithin(facts)
    ? [certificates, replicas, leases, access, deadlocks]
    : [];
  return CHECKS.filter((check) => !needless.includes(check));
}
