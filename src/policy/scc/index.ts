export { assignScc, validateScc } from './assign.ts';
export type {
  CanUse,
  Compatibility,
  Deviations,
  SccDecision,
  SccInput,
  SecurityContextConstraints,
  Subject,
} from './types.ts';
