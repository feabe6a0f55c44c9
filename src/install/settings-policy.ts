/**
 * Generates the ValidatingAdmissionPolicy for the PortcullisConfiguration. The deletion of this object ends all
 * enforcement by the settings, so the policy requires an annotation that confirms the deletion. API servers evaluate
 * the policy even while no replica responds.
 */
import { ALLOW_DELETION_ANNOTATION, CONFIGURATION_NAME } from '../api/names.ts';
import { celString } from '../kube/cel.ts';
import { RESOURCES } from '../kube/resources.ts';
import { type Manifest, policyWithBinding } from './settings.ts';

const { group, resource } = RESOURCES.PortcullisConfiguration;
const ANNOTATIONS = 'oldObject.metadata.annotations';
const KEY = celString(ALLOW_DELETION_ANNOTATION);

/** Returns the policy and its binding. */
export function settingsPolicy(): readonly Manifest[] {
  return policyWithBinding('portcullis-settings', {
    failurePolicy: 'Fail',
    matchConstraints: {
      resourceRules: [{ apiGroups: [group], apiVersions: ['*'], operations: ['DELETE'], resources: [resource] }],
    },
    validations: [
      {
        expression: `has(${ANNOTATIONS}) && ${KEY} in ${ANNOTATIONS} && ${ANNOTATIONS}[${KEY}] == "true"`,
        message: `its deletion ends enforcement by these settings. To confirm the deletion: kubectl annotate portcullisconfiguration ${CONFIGURATION_NAME} ${ALLOW_DELETION_ANNOTATION}=true`,
      },
    ],
  });
}
