import { quote } from '../../../kube/text.ts';
import { createStatus, type Status } from '../../../kube/status.ts';
import { isObject, type JsonObject } from '../../../kube/types.ts';
import { numberAt, textAt } from '../../objects/read.ts';

/**
 * The refusal that the requester sees: the webhook's Status, its message led by who spoke.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/errors/statuserror.go
 */
export function denialOf(name: string, status: JsonObject): Status {
  const code = numberAt(status, 'code') ?? 0;
  const reason = textAt(status, 'reason');
  const explanation = textAt(status, 'message') || reason;
  const denied = `admission webhook ${quote(name)} denied the request`;
  const message = explanation === '' ? `${denied} without explanation` : `${denied}: ${explanation}`;
  const details = isObject(status['details']) ? status['details'] : undefined;
  return {
    metadata: {},
    status: 'Failure',
    message,
    ...(reason === '' ? {} : { reason }),
    ...(details ? { details } : {}),
    code: code < 400 ? 400 : code,
  };
}

/** 400: the request is a dry run and the webhook does not say that it can take those. */
export function dryRunUnsupported(name: string): Status {
  return createStatus(400, 'BadRequest', `admission webhook ${quote(name)} does not support dry run`);
}
