/**
 * The CEL form of the strategies, for ValidatingAdmissionPolicies with SCCs as parameters. The expressions read the SCC by
 * `variables.scc`, the pod by `variables.spec`, `variables.containers`, `variables.volumes` and `variables.annotations`, as
 * those of the Pod Security checks, and the ranges of the namespace by the variables of `NAMESPACE_RANGES_CEL`. The fields
 * of a stored SCC may be null, those of a pod are not.
 */

export interface SccCel {
  /** The field in denials. Paths of pods begin with a dot, those of containers are members of the security context. */
  readonly field: string;
  /** Variables by name, each of which may read those before it. */
  readonly variables?: Readonly<Record<string, string>>;
  /** A bool: true if the SCC allows the pod, or the container `c`, and would not change it. */
  readonly passes: string;
}

/** A member of an object, or the default if it is absent or null. */
export function celMember(owner: string, field: string, absent: string): string {
  return `(${owner}.?${field}.orValue(null) == null ? ${absent} : ${owner}.${field})`;
}

/** A list of the SCC. */
export function sccList(field: string): string {
  return celMember('variables.scc', field, '[]');
}

/** A bool of the SCC that is never null. */
export function sccAllows(field: string): string {
  return `variables.scc.?${field}.orValue(false)`;
}

/** An optional member of the security context of `variables.spec` or of `c`. */
export function celContext(owner: 'variables.spec' | 'c', field: string): string {
  return `${owner}.?securityContext.?${field}`;
}

/** A bool: true if an integer is in one of the ranges, which are lists of two integers. */
export function isInRanges(ranges: string, id: string): string {
  return `${ranges}.exists(range, range[0] <= ${id} && ${id} <= range[1])`;
}
