import { forbiddenField, invalidValue, requiredField, type FieldError } from '../../kube/field-error.ts';
import { labelKeyErrors, labelValueErrors } from '../../kube/names.ts';
import type { JsonObject } from '../../kube/types.ts';
import { labelErrors } from './metadata.ts';
import { objectAt, objectsAt, textAt, textsAt } from './read.ts';

/**
 * Field errors of a LabelSelector.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/apis/meta/v1/validation/validation.go
 */
export function selectorErrors(holder: JsonObject, field: string, path: string): FieldError[] {
  const selector = objectAt(holder, field);
  return [
    ...labelErrors(selector['matchLabels'], `${path}.matchLabels`),
    ...objectsAt(selector, 'matchExpressions').flatMap((expression, index) =>
      requirementErrors(expression, `${path}.matchExpressions[${index}]`),
    ),
  ];
}

/** True if the selector asks for nothing and so takes everything. */
export function isEmptySelector(selector: JsonObject): boolean {
  const labels = Object.keys(objectAt(selector, 'matchLabels'));
  return labels.length === 0 && objectsAt(selector, 'matchExpressions').length === 0;
}

function requirementErrors(requirement: JsonObject, path: string): FieldError[] {
  const key = textAt(requirement, 'key');
  const values = textsAt(requirement, 'values');
  return [
    ...operatorErrors(textAt(requirement, 'operator'), values.length, path),
    ...labelKeyErrors(key).map((error) => invalidValue(`${path}.key`, key, error)),
    ...values.flatMap((value, index) =>
      labelValueErrors(value).map((error) => invalidValue(`${path}.values[${index}]`, value, error)),
    ),
  ];
}

function operatorErrors(operator: string, count: number, path: string): FieldError[] {
  switch (operator) {
    case 'In':
    case 'NotIn': {
      const detail = "must be specified when `operator` is 'In' or 'NotIn'";
      return count === 0 ? [requiredField(`${path}.values`, detail)] : [];
    }
    case 'Exists':
    case 'DoesNotExist': {
      const detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
      return count > 0 ? [forbiddenField(`${path}.values`, detail)] : [];
    }
    default:
      return [invalidValue(`${path}.operator`, operator, 'not a valid selector operator')];
  }
}
