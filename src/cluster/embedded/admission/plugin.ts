import { forbidden, type Status } from '../../../kube/status.ts';
import { metadataOf, type Attributes } from '../types.ts';

/** A step of admission that is built in. Returns a refusal, or nothing. */
export interface Plugin {
  /** May change `attributes.object` in place. */
  readonly admit?: (attributes: Attributes) => Status | undefined;
  readonly validate?: (attributes: Attributes) => Status | undefined;
}

/** 403, naming the object even if its name has not been generated yet. */
export function refuse(attributes: Attributes, cause: string): Status {
  const { name, generateName } = metadataOf(attributes.object);
  const subject = [attributes.name, name, generateName].find((text) => text != null && text !== '');
  return forbidden(attributes.resource, subject ?? 'Unknown', cause);
}

/** True for a request on a resource of that name, any subresource. */
export function isOn(attributes: Attributes, group: string, resource: string): boolean {
  return attributes.resource.group === group && attributes.resource.resource === resource;
}

/** True for a request on pods as a whole. */
export function isOnPods(attributes: Attributes): boolean {
  return isOn(attributes, '', 'pods') && attributes.subresource === '';
}
