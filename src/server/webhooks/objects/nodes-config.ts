import { type AdmissionRequest, allow, type Decision, deny } from '../../../kube/admission.ts';
import { RESOURCES, typeMeta } from '../../../kube/resources.ts';
import { invalid } from '../../../kube/status.ts';
import { readNodesConfig, reviewNodesConfig } from '../../../policy/kubelet/index.ts';
import { type KubeletScope, listNodeStates } from '../../../views/kubelet.ts';
import type { Discloses } from '../../disclosure.ts';
import type { ObjectReviewer } from '../../webhook.ts';

const { group } = RESOURCES.NodesConfig;
const { kind } = typeMeta('NodesConfig');

/**
 * Creates the reviewer that denies a minimum kubelet version that nodes do not meet, and transitions between the extreme
 * worker latency profiles.
 * @param kubelet if absent because the feature is not installed, all objects are allowed
 */
export function createNodesConfigReviewer(kubelet: KubeletScope | undefined, discloses: Discloses): ObjectReviewer {
  return {
    validate(request, { store }) {
      if (!kubelet?.settings().isOn) return allow();
      const decision = decide(request, kubelet);
      // Removes the warnings for clients that may not learn the names of nodes.
      return discloses(request, store, 'NodesConfig') ? decision : { ...decision, warnings: [] };
    },
  };
}

function decide(request: AdmissionRequest, kubelet: KubeletScope): Decision {
  const config = readNodesConfig(request.object);
  const isOpenShift = kubelet.settings().compatibility === 'openshift';
  const { errors, warnings } = reviewNodesConfig({
    config,
    old: request.operation === 'UPDATE' ? readNodesConfig(request.oldObject) : undefined,
    nodes: listNodeStates(kubelet),
    ratchet: !isOpenShift,
    strictNodes: isOpenShift,
  });
  return errors.length > 0 ? deny(invalid({ group, kind }, config.name, errors), { warnings }) : allow({ warnings });
}
