/** Decides whether users may enter the containers of pods. */
import type { AdmissionRequest } from '../../kube/admission.ts';
import { createStatus, type Status } from '../../kube/status.ts';
import { quote } from '../../kube/text.ts';
import { userSubject } from './access.ts';
import { assignScc } from './assign.ts';
import { type SccDecision, UNABLE_TO_VALIDATE } from './decision.ts';
import { toSccSet } from './order.ts';
import type { SccInput } from './request.ts';
import { mayEnterEveryPod, PRIVILEGED_SCC } from './standard.ts';

const ENTERS_EVERY_POD: SccDecision = {
  allowed: true,
  warnings: [],
  auditAnnotations: {},
  facts: { scc: PRIVILEGED_SCC, subjectType: 'user' },
};

/** Returns the decision about a user who enters a pod. The user may enter a pod that the user could create. */
export function enterPod(input: SccInput): SccDecision {
  const decision = assignScc(input);
  const privileged = toSccSet(input.sccs).objects.find(({ metadata }) => metadata?.name === PRIVILEGED_SCC);
  if (decision.allowed || !mayEnterEveryPod(input, privileged)) return decision;
  const { access, userInfo, namespace } = input;
  return access.canUse(userSubject(userInfo), PRIVILEGED_SCC, namespace.metadata?.name ?? '')
    ? ENTERS_EVERY_POD
    : decision;
}

/** Converts the decision about a pod to a decision about a stream, which does not change the pod. */
export function decideStream(decision: SccDecision, request: AdmissionRequest, isDisclosed: boolean): SccDecision {
  const { auditAnnotations, facts } = decision;
  if (decision.allowed) return { allowed: true, warnings: [], auditAnnotations, ...(facts ? { facts } : {}) };
  if (!isDisclosed) return { allowed: false, status: undisclosedStream(request), warnings: [], auditAnnotations: {} };
  const message = `${exceeds(request)}${decision.status.message}`;
  return { ...decision, status: { ...decision.status, message } };
}

function exceeds({ subResource = '', name = '' }: AdmissionRequest): string {
  return `${subResource} operation is not allowed because the pod's security context exceeds your permissions: pods ${quote(name)} is forbidden: `;
}

/** Returns a denial that does not disclose the fields of the pod. It is the same for a pod that does not exist. */
export function undisclosedStream(request: AdmissionRequest): Status {
  const { name = '', namespace = '' } = request;
  const reasons = `portcullis explain pod/${name} -n ${namespace} prints the reasons`;
  return createStatus(403, 'Forbidden', `${exceeds(request)}${UNABLE_TO_VALIDATE}: ${reasons}`);
}
