import { createMinimumReader, findNodeState, type KubeletScope } from '../../cluster/kubelet.ts';
import { type AdmissionRequest, allow, type Decision, deny } from '../../kube/admission.ts';
import { forbidden } from '../../kube/status.ts';
import { objectMember } from '../../kube/types.ts';
import type { WebhookRegistration } from '../../kube/webhooks.ts';
import { compareNodes } from '../../policy/kubelet/admission.ts';
import { nodeName } from '../../policy/kubelet/authorizer.ts';
import type { MinimumVersion } from '../../policy/kubelet/version.ts';
import { rule, type Webhook, WRITES } from '../webhook.ts';
import { BY_NODE } from './kubelet-node.ts';

const PATH = '/kubelet/validate-write';
const CONFIGURATION = { kind: 'ValidatingWebhookConfiguration', name: 'psa.portcullis.dev' } as const;

const SIGNERS: readonly string[] = ['kubernetes.io/kube-apiserver-client-kubelet', 'kubernetes.io/kubelet-serving'];
const LEASES = 'kube-node-lease';

/** Review of certificate requests. Their signer is immutable. */
export const KUBELET_CERTIFICATES: WebhookRegistration = {
  name: 'certificates.kubelet.portcullis.dev',
  path: PATH,
  configuration: CONFIGURATION,
  feature: 'kubeletCertificates',
  rules: [rule(['CREATE'], 'certificates.k8s.io', ['certificatesigningrequests'], { scope: 'Cluster' })],
  matchConditions: [
    BY_NODE,
    { name: 'signer', expression: `object.spec.signerName in [${SIGNERS.map((one) => `'${one}'`).join(', ')}]` },
  ],
  timeoutSeconds: 5,
  failure: 'open',
  isNamespaced: false,
};

/** Review of node Leases and mirror pods. A node cannot create other pods. */
export const KUBELET_NODE_WRITES: WebhookRegistration = {
  name: 'writes.kubelet.portcullis.dev',
  path: PATH,
  configuration: CONFIGURATION,
  feature: 'kubeletNodeWrites',
  rules: [rule(WRITES, 'coordination.k8s.io', ['leases']), rule(['CREATE'], '', ['pods'])],
  matchConditions: [
    BY_NODE,
    {
      name: 'heartbeat-or-pod',
      expression: `request.resource.resource == 'pods' || request.namespace == '${LEASES}'`,
    },
  ],
  timeoutSeconds: 5,
  failure: 'open',
  isNamespaced: true,
};

/**
 * Creates the webhook that denies certificate requests from nodes with a kubelet below the minimum. If API servers do
 * not call the authorization webhook, it also denies Leases and mirror pods. Requests from nodes without a Node object
 * are allowed.
 * @param kubelet if absent because the feature is not installed, the webhook allows all requests
 */
export function createKubeletWritesWebhook(kubelet: KubeletScope | undefined): Webhook {
  const getMinimum = kubelet && createMinimumReader(kubelet);
  return {
    path: PATH,
    decide(request) {
      const minimum = getMinimum?.();
      return kubelet && minimum && isChecked(request, kubelet) ? decide(request, minimum, kubelet) : allow();
    },
  };
}

/**
 * Repeats the checks of the registrations' match conditions, and checks the settings, which may have changed since the
 * registration.
 */
function isChecked(request: AdmissionRequest, kubelet: KubeletScope): boolean {
  const { resource, operation, namespace, subResource = '', object } = request;
  const { certificates, nodeWrites } = kubelet.settings().admission;
  if (subResource !== '' || (operation !== 'CREATE' && operation !== 'UPDATE')) return false;
  switch (`${resource.resource}.${resource.group}`) {
    case 'certificatesigningrequests.certificates.k8s.io': {
      const { signerName } = objectMember(object, 'spec');
      return certificates && operation === 'CREATE' && SIGNERS.includes(String(signerName));
    }
    case 'leases.coordination.k8s.io':
      return nodeWrites && namespace === LEASES;
    case 'pods.':
      return nodeWrites && operation === 'CREATE';
    default:
      return false;
  }
}

function decide(request: AdmissionRequest, minimum: MinimumVersion, kubelet: KubeletScope): Decision {
  const { resource, name = '' } = request;
  const user = nodeName(request.userInfo);
  const node = user === undefined ? undefined : findNodeState(kubelet, user);
  if (node === undefined) return allow();
  const { violations } = compareNodes([node], minimum, kubelet.settings().compatibility === 'openshift');
  const [violation] = violations;
  if (violation === undefined) return allow();
  const { type, message } = violation.problem;
  return deny(forbidden(resource, name, message), { facts: { node: node.name, kubelet: type } });
}
