/**
 * Decoding of protobuf bodies. The typed clients in kubectl (`kubectl create`, `kubectl auth can-i`) send the objects of
 * built-in kinds in protobuf and do not fall back to JSON.
 * @see https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding
 */
import { ApiError, badRequest } from '../kube/status.ts';
import type { ApiObject } from './types.ts';

export const PROTOBUF = 'application/vnd.kubernetes.protobuf';

/**
 * The messages that kubectl sends. The fields of a message are in the order of their numbers, which start at 1:
 *
 *     name              a string; with `?` the empty value is kept, since the field is a pointer in Go
 *     name:Type         a message or another scalar
 *     name[] name{}     a list; a map with strings as keys
 *     +Type             a message whose fields are those of the message itself
 *     -  !              a field that is ignored; a field that is not supported
 *
 * @see https://github.com/kubernetes/api/blob/v0.36.0/core/v1/generated.proto
 */
const MESSAGES = `
AppArmorProfile type localhostProfile?
CSIVolumeSource driver readOnly?:bool fsType? volumeAttributes{} nodePublishSecretRef:LocalObjectReference
Capabilities add[] drop[]
ClusterRole metadata:ObjectMeta rules[]:PolicyRule !
ClusterRoleBinding metadata:ObjectMeta subjects[]:Subject roleRef:RoleRef
ConfigMap metadata:ObjectMeta data{} binaryData{}:bytes immutable?:bool
ConfigMapEnvSource +LocalObjectReference optional?:bool
ConfigMapKeySelector +LocalObjectReference key optional?:bool
ConfigMapProjection +LocalObjectReference items[]:KeyToPath - optional?:bool
ConfigMapVolumeSource +LocalObjectReference items[]:KeyToPath defaultMode?:int optional?:bool
Container name image command[] args[] workingDir ports[]:ContainerPort env[]:EnvVar resources:ResourceRequirements
  volumeMounts[]:VolumeMount livenessProbe:Probe readinessProbe:Probe ! terminationMessagePath imagePullPolicy
  securityContext:SecurityContext stdin:bool stdinOnce:bool tty:bool envFrom[]:EnvFromSource terminationMessagePolicy
  ! startupProbe:Probe ! restartPolicy?
ContainerPort name hostPort:int containerPort:int protocol hostIP
CronJob metadata:ObjectMeta spec:CronJobSpec
CronJobSpec schedule startingDeadlineSeconds?:int concurrencyPolicy suspend?:bool jobTemplate:JobTemplateSpec
  successfulJobsHistoryLimit?:int failedJobsHistoryLimit?:int timeZone?
Deployment metadata:ObjectMeta spec:DeploymentSpec
DeploymentSpec replicas?:int selector:LabelSelector template:PodTemplateSpec strategy:DeploymentStrategy
  minReadySeconds:int revisionHistoryLimit?:int paused:bool - progressDeadlineSeconds?:int
DeploymentStrategy type rollingUpdate:RollingUpdateDeployment
DownwardAPIProjection items[]:DownwardAPIVolumeFile
DownwardAPIVolumeFile path fieldRef:ObjectFieldSelector ! mode?:int
DownwardAPIVolumeSource items[]:DownwardAPIVolumeFile defaultMode?:int
EmptyDirVolumeSource medium sizeLimit?:quantity
EnvFromSource prefix configMapRef:ConfigMapEnvSource secretRef:SecretEnvSource
EnvVar name value valueFrom:EnvVarSource
EnvVarSource fieldRef:ObjectFieldSelector ! configMapKeyRef:ConfigMapKeySelector secretKeyRef:SecretKeySelector
EphemeralContainer +Container targetContainerName
Eviction metadata:ObjectMeta
ExecAction command[]
GRPCAction port:int service?
HTTPGetAction path port:intstr host scheme !
HostPathVolumeSource path type?
Job metadata:ObjectMeta spec:JobSpec
JobSpec parallelism?:int completions?:int activeDeadlineSeconds?:int selector:LabelSelector manualSelector?:bool
  template:PodTemplateSpec backoffLimit?:int ttlSecondsAfterFinished?:int completionMode? suspend?:bool !
  backoffLimitPerIndex?:int maxFailedIndexes?:int podReplacementPolicy? managedBy?
JobTemplateSpec metadata:ObjectMeta spec:JobSpec
KeyToPath key path mode?:int
LabelSelector matchLabels{} matchExpressions[]:LabelSelectorRequirement
LabelSelectorRequirement key operator values[]
LocalObjectReference name
NFSVolumeSource server path readOnly:bool
Namespace metadata:ObjectMeta spec:NamespaceSpec
NamespaceSpec finalizers[]
NonResourceAttributes path verb
ObjectFieldSelector apiVersion fieldPath
ObjectMeta name generateName namespace - uid resourceVersion generation:int creationTimestamp:time
  deletionTimestamp?:time deletionGracePeriodSeconds?:int labels{} annotations{} ownerReferences[]:OwnerReference
  finalizers[]
ObjectReference kind namespace name uid apiVersion resourceVersion fieldPath
OwnerReference kind - name uid apiVersion controller?:bool blockOwnerDeletion?:bool
PersistentVolumeClaimVolumeSource claimName readOnly:bool
Pod metadata:ObjectMeta spec:PodSpec
PodDisruptionBudget metadata:ObjectMeta spec:PodDisruptionBudgetSpec
PodDisruptionBudgetSpec minAvailable?:intstr selector:LabelSelector maxUnavailable?:intstr unhealthyPodEvictionPolicy?
PodSecurityContext seLinuxOptions:SELinuxOptions runAsUser?:int runAsNonRoot?:bool supplementalGroups[]:int
  fsGroup?:int runAsGroup?:int sysctls[]:Sysctl ! fsGroupChangePolicy? seccompProfile:SeccompProfile
  appArmorProfile:AppArmorProfile supplementalGroupsPolicy? seLinuxChangePolicy?
PodSpec volumes[]:Volume containers[]:Container restartPolicy terminationGracePeriodSeconds?:int
  activeDeadlineSeconds?:int dnsPolicy nodeSelector{} serviceAccountName serviceAccount nodeName hostNetwork:bool
  hostPID:bool hostIPC:bool securityContext:PodSecurityContext imagePullSecrets[]:LocalObjectReference hostname
  subdomain ! schedulerName initContainers[]:Container automountServiceAccountToken?:bool tolerations[]:Toleration !
  priorityClassName priority?:int ! shareProcessNamespace?:bool ! runtimeClassName? enableServiceLinks?:bool
  preemptionPolicy? overhead{}:quantity ! ephemeralContainers[]:EphemeralContainer setHostnameAsFQDN?:bool !
  hostUsers?:bool ! ! ! hostnameOverride?
PodTemplateSpec metadata:ObjectMeta spec:PodSpec
PolicyRule verbs[] apiGroups[] resources[] resourceNames[] nonResourceURLs[]
PriorityClass metadata:ObjectMeta value:int globalDefault:bool description preemptionPolicy?
Probe +ProbeHandler initialDelaySeconds:int timeoutSeconds:int periodSeconds:int successThreshold:int
  failureThreshold:int terminationGracePeriodSeconds?:int
ProbeHandler exec:ExecAction httpGet:HTTPGetAction tcpSocket:TCPSocketAction grpc:GRPCAction
ProjectedVolumeSource sources[]:VolumeProjection defaultMode?:int
ResourceAttributes namespace verb group version resource subresource name
ResourceQuota metadata:ObjectMeta spec:ResourceQuotaSpec
ResourceQuotaSpec hard{}:quantity scopes[]
ResourceRequirements limits{}:quantity requests{}:quantity
Role metadata:ObjectMeta rules[]:PolicyRule
RoleBinding metadata:ObjectMeta subjects[]:Subject roleRef:RoleRef
RoleRef apiGroup kind name
RollingUpdateDeployment maxUnavailable?:intstr maxSurge?:intstr
SELinuxOptions user role type level
SeccompProfile type localhostProfile?
Secret metadata:ObjectMeta data{}:bytes type stringData{} immutable?:bool
SecretEnvSource +LocalObjectReference optional?:bool
SecretKeySelector +LocalObjectReference key optional?:bool
SecretProjection +LocalObjectReference items[]:KeyToPath - optional?:bool
SecretVolumeSource secretName items[]:KeyToPath defaultMode?:int optional?:bool
SecurityContext capabilities:Capabilities privileged?:bool seLinuxOptions:SELinuxOptions runAsUser?:int
  runAsNonRoot?:bool readOnlyRootFilesystem?:bool allowPrivilegeEscalation?:bool runAsGroup?:int procMount? !
  seccompProfile:SeccompProfile appArmorProfile:AppArmorProfile
SelfSubjectAccessReview metadata:ObjectMeta spec:SelfSubjectAccessReviewSpec
SelfSubjectAccessReviewSpec resourceAttributes:ResourceAttributes nonResourceAttributes:NonResourceAttributes
SelfSubjectReview metadata:ObjectMeta
SelfSubjectRulesReview metadata:ObjectMeta spec:SelfSubjectRulesReviewSpec
SelfSubjectRulesReviewSpec namespace
Service metadata:ObjectMeta spec:ServiceSpec
ServiceAccount metadata:ObjectMeta secrets[]:ObjectReference imagePullSecrets[]:LocalObjectReference
  automountServiceAccountToken?:bool
ServiceAccountTokenProjection audience expirationSeconds?:int path
ServicePort name protocol port:int targetPort:intstr nodePort:int appProtocol?
ServiceSpec ports[]:ServicePort selector{} clusterIP type externalIPs[] - sessionAffinity loadBalancerIP
  loadBalancerSourceRanges[] externalName externalTrafficPolicy healthCheckNodePort:int publishNotReadyAddresses:bool
  ! - - ipFamilyPolicy? clusterIPs[] ipFamilies[] allocateLoadBalancerNodePorts?:bool loadBalancerClass?
  internalTrafficPolicy? trafficDistribution?
Subject kind apiGroup name namespace
Sysctl name value
TCPSocketAction port:intstr host
Toleration key operator value effect tolerationSeconds?:int
Volume name +VolumeSource
VolumeMount name readOnly:bool mountPath subPath mountPropagation? subPathExpr recursiveReadOnly?
VolumeProjection secret:SecretProjection downwardAPI:DownwardAPIProjection configMap:ConfigMapProjection
  serviceAccountToken:ServiceAccountTokenProjection
VolumeSource hostPath:HostPathVolumeSource emptyDir:EmptyDirVolumeSource ! ! ! secret:SecretVolumeSource
  nfs:NFSVolumeSource ! ! persistentVolumeClaim:PersistentVolumeClaimVolumeSource ! ! ! ! !
  downwardAPI:DownwardAPIVolumeSource ! ! configMap:ConfigMapVolumeSource ! ! ! ! ! ! projected:ProjectedVolumeSource
  ! csi:CSIVolumeSource ! !
`;

type Messages = ReadonlyMap<string, readonly string[]>;

function parseMessages(text: string): Messages {
  const lines = text.trim().replaceAll('\n  ', ' ').split('\n');
  return new Map(lines.map((line) => [line.split(' ')[0] ?? '', line.split(' ').slice(1)]));
}

/** The prefix of an object in protobuf. */
const MAGIC = Buffer.from('6b387300', 'hex');

/** Returns the function that decodes an object in protobuf to its JSON form. Throws ApiError 400. */
export function createProtobufDecoder(): (body: Buffer) => ApiObject {
  const messages = parseMessages(MESSAGES);
  return (body) => {
    try {
      return decodeEnvelope(body, messages);
    } catch (error) {
      if (error instanceof RangeError) throw new ApiError(badRequest(error.message), { cause: error });
      throw error;
    }
  };
}

function decodeEnvelope(body: Buffer, messages: Messages): ApiObject {
  if (!body.subarray(0, MAGIC.length).equals(MAGIC)) {
    throw new RangeError('provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]');
  }
  const envelope = readFields(body.subarray(MAGIC.length));
  const typeMeta = readFields(bytesAt(envelope, 1));
  const [apiVersion, kind] = [bytesAt(typeMeta, 1).toString(), bytesAt(typeMeta, 2).toString()];
  if (!messages.has(kind)) throw new RangeError(`${apiVersion} ${kind} is not supported in protobuf: send JSON`);
  return { kind, apiVersion, ...decodeMessage(bytesAt(envelope, 2), kind, messages) };
}

/** A field on the wire. Numbers are little-endian or variable-length integers, all other values are bytes. */
interface WireField {
  readonly number: number;
  readonly value: Buffer | bigint;
}

/**
 * Reads the fields of a message in order. Throws a RangeError for a malformed message.
 * @see https://protobuf.dev/programming-guides/encoding/
 */
function readFields(message: Buffer): WireField[] {
  const fields: WireField[] = [];
  const cursor = { at: 0 };
  while (cursor.at < message.length) {
    const tag = Number(readVarint(message, cursor));
    const number = Math.floor(tag / 8);
    if (tag % 8 === 0) fields.push({ number, value: readVarint(message, cursor) });
    else if (tag % 8 === 2) fields.push({ number, value: take(message, cursor, Number(readVarint(message, cursor))) });
    else throw new RangeError(`proto: illegal wireType ${tag % 8}`);
  }
  return fields;
}

function readVarint(bytes: Buffer, cursor: { at: number }): bigint {
  let value = 0n;
  for (let shift = 0n; shift < 70n; shift += 7n) {
    const byte = bytes[cursor.at];
    if (byte === undefined) throw new RangeError('unexpected EOF');
    cursor.at += 1;
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return BigInt.asIntN(64, value);
  }
  throw new RangeError('proto: integer overflow');
}

function take(bytes: Buffer, cursor: { at: number }, length: number): Buffer {
  const end = cursor.at + length;
  if (length < 0 || end > bytes.length) throw new RangeError('unexpected EOF');
  const taken = bytes.subarray(cursor.at, end);
  cursor.at = end;
  return taken;
}

function bytesAt(fields: readonly WireField[], number: number): Buffer {
  const value = fields.findLast((field) => field.number === number)?.value;
  return Buffer.isBuffer(value) ? value : Buffer.alloc(0);
}

function numberAt(fields: readonly WireField[], number: number): number {
  const value = fields.findLast((field) => field.number === number)?.value;
  return typeof value === 'bigint' ? Number(value) : 0;
}

const FIELD = /^(\w+)(\?)?(\[\]|\{\})?(\[\])?(?::(\w+))?$/;

function decodeMessage(message: Buffer, type: string, messages: Messages): Record<string, unknown> {
  const object: Record<string, unknown> = {};
  for (const { number, value } of readFields(message)) {
    const field = messages.get(type)?.[number - 1] ?? '-';
    if (field === '!') throw new RangeError(`field ${number} of ${type} is not supported in protobuf: send JSON`);
    if (field.startsWith('+') && Buffer.isBuffer(value)) {
      Object.assign(object, decodeMessage(value, field.slice(1), messages));
      continue;
    }
    const [, name = '', pointer, container, , fieldType = 'string'] = FIELD.exec(field) ?? [];
    if (container === '[]') {
      object[name] = [...((object[name] as unknown[] | undefined) ?? []), decodeValue(value, fieldType, messages)];
    } else if (container === '{}' && Buffer.isBuffer(value)) {
      const map = Object.entries((object[name] as object | undefined) ?? {});
      object[name] = Object.fromEntries([...map, decodeEntry(value, field, fieldType, messages)]);
    } else if (name !== '') {
      const decoded = decodeValue(value, fieldType, messages);
      const isZero = decoded === '' || decoded === 0 || decoded === false || decoded === undefined;
      if (pointer !== undefined || !isZero) object[name] = decoded;
    }
  }
  return object;
}

/** A map whose values are lists holds messages with one repeated field. */
function decodeEntry(entry: Buffer, field: string, type: string, messages: Messages): [string, unknown] {
  const fields = readFields(entry);
  const value = bytesAt(fields, 2);
  const key = bytesAt(fields, 1).toString();
  if (!field.includes('{}[]')) return [key, decodeValue(value, type, messages)];
  return [key, readFields(value).map((item) => decodeValue(item.value, type, messages))];
}

function decodeValue(value: Buffer | bigint, type: string, messages: Messages): unknown {
  if (typeof value === 'bigint') return type === 'bool' ? value !== 0n : Number(value);
  switch (type) {
    case 'string':
      return value.toString();
    case 'bytes':
      return value.toString('base64');
    case 'quantity':
      return bytesAt(readFields(value), 1).toString() || '0';
    case 'intstr': {
      const fields = readFields(value);
      return numberAt(fields, 1) === 0 ? numberAt(fields, 2) : bytesAt(fields, 3).toString();
    }
    case 'time': {
      const fields = readFields(value);
      return fields.length === 0 ? undefined : new Date(numberAt(fields, 1) * 1000).toISOString().replace('.000Z', 'Z');
    }
    default:
      return decodeMessage(value, type, messages);
  }
}
