/** Computes the level that the pods of a namespace need, based on the SCCs that its service accounts may use. */
import { NAMESPACE_RANGE_ANNOTATIONS, type SecurityContextConstraints } from '../../kube/scc.ts';
import type { Namespace } from '../../kube/types.ts';
import { psaLevel, type SccLevelOptions } from '../psa/index.ts';
import type { Level } from '../pss/index.ts';
import {
  type SccAccess,
  type Compatibility,
  type PreparedScc,
  prepareScc,
  readNamespaceRanges,
  type SccSettings,
  serviceAccountSubject,
} from '../scc/index.ts';

/**
 * Creates a function that returns true if a service account may use an SCC in its namespace, either through the SCC's
 * users and groups or through roles. It ignores the permissions of the users who create pods.
 */
export function createSccAccess(
  serviceAccount: string,
  namespace: string,
  access: SccAccess,
): (scc: PreparedScc) => boolean {
  const subject = serviceAccountSubject(namespace, serviceAccount);
  const granted = access.namesFor?.(subject, namespace);
  return ({ name, users, groups }) => {
    if (users.includes(subject.username) || subject.groups.some((group) => groups.includes(group))) return true;
    return granted === undefined ? access.canUse(subject, name, namespace) : granted === 'any' || granted.has(name);
  };
}

/**
 * Returns the SCCs with the level that their pods satisfy in a namespace, most permissive first. The level is absent
 * for an SCC that OpenShift cannot map to a level.
 */
export type SccLevels = (namespace: Namespace) => readonly { readonly scc: PreparedScc; readonly level?: Level }[];

/**
 * Namespaces with a UID range that excludes root, a range that includes root, and an invalid range. No other property
 * of a namespace affects the levels of SCCs.
 */
const EXAMPLES: readonly Namespace[] = ['1/1', '0/1', 'invalid'].map((range) => ({
  metadata: { name: 'any', annotations: { [NAMESPACE_RANGE_ANNOTATIONS.uidRange]: range } },
}));

/** Returns the profile with which the levels for namespace labels are computed. */
export function sccLevelProfile(compatibility: Compatibility): SccLevelOptions['profile'] {
  return compatibility === 'openshift' ? 'upstream' : 'accurate';
}

/**
 * The order in which the label syncer evaluates SCCs. OpenShift stops at the first privileged SCC. If there is none, it
 * fails if the level of an SCC is unknown.
 */
const BY_PERMISSIVENESS: readonly (Level | undefined)[] = ['privileged', undefined, 'baseline', 'restricted'];

/** Computes the levels of the SCCs once for all namespaces. */
export function createSccLevels(sccs: readonly SecurityContextConstraints[], options: SccLevelOptions): SccLevels {
  const getLevel = (scc: SecurityContextConstraints, namespace: Namespace): { readonly level?: Level } => {
    const { level, error } = psaLevel(scc, namespace, options);
    return level === undefined || (error !== undefined && options.profile === 'upstream') ? {} : { level };
  };
  const rank = ({ level }: { readonly level?: Level }): number => BY_PERMISSIVENESS.indexOf(level);
  const [withoutRoot = [], withRoot = [], invalid = []] = EXAMPLES.map((namespace) =>
    sccs.map((scc) => ({ scc: prepareScc(scc), ...getLevel(scc, namespace) })).sort((a, b) => rank(a) - rank(b)),
  );
  return (namespace) => {
    const { uidRange } = readNamespaceRanges(namespace);
    return !('value' in uidRange) ? invalid : uidRange.value.min > 0 ? withoutRoot : withRoot;
  };
}

/** The level that a namespace needs, and its cause. */
export interface NeededLevel {
  readonly level: Level;
  /** The service account and SCC that require the level. Absent if no service account may use any SCC. */
  readonly cause?: { readonly serviceAccount: string; readonly scc: string };
}

/** A namespace, and the state that determines its level. */
export interface NeededLevelInput extends Pick<SccSettings, 'compatibility'> {
  readonly namespace: Namespace;
  /** Names of all service accounts in the namespace. */
  readonly serviceAccounts: readonly string[];
  readonly sccLevels: SccLevels;
  readonly access: SccAccess;
}

/**
 * Returns the strictest level that admits every pod that the namespace's service accounts may run. The level is
 * restricted if they may not use any SCC. In OpenShift compatibility mode, the level is unknown in this case, and also
 * if an SCC cannot be mapped to a level. Returns `undefined` if the level is unknown or until the namespace has a UID
 * range and a service account. Yields at least once for each service account.
 */
export function* findNeededLevel(input: NeededLevelInput): Generator<undefined, NeededLevel | undefined> {
  const { namespace, serviceAccounts, sccLevels, access, compatibility } = input;
  if (!canRunPods(namespace, serviceAccounts)) return undefined;
  const namespaceName = namespace.metadata?.name ?? '';
  const levels = sccLevels(namespace);
  yield;
  let first = levels.length;
  let needed: NeededLevel | undefined = compatibility === 'openshift' ? undefined : { level: 'restricted' };
  for (const serviceAccount of serviceAccounts) {
    if (first === 0) break;
    // For a service account with many bindings, this step takes as long as the rest of the plan.
    const mayUse = createSccAccess(serviceAccount, namespaceName, access);
    yield;
    const index = levels.findIndex(({ scc }, at) => at >= first || mayUse(scc));
    const found = index < first ? levels[index] : undefined;
    if (found) {
      first = index;
      needed = found.level && { level: found.level, cause: { serviceAccount, scc: found.scc.name } };
    }
    yield;
  }
  return needed;
}

/** Returns true once the namespace has a UID range and a service account. */
export function canRunPods({ metadata }: Namespace, serviceAccounts: readonly string[]): boolean {
  return serviceAccounts.length > 0 && (metadata?.annotations?.[NAMESPACE_RANGE_ANNOTATIONS.uidRange] ?? '') !== '';
}
