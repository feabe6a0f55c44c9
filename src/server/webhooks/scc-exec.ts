import type { Cluster } from '../../cluster/cluster.ts';
import type { Store } from '../../cluster/store.ts';
import { allow, deny, type AdmissionRequest, type Decision } from '../../kube/admission.ts';
import { quote } from '../../kube/text.ts';
import { ApiError, createStatus, notFound } from '../../kube/status.ts';
import type { Pod } from '../../kube/types.ts';
import type { WebhookRegistration } from '../../kube/webhooks.ts';
import { assignScc } from '../../policy/scc/assign.ts';
import type { SccDecision } from '../../policy/scc/request.ts';
import { isPodRequest, namespaceMode, reviewPod, type SccReview, type SccReviewDeps } from '../scc-review.ts';
import { whenAvailable, rule, type MaybePromise, type Webhook } from '../webhook.ts';

export const SCC_EXEC: WebhookRegistration = {
  name: 'exec.scc.portcullis.dev',
  path: '/scc/exec',
  configuration: { kind: 'ValidatingWebhookConfiguration', name: 'scc.portcullis.dev' },
  feature: 'scc',
  rules: [rule(['CONNECT'], '', ['pods/attach', 'pods/exec'])],
  timeoutSeconds: 10,
  isEnforcing: true,
  isNamespaced: true,
};

export interface SccExecDeps extends SccReviewDeps {
  /** Reads a pod that the store lacks. */
  readonly cluster: Pick<Cluster, 'get'>;
}

const SUBRESOURCES: readonly string[] = ['exec', 'attach'];

/** Reports whether the request opens a stream into a container. */
export function isExecRequest(request: Pick<AdmissionRequest, 'operation' | 'resource' | 'subResource'>): boolean {
  return request.operation === 'CONNECT' && isPodRequest(request) && SUBRESOURCES.includes(request.subResource ?? '');
}

/**
 * Creates the webhook that denies exec and attach to pods that the user could not create.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccadmission/scc_exec.go
 */
export function createSccExecWebhook(deps: SccExecDeps): Webhook {
  return {
    path: SCC_EXEC.path,
    decide(request, context) {
      const { name = '', namespace = '', userInfo } = request;
      if (!isExecRequest(request)) return allow();
      const { mode } = namespaceMode(context.store, namespace, deps.settings());
      if (mode === 'off') return allow();
      return whenAvailable(findPod(context.store, deps.cluster, name, namespace), (found) => {
        // In report mode a missing pod is left to the API server, which will not find it either.
        if ('decision' in found) return mode === 'report' ? allow() : found.decision;
        const decide: SccReview['decide'] = (cluster) =>
          assignScc({ operation: 'CREATE', object: found.pod, userInfo, ...cluster });
        const adapt = (decision: SccDecision): SccDecision => execDecision(decision, request);
        const review: SccReview = { request, modes: ['enforce', 'report'], context, decide, adapt };
        return whenAvailable(reviewPod(review, deps), (decision) => decision ?? allow());
      });
    },
  };
}

type FoundPod = { readonly pod: Pod } | { readonly decision: Decision };

function findPod(store: Store, cluster: Pick<Cluster, 'get'>, name: string, namespace: string): MaybePromise<FoundPod> {
  const pod = store.get('Pod', name, namespace);
  if (pod) return { pod };
  return cluster.get('Pod', name, namespace).then(
    (found) => ({ pod: found }),
    (error: unknown) => ({ decision: deny(readFailure(error, name)) }),
  );
}

function readFailure(error: unknown, name: string): ReturnType<typeof notFound> {
  if (error instanceof ApiError && error.status.code === 404) return notFound({ group: '', resource: 'pods' }, name);
  return createStatus(403, 'Forbidden', `failed to get pod: ${error instanceof Error ? error.message : String(error)}`);
}

/** Turns the decision about the pod into one about the stream: the pod is not changed. */
function execDecision(decision: SccDecision, { subResource = '', name = '' }: AdmissionRequest): SccDecision {
  const { auditAnnotations, facts } = decision;
  if (decision.allowed) return { allowed: true, warnings: [], auditAnnotations, ...(facts ? { facts } : {}) };
  const exceeds = `${subResource} operation is not allowed because the pod's security context exceeds your permissions`;
  const message = `${exceeds}: pods ${quote(name)} is forbidden: ${decision.status.message}`;
  return { ...decision, status: { ...decision.status, message } };
}
