import { compareBytes } from '../../kube/text.ts';
import type { GroupStrategyOptions, SecurityContextConstraints } from '../../kube/scc.ts';
import { decodeScc } from './decode/scc.ts';
import { VOLUME_TYPES } from './decode/volume.ts';

/**
 * Fills in what an SCC leaves open, as on create and update of SCCs: afterwards all fields are there that the schema
 * demands. An SCC with a field of a wrong type is returned as it is.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccdefaults/defaults.go
 */
export function defaultScc(scc: SecurityContextConstraints): SecurityContextConstraints {
  if (decodeScc(scc).error !== undefined) return scc;
  return {
    ...scc,
    priority: scc.priority ?? null,
    allowPrivilegedContainer: scc.allowPrivilegedContainer ?? false,
    defaultAddCapabilities: scc.defaultAddCapabilities ?? null,
    requiredDropCapabilities: scc.requiredDropCapabilities ?? null,
    allowedCapabilities: scc.allowedCapabilities ?? null,
    allowHostDirVolumePlugin: scc.allowHostDirVolumePlugin ?? false,
    volumes: defaultVolumes(scc),
    allowHostNetwork: scc.allowHostNetwork ?? false,
    allowHostPorts: scc.allowHostPorts ?? false,
    allowHostPID: scc.allowHostPID ?? false,
    allowHostIPC: scc.allowHostIPC ?? false,
    // SCCs from before there was the field stay as lax as they were.
    allowPrivilegeEscalation: scc.allowPrivilegeEscalation ?? true,
    seLinuxContext: scc.seLinuxContext ?? {},
    runAsUser: scc.runAsUser ?? {},
    supplementalGroups: defaultGroups(scc.supplementalGroups),
    fsGroup: defaultGroups(scc.fsGroup),
    readOnlyRootFilesystem: scc.readOnlyRootFilesystem ?? false,
    users: scc.users ?? [],
    groups: scc.groups ?? [],
  };
}

function defaultGroups(options: GroupStrategyOptions | null | undefined): GroupStrategyOptions {
  const type = options?.type ?? '';
  return { ...options, type: type === '' ? 'RunAsAny' : type };
}

/** The boolean for host paths goes before the list. */
function defaultVolumes({ volumes, allowHostDirVolumePlugin }: SecurityContextConstraints): readonly string[] {
  const types = new Set(startingVolumes(volumes, allowHostDirVolumePlugin ?? false));
  if (!allowHostDirVolumePlugin) {
    const isAnyAllowed = types.delete('*');
    if (isAnyAllowed) for (const type of VOLUME_TYPES) types.add(type);
    types.delete('hostPath');
  } else if (!types.has('*')) types.add('hostPath');
  return [...types].sort(compareBytes);
}

/** No list allows everything, an empty one nothing. */
function startingVolumes(volumes: readonly string[] | null | undefined, isHostPathAllowed: boolean): readonly string[] {
  if (volumes == null) return ['*'];
  if (volumes.length > 0) return volumes;
  return [isHostPathAllowed ? 'hostPath' : 'none'];
}
