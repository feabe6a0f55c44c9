/** Reads pods and pod templates: typed fields, decode errors, and what the decisions select of an object. */
export {
  DEFAULT_CAPABILITIES,
  RESTRICTED_SOURCES,
  SAFE_SYSCTLS,
  SE_LINUX_TYPES,
  sysctlName,
} from './allowed-values.ts';
export { findConflicts, lacksWindows } from './conflicts.ts';
export {
  type Capabilities,
  type ContainerFields,
  type ContainerList,
  createTooLargeSpec,
  type DecodedPod,
  decodeMutablePod,
  decodePod,
  decodePodAt,
  fieldPath,
  findCompletionError,
  type PodFields,
  readSeLinuxOptions,
  type SeccompProfile,
  type SecurityContextFields,
  type SeLinuxFields,
  VOLUME_SOURCES,
  type VolumeFields,
} from './pod.ts';
export {
  booleanAt,
  createSource,
  type DecodeError,
  type DecodeSource,
  int32At,
  int64At,
  objectAt,
  objectsAt,
  reportInvalid,
  stringAt,
  stringMapAt,
  stringsAt,
} from './reader.ts';
export {
  ANY_USER,
  capabilityName,
  correctCapability,
  LOST,
  type Repair,
  SYSCTL_REPAIR,
  VOLUME_CHOICES,
} from './repair.ts';
export {
  APP_ARMOR_ANNOTATION_PREFIX,
  BESIDE_TEMPLATE,
  EVALUATED_POD,
  isReadDomain,
  NAMESPACE,
  OTHER_KIND,
  POD,
  POD_NETWORKS_ANNOTATION,
  POD_SPEC,
  select,
  type Selection,
  selectWorkload,
  type Share,
  TEMPLATE_SPEC,
} from './selection.ts';
export { type FieldPath, findPodTemplates, printFieldPath, type WorkloadResource } from './templates.ts';
