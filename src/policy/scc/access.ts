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

type MayUse = (subject: Subject, scc: PreparedScc) => boolean;

/** By the users and groups of the SCC, else by the authorizer. */
export function createMayUse(canUse: CanUse, namespaceName: string): MayUse {
  return mayUseBy((subject, sccName) => canUse(subject, sccName, namespaceName));
}

/** As who of the two each SCC may be used in the namespace. */
export function createSubjectTypeOf(
  canUse: CanUse,
  namespaceName: string,
  subjects: Subjects,
): (scc: PreparedScc) => SubjectType | undefined {
  const { serviceAccount, user } = subjects;
  if (!canUse.namesFor) {
    const mayUse = createMayUse(canUse, namespaceName);
    return (scc) => subjectTypeFor(scc, subjects, mayUse);
  }
  const ofUser = canUse.namesFor(user, namespaceName);
  const ofServiceAccount = serviceAccount ? canUse.namesFor(serviceAccount, namespaceName) : NOTHING;
  const mayUse = mayUseBy((subject, name) => includes(subject === user ? ofUser : ofServiceAccount, name));
  if (ofUser === 'any' || ofServiceAccount === 'any') return (scc) => subjectTypeFor(scc, subjects, mayUse);
  // In a large cluster most SCCs are for others: one question tells that.
  const granted = new Set([...ofUser, ...ofServiceAccount]);
  return (scc) => (scc.namesSubjects || granted.has(scc.name) ? subjectTypeFor(scc, subjects, mayUse) : undefined);
}

const NOTHING: ReadonlySet<string> = new Set();

function includes(names: ReadonlySet<string> | 'any', name: string): boolean {
  return names === 'any' || names.has(name);
}

function mayUseBy(isGranted: (subject: Subject, sccName: string) => boolean): MayUse {
  return (subject, { name, users, groups }) =>
    users.includes(subject.username) ||
    (groups.length > 0 && subject.groups.some((group) => groups.includes(group))) ||
    isGranted(subject, name);
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
