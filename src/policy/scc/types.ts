/**
 * Security context constraints: which SCC admits a pod, and what the pod becomes under it.
 *
 * The folder decides and nothing else: who may use an SCC beyond its own `users` and `groups` comes in as a predicate,
 * the ranges of a namespace as its annotations. It never throws, whatever it is given; what cannot be understood is
 * refused. Objects that it is given are revisions: they do not change afterwards, since what was read from them is kept.
 */
import type { Operation, Allowed, Denied } from '../../kube/admission.ts';
import type { SecurityContextConstraints } from '../../kube/scc.ts';
import type { Namespace, UserInfo } from '../../kube/types.ts';

export type { SecurityContextConstraints } from '../../kube/scc.ts';

/** Somebody who may be allowed to use an SCC: the requester, or the service account of the pod. */
export interface Subject {
  readonly username: string;
  readonly groups: readonly string[];
  readonly uid?: string;
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/**
 * True if the subject may `use` the SCC of that name in the namespace, by the authorizer alone: the `users` and `groups`
 * of the SCC are judged elsewhere.
 */
export interface CanUse {
  (subject: Subject, sccName: string, namespaceName: string): boolean;
  /** All SCCs for which it says yes, where they are known at once: asked for once, instead of for each of many SCCs. */
  readonly namesFor?: (subject: Subject, namespaceName: string) => ReadonlySet<string> | 'any';
}

/** Where this program deviates from OpenShift, unless told otherwise. */
export interface Deviations {
  /**
   * The groups of a pod's service account. `accurate` (the default): all that it really has. `openshift`: without
   * `system:authenticated`, so that most pods are admitted as their `user`.
   */
  readonly identity?: 'accurate' | 'openshift';
  /** `skip` (the default): an SCC that cannot work fits no pod. `refuse`: it stops every pod. */
  readonly brokenScc?: 'skip' | 'refuse';
  /** SCCs without which no pod is admitted; none by default. */
  readonly requiredSccs?: readonly string[];
  /**
   * `pass` (the default): an update goes through if it leaves the spec of the pod as it is and the pod never carried
   * `openshift.io/scc`. `judge`: it is judged like any other.
   */
  readonly unprocessedPods?: 'pass' | 'judge';
}

/** `openshift` is the original in everything. */
export type Compatibility = 'openshift' | Deviations;

/** All that the decision about one request for a pod needs. */
export interface SccInput {
  readonly operation: Operation;
  readonly subResource?: string | undefined;
  /** The pod; unknown on purpose: nothing has checked it. */
  readonly object: unknown;
  readonly oldObject?: unknown;
  readonly namespace: Namespace;
  readonly userInfo: UserInfo;
  readonly sccs: readonly SecurityContextConstraints[];
  readonly canUse: CanUse;
  readonly compatibility?: Compatibility | undefined;
  /**
   * Of SCCs with equal priority and score, try those first that require a user namespace, if the pod has one.
   * Off by default.
   */
  readonly preferUserNamespaces?: boolean | undefined;
}

interface Remarks {
  readonly warnings: readonly string[];
  /** Without the prefix that the API server puts in front. */
  readonly auditAnnotations: Readonly<Record<string, string>>;
  /** The SCC that admits the pod; absent of a pod that is refused or has nothing to do with SCCs. */
  readonly facts?: SccFacts;
}

/** Which SCC admits a pod, and who was allowed to use it. */
export type SccFacts = Readonly<Record<'scc' | 'subjectType', string>>;

/**
 * The answer to a request. Of the pass that assigns, `object` is the pod as admitted, which shares with the input all that
 * did not change; of the pass that validates there is none. `status.message` is the text without `pods "…" is forbidden: `.
 */
export type SccDecision = (Allowed & Remarks) | (Denied & Remarks);
