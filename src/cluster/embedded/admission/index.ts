/**
 * Plays the API server's admission: the built-in plugins that kubectl and the decisions notice, then the webhooks. Reads
 * through a Reader and writes nothing.
 */
import type { Admission, ApiObject, Reader, ResourceInfo, ResourceKey } from '../types.ts';
import type { CallWebhook } from './webhooks/call.ts';

export type { CallWebhook, WebhookCall, WebhookReply } from './webhooks/call.ts';

export interface AdmissionOptions {
  readonly reader: Reader;
  /** All versions in which a resource is served. */
  versionsOf(key: ResourceKey): readonly ResourceInfo[];
  /** Decodes what a webhook's patch has made; `error` is Go's text for a value of a wrong type. Defaults are not applied. */
  decode(value: unknown, resource: ResourceInfo, subresource: string): { object: ApiObject; error?: string };
  readonly call: CallWebhook;
  /** A new UID for each review. */
  uid(): string;
  /** Five characters for generated names, as in `kube-api-access-kd8dd`. */
  suffix(): string;
}

/** Makes the admission chain. */
export declare function createAdmission(options: AdmissionOptions): Admission;
