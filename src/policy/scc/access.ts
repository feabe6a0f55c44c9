import type { UserInfo } from '../../kube/types.ts';
import type { PreparedScc } from './prepare.ts';
import type { CanUse, Deviations, Subject } from './types.ts';

/** Who was allowed to use an SCC, as pods are annotated. */
export type SubjectType = 'serviceaccount' | 'user';

/** Those who may use an SCC for a pod. */
export interface Subjects {
  /** Absent if the pod names none. */
  readonly serviceAccount: Subject | undefined;
  readonly user: Subject;
}

interface SubjectsInput {
  readonly userInfo: UserInfo;
  readonly serviceAccountName: string;
  readonly namespaceName: string;
  readonly identity: NonNullable<Deviations['identity']>;
}

export function subjectsOf({ userInfo, serviceAccountName, namespaceName, identity }: SubjectsInput): Subjects {
  return {
    serviceAccount:
      serviceAccountName === '' ? undefined : serviceAccountSubject(namespaceName, serviceAccountName, identity),
    user: userSubject(userInfo),
  };
}

/**
 * Who may use the SCC in the namespace: the service account of the pod before the requester; `undefined` if neither.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccadmission/scc_authz_check.go
 */
export function subjectTypeFor(
  scc: PreparedScc,
  { serviceAccount, user }: Subjects,
  mayUse: (subject: Subject, scc: PreparedScc) => boolean,
): SubjectType | undefined {
  if (serviceAccount && mayUse(serviceAccount, scc)) return 'serviceaccount';
  return mayUse(user, scc) ? 'user' : undefined;
}

/** All who may use the SCC in the namespace, in the same order. */
export function subjectTypesFor(
  scc: PreparedScc,
  { serviceAccount, user }: Subjects,
  mayUse: (subject: Subject, scc: PreparedScc) => boolean,
): readonly SubjectType[] {
  const types: SubjectType[] = [];
  if (serviceAccount && mayUse(serviceAccount, scc)) types.push('serviceaccount');
  if (mayUse(user, scc)) types.push('user');
  return types;
}

/** By the users and groups of the SCC, else by the authorizer. */
export function createMayUse(canUse: CanUse, namespaceName: string): (subject: Subject, scc: PreparedScc) => boolean {
  return (subject, { name, users, groups }) =>
    users.includes(subject.username) ||
    (groups.length > 0 && subject.groups.some((group) => groups.includes(group))) ||
    canUse(subject, name, namespaceName);
}

/** A service account as one who may use SCCs; OpenShift forgets that every one is authenticated. */
export function serviceAccountSubject(
  namespaceName: string,
  name: string,
  identity: NonNullable<Deviations['identity']>,
): Subject {
  const groups = ['system:serviceaccounts', `system:serviceaccounts:${namespaceName}`];
  if (identity === 'accurate') groups.push('system:authenticated');
  return { username: `system:serviceaccount:${namespaceName}:${name}`, groups };
}

function userSubject(userInfo: UserInfo): Subject {
  const { username, groups, uid, extra } = userInfo ?? {};
  return {
    username: typeof username === 'string' ? username : '',
    groups: Array.isArray(groups) ? groups : [],
    ...(uid == null ? {} : { uid }),
    ...(extra == null ? {} : { extra }),
  };
}
