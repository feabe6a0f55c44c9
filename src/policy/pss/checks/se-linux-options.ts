import { celList } from '../../../kube/cel.ts';
import type { FieldError } from '../../../kube/field-error.ts';
import { plural } from '../../../kube/text.ts';
import { LOST, SE_LINUX_TYPES, type SecurityContextFields } from '../../pod/index.ts';
import { bind, type BuildCel, celOwners, celPlural, celQuotedList } from '../cel.ts';
import {
  type Check,
  distinct,
  type Finding,
  findOwners,
  forbiddenValue,
  formatOwners,
  joinTexts,
  quotedList,
  type Rule,
  type SecurityContextOwner,
} from '../check.ts';

const FIELD = 'securityContext.seLinuxOptions';

/**
 * The SELinux type must be one of the ordinary container types. User and role must not be set. Any level is allowed.
 *
 * Fields   spec.securityContext.seLinuxOptions.{type,user,role}
 *          spec.{init,ephemeral,}containers[*].securityContext.seLinuxOptions.{type,user,role}
 * Allowed  the types listed for the version, with user and role not set
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const seLinuxOptions: Check = {
  id: 'seLinuxOptions',
  level: 'baseline',
  why: 'SELinux uses the type and level of processes to isolate containers from the node and from each other. Types other than container types, and custom users and roles, remove this isolation.',
  fix: 'Remove user and role from securityContext.seLinuxOptions, and set type to container_t or remove it.',
  violation: ['spec.containers[0].securityContext.seLinuxOptions', { type: 'spc_t' }],
  cis: '5.6.3',
  nsa: 'SELinux options',
  repairs: [{ remove: 'field', note: LOST.seLinux, explicit: true }],
  versions: [
    { since: 'v1.0', ...onlyTypes(SE_LINUX_TYPES['v1.0']) },
    { since: 'v1.31', ...onlyTypes(SE_LINUX_TYPES['v1.31']) },
  ],
};

function onlyTypes(allowedTypes: readonly string[]): Rule {
  const hasBadType = ({ seLinuxOptions: options }: SecurityContextFields): boolean =>
    options !== undefined && !allowedTypes.includes(options.type);
  const violates = (owner: SecurityContextFields): boolean =>
    owner.seLinuxOptions !== undefined && (hasBadType(owner) || setsUser(owner) || setsRole(owner));
  return {
    check(pod) {
      const owners = findOwners(pod, violates);
      return owners.length === 0 ? undefined : createFinding(owners, hasBadType);
    },
    cel: typesCel(allowedTypes),
  };
}

function createFinding(
  owners: readonly SecurityContextOwner[],
  hasBadType: (owner: SecurityContextOwner) => boolean,
): Finding {
  const types = distinct(owners.filter(hasBadType).map((owner) => owner.seLinuxOptions?.type ?? ''));
  const typeText = types.length === 0 ? '' : `${plural(types.length, 'type')} ${quotedList(types)}`;
  const userText = owners.some(setsUser) ? 'user may not be set' : '';
  const roleText = owners.some(setsRole) ? 'role may not be set' : '';
  const data = joinTexts(joinTexts(typeText, '; ', userText), '; ', roleText);
  return {
    reason: 'seLinuxOptions',
    detail: `${formatOwners(owners)} set forbidden securityContext.seLinuxOptions: ${data}`,
    fields: () => owners.flatMap((owner) => fieldErrors(owner, hasBadType(owner))),
  };
}

function fieldErrors(owner: SecurityContextOwner, isBadType: boolean): readonly FieldError[] {
  const { seLinuxOptions: options } = owner;
  return [
    ...(isBadType ? [forbiddenValue(owner, `${FIELD}.type`, options?.type)] : []),
    ...(setsUser(owner) ? [forbiddenValue(owner, `${FIELD}.user`, options?.user)] : []),
    ...(setsRole(owner) ? [forbiddenValue(owner, `${FIELD}.role`, options?.role)] : []),
  ];
}

function setsUser({ seLinuxOptions: options }: SecurityContextFields): boolean {
  return options !== undefined && options.user !== '';
}

function setsRole({ seLinuxOptions: options }: SecurityContextFields): boolean {
  return options !== undefined && options.role !== '';
}

function typesCel(allowedTypes: readonly string[]): BuildCel {
  const value = (owner: string, field: string): string =>
    `${owner}.?securityContext.?seLinuxOptions.?${field}.orValue("")`;
  const hasGoodType = (owner: string): string => `${value(owner, 'type')} in ${celList(allowedTypes)}`;
  return (inputs) => {
    const { spec, containers } = inputs;
    const { passes, values, owners } = celOwners(
      'seLinux',
      inputs,
      (owner) => `${hasGoodType(owner)} && ${value(owner, 'user')} == "" && ${value(owner, 'role')} == ""`,
    );
    const types = celOwners('seLinuxType', inputs, hasGoodType);
    const isSet = (field: string): string =>
      `${value(spec, field)} != "" || ${containers}.exists(c, ${value('c', field)} != "")`;
    const text = `"seLinuxOptions (" + ${owners}.join(" and ") + " set forbidden ${FIELD}: " + seLinuxData.join("; ") + ")"`;
    return {
      passes,
      text: bind(
        {
          ...values,
          seLinuxBadTypes: types.read((owner) => `${owner}.securityContext.seLinuxOptions.type`),
          seLinuxData: `(size(seLinuxBadTypes) == 0 ? [] : [${celPlural('seLinuxBadTypes', 'type ', 'types ')} + ${celQuotedList('seLinuxBadTypes')}]) + (${isSet('user')} ? ["user may not be set"] : []) + (${isSet('role')} ? ["role may not be set"] : [])`,
        },
        text,
      ),
    };
  };
}
