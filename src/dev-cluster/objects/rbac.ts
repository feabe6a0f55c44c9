import { dnsSubdomainErrors } from '../../kube/names.ts';
import { semanticEqual } from '../../kube/equality.ts';
import { invalidValue, notSupported, requiredField, type FieldError } from '../../kube/field-error.ts';
import type { JsonObject } from '../../kube/types.ts';
import type { ApiObject } from '../types.ts';
import { PATH_SEGMENT } from './metadata.ts';
import { hasField, objectAt, objectsAt, textAt, textsAt } from './read.ts';
import { selectorErrors } from './selector.ts';
import type { KindRules } from './strategy.ts';

const GROUP = 'rbac.authorization.k8s.io';

/**
 * Roles and bindings.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/rbac/validation/validation.go
 */
export const rbacRules: Readonly<Record<string, KindRules>> = {
  [`${GROUP}/Role`]: { namespaced: true, nameErrors: PATH_SEGMENT, validate: (role) => rulesErrors(role, true) },
  [`${GROUP}/ClusterRole`]: {
    namespaced: false,
    nameErrors: PATH_SEGMENT,
    validate: (role) => [...rulesErrors(role, false), ...aggregationErrors(role)],
  },
  [`${GROUP}/RoleBinding`]: binding(true, ['Role', 'ClusterRole']),
  [`${GROUP}/ClusterRoleBinding`]: binding(false, ['ClusterRole']),
};

function rulesErrors(role: ApiObject, namespaced: boolean): FieldError[] {
  return objectsAt(role, 'rules').flatMap((rule, index) => {
    const path = `rules[${index}]`;
    return [
      ...(textsAt(rule, 'verbs').length === 0
        ? [requiredField(`${path}.verbs`, 'verbs must contain at least one value')]
        : []),
      ...(textsAt(rule, 'nonResourceURLs').length > 0
        ? urlErrors(rule, `${path}.nonResourceURLs`, namespaced)
        : resourceErrors(rule, path)),
    ];
  });
}

function urlErrors(rule: JsonObject, path: string, namespaced: boolean): FieldError[] {
  const urls = rule['nonResourceURLs'];
  const isMixed = ['apiGroups', 'resources', 'resourceNames'].some((field) => textsAt(rule, field).length > 0);
  return [
    ...(namespaced ? [invalidValue(path, urls, 'namespaced rules cannot apply to non-resource URLs')] : []),
    ...(isMixed
      ? [invalidValue(path, urls, 'rules cannot apply to both regular resources and non-resource URLs')]
      : []),
  ];
}

function resourceErrors(rule: JsonObject, path: string): FieldError[] {
  return [
    ...(textsAt(rule, 'apiGroups').length === 0
      ? [requiredField(`${path}.apiGroups`, 'resource rules must supply at least one api group')]
      : []),
    ...(textsAt(rule, 'resources').length === 0
      ? [requiredField(`${path}.resources`, 'resource rules must supply at least one resource')]
      : []),
  ];
}

function aggregationErrors(role: ApiObject): FieldError[] {
  if (!hasField(role, 'aggregationRule')) return [];
  const path = 'aggregationRule.clusterRoleSelectors';
  const selectors = objectsAt(objectAt(role, 'aggregationRule'), 'clusterRoleSelectors');
  if (selectors.length === 0) {
    return [requiredField(path, 'at least one clusterRoleSelector required if aggregationRule is non-nil')];
  }
  return selectors.flatMap((selector, index) => selectorErrors({ selector }, 'selector', `${path}[${index}]`));
}

function binding(namespaced: boolean, kinds: readonly string[]): KindRules {
  return {
    namespaced,
    nameErrors: PATH_SEGMENT,
    validate: (object) => [
      ...roleRefErrors(objectAt(object, 'roleRef'), kinds),
      ...objectsAt(object, 'subjects').flatMap((subject, index) =>
        subjectErrors(subject, `subjects[${index}]`, namespaced),
      ),
    ],
    validateUpdate: (object, old) =>
      semanticEqual(object['roleRef'], old['roleRef'])
        ? []
        : [invalidValue('roleRef', object['roleRef'], 'cannot change roleRef')],
  };
}

function roleRefErrors(roleRef: JsonObject, kinds: readonly string[]): FieldError[] {
  const [apiGroup, kind, name] = [textAt(roleRef, 'apiGroup'), textAt(roleRef, 'kind'), textAt(roleRef, 'name')];
  return [
    ...(apiGroup === GROUP ? [] : [notSupported('roleRef.apiGroup', apiGroup, [GROUP])]),
    ...(kinds.includes(kind) ? [] : [notSupported('roleRef.kind', kind, kinds)]),
    ...(name === ''
      ? [requiredField('roleRef.name', '')]
      : PATH_SEGMENT(name).map((error) => invalidValue('roleRef.name', name, error))),
  ];
}

function subjectErrors(subject: JsonObject, path: string, namespaced: boolean): FieldError[] {
  const [kind, name, apiGroup] = [textAt(subject, 'kind'), textAt(subject, 'name'), textAt(subject, 'apiGroup')];
  const missing = name === '' ? [requiredField(`${path}.name`, '')] : [];
  if (kind === 'ServiceAccount') {
    return [
      ...missing,
      ...(name === '' ? [] : dnsSubdomainErrors(name).map((error) => invalidValue(`${path}.name`, name, error))),
      ...(apiGroup === '' ? [] : [notSupported(`${path}.apiGroup`, apiGroup, [''])]),
      ...(!namespaced && textAt(subject, 'namespace') === '' ? [requiredField(`${path}.namespace`, '')] : []),
    ];
  }
  if (kind !== 'User' && kind !== 'Group') {
    return [...missing, notSupported(`${path}.kind`, kind, ['ServiceAccount', 'User', 'Group'])];
  }
  return apiGroup === GROUP ? missing : [...missing, notSupported(`${path}.apiGroup`, apiGroup, [GROUP])];
}
