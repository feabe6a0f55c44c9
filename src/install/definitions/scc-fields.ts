import { STRATEGIES } from './scc-strategies.ts';
import { boolean, integer, listOf, nullable, text, texts, TYPE_META, type Fields } from './schema.ts';

/** The fields of an SCC. */
export const SCC_FIELDS: Fields = {
  ...TYPE_META,
  priority: nullable(
    integer('int32', 'SCCs of a higher priority are tried first. Absent is 0; it cannot be negative.'),
  ),
  allowPrivilegedContainer: boolean('Whether containers may be privileged.'),
  defaultAddCapabilities: nullable(
    texts(
      'Capabilities that every container gets unless it drops them. None of them may be in requiredDropCapabilities.',
    ),
  ),
  requiredDropCapabilities: nullable(texts('Capabilities that every container loses and none may add.')),
  allowedCapabilities: nullable(
    texts("Capabilities that containers may add; '*' stands for all. None of them may be in requiredDropCapabilities."),
  ),
  allowHostDirVolumePlugin: boolean(
    'Whether pods may mount directories of their node. It goes before volumes: true adds hostPath to the list, false removes it.',
  ),
  volumes: {
    ...nullable(
      listOf(
        { type: 'string', maxLength: 253 },
        "The types of volumes that pods may have, named like the sources of volumes in pods; '*' stands for all, 'none' for none. Absent allows all but hostPath.",
      ),
    ),
    maxItems: 256,
  },
  allowedFlexVolumes: nullable(
    listOf(
      { type: 'object', required: ['driver'], properties: { driver: text('The name of the driver.') } },
      "The drivers that volumes of type flexVolume may have; empty allows any. It takes flexVolume or '*' in volumes.",
    ),
  ),
  allowHostNetwork: boolean('Whether pods may use the network of their node.'),
  allowHostPorts: boolean('Whether containers may take ports of their node.'),
  allowHostPID: boolean('Whether pods may see the processes of their node.'),
  allowHostIPC: boolean('Whether pods may share the inter-process communication of their node.'),
  userNamespaceLevel: {
    ...text(
      'RequirePodLevel admits only pods with a user namespace of their own (hostUsers false); AllowHostLevel admits others, too.',
    ),
    enum: ['AllowHostLevel', 'RequirePodLevel'],
    default: 'AllowHostLevel',
  },
  defaultAllowPrivilegeEscalation: nullable(
    boolean(
      'What containers get that leave allowPrivilegeEscalation open; absent, they keep it open. It takes allowPrivilegeEscalation to be true.',
    ),
  ),
  allowPrivilegeEscalation: nullable(
    boolean('Whether the processes of a container may gain more privileges than they started with. Absent is true.'),
  ),
  ...STRATEGIES,
  readOnlyRootFilesystem: boolean('Whether the root file system of containers must be read-only.'),
  users: nullable(texts('The users who may use this SCC, beside those who are granted its use by RBAC.')),
  groups: nullable(texts('The groups whose members may use this SCC, beside those who are granted its use by RBAC.')),
  seccompProfiles: nullable(
    texts(
      "The seccomp profiles that pods may have, as runtime/default, unconfined or localhost/<profile>; '*' stands for all. Pods without a profile get the first that is named. Empty: pods may not set a profile.",
    ),
  ),
  allowedUnsafeSysctls: nullable(
    texts("Unsafe sysctls that pods may set; a trailing '*' makes a prefix. The kubelet has to allow them, too."),
  ),
  forbiddenSysctls: nullable(texts("Sysctls that pods may not set, safe ones too; a trailing '*' makes a prefix.")),
};
