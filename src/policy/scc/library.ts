/**
 * Public API of the package export `./scc`. Finds the SCC that admits a pod, and returns the pod with that SCC's
 * values. The functions are pure and never throw. They validate their input and deny input that cannot be decoded,
 * because a missing field must not admit a pod.
 */
import type { Operation } from '../../kube/admission.ts';
import {
  type FieldError,
  findKindError,
  formatFieldError,
  invalidValue,
  notSupported,
  requiredField,
} from '../../kube/field-error.ts';
import { createStatus } from '../../kube/status.ts';
import { isObject, valueAt } from '../../kube/types.ts';
import type { AccessSubject } from './access.ts';
import * as admission from './assign.ts';
import type { SccDecision } from './decision.ts';
import type { SccInput } from './request.ts';

export type { SecurityContextConstraints } from '../../kube/scc.ts';
export type { AccessSubject, SccAccess } from './access.ts';
export type { SccDecision } from './decision.ts';
export type { Compatibility } from './mode.ts';
export type { SccInput } from './request.ts';

/**
 * Returns true if the authorizer grants a subject the `use` verb on the SCC in the namespace. Must ignore the SCC's
 * `users` and `groups` fields.
 */
export type CanUse = (subject: AccessSubject, sccName: string, namespaceName: string) => boolean;

/** The input for a decision about one pod request. The objects may have the types of any Kubernetes library. */
export interface SccRequest extends Omit<SccInput, 'namespace' | 'userInfo' | 'sccs' | 'namespaceRanges' | 'access'> {
  /** A Namespace. Its annotations contain the ranges of the namespace. */
  readonly namespace: unknown;
  /** The requesting user, with `username` and `groups`. */
  readonly userInfo: unknown;
  /** All SCCs in the cluster. */
  readonly sccs: readonly unknown[];
  readonly canUse: CanUse;
}

/**
 * Makes the decision in the mutating pass. Finds the first usable SCC that allows the pod, and defaults the pod with
 * it. On updates, it may change only added ephemeral containers. A request with an invalid field is denied, and the
 * status names the field.
 * @example
 * const scc = {
 *   metadata: { name: 'anyuid' },
 *   runAsUser: { type: 'RunAsAny' },
 *   seLinuxContext: { type: 'RunAsAny' },
 *   fsGroup: { type: 'RunAsAny' },
 *   supplementalGroups: { type: 'RunAsAny' },
 *   requiredDropCapabilities: ['MKNOD'],
 *   volumes: ['*'],
 * };
 * const ranges = { 'openshift.io/sa.scc.uid-range': '1000000000/10000', 'openshift.io/sa.scc.mcs': 's0:c1,c0' };
 * const request = {
 *   operation: 'CREATE',
 *   object: { metadata: { name: 'web' }, spec: { containers: [{ name: 'web', image: 'nginx' }] } },
 *   namespace: { metadata: { name: 'shop', annotations: ranges } },
 *   userInfo: { username: 'alice', groups: ['system:authenticated'] },
 *   sccs: [scc],
 *   canUse: ({ username }, sccName) => username === 'alice' && sccName === 'anyuid',
 * };
 * assignScc(request).object.spec.containers[0].securityContext; // { capabilities: { drop: [ 'MKNOD' ] } }
 * @see
 * https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccadmission/admission.go
 */
export function assignScc(request: SccRequest): SccDecision {
  return decide(request, admission.assignScc);
}

/**
 * Makes the decision in the validating pass, in which a usable SCC must allow the pod without changing it.
 * @example
 * const scc = {
 *   metadata: { name: 'anyuid' },
 *   runAsUser: { type: 'RunAsAny' },
 *   seLinuxContext: { type: 'RunAsAny' },
 *   fsGroup: { type: 'RunAsAny' },
 *   supplementalGroups: { type: 'RunAsAny' },
 *   requiredDropCapabilities: ['MKNOD'],
 *   volumes: ['*'],
 * };
 * const ranges = { 'openshift.io/sa.scc.uid-range': '1000000000/10000', 'openshift.io/sa.scc.mcs': 's0:c1,c0' };
 * const request = {
 *   operation: 'CREATE',
 *   object: { metadata: { name: 'web' }, spec: { containers: [{ name: 'web', image: 'nginx' }] } },
 *   namespace: { metadata: { name: 'shop', annotations: ranges } },
 *   userInfo: { username: 'alice', groups: ['system:authenticated'] },
 *   sccs: [scc],
 *   canUse: ({ username }, sccName) => username === 'alice' && sccName === 'anyuid',
 * };
 * validateScc(request).status.message; // 'unable to validate against any security context constraint: []'
 */
export function validateScc(request: SccRequest): SccDecision {
  return decide(request, admission.validateScc);
}

function decide(request: SccRequest, pass: (input: SccInput) => SccDecision): SccDecision {
  const error = findError(request);
  if (error === undefined) return pass({ ...(request as SccRequest & SccInput), access: { canUse: request.canUse } });
  const status = createStatus(400, 'BadRequest', formatFieldError(error));
  return { allowed: false, status, warnings: [], auditAnnotations: {} };
}

const OPERATIONS: readonly Operation[] = ['CREATE', 'UPDATE', 'DELETE', 'CONNECT'];

function findError(request: unknown): FieldError | undefined {
  if (!isObject(request)) return invalidValue('request', request, 'must be an object');
  const { operation, namespace, userInfo, sccs, canUse } = request;
  if (!OPERATIONS.some((known) => known === operation)) return notSupported('operation', operation, OPERATIONS);
  if (typeof canUse !== 'function') return invalidValue('canUse', canUse, 'must be a function');
  if (!Array.isArray(sccs)) return invalidValue('sccs', sccs, 'must be a list');
  return (
    findKindError(namespace, 'Namespace', 'namespace') ??
    findNameError(namespace) ??
    findUserError(userInfo) ??
    sccs
      .map((scc: unknown, index) => findKindError(scc, 'SecurityContextConstraints', `sccs[${index}]`))
      .find((error) => error !== undefined)
  );
}

function findNameError(namespace: unknown): FieldError | undefined {
  const name = valueAt(namespace, ['metadata', 'name']);
  return typeof name === 'string' && name !== '' ? undefined : requiredField('namespace.metadata.name', '');
}

function findUserError(user: unknown): FieldError | undefined {
  if (!isObject(user)) return invalidValue('userInfo', user, 'must be an object');
  const { username, groups = [] } = user;
  if (typeof username !== 'string') return invalidValue('userInfo.username', username, 'must be a string');
  const isValid = Array.isArray(groups) && groups.every((group) => typeof group === 'string');
  return isValid ? undefined : invalidValue('userInfo.groups', groups, 'must be a list of strings');
}
