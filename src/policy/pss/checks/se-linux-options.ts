import type { FieldError } from '../../../kube/field-error.ts';
import type { PodFields, SetterFields } from '../fields.ts';
import { forbidden, settersWhere } from '../offenders.ts';
import { both, distinct, plural, quotedList, settersText } from '../text.ts';
import type { Check, Rule } from '../types.ts';

const FIELD = 'securityContext.seLinuxOptions';
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
  const offends = (setter: SetterFields): boolean => isBadType(setter) || setsUser(setter) || setsRole(setter);
  const fields = (pod: PodFields): readonly FieldError[] =>
    settersWhere(pod, offends).flatMap((setter) => [
      ...(isBadType(setter) ? [forbidden(setter, `${FIELD}.type`, setter.seLinuxType)] : []),
      ...(setsUser(setter) ? [forbidden(setter, `${FIELD}.user`, setter.seLinuxUser)] : []),
      ...(setsRole(setter) ? [forbidden(setter, `${FIELD}.role`, setter.seLinuxRole)] : []),
    ]);
  return (pod) => {
    const setters = settersText(pod, offends);
    if (!setters) return undefined;
    const data = dataText(settersWhere(pod, offends), isBadType);
    return {
      reason: 'seLinuxOptions',
      detail: `${setters} set forbidden securityContext.seLinuxOptions: ${data}`,
      fields,
    };
  };
}

/** What is wrong, whoever is to blame. */
function dataText(offenders: readonly SetterFields[], isBadType: (setter: SetterFields) => boolean): string {
  const types = distinct(offenders.filter(isBadType).map((setter) => setter.seLinuxType));
  const type = types.length === 0 ? '' : `${plural(types.length, 'type', 'types')} ${quotedList(types)}`;
  const user = offenders.some(setsUser) ? 'user may not be set' : '';
  const role = offenders.some(setsRole) ? 'role may not be set' : '';
  return both(both(type, '; ', user), '; ', role);
}

const setsUser = (setter: SetterFields): boolean => setter.seLinuxUser !== '';

const setsRole = (setter: SetterFields): boolean => setter.seLinuxRole !== '';
