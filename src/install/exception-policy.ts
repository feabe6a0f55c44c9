/**
 * Generates the ValidatingAdmissionPolicy for PodSecurityExceptions. The policy ensures that only users who may approve
 * an exception can write its approval. API servers evaluate it even while no replica responds, or while exceptions or
 * webhooks are off.
 */
import { APPROVAL_ANNOTATIONS, AUTHORS_ANNOTATION } from '../api/names.ts';
import { celString } from '../kube/cel.ts';
import { RESOURCES } from '../kube/resources.ts';
import { type Manifest, policyWithBinding } from './settings.ts';

const NAME = 'portcullis-exceptions';
const { group, resource } = RESOURCES.PodSecurityException;

const KEY = celString(AUTHORS_ANNOTATION);
const authors = (object: string): string =>
  `has(${object}.metadata.annotations) && ${KEY} in ${object}.metadata.annotations ? string(${object}.metadata.annotations[${KEY}]) : ""`;
const approval = (object: string): string =>
  `has(${object}.status) && has(${object}.status.approval) ? ${object}.status.approval : dyn({})`;

const KEYS = Object.values(APPROVAL_ANNOTATIONS).map((key) => celString(key));
/** Returns a list of the values of the approval annotations, of which the first is the approver. */
const record = (object: string): string =>
  `[${KEYS.join(', ')}].map(key, has(${object}.metadata.annotations) && key in ${object}.metadata.annotations ? string(${object}.metadata.annotations[key]) : "")`;
const THROUGH = Object.keys(APPROVAL_ANNOTATIONS).indexOf('through');

const VARIABLES = [
  // The objects are untyped so that expressions can compare fields that might be absent.
  { name: 'new', expression: 'dyn(object)' },
  { name: 'old', expression: 'oldObject == null ? dyn({"metadata": dyn({}), "spec": dyn({})}) : dyn(oldObject)' },
  { name: 'approval', expression: approval('variables.new') },
  { name: 'oldApproval', expression: approval('variables.old') },
  { name: 'isApproval', expression: 'has(variables.approval.by) && variables.approval != variables.oldApproval' },
  { name: 'record', expression: record('variables.new') },
  // True if the request changes the approval in the annotations.
  { name: 'isApplied', expression: `variables.record[0] != "" && variables.record != ${record('variables.old')}` },
  { name: 'authors', expression: authors('variables.new') },
  { name: 'oldAuthors', expression: authors('variables.old') },
];

/** Matches a username that contains no quotes, and more than the separators of a JSON list. */
const PLAIN_NAME = '^[^"]*[^",\\s][^"]*$';
/** The username as it occurs in a JSON list, in which backslashes are doubled. */
const JSON_NAME = 'request.userInfo.username.split("\\\\").join("\\\\\\\\")';
/** Matches a text whose only escapes are doubled backslashes. */
const PLAIN_JSON = '^(?:[^\\\\]|\\\\\\\\)*$';

const VALIDATIONS = [
  {
    expression: '!variables.isApproval || request.subResource == "status"',
    message: `the approval may only be set through the status subresource of ${resource}`,
  },
  {
    expression: '!variables.isApproval || variables.approval.by == request.userInfo.username',
    message: 'status.approval.by must be the requesting user',
  },
  {
    expression: `!(variables.isApproval || variables.isApplied) || authorizer.group(${celString(group)}).resource(${celString(resource)}).namespace(request.namespace).name(request.name).check("approve").allowed()`,
    message: `the user cannot approve ${resource}.${group} in this namespace`,
  },
  {
    // Replicas use the approval only if the settings trust this user.
    expression: `!variables.isApplied || variables.record[${THROUGH}] == request.userInfo.username`,
    message: `the annotation ${APPROVAL_ANNOTATIONS.through} must be the requesting user`,
  },
  {
    // If the webhook is not called, the user writes the list of authors, and could hide in it with escapes or with
    // quotes in the username.
    expression: `variables.new.spec != variables.old.spec ? variables.authors.contains("\\"" + ${JSON_NAME} + "\\"") && variables.authors.matches(${celString(PLAIN_JSON)}) && request.userInfo.username.matches(${celString(PLAIN_NAME)}) : variables.authors == variables.oldAuthors`,
    message:
      'the author is not recorded: spec.podSecurity.exceptions.mode in the settings is off (to accept exceptions, set it to approved), or the webhook mutate.objects.portcullis.dev is not called',
  },
];

/** Returns the policy and its binding. */
export function exceptionPolicy(): readonly Manifest[] {
  const resourceRules = [
    {
      apiGroups: [group],
      apiVersions: ['*'],
      operations: ['CREATE', 'UPDATE'],
      resources: [resource, `${resource}/status`],
    },
  ];
  return policyWithBinding(NAME, {
    failurePolicy: 'Fail',
    matchConstraints: { resourceRules },
    variables: VARIABLES,
    validations: VALIDATIONS,
  });
}
