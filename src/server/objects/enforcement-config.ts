import { type AdmissionRequest, allow } from '../../kube/admission.ts';
import type { PSAEnforcementConfig } from '../../kube/psa-enforcement-config.ts';
import { isObject, objectMember } from '../../kube/types.ts';
import { forcedWarning } from '../../policy/rollout/index.ts';
import type { ObjectReviewer } from '../webhooks/objects.ts';

/** Creates the reviewer that warns about a request for enforcement that would deny known workloads. */
export function createEnforcementConfigReviewer(): ObjectReviewer {
  return {
    enforces: () => false,
    validate(request) {
      const warning = findWarning(request);
      return warning === undefined ? allow() : allow({ warnings: [warning] });
    },
  };
}

function findWarning({ object, oldObject }: AdmissionRequest): string | undefined {
  const config = readConfig(object);
  return config && forcedWarning(config, readConfig(oldObject));
}

/** Reads the fields that the warning needs from an unvalidated object. */
function readConfig(value: unknown): PSAEnforcementConfig | undefined {
  if (!isObject(value)) return undefined;
  const mode = objectMember(value, 'spec')['enforcementMode'];
  const violating = objectMember(value, 'status')['violatingNamespaces'];
  const entries: readonly unknown[] = Array.isArray(violating) ? violating : [];
  return {
    spec: typeof mode === 'string' ? { enforcementMode: mode } : {},
    status: {
      violatingNamespaces: entries.flatMap((entry) =>
        isObject(entry) && typeof entry['name'] === 'string'
          ? [{ name: entry['name'], state: entry['state'] === 'Previous' ? 'Previous' : 'Current' }]
          : [],
      ),
    },
  };
}
