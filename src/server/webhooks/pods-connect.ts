import { NOT_PRIVILEGED_CONDITION, type WebhookRegistration } from '../../api/webhooks.ts';
import { createSlots, systemClock, withTimeout } from '../../cluster/clock.ts';
import type { Cluster } from '../../cluster/cluster.ts';
import { allow, deny } from '../../kube/admission.ts';
import { celString } from '../../kube/cel.ts';
import { LIMITS } from '../../kube/limits.ts';
import { dnsLabelErrors, dnsSubdomainErrors } from '../../kube/names.ts';
import { ApiError, createStatus, notFound, type Status } from '../../kube/status.ts';
import type { Pod } from '../../kube/types.ts';
import { USE_SCC } from '../../policy/rbac/index.ts';
import { decideStream, PRIVILEGED_SCC, undisclosedStream } from '../../policy/scc/index.ts';
import { createSccRecorder } from '../../telemetry/admission.ts';
import { countExceeded } from '../../telemetry/limits.ts';
import { namespaceMode } from '../../views/scc-mode.ts';
import type { Discloses } from '../disclosure.ts';
import { concludeScc, decideScc, enforcesSccs, type SccReviewDeps } from '../scc-review.ts';
import type { WebhookDefinition } from '../services.ts';
import { remainingMs, type WaitingRoom } from '../waiting-room.ts';
import { webhookRule, type Webhook, type WebhookContext } from '../webhook.ts';

export const CONNECT_PODS: WebhookRegistration = {
  name: 'connect.pods.portcullis.dev',
  path: '/connect/pods',
  description:
    'denies `exec` and `attach` for pods that the user could not create. Reads the pod from the API server, with at most 8 reads at a time',
  kind: 'ValidatingWebhookConfiguration',
  rules: [{ feature: 'scc', rule: webhookRule(['CONNECT'], '', ['pods/attach', 'pods/exec']) }],
  // Skips requests that the review would allow. Without this condition, administrators could not use `exec` while no
  // replica responds.
  matchConditions: [
    {
      feature: 'privilegedStreams',
      name: NOT_PRIVILEGED_CONDITION,
      expression: `!authorizer.group(${celString(USE_SCC.apiGroup)}).resource(${celString(USE_SCC.resource)}).namespace(request.namespace).name(${celString(PRIVILEGED_SCC)}).check(${celString(USE_SCC.verb)}).allowed()`,
    },
  ],
  timeoutSeconds: 10,
  failure: 'closed',
  namespaces: 'sccs',
};

interface ConnectDeps extends SccReviewDeps {
  /**
   * Reads the current pod from the API server, because the pod in the store may lack an ephemeral container that was
   * just added.
   */
  readonly cluster: Pick<Cluster, 'get'>;
  readonly discloses: Discloses;
}

export const podsConnect: WebhookDefinition = {
  registrations: [CONNECT_PODS],
  create: ({ scc, cluster, discloses, metrics }) => [
    createConnectPods({ ...scc, cluster, discloses, record: createSccRecorder(metrics.scc.decisions) }),
  ],
};

/**
 * Creates the webhook that denies exec and attach requests for pods that the user is not permitted to create.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccadmission/scc_exec.go
 */
function createConnectPods(deps: ConnectDeps): Webhook {
  const readPod = createPodReads(deps);
  return {
    path: CONNECT_PODS.path,
    enforces: (request, store) => enforcesSccs(request, store, deps.settings()),
    async decide(request, context) {
      const { name = '', namespace = '' } = request;
      const { mode } = namespaceMode(context.store, namespace, deps.settings());
      if (mode === 'off') return allow();
      const isDisclosed = deps.discloses(request, context.store);
      let object: Pod;
      try {
        if (dnsSubdomainErrors(name).length + dnsLabelErrors(namespace).length > 0)
          throw new ApiError(podNotFound(name));
        object = await readPod(name, namespace, context);
      } catch (error) {
        // In report mode, a failed read allows the request. The API server returns 404 if the pod is missing.
        if (mode === 'report') return allow();
        const isMissing = error instanceof ApiError && error.status.code === 404;
        // The response does not reveal whether the pod exists, unless the client may learn this.
        return deny(isMissing && !isDisclosed ? undisclosedStream(request) : readFailure(error, name));
      }
      const pod = { operation: 'CREATE', object } as const;
      const decided = await decideScc({ request, pod, modes: ['enforce', 'report'], context, pass: 'enter' }, deps);
      if (!decided) return allow();
      const connected = { ...decided, decision: decideStream(decided.decision, request, isDisclosed) };
      const decision = concludeScc(request, connected, deps);
      // Omits audit annotations in `openshift` compatibility mode, because OpenShift sets them only for pod creation.
      return deps.settings().compatibility === 'openshift' ? { ...decision, auditAnnotations: {} } : decision;
    },
  };
}

function podNotFound(name: string): Status {
  return notFound({ group: '', resource: 'pods' }, name);
}

function readFailure(error: unknown, name: string): Status {
  if (error instanceof ApiError && error.status.code === 404) return podNotFound(name);
  return createStatus(403, 'Forbidden', `failed to get pod: ${error instanceof Error ? error.message : String(error)}`);
}

// Reads of pods

type ReadPod = (name: string, namespace: string, context: WebhookContext) => Promise<Pod>;

interface PodReadsDeps {
  readonly cluster: Pick<Cluster, 'get'>;
  readonly waitingRoom: WaitingRoom;
}

/**
 * Creates the function that reads a pod. Above the concurrency limit, calls wait, and client addresses are served in
 * rotation.
 */
export function createPodReads({ cluster, waitingRoom }: PodReadsDeps): ReadPod {
  const slots = createSlots(LIMITS.podReads);
  const read = async (
    name: string,
    namespace: string,
    address: string | undefined,
    signal: AbortSignal,
  ): Promise<Pod> => {
    const release = await slots.take(address, signal);
    try {
      signal.throwIfAborted();
      const pod = await cluster.get('Pod', name, namespace, signal);
      if (pod.metadata?.name !== name) throw new Error('the response is not the pod');
      return pod;
    } finally {
      release();
    }
  };
  return async (name, namespace, context) => {
    const displaced = new AbortController();
    const leave = waitingRoom.enter(context, () => displaced.abort());
    if (slots.areTaken()) countExceeded('podReads');
    try {
      return await withTimeout(systemClock, remainingMs(context), (timeout) =>
        read(name, namespace, context.address, AbortSignal.any([timeout, displaced.signal])),
      );
    } catch (error) {
      throw displaced.signal.aborted ? new Error('too many concurrent pod reads; try again') : error;
    } finally {
      leave();
    }
  };
}
