import { INSTALLATION, PART_OF, PART_OF_LABEL } from '../../../kube/installation.ts';
import { quote } from '../../../kube/quote.ts';
import { RESOURCES } from '../../../kube/resources.ts';
import type { Action, RbacObjects } from '../../rbac/types.ts';
import type { KubeObject } from '../../../kube/types.ts';
import { decodeScc } from '../../scc/decode/scc.ts';
import { grantsAnywhere, whoCan, type RbacGrant, type SubjectName } from '../../rbac/who-can.ts';
import type { GuardedScc, GuardedSccs } from './guarded-sccs.ts';
import { finding, type AuditFinding } from './types.ts';

const { group: apiGroup, resource } = RESOURCES.SecurityContextConstraints;
const EVERYTHING: Action = { verb: '*', apiGroup: '*', resource: '*' };

/** They may do everything in every cluster. */
const ADMINS: readonly SubjectName[] = [
  { kind: 'Group', name: 'system:masters' },
  { kind: 'Group', name: 'system:cluster-admins' },
  { kind: 'User', name: 'system:admin' },
];

/** Who may use SCCs that are at risk, by the SCCs themselves and by roles; but for those who may do everything anyway. */
export function auditGrants(guarded: GuardedSccs, rbac: RbacObjects): readonly AuditFinding[] {
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
  const grants = grantsAnywhere(rbac, { verb: 'use', apiGroup, resource, name }).filter(({ subject }) =>
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
