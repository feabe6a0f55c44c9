import { forbidden, type Status } from '../../kube/status.ts';
import { metadataOf, type Attributes } from '../types.ts';

/** A refusal, if there is one. */
export type Refusal = Status | undefined;

/** A step of admission that is built in. Returns a refusal, or nothing. */
export interface Plugin {
  /** May change `attributes.object` in place. */
  readonly admit?: (attributes: Attributes) => Refusal | Promise<Refusal>;
  readonly validate?: (attributes: Attributes) => Refusal;
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
