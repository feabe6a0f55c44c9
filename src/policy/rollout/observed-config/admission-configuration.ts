import { isObject, type JsonObject } from '../../../kube/types.ts';
import { DEFAULTS_FIELDS } from '../../psa/configuration.ts';
import { POD_SECURITY_PATH, valueAt } from './types.ts';

/** No level and no version: whoever forgets to fill it in has a server that does not start, and not one that enforces nothing. */
const PLACEHOLDER = 'invalid-to-force-substitution';

/**
 * What a kube-apiserver takes with `--admission-control-config-file` to hold namespaces to the same.
 * @see https://kubernetes.io/docs/tasks/configure-pod-container/enforce-standards-admission-controller/
 */
export function admissionConfigurationOf(config: JsonObject): JsonObject {
  const observed = valueAt(config, POD_SECURITY_PATH);
  const { defaults, exemptions } = isObject(observed) ? observed : {};
  const base = Object.fromEntries(DEFAULTS_FIELDS.map((field) => [field, PLACEHOLDER]));
  return {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AdmissionConfiguration',
    plugins: [
      {
        name: 'PodSecurity',
        configuration: {
          apiVersion: 'pod-security.admission.config.k8s.io/v1',
          kind: 'PodSecurityConfiguration',
          defaults: { ...base, ...(isObject(defaults) ? defaults : {}) },
          ...(isObject(exemptions) ? { exemptions } : {}),
        },
      },
    ],
  };
}
