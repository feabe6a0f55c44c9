/** Support for SCC tests, including grants, objects, and individual steps of the decision. */
import { type FieldError, formatFieldError } from '../../src/kube/field-error.ts';
import type { SecurityContextConstraints } from '../../src/kube/scc.ts';
import type { JsonObject, Namespace } from '../../src/kube/types.ts';
import { decodeMutablePod, type PodFields } from '../../src/policy/pod/index.ts';
import {
  type SccAccess,
  CONTAINER_STRATEGIES,
  type ContainerContext,
  decodeScc,
  ownContainerValues,
  ownPodValues,
  POD_STRATEGIES,
  type PodContext,
  writePod,
} from '../../src/policy/scc/index.ts';

/**
 * A grant of SCCs that replaces RBAC. Without a namespace, the grant applies to all namespaces. `*` means every SCC.
 */
export interface Grant {
  readonly user?: string;
  readonly group?: string;
  readonly namespace?: string;
  readonly sccs: readonly string[];
}

export function accessBy(grants: readonly Grant[]): SccAccess {
  return {
    canUse: (subject, sccName, namespaceName) =>
      grants.some(
        ({ user, group, namespace, sccs }) =>
          (user === undefined ? subject.groups.includes(group ?? '') : user === subject.username) &&
          (namespace === undefined || namespace === namespaceName) &&
          (sccs.includes('*') || sccs.includes(sccName)),
      ),
  };
}

/** Returns an SCC whose strategies accept every value, with the given fields. */
export function laxScc({ name = 'lax', ...fields }: JsonObject): SecurityContextConstraints {
  const any = { type: 'RunAsAny' };
  return {
    apiVersion: 'security.openshift.io/v1',
    kind: 'SecurityContextConstraints',
    runAsUser: any,
    seLinuxContext: any,
    fsGroup: any,
    supplementalGroups: any,
    ...fields,
    metadata: { name: String(name) },
  };
}

export function namespaceWith(ranges: Readonly<Record<string, string>>, name = 'demo'): Namespace {
  return { metadata: { name, annotations: ranges } };
}

/** Returns the context of a pod under an SCC without namespace ranges, before values are generated. */
export function createPodContext(scc: unknown, pod: unknown): PodContext {
  const { fields } = decodeScc(scc);
  const decoded = decodePodFields(pod);
  return { scc: fields, bound: fields, pod: decoded, podValues: ownPodValues(decoded), maxErrors: 1000 };
}

export function createContainerContext(context: PodContext, index: number): ContainerContext {
  const container = context.pod.containers[index];
  if (container === undefined) throw new RangeError(`there is no container ${index}`);
  return { ...context, container, values: ownContainerValues(container) };
}

/** Returns the errors of the unchanged pod under an SCC. */
export function podErrors(context: PodContext): string[] {
  const errors: FieldError[] = [];
  for (const { validate } of POD_STRATEGIES) validate?.(context, errors);
  return errors.map(formatFieldError);
}

export function containerErrors(context: ContainerContext): string[] {
  const errors: FieldError[] = [];
  for (const { validate } of CONTAINER_STRATEGIES) validate?.(context, errors);
  return errors.map(formatFieldError);
}

export function decodePodFields(pod: unknown): PodFields {
  const decoded = decodeMutablePod(pod);
  if ('error' in decoded) throw new TypeError(formatFieldError(decoded.error));
  return decoded.pod;
}

/**
 * Returns the security context of a container with the values that an SCC generates, or `undefined` if there is none.
 */
export function generateContainer(scc: unknown, pod: unknown, index: number): JsonObject | undefined {
  const context = createContainerContext(createPodContext(scc, pod), index);
  for (const { generate } of CONTAINER_STRATEGIES) generate?.(context);
  const containerValues = context.pod.containers.map((container, position) =>
    position === index ? context.values : ownContainerValues(container),
  );
  const { spec } = writePod({ ...context, containerValues, errors: [] }, {}) as {
    readonly spec: { readonly containers: readonly { readonly securityContext?: JsonObject }[] };
  };
  return spec.containers[index]?.securityContext;
}
