import { dnsSubdomainErrors } from '../../kube/names.ts';
import { forbiddenField, invalidValue, notSupported, requiredField, type FieldError } from '../../kube/field-error.ts';
import { quote } from '../../kube/text.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import type { ApiObject } from '../types.ts';
import { objectAt, objectsAt, textAt, textsAt } from './read.ts';
import { readJsonPath } from './schema/columns.ts';
import { structuralErrors } from './schema/structural.ts';
import type { KindRules } from './strategy.ts';

/**
 * CustomResourceDefinitions.
 * @see https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.0/pkg/apis/apiextensions/validation/validation.go
 */
export const definitionRules: KindRules = {
  namespaced: false,
  generation: 'counted',
  initialStatus: (definition) => ({
    conditions: null,
    acceptedNames: { plural: '', kind: '' },
    storedVersions: storageVersions(definition),
  }),
  prepareForUpdate(definition, _old, subresource) {
    if (subresource !== '') return;
    const status = objectAt(definition, 'status');
    const stored = new Set([...textsAt(status, 'storedVersions'), ...storageVersions(definition)]);
    definition['status'] = { ...status, storedVersions: [...stored] };
  },
  validate: definitionErrors,
  validateUpdate: (definition, old, subresource) => (subresource === '' ? changeErrors(definition, old) : []),
};

function storageVersions(definition: ApiObject): string[] {
  return objectsAt(objectAt(definition, 'spec'), 'versions')
    .filter((version) => version['storage'] === true)
    .map((version) => textAt(version, 'name'));
}

function definitionErrors(definition: ApiObject): FieldError[] {
  const spec = objectAt(definition, 'spec');
  const names = objectAt(spec, 'names');
  const name = textAt(definition.metadata, 'name');
  const expected = `${textAt(names, 'plural')}.${textAt(spec, 'group')}`;
  const scope = textAt(spec, 'scope');
  const strategy = textAt(objectAt(spec, 'conversion'), 'strategy');
  return [
    ...(name === expected ? [] : [invalidValue('metadata.name', name, 'must be spec.names.plural+"."+spec.group')]),
    ...groupErrors(textAt(spec, 'group')),
    ...(['Cluster', 'Namespaced'].includes(scope) ? [] : [scopeError(scope)]),
    ...versionsErrors(spec),
    ...['plural', 'singular', 'kind', 'listKind'].flatMap((field) => nameErrors(names, field)),
    ...(strategy === 'None'
      ? []
      : [forbiddenField('spec.conversion.strategy', 'the development cluster converts no versions: must be None')]),
  ];
}

function groupErrors(group: string): FieldError[] {
  if (group === '') return [requiredField('spec.group', '')];
  const errors = dnsSubdomainErrors(group);
  if (errors.length > 0) return [invalidValue('spec.group', group, errors.join(','))];
  return group.includes('.') ? [] : [invalidValue('spec.group', group, 'should be a domain with at least one dot')];
}

function scopeError(scope: string): FieldError {
  return scope === '' ? requiredField('spec.scope', '') : notSupported('spec.scope', scope, ['Cluster', 'Namespaced']);
}

const DNS_1035 = '[a-z]([-a-z0-9]*[a-z0-9])?';
const DNS_1035_RULE = `a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '${DNS_1035}')`;
const IS_DNS_1035 = new RegExp(`^${DNS_1035}$`);

/** Kinds are checked in lower case. */
function nameErrors(names: JsonObject, field: string): FieldError[] {
  const name = textAt(names, field);
  const path = `spec.names.${field}`;
  if (name === '') return [requiredField(path, '')];
  const text = field.toLowerCase().endsWith('kind') ? name.toLowerCase() : name;
  if (IS_DNS_1035.test(text)) return [];
  const rule = text === name ? DNS_1035_RULE : `may have mixed case, but should otherwise match: ${DNS_1035_RULE}`;
  return [invalidValue(path, name, rule)];
}

function versionsErrors(spec: JsonObject): FieldError[] {
  const versions = objectsAt(spec, 'versions');
  const names = versions.map((version) => textAt(version, 'name'));
  const stored = versions.filter((version) => version['storage'] === true).length;
  return [
    ...(new Set(names).size === names.length
      ? []
      : [invalidValue('spec.versions', versions, 'must contain unique version names')]),
    ...(stored === 1
      ? []
      : [invalidValue('spec.versions', versions, 'must have exactly one version marked as storage version')]),
    ...versions.flatMap((version, index) => versionErrors(version, `spec.versions[${index}]`)),
  ];
}

function versionErrors(version: JsonObject, path: string): FieldError[] {
  const name = textAt(version, 'name');
  const schema = objectAt(version, 'schema')['openAPIV3Schema'];
  return [
    ...(IS_DNS_1035.test(name) ? [] : [invalidValue(`${path}.name`, name, DNS_1035_RULE)]),
    ...(isObject(schema)
      ? structuralErrors(schema, `${path}.schema.openAPIV3Schema`)
      : [requiredField(`${path}.schema.openAPIV3Schema`, 'schemas are required')]),
    ...objectsAt(version, 'additionalPrinterColumns').flatMap((column, index) =>
      columnErrors(column, `${path}.additionalPrinterColumns[${index}]`),
    ),
  ];
}

const COLUMN_TYPES = ['boolean', 'date', 'integer', 'number', 'string'];

function columnErrors(column: JsonObject, path: string): FieldError[] {
  const type = textAt(column, 'type');
  const jsonPath = textAt(column, 'jsonPath');
  return [
    ...(textAt(column, 'name') === '' ? [requiredField(`${path}.name`, '')] : []),
    ...(type === '' ? [requiredField(`${path}.type`, `must be one of ${COLUMN_TYPES.join(',')}`)] : []),
    ...(type === '' || COLUMN_TYPES.includes(type)
      ? []
      : [invalidValue(`${path}.type`, type, `must be one of ${COLUMN_TYPES.join(',')}`)]),
    ...(jsonPath === '' ? [requiredField(`${path}.jsonPath`, '')] : []),
    ...(jsonPath === '' || readJsonPath(jsonPath)
      ? []
      : [invalidValue(`${path}.jsonPath`, jsonPath, `is not a simple path: ${quote(jsonPath)}`)]),
  ];
}

function changeErrors(definition: ApiObject, old: ApiObject): FieldError[] {
  const [spec, before] = [objectAt(definition, 'spec'), objectAt(old, 'spec')];
  const [names, namesBefore] = [objectAt(spec, 'names'), objectAt(before, 'names')];
  const changed = (path: string, now: unknown, then: unknown): FieldError[] =>
    now === then ? [] : [invalidValue(path, now, 'field is immutable')];
  return [
    ...changed('spec.group', spec['group'], before['group']),
    ...changed('spec.scope', spec['scope'], before['scope']),
    ...changed('spec.names.kind', names['kind'], namesBefore['kind']),
    ...changed('spec.names.plural', names['plural'], namesBefore['plural']),
  ];
}
