/** Determines whether a pod's service account or the requesting user may use an SCC. */
import type { UserInfo } from '../../kube/types.ts';
import type { SccDecision } from './decision.ts';
import type { Compatibility } from './mode.ts';
import type { PreparedScc } from './scc.ts';

export interface AccessSubject {
  readonly username: string;
  readonly groups: readonly string[];
  readonly uid?: string;
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** The authorizer's decisions about the `use` verb. They ignore the `users` and `groups` fields of SCCs. */
export interface SccAccess {
  /** Returns true if the authorizer grants a subject the SCC in the namespace. */
  canUse(subject: AccessSubject, sccName: string, namespaceName: string): boolean;
  /** Returns the names of all SCCs that the authorizer grants. Optional. Saves a separate call for each SCC. */
  namesFor?(subject: AccessSubject, namespaceName: string): ReadonlySet<string> | 'any';
}

/** The type of subject that may use an SCC, as recorded on the pod. */
export type SubjectType = 'serviceaccount' | 'user';

export interface Subjects {
  /** The pod's service account. Absent if the pod has none. */
  readonly serviceAccount: AccessSubject | undefined;
  readonly user: AccessSubject;
}

interface SubjectsInput {
  readonly userInfo: UserInfo;
  readonly serviceAccountName: string;
  readonly namespaceName: string;
  readonly compatibility?: Compatibility | undefined;
}

/** Returns the requesting user as a subject. */
export function userSubject({ username, groups, uid, extra }: UserInfo): AccessSubject {
  return {
    username: typeof username === 'string' ? username : '',
    groups: Array.isArray(groups) ? groups : [],
    ...(uid == null ? {} : { uid }),
    ...(extra == null ? {} : { extra }),
  };
}

export function podSubjects({ userInfo, serviceAccountName, namespaceName, compatibility }: SubjectsInput): Subjects {
  const user = userSubject(userInfo ?? {});
  if (serviceAccountName === '') return { serviceAccount: undefined, user };
  return { serviceAccount: serviceAccountSubject(namespaceName, serviceAccountName, compatibility), user };
}

/**
 * Returns the service account as a subject. OpenShift omits the `system:authenticated` group, so it admits most pods
 * based on the permissions of their creator.
 */
export function serviceAccountSubject(
  namespaceName: string,
  name: string,
  compatibility?: Compatibility,
): AccessSubject {
  const groups = ['system:serviceaccounts', `system:serviceaccounts:${namespaceName}`];
  if (compatibility !== 'openshift') groups.push('system:authenticated');
  return { username: `system:serviceaccount:${namespaceName}:${name}`, groups };
}

/** Returns true if a subject may use an SCC, either through the SCC's users and groups or through the authorizer. */
export type MayUse = (subject: AccessSubject, scc: PreparedScc) => boolean;

/**
 * Creates a `MayUse` function for one namespace. If the authorizer can list SCCs, the function lists the SCCs of each
 * subject only once.
 */
export function createMayUse(access: SccAccess, namespaceName: string): MayUse {
  const namesBySubject = new Map<AccessSubject, ReadonlySet<string> | 'any' | undefined>();
  return (subject, scc) => {
    if (isListed(subject, scc)) return true;
    if (!namesBySubject.has(subject)) namesBySubject.set(subject, access.namesFor?.(subject, namespaceName));
    const names = namesBySubject.get(subject);
    return names ? names === 'any' || names.has(scc.name) : access.canUse(subject, scc.name, namespaceName);
  };
}

function isListed(subject: AccessSubject, { users, groups }: PreparedScc): boolean {
  return (
    users.includes(subject.username) || (groups.length > 0 && subject.groups.some((group) => groups.includes(group)))
  );
}

/**
 * Returns the first subject type that may use an SCC, or `undefined` if no subject may use it.
 * @see
 * https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccadmission/scc_authz_check.go
 */
export function findSubjectType(
  scc: PreparedScc,
  { subjects: { serviceAccount, user }, mayUse }: { readonly subjects: Subjects; readonly mayUse: MayUse },
): SubjectType | undefined {
  if (serviceAccount && mayUse(serviceAccount, scc)) return 'serviceaccount';
  return mayUse(user, scc) ? 'user' : undefined;
}

export interface AccessQuestion {
  readonly subject: AccessSubject;
  readonly sccName: string;
  readonly namespaceName: string;
}

/**
 * Creates an `SccAccess` from known answers, for authorizers that answer one question at a time. Unknown answers are
 * assumed to be positive, so a decision chooses the first SCC that allows the pod, and only the questions about that
 * SCC must be answered. A denial depends on all questions, because its message lists every SCC that is not usable. With
 * `isLast`, unknown answers are negative, so the decision is final.
 */
export function createKnownAccess(
  answers: ReadonlyMap<string, boolean>,
  { getKey = accessQuestionKey, isLast = false } = {},
) {
  const assumed = new Map<string, AccessQuestion>();
  const access: SccAccess = {
    canUse(subject, sccName, namespaceName) {
      const question = { subject, sccName, namespaceName };
      const key = getKey(question);
      const answer = answers.get(key);
      if (answer === undefined && !isLast) assumed.set(key, question);
      return answer ?? !isLast;
    },
  };
  return {
    access,
    /**
     * Returns the distinct questions on which a decision with this access depends. If there are none, the decision is
     * final.
     */
    openQuestions: (decision: SccDecision): readonly AccessQuestion[] =>
      findOpenQuestions(decision, [...assumed.values()]),
  };
}

/**
 * Returns the questions on which a decision depends. Warnings also depend on whether the subjects may use other SCCs.
 */
function findOpenQuestions(decision: SccDecision, assumed: readonly AccessQuestion[]): readonly AccessQuestion[] {
  if (!decision.allowed) return assumed;
  const chosen = assumed.filter(({ sccName }) => sccName === decision.facts?.scc);
  return chosen.length === 0 && decision.warnings.length > 0 ? assumed : chosen;
}

/** Returns a key that identifies a question. */
export function accessQuestionKey({ subject, sccName, namespaceName }: AccessQuestion): string {
  const { username, groups, uid = '', extra = {} } = subject;
  return JSON.stringify([username, uid, groups, extra, sccName, namespaceName]);
}
