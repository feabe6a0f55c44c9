import { forbiddenField, type FieldError } from '../../kube/field-error.ts';
import { podTemplatePath } from '../../kube/pod.ts';
import type { JsonObject } from '../../kube/types.ts';
import type { ApiObject } from '../types.ts';
import { annotationErrors, labelErrors } from './metadata.ts';
import { validatePodSpec } from './pod/validate.ts';
import { templateWarnings } from './pod/warnings.ts';
import { objectAt, objectsAt } from './read.ts';

/** Checks a pod template: its labels and annotations, and a pod spec without ephemeral containers. */
export function templateErrors(template: JsonObject, path: string): FieldError[] {
  const metadata = objectAt(template, 'metadata');
  const spec = objectAt(template, 'spec');
  return [
    ...labelErrors(metadata['labels'], `${path}.labels`),
    ...annotationErrors(metadata['annotations'], `${path}.annotations`),
    ...validatePodSpec(spec, `${path}.spec`, 'template'),
    ...(objectsAt(spec, 'ephemeralContainers').length > 0
      ? [forbiddenField(`${path}.spec.ephemeralContainers`, 'ephemeral containers not allowed in pod template')]
      : []),
  ];
}

/** What is of no use in the template of a workload. */
export function warningsOf(group: string, kind: string, object: ApiObject): string[] {
  const path = podTemplatePath(group, kind) ?? [];
  const template = path.reduce<JsonObject>((part, field) => objectAt(part, field), object);
  return templateWarnings(objectAt(template, 'metadata'), objectAt(template, 'spec'), `${path.join('.')}.`);
}
