import type { FieldShape, FieldShapes } from './field-shape.ts';
import type { SecurityContextConstraints } from './scc.ts';
import type { KubeObject } from './types.ts';

const STRINGS = ['string'] as const;
const GROUPS = { type: 'string', ranges: [{ min: 'int64', max: 'int64' }] } as const satisfies FieldShapes;

/** All fields of an SCC beside those that every object has, with their types: what the schema of the API server says. */
export const SCC_FIELDS: Readonly<Record<Exclude<keyof SecurityContextConstraints, keyof KubeObject>, FieldShape>> = {
  priority: 'int32',
  allowPrivilegedContainer: 'boolean',
  defaultAddCapabilities: STRINGS,
  requiredDropCapabilities: STRINGS,
  allowedCapabilities: STRINGS,
  allowHostDirVolumePlugin: 'boolean',
  volumes: STRINGS,
  allowedFlexVolumes: [{ driver: 'string' }],
  allowHostNetwork: 'boolean',
  allowHostPorts: 'boolean',
  allowHostPID: 'boolean',
  allowHostIPC: 'boolean',
  userNamespaceLevel: 'string',
  defaultAllowPrivilegeEscalation: 'boolean',
  allowPrivilegeEscalation: 'boolean',
  seLinuxContext: {
    type: 'string',
    seLinuxOptions: { user: 'string', role: 'string', type: 'string', level: 'string' },
  },
  runAsUser: { type: 'string', uid: 'int64', uidRangeMin: 'int64', uidRangeMax: 'int64' },
  supplementalGroups: GROUPS,
  fsGroup: GROUPS,
  readOnlyRootFilesystem: 'boolean',
  users: STRINGS,
  groups: STRINGS,
  seccompProfiles: STRINGS,
  allowedUnsafeSysctls: STRINGS,
  forbiddenSysctls: STRINGS,
};

/** The values of `userNamespaceLevel`; the first is the default of the schema. */
export const USER_NAMESPACE_LEVELS: readonly string[] = ['AllowHostLevel', 'RequirePodLevel'];
