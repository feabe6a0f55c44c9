/**
 * SCC admission. Finds the SCC that admits a pod, and returns the pod with the values from that SCC. The functions are
 * pure and do not throw. Input that cannot be decoded is denied.
 */
export type { SecurityContextConstraints } from '../../kube/scc.ts';
export type { CanUse, Subject } from './access.ts';
export { assignScc, validateScc } from './assign.ts';
export type { Compatibility, Deviations } from './mode.ts';
export type { SccDecision } from './decision.ts';
export type { SccInput } from './request.ts';
