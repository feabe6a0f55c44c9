import type { UserInfo } from '../../kube/types.ts';
import type { PreparedScc } from './scc.ts';
import type { CanUse, Deviations, Subject, SccDecision } from './request.ts';

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

/** May the subject use the SCC in the namespace? */
export interface AccessQuestion {
  readonly subject: Subject;
  readonly sccName: string;
  readonly namespaceName: string;
}

/** The answer to a question; `undefined` as long as nobody has asked. */
type KnownAccess = (question: AccessQuestion) => boolean | undefined;

/** A decision that holds, or what it depends on: at least one question, each once. */
type Step = { readonly decision: SccDecision } | { readonly questions: readonly AccessQuestion[] };

/**
 * Decides on what is known of access, for authorizers that have to be asked one question at a time. What is not known is
 * taken for a yes at first: so the decision comes to the first SCC that fits, and only whether that one may be used has to
 * be asked, or nothing fits and all has to be asked, since a refusal tells of every SCC whether it may be used.
 */
export function decideOn(decide: (canUse: CanUse) => SccDecision, known: KnownAccess): Step {
  const guessed = new Map<string, AccessQuestion>();
  const decision = decide((subject, sccName, namespaceName) => {
    const question = { subject, sccName, namespaceName };
    const answer = known(question);
    if (answer === undefined) guessed.set(keyOf(question), question);
    return answer ?? true;
  });
  const open = openQuestions(decision, [...guessed.values()]);
  return open.length === 0 ? { decision } : { questions: open };
}

/** Warnings compare SCCs: where there are some, what they say has to be known as well. */
function openQuestions(decision: SccDecision, guessed: readonly AccessQuestion[]): readonly AccessQuestion[] {
  if (!decision.allowed) return guessed;
  const aboutChosen = guessed.filter(({ sccName }) => sccName === decision.facts?.scc);
  return aboutChosen.length === 0 && decision.warnings.length > 0 ? guessed : aboutChosen;
}

/** The same text for the same question, whoever asks. */
export function keyOf({ subject, sccName, namespaceName }: AccessQuestion): string {
  const { username, groups, uid = '', extra = {} } = subject;
  return JSON.stringify([username, uid, groups, extra, sccName, namespaceName]);
}
