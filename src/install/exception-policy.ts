/**
 * The ValidatingAdmissionPolicy for PodSecurityExceptions. API servers evaluate it even if no replica responds, and while
 * exceptions or webhooks are off, so an approval is always written by a user who may approve it.
 */
import type { V1ValidatingAdmissionPolicy, V1ValidatingAdmissionPolicyBinding } from '@kubernetes/client-node';
import { celString } from '../kube/cel.ts';
import { AUTHORS_ANNOTATION } from '../kube/pod-security-exception.ts';
import { RESOURCES } from '../kube/resources.ts';
import { clusterMetadata, type Manifest, type ManifestOf } from './settings.ts';

const NAME = 'portcullis-exceptions';
const { group, resource } = RESOURCES.PodSecurityException;

const authors = (object: string): string =>
  `${object}.?metadata.?annotations[?${celString(AUTHORS_ANNOTATION)}].orValue("")`;

const VARIABLES = [
  { name: 'isNew', expression: 'oldObject == null' },
  { name: 'approval', expression: 'object.?status.?approval' },
  {
    name: 'isApproval',
    expression:
      'variables.approval.hasValue() && (variables.isNew || variables.approval != oldObject.?status.?approval)',
  },
  { name: 'isEdit', expression: 'variables.isNew || object.spec != oldObject.spec' },
  { name: 'authors', expression: authors('object') },
];

const VALIDATIONS = [
  {
    expression: '!variables.isApproval || request.subResource == "status"',
    message: `only the status subresource of ${resource} changes the approval`,
  },
  {
    expression: '!variables.isApproval || variables.approval.value().by == request.userInfo.username',
    message: 'status.approval.by must be the requesting user',
  },
  {
    expression: `!variables.isApproval || authorizer.group(${celString(group)}).resource(${celString(resource)}).namespace(request.namespace).name(request.name).check("approve").allowed()`,
    message: `the user cannot approve ${resource}.${group} in this namespace`,
  },
  {
    // A username that JSON escapes is never found.
    expression: `variables.isEdit ? variables.authors.contains("\\"" + request.userInfo.username + "\\"") : variables.authors == ${authors('oldObject')}`,
    message: `the author is not recorded: spec.podSecurity.exceptions.mode of the settings is off, or the webhook record.exceptions.portcullis.dev is not called`,
  },
];

/** The policy and its binding. */
export function exceptionPolicy(): readonly Manifest[] {
  const apiVersion = 'admissionregistration.k8s.io/v1';
  const metadata = clusterMetadata(NAME);
  const resourceRules = [
    {
      apiGroups: [group],
      apiVersions: ['*'],
      operations: ['CREATE', 'UPDATE'],
      resources: [resource, `${resource}/status`],
    },
  ];
  const policy: ManifestOf<V1ValidatingAdmissionPolicy> = {
    apiVersion,
    kind: 'ValidatingAdmissionPolicy',
    metadata,
    spec: {
      failurePolicy: 'Fail',
      matchConstraints: { resourceRules },
      variables: VARIABLES,
      validations: VALIDATIONS,
    },
  };
  const binding: ManifestOf<V1ValidatingAdmissionPolicyBinding> = {
    apiVersion,
    kind: 'ValidatingAdmissionPolicyBinding',
    metadata,
    spec: { policyName: NAME, validationActions: ['Deny'] },
  };
  return [policy, binding];
}
