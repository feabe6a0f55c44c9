import { type KubeletScope, listNodeStates } from '../../cluster/kubelet.ts';
import { type AdmissionRequest, allow, type Decision, deny } from '../../kube/admission.ts';
import { RESOURCES, typeMeta } from '../../kube/resources.ts';
import { invalid } from '../../kube/status.ts';
import { objectMember } from '../../kube/types.ts';
import type { WebhookRegistration } from '../../kube/webhooks.ts';
import { type NodesConfig, reviewNodesConfig } from '../../policy/kubelet/admission.ts';
import type { Discloses } from '../disclosure.ts';
import { rule, type Webhook, WRITES } from '../webhook.ts';

const { group, resource } = RESOURCES.NodesConfig;
const { kind } = typeMeta('NodesConfig');

export const KUBELET_CONFIG: WebhookRegistration = {
  name: 'nodes.config.openshift.io',
  path: '/kubelet/validate-config',
  configuration: { kind: 'ValidatingWebhookConfiguration', name: 'psa.portcullis.dev' },
  feature: 'kubelet',
  rules: [rule(WRITES, group, [resource], { scope: 'Cluster' })],
  timeoutSeconds: 5,
  failure: 'open',
  isNamespaced: false,
};

/**
 * Creates the webhook that denies a minimum kubelet version that nodes do not meet, and transitions between the extreme
 * worker latency profiles.
 * @param kubelet if absent because the feature is not installed, the webhook allows all requests
 */
export function createKubeletConfigWebhook(kubelet: KubeletScope | undefined, discloses: Discloses): Webhook {
  return {
    path: KUBELET_CONFIG.path,
    decide(request, { store }) {
      if (!kubelet?.settings().isOn || !isConfigWrite(request)) return allow();
      const decision = decide(request, kubelet);
      // The warnings contain the names of nodes.
      return discloses(request, store, 'NodesConfig') ? decision : { ...decision, warnings: [] };
    },
  };
}

function isConfigWrite({ operation, resource: requested, subResource = '' }: AdmissionRequest): boolean {
  const isConfig = requested.group === group && requested.resource === resource && subResource === '';
  return isConfig && (operation === 'CREATE' || operation === 'UPDATE');
}

function decide(request: AdmissionRequest, kubelet: KubeletScope): Decision {
  const config = readConfig(request.object);
  const isOpenShift = kubelet.settings().compatibility === 'openshift';
  const { errors, warnings } = reviewNodesConfig({
    config,
    old: request.operation === 'UPDATE' ? readConfig(request.oldObject) : undefined,
    nodes: listNodeStates(kubelet),
    ratchet: !isOpenShift,
    strictNodes: isOpenShift,
  });
  return errors.length > 0 ? deny(invalid({ group, kind }, config.name, errors), { warnings }) : allow({ warnings });
}

/**
 * Reads the fields of an unvalidated object. Ignores fields of other types, which API servers reject because of the
 * schema.
 */
function readConfig(object: unknown): NodesConfig {
  const read = (member: string, field: string): string => {
    const value = objectMember(object, member)[field];
    return typeof value === 'string' ? value : '';
  };
  return {
    name: read('metadata', 'name'),
    minimumKubeletVersion: read('spec', 'minimumKubeletVersion'),
    workerLatencyProfile: read('spec', 'workerLatencyProfile'),
  };
}
