import type { Repair } from '../../pod/index.ts';
import { fsGroup, supplementalGroups } from './groups.ts';
import { hostNamespacesAndPortsOfContainer, hostNamespacesOfPod, sysctls, userNamespaceLevel } from './host.ts';
import {
  allowPrivilegedContainer,
  allowPrivilegeEscalation,
  capabilities,
  readOnlyRootFilesystem,
} from './privileges.ts';
import { runAsUser } from './run-as-user.ts';
import { seLinuxContextOfContainer, seLinuxContextOfPod } from './se-linux-context.ts';
import { seccompProfilesOfContainer, seccompProfilesOfPod } from './seccomp-profiles.ts';
import type { ContainerStrategy, PodStrategy } from './strategy.ts';
import { allowedFlexVolumes, volumes } from './volumes.ts';

/** Pod strategies, in the order in which errors are reported. */
export const POD_STRATEGIES: readonly PodStrategy[] = [
  fsGroup,
  supplementalGroups,
  seccompProfilesOfPod,
  seLinuxContextOfPod,
  hostNamespacesOfPod,
  userNamespaceLevel,
  sysctls,
  volumes,
  allowedFlexVolumes,
];

/**
 * Container strategies, in the order in which errors are reported. Privilege escalation must follow capabilities
 * because it depends on them.
 */
export const CONTAINER_STRATEGIES: readonly ContainerStrategy[] = [
  runAsUser,
  seLinuxContextOfContainer,
  seccompProfilesOfContainer,
  allowPrivilegedContainer,
  capabilities,
  hostNamespacesAndPortsOfContainer,
  readOnlyRootFilesystem,
  allowPrivilegeEscalation,
];

export const SCC_REPAIRS: readonly Repair[] = [...POD_STRATEGIES, ...CONTAINER_STRATEGIES].flatMap(
  ({ repairs = [] }) => repairs,
);
