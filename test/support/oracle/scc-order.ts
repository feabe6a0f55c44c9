/**
 * The order in which SCCs are tried, and the subjects that may use them.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/util/sort/byrestrictions.go
 */
import { at, type JsonObject, memoize, textAt, textsAt } from './json.ts';

export const sortSccs = memoize((sccs) =>
  (sccs as readonly JsonObject[]).toSorted((a, b) => {
    const priorities = getPriority(b) - getPriority(a);
    if (priorities !== 0) return priorities;
    const points = computePoints(a) - computePoints(b);
    if (points !== 0) return points;
    return Buffer.compare(Buffer.from(textAt(a, 'metadata', 'name')), Buffer.from(textAt(b, 'metadata', 'name')));
  }),
);

function getPriority(scc: JsonObject): number {
  return (at(scc, 'priority') ?? 0) as number;
}

function computePoints(scc: JsonObject): number {
  let points = 0;
  if (at(scc, 'allowPrivilegedContainer') === true) points += 1_600_000;
  if (at(scc, 'allowHostPorts') === true) points += 800_000;
  if (at(scc, 'allowHostNetwork') === true) points += 400_000;
  const volumes = textsAt(scc, 'volumes');
  const trivial = ['secret', 'configMap', 'emptyDir', 'downwardAPI', 'projected', 'none'];
  if (volumes.includes('hostPath') || volumes.includes('*')) points += 200_000;
  else if (volumes.some((volume) => !trivial.includes(volume))) points += 100_000;
  points += strategyPoints(textAt(scc, 'seLinuxContext', 'type'));
  points += strategyPoints(textAt(scc, 'runAsUser', 'type'));
  return points + capabilityPoints(scc);
}

function strategyPoints(type: string): number {
  const types = ['MustRunAs', 'MustRunAsRange', 'MustRunAsNonRoot', 'RunAsAny'];
  return (types.indexOf(type) + 1) * 10_000;
}

function capabilityPoints(scc: JsonObject): number {
  const allowed = textsAt(scc, 'allowedCapabilities');
  const dropped = textsAt(scc, 'requiredDropCapabilities');
  let points = 5000 + 300 * textsAt(scc, 'defaultAddCapabilities').length;
  const isAll = (name: string): boolean => name.toUpperCase() === 'ALL';
  points += allowed.includes('*') || allowed.some(isAll) ? 4000 : 10 * allowed.length;
  points -= dropped.some(isAll) ? 3000 : 50 * dropped.length;
  return Math.min(9999, Math.max(0, points));
}

export interface Subject {
  readonly username: string;
  readonly groups: readonly string[];
}

/** Returns true if RBAC allows the subject to `use` the SCC in the namespace. */
export type Authorizer = (subject: Subject, scc: string, namespace: string) => boolean;

export interface Access {
  readonly user: Subject;
  readonly serviceAccount: Subject | undefined;
  readonly namespace: string;
  readonly authorizer: Authorizer;
}

/** Deviation from OpenShift, because the service account is a member of system:authenticated. */
export function serviceAccountSubject(pod: unknown, namespace: string): Subject | undefined {
  const name = textAt(pod, 'spec', 'serviceAccountName');
  if (name === '') return undefined;
  const groups = ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'];
  return { username: `system:serviceaccount:${namespace}:${name}`, groups };
}

/** Returns `undefined` if neither subject may use the SCC. */
export function subjectTypeFor(scc: JsonObject, access: Access): 'serviceaccount' | 'user' | undefined {
  if (access.serviceAccount && mayUse(access.serviceAccount, scc, access)) return 'serviceaccount';
  return mayUse(access.user, scc, access) ? 'user' : undefined;
}

function mayUse(subject: Subject, scc: JsonObject, { authorizer, namespace }: Access): boolean {
  return (
    textsAt(scc, 'users').includes(subject.username) ||
    textsAt(scc, 'groups').some((group) => subject.groups.includes(group)) ||
    authorizer(subject, textAt(scc, 'metadata', 'name'), namespace)
  );
}
