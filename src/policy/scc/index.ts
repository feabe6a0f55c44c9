export { assignScc, validateScc } from './assign.ts';
export type {
  CanUse,
  Compatibility,
  Deviations,
  SccDecision,
  SccInput,
  SecurityContextConstraints,
  Subject,
} from './request.ts';
