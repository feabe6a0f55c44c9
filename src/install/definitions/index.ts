import { psaEnforcementConfigs } from './psa-enforcement-configs.ts';
import { rangeAllocations } from './range-allocations.ts';
import { securityContextConstraints } from './security-context-constraints.ts';

/** What SCCs need; where they are built in, the cluster has it. */
export const SCC_DEFINITIONS = [rangeAllocations, securityContextConstraints] as const;

/** The kinds of our own. */
export const DEFINITIONS = [psaEnforcementConfigs, ...SCC_DEFINITIONS] as const;
