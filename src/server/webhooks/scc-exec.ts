import type { Cluster } from '../../cluster/cluster.ts';
import type { Store } from '../../cluster/store.ts';
import { allow, deny, type AdmissionRequest, type Decision } from '../../kube/admission.ts';
import { quote } from '../../kube/text.ts';
import { ApiError, createStatus, notFound } from '../../kube/status.ts';
import type { Pod } from '../../kube/types.ts';
import { assignScc } from '../../policy/scc/assign.ts';
import type { SccMode } from '../../policy/scc/mode.ts';
import type { SccDecision } from '../../policy/scc/request.ts';
import { andThen, type Later } from '../later.ts';
import type { SccWebhookOptions } from './scc-mutate.ts';
import { isPodRequest } from '../scc-request.ts';
import { answerScc, modeIn, reviewScc, type JudgePod } from '../scc-review.ts';
import type { Webhook } from '../webhook.ts';

export interface SccExecOptions extends SccWebhookOptions {
  /** Reads a pod that the store lacks. */
  readonly cluster: Pick<Cluster, 'get'>;
}

const MODES: readonly SccMode[] = ['enforce', 'report'];
const SUBRESOURCES: readonly string[] = ['exec', 'attach'];

/** True for requests for a stream into a container. */
export function isExecRequest(request: Pick<AdmissionRequest, 'operation' | 'resource' | 'subResource'>): boolean {
  return request.operation === 'CONNECT' && isPodRequest(request) && SUBRESOURCES.includes(request.subResource ?? '');
}

/**
 * Makes the webhook that lets nobody into a pod that they could not create themselves.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccadmission/scc_exec.go
 */
export function createSccExecWebhook(options: SccExecOptions): Webhook {
  return {
    path: '/scc/exec',
    decide(request, context) {
      const { name = '', namespace: namespaceName = '', userInfo } = request;
      if (!isExecRequest(request)) return allow();
      const { mode } = modeIn(context.store, namespaceName, options.settings);
      if (mode === 'off') return allow();
      return andThen(findPod(context.store, options.cluster, name, namespaceName), (found) => {
        // Without a pod there is nothing to tell: the API server will not find it either.
        if ('decision' in found) return mode === 'report' ? allow() : found.decision;
        const judge: JudgePod = (cluster) =>
          assignScc({ operation: 'CREATE', object: found.pod, userInfo, ...cluster });
        return andThen(reviewScc({ namespaceName, modes: MODES, context, judge }, options), (reviewed) => {
          if (reviewed === undefined) return allow();
          const outcome = { ...reviewed, decision: connecting(reviewed.decision, request) };
          options.record(request, outcome);
          return answerScc(outcome);
        });
      });
    },
  };
}

type Found = { readonly pod: Pod } | { readonly decision: Decision };

function findPod(store: Store, cluster: Pick<Cluster, 'get'>, name: string, namespace: string): Later<Found> {
  const pod = store.get('Pod', name, namespace);
  if (pod) return { pod };
  return cluster.get('Pod', name, namespace).then(
    (read) => ({ pod: read }),
    (error: unknown) => ({ decision: deny(unreadable(error, name)) }),
  );
}

function unreadable(error: unknown, name: string): ReturnType<typeof notFound> {
  if (error instanceof ApiError && error.status.code === 404) return notFound({ group: '', resource: 'pods' }, name);
  return createStatus(403, 'Forbidden', `failed to get pod: ${error instanceof Error ? error.message : String(error)}`);
}

/** The decision about a pod as one about a stream into it: the pod stays as it is, and nobody creates it. */
function connecting(decision: SccDecision, { subResource = '', name = '' }: AdmissionRequest): SccDecision {
  const { auditAnnotations, facts } = decision;
  if (decision.allowed) return { allowed: true, warnings: [], auditAnnotations, ...(facts ? { facts } : {}) };
  const exceeds = `${subResource} operation is not allowed because the pod's security context exceeds your permissions`;
  const message = `${exceeds}: pods ${quote(name)} is forbidden: ${decision.status.message}`;
  return { ...decision, status: { ...decision.status, message } };
}
