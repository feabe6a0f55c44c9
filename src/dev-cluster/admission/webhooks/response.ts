import { quote } from '../../../kube/text.ts';
import { isObject, type JsonObject } from '../../../kube/types.ts';
import { objectAt, textAt, textsAt } from '../../objects/read.ts';

/** What a webhook decided; `patch` is the text of a JSON patch. */
export interface Answer {
  readonly allowed: boolean;
  /** The Status of a refusal, as the webhook sent it. */
  readonly status: JsonObject;
  readonly warnings: readonly string[];
  readonly auditAnnotations: Readonly<Record<string, string>>;
  readonly patch?: string;
}

/** An answer, or why it is none. */
export type Verified = { readonly ok: true; readonly answer: Answer } | { readonly ok: false; readonly error: string };

/**
 * Checks what a webhook sent back for the review of that uid.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/request/admissionreview.go
 */
export function verifyResponse(review: JsonObject, uid: string, kind: 'mutating' | 'validating'): Verified {
  const { response } = review;
  if (!isObject(response)) return invalid('webhook response was absent');
  const given = textAt(response, 'uid');
  if (given !== uid) return invalid(`expected response.uid=${quote(uid)}, got ${quote(given)}`);
  const error = patchError(response, kind);
  if (error !== undefined) return invalid(error);
  const patch = textAt(response, 'patch');
  return {
    ok: true,
    answer: {
      allowed: response['allowed'] === true,
      status: objectAt(response, 'status'),
      warnings: textsAt(response, 'warnings'),
      auditAnnotations: texts(objectAt(response, 'auditAnnotations')),
      ...(patch === '' ? {} : { patch: Buffer.from(patch, 'base64').toString('utf8') }),
    },
  };
}

function invalid(error: string): Verified {
  return { ok: false, error: `received invalid webhook response: ${error}` };
}

function patchError(response: JsonObject, kind: 'mutating' | 'validating'): string | undefined {
  const hasPatch = textAt(response, 'patch') !== '';
  const { patchType } = response;
  if (kind === 'validating') {
    if (hasPatch) return 'validating webhook may not return response.patch';
    return patchType == null ? undefined : 'validating webhook may not return response.patchType';
  }
  if (hasPatch && patchType == null) return 'webhook returned response.patch but not response.patchType';
  if (!hasPatch && patchType != null) return 'webhook returned response.patchType but not response.patch';
  return patchType === '' ? 'webhook returned invalid response.patchType of ""' : undefined;
}

function texts(map: JsonObject): Record<string, string> {
  const entries = Object.entries(map).filter((entry): entry is [string, string] => typeof entry[1] === 'string');
  return Object.fromEntries(entries);
}
