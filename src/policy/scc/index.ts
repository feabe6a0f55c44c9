/**
 * SCC admission. Finds the SCC that admits a pod, and returns the pod with that SCC's values. The functions are pure
 * and never throw. They deny input that cannot be decoded.
 */
export type { SecurityContextConstraints } from '../../kube/scc.ts';
export type { CanUse, Subject } from './access.ts';
export type { Compatibility } from './mode.ts';
export type { SccDecision } from './decision.ts';
export { assignScc, type SccRequest, validateScc } from './library.ts';
export type { SccInput } from './request.ts';
