import { type SecurityContextConstraints, POD_SCC_ANNOTATIONS, NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import type { Kind, KubeObject, Namespace, Node, Pod, PodLike } from '../../kube/types.ts';
import type { RbacObjects, Action } from '../rbac/rules.ts';
import { INSTALLATION, PART_OF, PART_OF_LABEL } from '../../kube/well-known.ts';
import { quote, compareBytes } from '../../kube/text.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { decodeScc } from '../scc/scc.ts';
import { findGrants, whoCan, type RbacGrant, type SubjectName } from '../rbac/who-can.ts';
import { compareKubeletVersions, parseKubeletVersion, parseVersion } from '../kubelet/version.ts';
import { compareVersions, type Policy, type Version } from '../pss/policy.ts';
import { resolvePolicies, printPolicy } from '../psa/policy.ts';
import { evaluatePod } from '../pss/evaluate.ts';
import { decodePod, fieldPath, type ContainerFields, type PodFields } from '../pod/pod.ts';
import { hasUserNamespace, getPodTemplate, podTemplatePath } from '../../kube/pod.ts';
import { findSccViolations } from '../scc/advice/explain.ts';
import { psaLevelOf } from './scc-level.ts';
import { isMirrorPod } from '../../kube/controller-pod.ts';

/** What is found, by code; the higher the severity, the more is lost with user namespaces. */
export const AUDIT_RULES = {
  UN001: { severity: 'high', remedy: 'Delete the pod, or run it under another SCC.' },
  UN002: {
    severity: 'high',
    remedy: 'Remove the annotation openshift.io/required-scc from the template, or scale the workload to nothing.',
  },
  UN003: { severity: 'medium', remedy: 'Remove the grant.' },
  UN004: { severity: 'medium', remedy: 'Delete the pod, or take these rights from it.' },
  UN005: { severity: 'medium', remedy: 'Delete the pod, or change it such that it keeps the level without them.' },
  UN006: { severity: 'high', remedy: 'Upgrade the kubelet, or drain the node.' },
  UN007: { severity: 'info', remedy: 'Nothing has to be done.' },
  UN008: { severity: 'info', remedy: 'Nothing has to be done.' },
} as const satisfies Readonly<Record<string, { readonly severity: Severity; readonly remedy: string }>>;

export type AuditCode = keyof typeof AUDIT_RULES;
export type Severity = 'high' | 'medium' | 'info';

/** One thing whose safety depends on user namespaces. */
export interface AuditFinding {
  readonly code: AuditCode;
  readonly severity: Severity;
  readonly kind: string;
  /** Absent for objects of the cluster. */
  readonly namespace?: string;
  readonly name: string;
  /** What was found, naming fields and values. */
  readonly message: string;
}

/** An object with a pod template, or a pod that no controller made. */
interface AuditSource {
  readonly kind: Kind;
  readonly object: KubeObject;
}

/** All that the audit reads. */
export interface AuditInput {
  readonly sccs: readonly SecurityContextConstraints[];
  readonly namespaces: readonly Namespace[];
  readonly pods: readonly Pod[];
  readonly sources: readonly AuditSource[];
  readonly nodes: readonly Node[];
  readonly rbac: RbacObjects;
  /** Pods that are left out otherwise: those that have ended, and those that the kubelet shows of static pods. */
  readonly include: readonly ('completed' | 'mirror')[];
}

/** A finding with the severity of its code. */
function finding(
  code: AuditCode,
  { kind, object, message }: { readonly kind: string; readonly object: KubeObject; readonly message: string },
): AuditFinding {
  const { name = '', namespace } = object.metadata ?? {};
  const { severity } = AUDIT_RULES[code];
  return { code, severity, kind, ...(namespace === undefined ? {} : { namespace }), name, message };
}

const { group: apiGroup, resource } = RESOURCES.SecurityContextConstraints;
const EVERYTHING: Action = { verb: '*', apiGroup: '*', resource: '*' };

/** They may do everything in every cluster. */
const ADMINS: readonly SubjectName[] = [
  { kind: 'Group', name: 'system:masters' },
  { kind: 'Group', name: 'system:cluster-admins' },
  { kind: 'User', name: 'system:admin' },
];

/** Who may use SCCs that are at risk, by the SCCs themselves and by roles; but for those who may do everything anyway. */
function auditGrants(guarded: GuardedSccs, rbac: RbacObjects): readonly AuditFinding[] {
  const atRisk = [...guarded.values()].filter(({ risk }) => risk === 'at risk');
  if (atRisk.length === 0) return [];
  const admins = new Set([...ADMINS, ...whoCan(rbac, EVERYTHING).map(({ subject }) => subject)].map(printSubject));
  const isOrdinary = (subject: SubjectName): boolean => !admins.has(printSubject(subject));
  return atRisk.flatMap((scc) => [...auditOwnGrants(scc, isOrdinary), ...auditBindings(scc, rbac, isOrdinary)]);
}

type IsOrdinary = (subject: SubjectName) => boolean;

function auditOwnGrants({ scc }: GuardedScc, isOrdinary: IsOrdinary): readonly AuditFinding[] {
  const { fields } = decodeScc(scc);
  const users = fields.users.map((name) => ({ kind: 'User', name }));
  const groups = fields.groups.map((name) => ({ kind: 'Group', name }));
  const subjects = [...users, ...groups].filter(isOrdinary);
  if (subjects.length === 0) return [];
  const message = `lets ${subjects.map(printSubject).join(', ')} use it`;
  return [finding('UN003', { kind: 'SecurityContextConstraints', object: scc, message })];
}

function auditBindings({ scc }: GuardedScc, rbac: RbacObjects, isOrdinary: IsOrdinary): readonly AuditFinding[] {
  const name = scc.metadata?.name ?? '';
  const grants = findGrants(rbac, { verb: 'use', apiGroup, resource, name }).filter(({ subject }) =>
    isOrdinary(subject),
  );
  const byBinding = Map.groupBy(grants, ({ binding }) => `${binding.namespace ?? ''}/${binding.name}`);
  return [...byBinding.values()].flatMap((ofBinding) => {
    const isOfInstallation = ofBinding.every((grant) => isOwn(grant, rbac));
    return bindingFinding(name, ofBinding, isOfInstallation ? 'UN008' : 'UN003');
  });
}

/** Whoever passes on the use of an SCC needs it: the service account of an installation of ours, by its own role. */
function isOwn({ subject, binding, role }: RbacGrant, { clusterRoles, clusterRoleBindings }: RbacObjects): boolean {
  return (
    subject.kind === 'ServiceAccount' &&
    subject.name === INSTALLATION.name &&
    binding.namespace === undefined &&
    isLabelled(clusterRoleBindings, binding.name) &&
    isLabelled(clusterRoles, role.name)
  );
}

function isLabelled(objects: readonly KubeObject[], name: string): boolean {
  return objects.some(({ metadata }) => metadata?.name === name && metadata.labels?.[PART_OF_LABEL] === PART_OF);
}

function bindingFinding(scc: string, grants: readonly RbacGrant[], code: 'UN003' | 'UN008'): readonly AuditFinding[] {
  const [first] = grants;
  if (first === undefined) return [];
  const { binding, role } = first;
  const subjects = grants.map(({ subject }) => printSubject(subject)).join(', ');
  const why = code === 'UN008' ? ', such that Portcullis can grant it to others' : '';
  const message = `lets ${subjects} use SCC ${quote(scc)} by ${role.kind} ${quote(role.name)}${why}`;
  const { kind, ...metadata } = binding;
  return [finding(code, { kind, object: { metadata }, message })];
}

/** `ServiceAccount shop/builder` */
function printSubject({ kind, name, namespace }: SubjectName): string {
  return `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`;
}

/** The oldest kubelet that refuses a pod rather than run it without the user namespace that it asks for. */
const OLDEST_SAFE_KUBELET = '1.30.0';
const DEFAULT: Policy = { level: 'privileged', version: 'latest' };

/** The nodes that are too old, unless all namespaces are held to standards from before these knew user namespaces. */
function auditNodes(nodes: readonly Node[], namespaces: readonly Namespace[]): readonly AuditFinding[] {
  const isRelaxed = namespaces.length === 0 || namespaces.some(isRelaxedIn);
  return isRelaxed ? nodes.flatMap(auditNode) : [];
}

/** A namespace without a label has the policy of the cluster, which is not known. */
function isRelaxedIn({ metadata }: Namespace): boolean {
  const { enforce } = resolvePolicies(metadata?.labels, { enforce: DEFAULT, audit: DEFAULT, warn: DEFAULT });
  return compareVersions(enforce.version, 'v1.35') >= 0;
}

function auditNode(node: Node): readonly AuditFinding[] {
  const version: unknown = node.status?.nodeInfo?.kubeletVersion;
  // A node that is expected and has not come yet runs no pods.
  if (typeof version !== 'string' || version === '') return [];
  const problem = problemOf(version);
  return problem === undefined ? [] : [finding('UN006', { kind: 'Node', object: node, message: problem })];
}

function problemOf(version: string): string | undefined {
  const minimum = parseVersion(OLDEST_SAFE_KUBELET);
  const kubelet = parseKubeletVersion(version);
  const advice = `kubelets before ${OLDEST_SAFE_KUBELET} run pods without the user namespace that they ask for`;
  if ('error' in kubelet) return `kubelet version ${version} cannot be read (${kubelet.error}); ${advice}`;
  if ('error' in minimum || compareKubeletVersions(kubelet.value, minimum.value) >= 0) return undefined;
  return `kubelet version is ${version}; ${advice}`;
}

/** What a pod would violate if user namespaces did not count. */
interface HiddenViolations {
  /** `restricted:latest`, as the namespace has it. */
  readonly policy: string;
  readonly detail: string;
}

/** The checks that let pods with a user namespace pass, from v1.35 on. */
const RELAXED_CHECKS: ReadonlySet<string> = new Set(['procMount', 'runAsNonRoot', 'runAsUser']);
const NOTHING: Policy = { level: 'privileged', version: 'latest' };
const BEFORE_RELAXATIONS: Version = 'v1.34';

/**
 * What a pod violates of the level that its namespace enforces, judged as before the standards knew user namespaces, by
 * the checks that know them now; `undefined` if nothing. A namespace without a label enforces nothing.
 */
function hiddenViolations(pod: Pod, namespace: Namespace | undefined): HiddenViolations | undefined {
  const { enforce } = resolvePolicies(namespace?.metadata?.labels, { enforce: NOTHING, audit: NOTHING, warn: NOTHING });
  const version = compareVersions(enforce.version, BEFORE_RELAXATIONS) > 0 ? BEFORE_RELAXATIONS : enforce.version;
  const { violations } = evaluatePod(pod, { level: enforce.level, version });
  const hidden = violations.filter(({ check }) => RELAXED_CHECKS.has(check));
  if (hidden.length === 0) return undefined;
  return {
    policy: printPolicy(enforce),
    detail: hidden.map(({ reason, detail }) => `${reason} (${detail})`).join(', '),
  };
}

/** The fields of a pod that give more rights than a user namespace of the node should see, each with its value, once. */
function rootlikeFields(pod: Pod): readonly string[] {
  const { error, pod: fields } = decodePod(pod);
  if (error !== undefined) return [];
  return [...new Set(fields.containers.flatMap((container) => fieldsOf(container, fields)))];
}

function fieldsOf(container: ContainerFields, pod: PodFields): readonly string[] {
  const user = container.runAsUser === undefined ? pod : container;
  const nonRoot = container.runAsNonRoot === undefined ? pod : container;
  const added = container.capabilities?.add ?? [];
  return [
    ...(user.runAsUser === 0 ? [print(user, 'runAsUser', 0)] : []),
    ...(nonRoot.runAsNonRoot === false ? [print(nonRoot, 'runAsNonRoot', false)] : []),
    ...(added.length > 0 ? [print(container, 'capabilities.add', added)] : []),
    ...(container.procMount === 'Unmasked' ? [print(container, 'procMount', 'Unmasked')] : []),
  ];
}

function print(owner: PodFields | ContainerFields, field: string, value: unknown): string {
  return `${fieldPath(owner, `securityContext.${field}`)}=${JSON.stringify(value)}`;
}

interface Surroundings {
  readonly guarded: GuardedSccs;
  /** Absent if the pod is in none that is known. */
  readonly namespace: Namespace | undefined;
}

/** What of a pod depends on its user namespace. */
function auditPod(pod: Pod, { guarded, namespace }: Surroundings): readonly AuditFinding[] {
  const found = guarded.get(pod.metadata?.annotations?.[POD_SCC_ANNOTATIONS.scc] ?? '');
  const told = { kind: 'Pod', object: pod };
  const findings: AuditFinding[] = [];
  if (found?.risk === 'at risk') findings.push(admittedAtRisk(pod, found, namespace));
  if (!hasUserNamespace(pod.spec)) return findings;
  const fields = rootlikeFields(pod);
  if (fields.length > 0)
    findings.push(finding('UN004', { ...told, message: `spec.hostUsers=false with ${fields.join(', ')}` }));
  const hidden = hiddenViolations(pod, namespace);
  if (hidden !== undefined) {
    const message = `violates PodSecurity ${quote(hidden.policy)} if its user namespace does not count: ${hidden.detail}`;
    findings.push(finding('UN005', { ...told, message }));
  }
  if (found?.risk === 'harmless') {
    const message = `SCC ${quote(nameOf(found))} admitted it, which allows no more without the user namespace`;
    findings.push(finding('UN007', { ...told, message }));
  }
  return findings;
}

/** Where nothing but the annotation says so, anybody may have written it: then the pod decides how bad it is. */
function admittedAtRisk(pod: Pod, found: GuardedScc, namespace: Namespace | undefined): AuditFinding {
  const name = quote(nameOf(found));
  const obstacles = namespace === undefined ? [] : findSccViolations(pod, found.scc, namespace);
  const message =
    obstacles.length === 0
      ? `SCC ${name} admitted it, which is safe in a user namespace only`
      : `annotation ${POD_SCC_ANNOTATIONS.scc} names SCC ${name}, which would not admit it: ${obstacles.join(', ')}`;
  const told = finding('UN001', { kind: 'Pod', object: pod, message });
  return obstacles.length === 0 ? told : { ...told, severity: 'medium' };
}

function nameOf({ scc }: GuardedScc): string {
  return scc.metadata?.name ?? '';
}

/** True to what it asks for, every pod of this object comes under an SCC that is at risk. */
function auditSource(source: AuditSource, guarded: GuardedSccs): readonly AuditFinding[] {
  const name = templateOf(source)?.metadata?.annotations?.[POD_SCC_ANNOTATIONS.requiredScc] ?? '';
  if (guarded.get(name)?.risk !== 'at risk') return [];
  const message = `annotation ${POD_SCC_ANNOTATIONS.requiredScc} asks for SCC ${quote(name)}`;
  return [finding('UN002', { ...source, message })];
}

function templateOf({ kind, object }: AuditSource): PodLike | undefined {
  if (kind === 'Pod') return object;
  const path = podTemplatePath(RESOURCES[kind].group, kind);
  return path && getPodTemplate(object, path);
}

/**
 * The SCCs that require user namespaces, by name: `at risk` if their pods would have more than restricted rights without
 * them, else `harmless`.
 */
type GuardedSccs = ReadonlyMap<string, GuardedScc>;

interface GuardedScc {
  readonly scc: SecurityContextConstraints;
  readonly risk: 'at risk' | 'harmless';
}

/** Ranges as every namespace has them: what an SCC leaves to the namespace is no risk. */
const ORDINARY: Namespace = {
  metadata: {
    name: 'any',
    annotations: {
      [NAMESPACE_RANGE_ANNOTATIONS.uidRange]: '1000000000/10000',
      [NAMESPACE_RANGE_ANNOTATIONS.mcs]: 's0:c1,c0',
    },
  },
};

/** Finds and judges them, whatever their names. */
function guardedSccsOf(sccs: readonly SecurityContextConstraints[]): GuardedSccs {
  const guarded = sccs.filter(({ userNamespaceLevel }) => userNamespaceLevel === 'RequirePodLevel');
  return new Map(guarded.map((scc) => [scc.metadata?.name ?? '', { scc, risk: riskOf(scc) }]));
}

/** OpenShift overlooks capabilities that are added by default, our own conversion does not. */
function riskOf(scc: SecurityContextConstraints): GuardedScc['risk'] {
  const isRestricted = (['upstream', 'accurate'] as const).every(
    (profile) => psaLevelOf(scc, ORDINARY, { profile, userNamespaces: 'ignore' }).level === 'restricted',
  );
  return isRestricted ? 'harmless' : 'at risk';
}

/**
 * Finds everything whose safety depends on user namespaces, before a cluster goes where they do not count: to a release or
 * a set of features in which SCCs have no `userNamespaceLevel`. Sorted by namespace, kind, name and code; objects of the
 * cluster come first.
 * @see https://kubernetes.io/docs/concepts/workloads/pods/user-namespaces/
 */
export function auditUserNamespaces(input: AuditInput): readonly AuditFinding[] {
  const guarded = guardedSccsOf(input.sccs);
  const namespaces = new Map(input.namespaces.map((namespace) => [namespace.metadata?.name, namespace]));
  const pods = input.pods.filter((pod) => isIncluded(pod, input));
  return [
    ...pods.flatMap((pod) => auditPod(pod, { guarded, namespace: namespaces.get(pod.metadata?.namespace) })),
    ...input.sources
      .filter(({ kind, object }) => kind !== 'Pod' || isIncluded(object, input))
      .flatMap((source) => auditSource(source, guarded)),
    ...auditGrants(guarded, input.rbac),
    ...auditNodes(input.nodes, input.namespaces),
  ].sort(compareFindings);
}

function isIncluded(pod: Pod, { include }: AuditInput): boolean {
  const { phase } = pod.status ?? {};
  const isCompleted = phase === 'Succeeded' || phase === 'Failed';
  return (!isCompleted || include.includes('completed')) && (!isMirrorPod(pod) || include.includes('mirror'));
}

function compareFindings(a: AuditFinding, b: AuditFinding): number {
  return (
    compareBytes(a.namespace ?? '', b.namespace ?? '') ||
    compareBytes(a.kind, b.kind) ||
    compareBytes(a.name, b.name) ||
    compareBytes(a.code, b.code)
  );
}
