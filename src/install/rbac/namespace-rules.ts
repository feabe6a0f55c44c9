import { INSTALLATION } from '../../kube/installation.ts';
import { FOLLOW, rule, type Rule } from './rule.ts';

/** Who leads, and what each replica serves. */
export const LEASE_RULES: readonly Rule[] = [rule([...FOLLOW, 'get', 'create', 'update', 'delete'], ['Lease'])];

/**
 * Where the replicas make their certificate themselves. Names cannot bound what is created, nor can types: a Secret may be
 * one for a token of a service account of the namespace.
 */
export const SECRET_RULES: readonly Rule[] = [
  rule(['create'], ['Secret']),
  rule([...FOLLOW, 'get', 'update', 'delete'], ['Secret'], [INSTALLATION.certificateSecret]),
];
