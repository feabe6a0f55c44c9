/** Finds problems with exemptions in the settings, and reads how often replicas applied each exemption. */
import { EXEMPTION_USES_ANNOTATION } from '../api/names.ts';
import type { Store } from '../cluster/store.ts';
import { impersonatedUser, parseServiceAccountUsername } from '../kube/admission.ts';
import { isWorkloadController } from '../kube/controller-pod.ts';
import { isObject, type JsonObject, type Lease } from '../kube/types.ts';
import type { PodSecurityConfiguration } from '../policy/psa/index.ts';
import { findGrants, matchesUser, RBAC_KINDS } from '../policy/rbac/index.ts';
import { storedRbacObjects } from './scc-grants.ts';

type Exemptions = PodSecurityConfiguration['exemptions'];

export interface ExemptionProblem {
  readonly kind: 'namespace' | 'user' | 'runtimeClass';
  readonly name: string;
  readonly problem: string;
  /** Severity of the problem. `info` if the exemption may be intended. */
  readonly severity: 'warning' | 'info';
}

/**
 * Kinds that the store must contain. Exemptions that refer to a kind without objects are not checked, because the input
 * may omit that kind. Runtime classes are checked only if `readsCluster` is true.
 */
export const EXEMPTION_KINDS = ['Namespace', 'RuntimeClass', ...RBAC_KINDS] as const;

/** Writes to which user exemptions apply. An update can change images and add ephemeral containers. */
const POD_WRITES = [
  { verb: 'create', apiGroup: '', resource: 'pods' },
  ...['', 'ephemeralcontainers'].flatMap((subresource) =>
    ['update', 'patch'].map((verb) => ({ verb, apiGroup: '', resource: 'pods', subresource })),
  ),
];

const OWN_PODS =
  'only pods that the user creates directly are exempt, because controllers create the pods of workloads';
const UNCLAIMED = 'does not exist, so any user who can create it can run exempt pods in it';
const MISSING_CLASS = 'does not exist, so API servers reject the pods that select it';

/** Returns at most one problem for each exemption. */
export function findExemptionProblems(
  store: Store,
  { namespaces, usernames, runtimeClasses }: Exemptions,
  readsCluster: boolean,
): readonly ExemptionProblem[] {
  const hasNamespaces = store.list('Namespace').length > 0;
  const isMissing = (name: string): boolean => hasNamespaces && store.get('Namespace', name) === undefined;
  const objects = storedRbacObjects(store);
  const grants =
    usernames.length === 0 || objects.clusterRoles.length === 0
      ? undefined
      : POD_WRITES.flatMap((action) => findGrants(objects, action));
  const userProblem = (name: string): string | undefined => {
    if (isWorkloadController({ username: name })) {
      return 'creates the pods of the workloads of all users, so all of these pods are exempt';
    }
    const account = parseServiceAccountUsername(name);
    if (account === undefined) return OWN_PODS;
    if (isMissing(account.namespace)) {
      return 'its namespace does not exist, so users who can create the namespace can use the service account';
    }
    const user = impersonatedUser(name, []);
    const mayWrite = grants?.some(({ subject }) => matchesUser(subject, user)) ?? true;
    return mayWrite ? undefined : 'exempts no pods, because the service account may neither create nor change pods';
  };
  const isMissingClass = (name: string): boolean => readsCluster && store.get('RuntimeClass', name) === undefined;
  const warn = (kind: ExemptionProblem['kind'], name: string, problem: string): ExemptionProblem => {
    return { kind, name, problem, severity: problem === OWN_PODS ? 'info' : 'warning' };
  };
  return [
    ...namespaces.filter(isMissing).map((name) => warn('namespace', name, UNCLAIMED)),
    ...usernames.flatMap((name) => {
      const problem = userProblem(name);
      return problem === undefined ? [] : [warn('user', name, problem)];
    }),
    ...runtimeClasses.filter(isMissingClass).map((name) => warn('runtimeClass', name, MISSING_CLASS)),
  ];
}

// Uses of exemptions, which replicas publish in annotations on their Leases.

/** Number of requests that each exemption admitted, which the replicas have counted since they started. */
export interface ExemptionUses {
  /** Start time of the oldest replica, in RFC 3339. */
  readonly since: string;
  /** Number of replicas that publish counts. */
  readonly replicas: number;
  /** Counts by kind and name, such as `user/alice` or `scc/privileged`. */
  readonly counts: ReadonlyMap<string, number>;
}

/** Maximum number of names in the annotation. Limits its size to 56 KB, because a name has at most 253 characters. */
const MAX_PUBLISHED = 200;

/**
 * Formats a replica's counts for an annotation on its Lease. If there are more than 200 exemptions, omits the least
 * used ones.
 */
export function formatExemptionUses(since: string, counts: Iterable<readonly [name: string, count: number]>): string {
  const used = [...counts].filter(([, count]) => count > 0).sort(([, a], [, b]) => b - a);
  return JSON.stringify({ since, uses: Object.fromEntries(used.slice(0, MAX_PUBLISHED)) });
}

/** Adds up the counts in the replicas' Leases. Returns `undefined` if no replica publishes counts. */
export function readExemptionUses(leases: readonly Lease[]): ExemptionUses | undefined {
  const published = leases.flatMap(
    ({ metadata }) => parseUses(metadata?.annotations?.[EXEMPTION_USES_ANNOTATION]) ?? [],
  );
  const [since] = published.map((record) => record.since).sort();
  if (since === undefined) return undefined;
  const counts = new Map<string, number>();
  for (const { uses } of published) {
    for (const [name, count] of Object.entries(uses)) {
      if (typeof count === 'number') counts.set(name, (counts.get(name) ?? 0) + count);
    }
  }
  return { since, replicas: published.length, counts };
}

function parseUses(text: string | undefined): { readonly since: string; readonly uses: JsonObject } | undefined {
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value) || typeof value['since'] !== 'string' || !isObject(value['uses'])) return undefined;
    return { since: value['since'], uses: value['uses'] };
  } catch {
    return undefined;
  }
}
