import { allow } from '../../../kube/admission.ts';
import { enforcementWarning } from '../../../policy/rollout/index.ts';
import type { ObjectReviewer } from '../../webhook.ts';

/** Creates the reviewer that warns if a request enables enforcement that would deny known workloads. */
export function createEnforcementConfigReviewer(): ObjectReviewer {
  return {
    enforces: () => false,
    validate({ object, oldObject }) {
      const warning = enforcementWarning(object, oldObject);
      return warning === undefined ? allow() : allow({ warnings: [warning] });
    },
  };
}
