import type { PodSecurityConfiguration } from '../../policy/psa/configuration.ts';
import type { PSAEnforcementConfig } from '../../kube/psa-enforcement-config.ts';
import { createFindings } from './findings.ts';
import { createReports } from './reports.ts';
import { createRest } from './rest.ts';
import { createRequests } from './schedule.ts';
import type { CompletedSweep, Sweep } from './sweep.ts';

/** What is known for as long as this process leads. */
export function createState(find: () => PSAEnforcementConfig | undefined) {
  const wasViolating = (name: string): boolean =>
    find()?.status?.violatingNamespaces?.some((entry) => entry.name === name && entry.state !== 'Previous') === true;
  return {
    findings: createFindings(wasViolating),
    reports: createReports(),
    requests: createRequests(),
    rest: createRest(),
    notes: [] as string[],
    /** When each was evaluated last, on the clock of the controller. */
    evaluatedMs: new Map<string, number>(),
    allMs: -Infinity,
    /** True: something has happened that concerns all namespaces. */
    isAllStale: true,
    exemptions: undefined as PodSecurityConfiguration['exemptions'] | undefined,
    failures: 0,
    sweep: undefined as Sweep | undefined,
    completed: undefined as CompletedSweep | undefined,
    sweptGeneration: undefined as number | undefined,
    refusedGeneration: undefined as number | undefined,
    measured: -1,
  };
}
