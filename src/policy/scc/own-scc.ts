import { obstaclesOf, type Obstacle } from './obstacles.ts';
import type { PreparedScc } from './prepare.ts';
import { attemptScc, type SearchInput } from './search.ts';
import { printValues } from './sentence.ts';

/** An SCC that is not there and would admit a pod: like one that is, but for some fields. */
export interface OwnScc {
  readonly like: PreparedScc;
  /** The fields in which it is laxer, with what they have to allow: `allowedCapabilities=NET_ADMIN`. */
  readonly fields: readonly string[];
}

/**
 * Where an SCC would do that allows everything, though no container is privileged: the SCC to write instead. `undefined`
 * where it is no better, or where none is near.
 */
export function ownSccFor(search: SearchInput, grantable: PreparedScc): OwnScc | undefined {
  const { pod, candidates } = search;
  if (!grantable.fields.allowPrivilegedContainer || pod.containers.some(({ privileged }) => privileged))
    return undefined;
  let best: { readonly like: PreparedScc; readonly obstacles: readonly Obstacle[] } | undefined;
  for (const like of candidates) {
    // A pod that has no user namespace is not about to get one.
    if (like.fields.allowPrivilegedContainer || (pod.hostUsers !== false && demandsUserNamespace(like))) continue;
    // One more than the best so far tells that it is worse.
    const limit = best && best.obstacles.length + 1;
    const obstacles = obstaclesOf(pod, attemptScc(like, search).errors, limit);
    if (obstacles.length === 0) continue;
    const lead = (best?.obstacles.length ?? Infinity) - obstacles.length;
    if (lead > 0 || (lead === 0 && like.score < (best?.like.score ?? 0))) best = { like, obstacles };
  }
  return best && { like: best.like, fields: fieldsAllowing(best.obstacles) };
}

function demandsUserNamespace({ fields }: PreparedScc): boolean {
  return fields.userNamespaceLevel === 'RequirePodLevel';
}

/** The field of an SCC that a field of a pod is judged by, and what it has to hold; the first that matches counts. */
const FIELDS: readonly (readonly [pod: RegExp, scc: string, holds: 'the values' | 'true' | 'something else'])[] = [
  [/\.capabilities\.add$/, 'allowedCapabilities', 'the values'],
  [/\.capabilities(\.drop)?$/, 'requiredDropCapabilities', 'something else'],
  [/seccomp/, 'seccompProfiles', 'the values'],
  [/\.sysctls\[/, 'allowedUnsafeSysctls', 'the values'],
  [/\.flexVolume\.driver$/, 'allowedFlexVolumes', 'the values'],
  [/^spec\.volumes\[/, 'volumes', 'the values'],
  [/\.hostPort$/, 'allowHostPorts', 'true'],
  [/\.hostNetwork$/, 'allowHostNetwork', 'true'],
  [/\.hostPID$/, 'allowHostPID', 'true'],
  [/\.hostIPC$/, 'allowHostIPC', 'true'],
  [/\.runAs(User|NonRoot)$/, 'runAsUser', 'something else'],
  [/\.seLinuxOptions/, 'seLinuxContext', 'something else'],
  [/\.fsGroup$/, 'fsGroup', 'something else'],
  [/\.supplementalGroups$/, 'supplementalGroups', 'something else'],
  [/\.allowPrivilegeEscalation$/, 'allowPrivilegeEscalation', 'true'],
  [/\.readOnlyRootFilesystem$/, 'readOnlyRootFilesystem', 'something else'],
];

function fieldsAllowing(obstacles: readonly Obstacle[]): readonly string[] {
  const found = new Map<string, Set<unknown>>();
  for (const { path, values } of obstacles) {
    const [, field, holds] = FIELDS.find(([pod]) => pod.test(path)) ?? [];
    if (field === undefined) continue;
    let held = found.get(field);
    if (!held) found.set(field, (held = new Set()));
    if (holds === 'true') held.add(true);
    else if (holds === 'the values') for (const value of values.flatMap(sccValuesOf)) held.add(value);
  }
  return Array.from(found, ([field, values]) => (values.size === 0 ? field : `${field}=${printValues([...values])}`));
}

/** Seccomp profiles have other names in SCCs; which one of the node is meant, the type does not tell. */
const SECCOMP: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['Unconfined', ['unconfined']],
  ['RuntimeDefault', ['runtime/default']],
  ['Localhost', []],
]);

function sccValuesOf(value: unknown): readonly unknown[] {
  return SECCOMP.get(value) ?? [value];
}
