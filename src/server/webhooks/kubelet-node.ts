import { createMinimumReader, type KubeletScope, nodeState } from '../../cluster/kubelet.ts';
import { type AdmissionRequest, allow, type Decision, deny } from '../../kube/admission.ts';
import { forbidden } from '../../kube/status.ts';
import { isObject } from '../../kube/types.ts';
import type { WebhookRegistration } from '../../kube/webhooks.ts';
import { nodeName } from '../../policy/kubelet/authorizer.ts';
import { findKubeletProblem, type MinimumVersion } from '../../policy/kubelet/version.ts';
import { rule, type Webhook } from '../webhook.ts';

/** Returns the CEL expression for the kubelet version that a Node reports. */
function reportedVersion(object: string): string {
  return `(has(${object}.status) && has(${object}.status.nodeInfo) ? ${object}.status.nodeInfo.kubeletVersion : '')`;
}

/** Match condition for requests from nodes. */
export const BY_NODE = {
  name: 'by-node',
  expression: "request.userInfo.username.startsWith('system:node:') && 'system:nodes' in request.userInfo.groups",
};

export const KUBELET_NODE: WebhookRegistration = {
  name: 'nodes.kubelet.portcullis.dev',
  path: '/kubelet/validate-node',
  configuration: { kind: 'ValidatingWebhookConfiguration', name: 'psa.portcullis.dev' },
  feature: 'kubelet',
  rules: [
    rule(['CREATE'], '', ['nodes'], { scope: 'Cluster' }),
    rule(['UPDATE'], '', ['nodes/status'], { scope: 'Cluster' }),
  ],
  matchConditions: [
    BY_NODE,
    {
      name: 'version-changed',
      expression: `request.operation != 'UPDATE' || ${reportedVersion('object')} != ${reportedVersion('oldObject')}`,
    },
  ],
  timeoutSeconds: 5,
  failure: 'open',
  isNamespaced: false,
};

/**
 * Creates the webhook that denies the registration of nodes with a kubelet below the minimum, and logs the versions
 * that registered nodes report.
 * @param kubelet if absent because the feature is not installed, the webhook allows all requests
 */
export function createKubeletNodeWebhook(kubelet: KubeletScope | undefined): Webhook {
  const getMinimum = kubelet && createMinimumReader(kubelet);
  return {
    path: KUBELET_NODE.path,
    enforces: ({ operation }) => operation === 'CREATE',
    decide(request) {
      const minimum = getMinimum?.();
      return kubelet && minimum ? decide(request, minimum, kubelet) : allow();
    },
  };
}

function decide(request: AdmissionRequest, minimum: MinimumVersion, kubelet: KubeletScope): Decision {
  const { operation, resource, subResource = '', object } = request;
  const user = nodeName(request.userInfo);
  const isNode = resource.group === '' && resource.resource === 'nodes';
  const isRegistration = operation === 'CREATE' && subResource === '';
  const isReport = operation === 'UPDATE' && subResource === 'status';
  if (!isNode || user === undefined || !(isRegistration || isReport)) return allow();
  const node = nodeState(isObject(object) ? object : {}, kubelet.settings());
  const problem = node.isExempt ? undefined : findKubeletProblem(node.kubeletVersion, minimum);
  const facts = { node: user, kubelet: problem?.type ?? (node.isExempt ? 'exempt' : 'sufficient') };
  // Reports are never denied because an upgraded kubelet must be able to report its version.
  if (problem === undefined || isReport) return allow({ facts });
  return deny(forbidden(resource, node.name, problem.message), { facts });
}
