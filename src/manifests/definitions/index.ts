import { rangeAllocations } from './range-allocations.ts';
import { securityContextConstraints } from './security-context-constraints.ts';

/** The kinds of our own. */
export const DEFINITIONS = [rangeAllocations, securityContextConstraints] as const;
