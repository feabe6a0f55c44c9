import { apiVersionOf } from '../../../kube/resources.ts';
import type { Namespace } from '../../../kube/types.ts';
import { MODES } from '../../psa/policy.ts';
import { identityOf } from './apply.ts';
import { LABELS_OF } from './labels.ts';

/** SCCs never count here, and what runs here may need every right. */
export const RUN_LEVEL_ZERO_NAMESPACES = ['default', 'kube-system', 'kube-public'] as const;

/**
 * The document to apply by force, as `RUN_LEVEL_ZERO_MANAGER`, for one of these namespaces to be privileged in every mode;
 * `undefined` for all others and where nothing differs. Versions stay as they are.
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/psalabelsyncer/privileged_namespaces_controller.go
 */
export function planRunLevelZero(namespace: Namespace): Namespace | undefined {
  const { metadata } = namespace;
  const name = RUN_LEVEL_ZERO_NAMESPACES.find((one) => one === metadata?.name);
  const keys = MODES.map((mode) => LABELS_OF[mode].level);
  if (name === undefined || keys.every((key) => metadata?.labels?.[key] === 'privileged')) return undefined;
  return {
    apiVersion: apiVersionOf('Namespace'),
    kind: 'Namespace',
    metadata: { ...identityOf(namespace), labels: Object.fromEntries(keys.map((key) => [key, 'privileged'])) },
  };
}
