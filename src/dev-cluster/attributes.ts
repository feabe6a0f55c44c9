import type { Operation } from '../kube/admission.ts';
import type { Call } from './core.ts';
import { metadataOf, type ApiObject, type Attributes } from './types.ts';

/** What a request changes. */
export interface Subject {
  readonly operation: Operation;
  readonly object?: ApiObject;
  readonly oldObject?: ApiObject;
  readonly options: ApiObject;
  readonly dryRun: boolean;
}

/** What admission is told of a request. A new object may get its name only while admission runs. */
export function attributesOf(call: Call, subject: Subject): Attributes {
  const name = call.name === '' ? (metadataOf(subject.object).name ?? '') : call.name;
  const isNamespace = call.info.group === '' && call.info.resource === 'namespaces';
  return {
    ...subject,
    resource: call.info,
    subresource: call.subresource?.name ?? '',
    name,
    namespace: isNamespace ? name : call.namespace,
    user: call.user,
  };
}
