/** Reviews writes by nodes for the minimum kubelet version. */
import type { WebhookRegistration } from '../../api/webhooks.ts';
import { type AdmissionRequest, allow, type Decision } from '../../kube/admission.ts';
import { celList } from '../../kube/cel.ts';
import { isObject, objectMember } from '../../kube/types.ts';
import { type MinimumVersion, nodeName, reviewNode, reviewNodeWrite } from '../../policy/kubelet/index.ts';
import { createMinimumReader, findNodeState, type KubeletScope, nodeState } from '../../views/kubelet.ts';
import type { WebhookDefinition } from '../services.ts';
import { type PodPolicy, webhookRule, type Webhook, WRITES } from '../webhook.ts';

/** Returns the CEL expression for the kubelet version that a Node reports. */
function reportedVersion(object: string): string {
  return `(has(${object}.status) && has(${object}.status.nodeInfo) ? ${object}.status.nodeInfo.kubeletVersion : '')`;
}

const SIGNERS: readonly string[] = ['kubernetes.io/kube-apiserver-client-kubelet', 'kubernetes.io/kubelet-serving'];
const LEASES = 'kube-node-lease';

/** CEL expressions for the requests to review, by resource. The signer of a certificate request is immutable. */
const RELEVANT = {
  nodes: `request.operation != 'UPDATE' || ${reportedVersion('object')} != ${reportedVersion('oldObject')}`,
  certificatesigningrequests: `object.spec.signerName in ${celList(SIGNERS)}`,
  leases: `request.namespace == '${LEASES}'`,
};

/** The review of Nodes, certificate requests and Leases. */
const NODES: WebhookRegistration = {
  name: 'nodes.portcullis.dev',
  path: '/validate/nodes',
  description:
    'denies the registration of a node whose kubelet is below the minimum in force. Logs the versions that nodes report later, but never denies these reports. With the setting `spec.kubelet.admission.certificates`, also denies certificate requests from such nodes, and with `nodeWrites`, their Leases',
  kind: 'ValidatingWebhookConfiguration',
  rules: [
    { feature: 'kubelet', rule: webhookRule(['CREATE'], '', ['nodes'], { scope: 'Cluster' }) },
    { feature: 'kubelet', rule: webhookRule(['UPDATE'], '', ['nodes/status'], { scope: 'Cluster' }) },
    {
      feature: 'kubeletCertificates',
      rule: webhookRule(['CREATE'], 'certificates.k8s.io', ['certificatesigningrequests'], { scope: 'Cluster' }),
    },
    { feature: 'kubeletNodeWrites', rule: webhookRule(WRITES, 'coordination.k8s.io', ['leases']) },
  ],
  matchConditions: [
    {
      name: 'by-node',
      expression: "request.userInfo.username.startsWith('system:node:') && 'system:nodes' in request.userInfo.groups",
    },
    {
      name: 'relevant',
      expression: Object.entries(RELEVANT)
        .map(([resource, expression]) => `(request.resource.resource != '${resource}' || ${expression})`)
        .join(' && '),
    },
  ],
  timeoutSeconds: 5,
  failure: 'open',
};

/**
 * Creates the webhook that denies the registration of nodes with a kubelet below the minimum, and their certificate
 * requests. If API servers do not call the authorization webhook, it also denies the Leases of these nodes. It logs the
 * versions that registered nodes report. Other requests from nodes without a Node object are allowed.
 * @param kubelet if absent because the feature is not installed, the webhook allows all requests
 */
export function createNodes(kubelet: KubeletScope | undefined): Webhook {
  const getMinimum = kubelet && createMinimumReader(kubelet);
  return {
    path: NODES.path,
    // Status reports are never denied.
    enforces: ({ subResource = '' }) => subResource !== 'status',
    decide(request) {
      const minimum = getMinimum?.();
      if (!kubelet || !minimum) return allow();
      if (request.resource.resource !== 'nodes')
        return isChecked(request, kubelet) ? reviewWrite(request, minimum, kubelet) : allow();
      const user = nodeName(request.userInfo);
      const node = nodeState(isObject(request.object) ? request.object : {}, kubelet.settings());
      return user === undefined ? allow() : reviewNode(request, minimum, { user, node });
    },
  };
}

/**
 * Creates the policy that denies mirror pods of nodes with a kubelet below the minimum, if API servers do not call the
 * authorization webhook. A node cannot create other pods.
 */
export function createMirrorPodPolicy(kubelet: KubeletScope | undefined): PodPolicy {
  const getMinimum = kubelet && createMinimumReader(kubelet);
  const isChecked = ({ operation, userInfo }: AdmissionRequest): boolean =>
    kubelet?.settings().admission.nodeWrites === true && operation === 'CREATE' && nodeName(userInfo) !== undefined;
  return {
    enforces: isChecked,
    decide(request) {
      const minimum = isChecked(request) ? getMinimum?.() : undefined;
      return kubelet && minimum ? reviewWrite(request, minimum, kubelet) : allow();
    },
  };
}

/** Returns true if the match conditions hold and the settings, which may have changed, require a review. */
function isChecked({ resource, namespace, object }: AdmissionRequest, kubelet: KubeletScope): boolean {
  const { certificates, nodeWrites } = kubelet.settings().admission;
  if (resource.resource === 'leases') return nodeWrites && namespace === LEASES;
  return certificates && SIGNERS.includes(String(objectMember(object, 'spec')['signerName']));
}

function reviewWrite(request: AdmissionRequest, minimum: MinimumVersion, kubelet: KubeletScope): Decision {
  const user = nodeName(request.userInfo);
  const node = user === undefined ? undefined : findNodeState(kubelet, user);
  return node
    ? reviewNodeWrite(request, minimum, { node, strictNodes: kubelet.settings().compatibility === 'openshift' })
    : allow();
}

export const nodes: WebhookDefinition = { registrations: [NODES], create: ({ kubelet }) => [createNodes(kubelet)] };
