import type { FieldError } from '../../../kube/field-error.ts';
import type { PodFields, Setter, SetterFields } from '../fields.ts';
import { forbidden, settersWhere } from '../offenders.ts';
import { distinct, plural, quotedList, settersText } from '../text.ts';
import type { Check, Finding, Rule } from '../types.ts';

const PATH = 'securityContext.seLinuxOptions';
const TYPES_V1_0 = ['', 'container_t', 'container_init_t', 'container_kvm_t'];
const TYPES_V1_31 = [...TYPES_V1_0, 'container_engine_t'];

/**
 * Only the types of ordinary containers may be set, and neither user nor role; the level is free.
 *
 * Fields   spec.securityContext.seLinuxOptions.{type,user,role}
 *          spec.{init,ephemeral,}containers[*].securityContext.seLinuxOptions.{type,user,role}
 * Allowed  the types of the version in force; no user, no role
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const seLinuxOptions: Check = {
  id: 'seLinuxOptions',
  level: 'baseline',
  remedy: 'Remove user and role from securityContext.seLinuxOptions, and use the type container_t or none.',
  passesUnlessSet: ['seLinuxOptions'],
  versions: [
    { since: 'v1.0', check: onlyTypes(TYPES_V1_0) },
    { since: 'v1.31', check: onlyTypes(TYPES_V1_31) },
  ],
};

function onlyTypes(types: readonly string[]): Rule {
  const allowed = new Set(types);
  const isBadType = (setter: SetterFields): boolean => !allowed.has(setter.seLinuxType);
  const offends = (setter: SetterFields): boolean =>
    isBadType(setter) || setter.seLinuxUser !== '' || setter.seLinuxRole !== '';
  return (pod: PodFields) => {
    const offenders = settersWhere(pod, offends);
    return offenders && finding(offenders, isBadType);
  };
}

function finding(offenders: readonly Setter[], isBadType: (setter: SetterFields) => boolean): Finding {
  const types = distinct(offenders.filter(isBadType).map((setter) => setter.seLinuxType));
  const data: string[] = [];
  if (types.length > 0) data.push(`${plural(types.length, 'type', 'types')} ${quotedList(types)}`);
  if (offenders.some((setter) => setter.seLinuxUser !== '')) data.push('user may not be set');
  if (offenders.some((setter) => setter.seLinuxRole !== '')) data.push('role may not be set');
  return {
    reason: 'seLinuxOptions',
    detail: `${settersText(offenders)} set forbidden ${PATH}: ${data.join('; ')}`,
    fields: () => offenders.flatMap((setter) => fieldErrors(setter, isBadType(setter))),
  };
}

function fieldErrors(setter: Setter, badType: boolean): FieldError[] {
  const errors = badType ? [forbidden(setter, `${PATH}.type`, setter.seLinuxType)] : [];
  if (setter.seLinuxUser !== '') errors.push(forbidden(setter, `${PATH}.user`, setter.seLinuxUser));
  if (setter.seLinuxRole !== '') errors.push(forbidden(setter, `${PATH}.role`, setter.seLinuxRole));
  return errors;
}
