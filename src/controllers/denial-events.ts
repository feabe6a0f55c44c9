/**
 * Records events for workloads whose pods are denied or would be denied under enforcement, so `kubectl describe
 * deployment` shows the reason.
 */
import { INSTALLATION } from '../api/names.ts';
import { type Clock, createTokenBucket } from '../cluster/clock.ts';
import type { Cluster, ClusterEvent } from '../cluster/cluster.ts';
import { isRecordable, truncateNote, writeEvent } from '../cluster/event-recorder.ts';
import type { AdmissionRequest, Denied } from '../kube/admission.ts';
import { isWorkloadController } from '../kube/controller-pod.ts';
import { isObject, type KubeObject, objectMember, type Pod } from '../kube/types.ts';
import type { Logger } from '../telemetry/logger.ts';
import { findPodWorkload, type WorkloadReference } from '../views/workloads.ts';

interface DenialEventsOptions {
  readonly cluster: Pick<Cluster, 'store' | 'recordEvent'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Rate limit for the events of a replica. In addition, the recorder limits the events of each object and aggregates
 * equal events.
 */
const RATE = { burst: 50, perSecond: 5 };

/**
 * Matches the beginning of a denial up to `forbidden:`. Events omit this part, which contains the pod name, so the
 * events for denials of one workload have the same message and are aggregated.
 */
const POD = /^pods "[^"]*" is forbidden: /;
const POLICY = /^violates PodSecurity "([a-z]+):([a-z0-9.]+)"/;

/**
 * Creates the function that records a pod denial as an event on the workload whose controller tried to create the pod.
 * The function returns immediately and does not throw. It looks up the workload in the store and writes the event in
 * the background.
 */
export function createDenialEvents({ cluster, clock, logger }: DenialEventsOptions) {
  const bucket = createTokenBucket(RATE, clock);
  return (request: AdmissionRequest, { status }: Denied): void => {
    const pod = isRecorded(request) ? readControlledPod(request) : undefined;
    if (pod === undefined || !bucket.tryTake()) return;
    const workload = findPodWorkload(pod, cluster.store);
    // An owner reference without a name is invalid, so no event is recorded.
    if (workload.metadata.name === '') return;
    const text = (status.message ?? '').replace(POD, '');
    const [, level, version = ''] = POLICY.exec(text) ?? [];
    const denied = level === undefined ? undefined : { level, version };
    const policy = denied ? 'PodSecurity' : 'SCC';
    const event = workloadDenialEvent(workload, { policy, action: 'CreatePod', text, denied });
    void writeEvent(cluster, logger, { ...event, regarding: workload, reportingController: INSTALLATION.name });
  };
}

function isRecorded({ operation, resource, requestSubResource, dryRun, userInfo }: AdmissionRequest): boolean {
  const isPod = !resource.group && resource.resource === 'pods' && !requestSubResource;
  return operation === 'CREATE' && isPod && dryRun !== true && isWorkloadController(userInfo);
}

/** Returns the namespace and the controller of the pod, if it has a valid controller. The object may be invalid. */
function readControlledPod({ namespace = '', object }: AdmissionRequest): Pod | undefined {
  const owners = objectMember(object, 'metadata')['ownerReferences'];
  if (!Array.isArray(owners)) return undefined;
  const controller: unknown = owners.find((owner: unknown) => isObject(owner) && owner['controller'] === true);
  if (!isObject(controller)) return undefined;
  const { apiVersion, kind, name, uid } = controller;
  if ([apiVersion, kind, name, uid].some((field) => typeof field !== 'string')) return undefined;
  if (!isRecordable({ apiVersion, kind, metadata: { name, namespace, uid } } as KubeObject)) return undefined;
  return { metadata: { namespace, ownerReferences: [{ apiVersion, kind, name, uid, controller: true }] } } as Pod;
}

/** The policy that denies the pods. */
type Policy = 'PodSecurity' | 'SCC';

const REASONS: Readonly<Record<Policy, string>> = { PodSecurity: 'PodSecurityViolation', SCC: 'SCCViolation' };

interface WorkloadDenial {
  readonly policy: Policy;
  readonly action: string;
  /** The policy's message, in upstream's wording. */
  readonly text: string;
  /** Level that the pods violate, and its version. Absent for SCCs. */
  readonly denied?: { readonly level: string; readonly version: string } | undefined;
}

/**
 * Creates an event about a workload's denied pods. The note consists of the policy's message and a command that prints
 * the fix or the reason.
 */
export function workloadDenialEvent(
  { kind, metadata }: WorkloadReference,
  { policy, action, text, denied }: WorkloadDenial,
): Pick<ClusterEvent, 'type' | 'reason' | 'action' | 'note'> {
  const target = `${kind.toLowerCase()}/${metadata.name ?? ''} -n ${metadata.namespace ?? ''}`;
  const { level, version } = denied ?? { level: 'restricted', version: 'latest' };
  const versionOption = version === 'latest' ? '' : ` --kubernetes-version=${version}`;
  const command =
    policy === 'SCC'
      ? `portcullis explain ${target}`
      : `kubectl get ${target} -o yaml | portcullis check --level=${level}${versionOption} --fix=diff -f -`;
  return {
    type: 'Warning',
    reason: REASONS[policy],
    action,
    note: truncateNote(text, `. To fix: ${command}`),
  };
}
