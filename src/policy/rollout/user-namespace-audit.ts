import { INSTALLATION, PART_OF, PART_OF_LABEL } from '../../api/names.ts';
import { isMirrorPod } from '../../kube/controller-pod.ts';
import { defined } from '../../kube/defined.ts';
import type { Kind } from '../../kube/kinds.ts';
import { getPodTemplate, hasFinished, podTemplatePath } from '../../kube/pod.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { NAMESPACE_RANGE_ANNOTATIONS, POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../kube/scc.ts';
import { compareBy, quote } from '../../kube/text.ts';
import type { KubeObject, Namespace, Node, Pod, PodLike } from '../../kube/types.ts';
import { compareKubeletVersions, type KubeletVersion, parseKubeletVersion } from '../kubelet/index.ts';
import { type ContainerFields, decodePod, fieldPath, type PodFields } from '../pod/index.ts';
import { NO_DEFAULTS, printPolicy, psaLevel, resolvePolicies } from '../psa/index.ts';
import { compareVersions, evaluatePod, latestVersion, type Policy, type Version } from '../pss/index.ts';
import { findGrants, printSubject, type RbacGrant, type RbacObjects, type SubjectName, whoCan } from '../rbac/index.ts';
import { decodeScc, findSccViolations } from '../scc/index.ts';

/** The severity and the remedy for each code. */
export const AUDIT_RULES = {
  UN001: { severity: 'high', remedy: 'Delete the pod, or run it under another SCC.' },
  UN002: {
    severity: 'high',
    remedy: 'Remove the annotation openshift.io/required-scc from the template, or scale the workload to zero.',
  },
  UN003: { severity: 'medium', remedy: 'Remove the grant.' },
  UN004: { severity: 'medium', remedy: 'Delete the pod, or remove these permissions from it.' },
  UN005: { severity: 'medium', remedy: 'Delete the pod, or change it so it satisfies the level without them.' },
  UN006: { severity: 'high', remedy: 'Upgrade the kubelet, or drain the node.' },
  UN007: { severity: 'info', remedy: 'No action is needed.' },
  UN008: { severity: 'info', remedy: 'No action is needed.' },
} as const satisfies Readonly<Record<string, { readonly severity: AuditSeverity; readonly remedy: string }>>;

export type AuditCode = keyof typeof AUDIT_RULES;
export type AuditSeverity = 'high' | 'medium' | 'info';

/** An object whose safety depends on user namespaces. */
export interface AuditFinding {
  readonly code: AuditCode;
  readonly severity: AuditSeverity;
  readonly kind: string;
  /** Absent for cluster-scoped objects. */
  readonly namespace?: string;
  readonly name: string;
  /** Describes the finding with its fields and values. */
  readonly message: string;
}

/** An object that has a pod template, or a pod that has no controller. */
interface AuditSource {
  readonly kind: Kind;
  readonly object: KubeObject;
}

/** The objects that the audit reads. */
export interface AuditInput {
  readonly sccs: readonly SecurityContextConstraints[];
  readonly namespaces: readonly Namespace[];
  readonly pods: readonly Pod[];
  readonly sources: readonly AuditSource[];
  readonly nodes: readonly Node[];
  readonly rbac: RbacObjects;
  /** Includes completed pods or mirror pods, which are skipped by default. */
  readonly include: readonly ('completed' | 'mirror')[];
  /** OpenShift release of the API servers after the change. If absent, every kubelet older than 1.30 is a finding. */
  readonly target?: string | undefined;
  /** The Kubernetes version that `latest` refers to. Defaults to the newest known version. */
  readonly emulationVersion?: Version | undefined;
}

/**
 * Finds objects whose safety depends on user namespaces. Use it before a cluster moves to a release or feature set that
 * lacks the SCC field `userNamespaceLevel`. Findings are sorted by namespace, kind, name and code, with cluster-scoped
 * objects first.
 * @see https://kubernetes.io/docs/concepts/workloads/pods/user-namespaces/
 */
export function auditUserNamespaces(input: AuditInput): readonly AuditFinding[] {
  const { namespaces, include, emulationVersion } = input;
  const guarded = findGuardedSccs(input.sccs);
  const byName = new Map(namespaces.map((namespace) => [namespace.metadata?.name, namespace]));
  const sources = input.sources.filter(({ kind, object }) => kind !== 'Pod' || isIncluded(object, include));
  return [
    ...input.pods
      .filter((pod) => isIncluded(pod, include))
      .flatMap((pod) => auditPod(pod, byName.get(pod.metadata?.namespace), { guarded, emulationVersion })),
    ...sources.flatMap((source) => auditSource(source, guarded)),
    ...auditGrants(guarded, input.rbac),
    ...(namespaces.length === 0 ||
    namespaces.some((namespace) => isRelaxed(enforcedPolicy(namespace, emulationVersion)))
      ? input.nodes.flatMap((node) => auditNode(node, input.target))
      : []),
  ].sort(compareBy(({ namespace = '', kind, name, code }) => [namespace, kind, name, code]));
}

function isIncluded(pod: Pod, include: AuditInput['include']): boolean {
  return (!hasFinished(pod) || include.includes('completed')) && (!isMirrorPod(pod) || include.includes('mirror'));
}

function finding(
  code: AuditCode,
  { kind, object }: { kind: string; object: KubeObject },
  message: string,
): AuditFinding {
  const { name = '', namespace } = object.metadata ?? {};
  const { severity } = AUDIT_RULES[code];
  return { code, severity, kind, ...defined({ namespace }), name, message };
}

// SCCs that require user namespaces

interface GuardedScc {
  readonly name: string;
  readonly scc: SecurityContextConstraints;
  /** True if pods under the SCC would exceed the restricted level without a user namespace. */
  readonly isAtRisk: boolean;
}

type GuardedSccs = ReadonlyMap<string, GuardedScc>;

/**
 * A namespace with ordinary ranges. SCCs are evaluated with it, because permissions that come from a namespace's ranges
 * are not a risk.
 */
const ORDINARY: Namespace = {
  metadata: {
    name: 'any',
    annotations: {
      [NAMESPACE_RANGE_ANNOTATIONS.uidRange]: '1000000000/10000',
      [NAMESPACE_RANGE_ANNOTATIONS.mcs]: 's0:c1,c0',
    },
  },
};

/**
 * Finds the SCCs that require user namespaces. Evaluates them with both profiles, because the `upstream` profile
 * ignores default capabilities.
 */
function findGuardedSccs(sccs: readonly SecurityContextConstraints[]): GuardedSccs {
  const guarded = sccs.filter(({ userNamespaceLevel }) => userNamespaceLevel === 'RequirePodLevel');
  return new Map(
    guarded.map((scc) => {
      const name = scc.metadata?.name ?? '';
      const levels = (['upstream', 'accurate'] as const).map((profile) =>
        psaLevel(scc, ORDINARY, { profile, userNamespaces: 'ignore' }),
      );
      return [name, { name, scc, isAtRisk: levels.some(({ level }) => level !== 'restricted') }];
    }),
  );
}

// Pods and templates

interface PodContext {
  readonly guarded: GuardedSccs;
  readonly emulationVersion: Version | undefined;
}

function auditPod(
  pod: Pod,
  namespace: Namespace | undefined,
  { guarded: sccs, emulationVersion }: PodContext,
): readonly AuditFinding[] {
  const subject = { kind: 'Pod', object: pod };
  const guarded = sccs.get(pod.metadata?.annotations?.[POD_SCC_ANNOTATIONS.scc] ?? '');
  const findings = guarded?.isAtRisk === true ? [auditAdmission(pod, guarded, namespace)] : [];
  if (pod.spec?.hostUsers !== false) return findings;
  const fields = findPermissions(pod);
  if (fields.length > 0) findings.push(finding('UN004', subject, `spec.hostUsers=false with ${fields.join(', ')}`));
  const hidden = describeHiddenViolations(pod, enforcedPolicy(namespace, emulationVersion));
  if (hidden !== undefined) findings.push(finding('UN005', subject, hidden));
  if (guarded?.isAtRisk === false) {
    const message = `SCC ${quote(guarded.name)} admitted the pod and does not grant it more permissions without the user namespace`;
    findings.push(finding('UN007', subject, message));
  }
  return findings;
}

/**
 * Returns the finding for a pod that an SCC at risk admitted. If the SCC does not admit the pod, a user may have
 * written the annotation, so the severity is lower.
 */
function auditAdmission(pod: Pod, { name, scc }: GuardedScc, namespace: Namespace | undefined): AuditFinding {
  const subject = { kind: 'Pod', object: pod };
  const violations = namespace === undefined ? [] : findSccViolations(pod, scc, namespace);
  if (violations.length === 0) {
    return finding('UN001', subject, `SCC ${quote(name)} admitted the pod, which is safe only in a user namespace`);
  }
  const message = `annotation ${POD_SCC_ANNOTATIONS.scc} names SCC ${quote(name)}, which would not admit the pod: ${violations.join(', ')}`;
  return { ...finding('UN001', subject, message), severity: 'medium' };
}

/** Returns the fields and values that grant permissions that a pod should have only inside a user namespace. */
function findPermissions(pod: Pod): readonly string[] {
  const { error, pod: fields } = decodePod(pod);
  if (error !== undefined) return [];
  return [...new Set(fields.containers.flatMap((container) => containerPermissions(container, fields)))];
}

function containerPermissions(container: ContainerFields, pod: PodFields): readonly string[] {
  const user = container.runAsUser === undefined ? pod : container;
  const nonRoot = container.runAsNonRoot === undefined ? pod : container;
  const added = container.capabilities?.add ?? [];
  return [
    ...(user.runAsUser === 0 ? [formatField(user, 'runAsUser', 0)] : []),
    ...(nonRoot.runAsNonRoot === false ? [formatField(nonRoot, 'runAsNonRoot', false)] : []),
    ...(added.length > 0 ? [formatField(container, 'capabilities.add', added)] : []),
    ...(container.procMount === 'Unmasked' ? [formatField(container, 'procMount', 'Unmasked')] : []),
  ];
}

function formatField(owner: PodFields | ContainerFields, field: string, value: unknown): string {
  return `${fieldPath(owner, `securityContext.${field}`)}=${JSON.stringify(value)}`;
}

/**
 * The last Pod Security Standards version that ignores user namespaces, and the checks that consider them in later
 * versions.
 */
const LAST_STRICT_VERSION: Version = 'v1.34';
const RELAXED_CHECKS: ReadonlySet<string> = new Set(['procMount', 'runAsNonRoot', 'runAsUser']);

interface EnforcedPolicy extends Policy {
  /** The version to evaluate. */
  readonly effective: Version;
}

/**
 * Returns the enforced policy of a namespace. The level of an unlabeled namespace is unknown, so it is treated as
 * privileged.
 */
function enforcedPolicy(namespace: Namespace | undefined, emulationVersion: Version | undefined): EnforcedPolicy {
  const { enforce } = resolvePolicies(namespace?.metadata?.labels, NO_DEFAULTS);
  const newest = latestVersion(emulationVersion);
  return { ...enforce, effective: compareVersions(enforce.version, newest) > 0 ? newest : enforce.version };
}

function isRelaxed({ effective }: EnforcedPolicy): boolean {
  return compareVersions(effective, LAST_STRICT_VERSION) > 0;
}

/** Describes the pod's violations of relaxed checks at the enforced level if it had no user namespace. */
function describeHiddenViolations(pod: Pod, enforced: EnforcedPolicy): string | undefined {
  const version = isRelaxed(enforced) ? LAST_STRICT_VERSION : enforced.effective;
  const { violations } = evaluatePod(pod, { level: enforced.level, version });
  const hidden = violations.filter(({ check }) => RELAXED_CHECKS.has(check));
  if (hidden.length === 0) return undefined;
  const details = hidden.map(({ reason, detail }) => `${reason} (${detail})`).join(', ');
  return `violates PodSecurity ${quote(printPolicy(enforced))} if its user namespace is ignored: ${details}`;
}

function auditSource({ kind, object }: AuditSource, guarded: GuardedSccs): readonly AuditFinding[] {
  const path = kind === 'Pod' ? [] : podTemplatePath(RESOURCES[kind].group, kind);
  const template: PodLike | undefined = kind === 'Pod' ? object : path && getPodTemplate(object, path);
  const name = template?.metadata?.annotations?.[POD_SCC_ANNOTATIONS.requiredScc] ?? '';
  if (guarded.get(name)?.isAtRisk !== true) return [];
  const message = `annotation ${POD_SCC_ANNOTATIONS.requiredScc} requires SCC ${quote(name)}`;
  return [finding('UN002', { kind, object }, message)];
}

// Grants

const { group: apiGroup, resource } = RESOURCES.SecurityContextConstraints;

/** Users and groups that have full access to every cluster. */
const ADMINS: readonly SubjectName[] = [
  { kind: 'Group', name: 'system:masters' },
  { kind: 'Group', name: 'system:cluster-admins' },
  { kind: 'User', name: 'system:admin' },
];

/** Returns findings for grants of the SCCs that are at risk. Omits grants to subjects with full cluster access. */
function auditGrants(guarded: GuardedSccs, rbac: RbacObjects): readonly AuditFinding[] {
  const atRisk = [...guarded.values()].filter(({ isAtRisk }) => isAtRisk);
  if (atRisk.length === 0) return [];
  const all = whoCan(rbac, { verb: '*', apiGroup: '*', resource: '*' }).map(({ subject }) => subject);
  const admins = new Set([...ADMINS, ...all].map(printSubject));
  const isOrdinary = (subject: SubjectName): boolean => !admins.has(printSubject(subject));
  return atRisk.flatMap(({ name, scc }) => {
    const grants = findGrants(rbac, { verb: 'use', apiGroup, resource, name });
    const ordinary = grants.filter(({ subject }) => isOrdinary(subject));
    const byBinding = Map.groupBy(ordinary, ({ binding }) => `${binding.namespace ?? ''}/${binding.name}`);
    const ofBindings = [...byBinding.values()].map((ofBinding) => auditBinding(name, ofBinding, rbac));
    return [...auditSccGrants(scc, isOrdinary), ...ofBindings];
  });
}

/** Returns a finding for the users and groups that the SCC itself lists. */
function auditSccGrants(
  scc: SecurityContextConstraints,
  isOrdinary: (subject: SubjectName) => boolean,
): readonly AuditFinding[] {
  const { fields } = decodeScc(scc);
  const users = fields.users.map((name) => ({ kind: 'User', name }));
  const groups = fields.groups.map((name) => ({ kind: 'Group', name }));
  const subjects = [...users, ...groups].filter(isOrdinary).map(printSubject);
  if (subjects.length === 0) return [];
  const subject = { kind: 'SecurityContextConstraints', object: scc };
  return [finding('UN003', subject, `permits use by ${subjects.join(', ')}`)];
}

/** Returns the finding for the grants of one binding, of which there is at least one. */
function auditBinding(scc: string, grants: readonly RbacGrant[], rbac: RbacObjects): AuditFinding {
  const [
    {
      binding: { kind, ...metadata },
      role,
    },
  ] = grants as [RbacGrant, ...RbacGrant[]];
  const isInstallation = grants.every((grant) => isInstallationGrant(grant, rbac));
  const subjects = grants.map(({ subject }) => printSubject(subject)).join(', ');
  const reason = isInstallation ? ', so Portcullis can grant it to others' : '';
  const message = `permits ${subjects} to use SCC ${quote(scc)} through ${role.kind} ${quote(role.name)}${reason}`;
  return finding(isInstallation ? 'UN008' : 'UN003', { kind, object: { metadata } }, message);
}

/**
 * Returns true for a grant to the service account of Portcullis, which can grant an SCC only if it may use that SCC
 * itself.
 */
function isInstallationGrant(
  { subject, binding, role }: RbacGrant,
  { clusterRoles, clusterRoleBindings }: RbacObjects,
): boolean {
  const isLabeled = (objects: readonly KubeObject[], name: string): boolean =>
    objects.some(({ metadata }) => metadata?.name === name && metadata.labels?.[PART_OF_LABEL] === PART_OF);
  const isAccount = subject.kind === 'ServiceAccount' && subject.name === INSTALLATION.name;
  const isClusterWide = binding.namespace === undefined && isLabeled(clusterRoleBindings, binding.name);
  return isAccount && isClusterWide && isLabeled(clusterRoles, role.name);
}

// Nodes

/** The oldest kubelet version that rejects a pod instead of running it without the requested user namespace. */
const OLDEST_SAFE_KUBELET = '1.30.0';

/**
 * Describes how a kubelet and an API server interact for user namespaces. `bad` means that the kubelet ignores a user
 * namespace on which the API server relies.
 */
type Skew = 'ok' | 'ok-no relaxation' | 'ok-no idmap in kernel' | 'bad' | 'N/A';

/** OpenShift releases of the API servers with which kubelets are compared. Release 4.14 is based on Kubernetes 1.27. */
export const SKEW_RELEASES = ['4.14', '4.15', '4.16', '4.17', '4.18'] as const;

/** The skew between each kubelet release and the API servers of `SKEW_RELEASES`. */
const SKEW: Readonly<Record<string, readonly Skew[]>> = {
  '4.14': ['ok-no relaxation', 'ok-no relaxation', 'bad', 'bad', 'N/A'],
  '4.15': ['ok-no relaxation', 'ok-no relaxation', ...Array<Skew>(3).fill('ok-no idmap in kernel')],
  '4.16': ['ok-no relaxation', 'ok-no relaxation', 'ok', 'ok-no idmap in kernel', 'ok-no idmap in kernel'],
  '4.17': ['ok-no relaxation', 'ok', 'ok', 'ok', 'ok'],
  '4.18': ['N/A', 'ok', 'ok', 'ok', 'ok'],
};

/**
 * Returns the skew between two OpenShift releases and whether it is safe, or `undefined` if the combination is
 * unsupported.
 */
export function findSkew(
  kubelet: string,
  apiServer: string,
): { readonly skew: Skew; readonly isSafe: boolean | undefined } {
  const column = SKEW_RELEASES.findIndex((release) => release === apiServer);
  const skew = SKEW[kubelet]?.[column] ?? 'N/A';
  return { skew, isSafe: skew === 'N/A' ? undefined : skew !== 'bad' };
}

/** Returns the OpenShift 4 release of a kubelet, whose minor version is the Kubernetes minor version minus 13. */
function openshiftRelease([, minor = 0n]: KubeletVersion): string {
  return `4.${minor - 13n}`;
}

function auditNode(node: Node, target: string | undefined): readonly AuditFinding[] {
  const version: unknown = node.status?.nodeInfo?.kubeletVersion;
  // Nodes that have not registered yet are skipped, because they run no pods.
  if (typeof version !== 'string' || version === '') return [];
  const minimum = parseKubeletVersion(OLDEST_SAFE_KUBELET);
  const kubelet = parseKubeletVersion(version);
  const isSafe = 'value' in kubelet && 'value' in minimum && compareKubeletVersions(kubelet.value, minimum.value) >= 0;
  const hasSafeSkew =
    target !== undefined && 'value' in kubelet && findSkew(openshiftRelease(kubelet.value), target).isSafe === true;
  if (isSafe || hasSafeSkew) return [];
  const problem = 'error' in kubelet ? `${version} cannot be parsed (${kubelet.error})` : `is ${version}`;
  const reason = `kubelets older than ${OLDEST_SAFE_KUBELET} run pods without the user namespace that they request`;
  return [finding('UN006', { kind: 'Node', object: node }, `kubelet version ${problem}, and ${reason}`)];
}
