/**
 * SCC admission: which SCC admits a pod, and the pod with the values of that SCC. The functions are pure. They do not
 * throw: input that cannot be decoded is denied.
 */
export type { SecurityContextConstraints } from '../../kube/scc.ts';
export type { CanUse, Subject } from './access.ts';
export { assignScc, validateScc } from './assign.ts';
export type { Compatibility, Deviations } from './mode.ts';
export type { SccDecision, SccInput } from './request.ts';
