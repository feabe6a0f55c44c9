/**
 * Plays the API server's admission: the built-in plugins that kubectl and the decisions notice, then the webhooks. Reads
 * through a Reader and writes nothing.
 */
import { ApiError } from '../../kube/status.ts';
import type { Admission, ApiObject, Attributes, Reader, ResourceInfo, ResourceKey } from '../types.ts';
import { defaultTolerations } from './default-tolerations.ts';
import { createNamespaceLifecycle } from './namespace-lifecycle.ts';
import type { Plugin, Refusal } from './plugin.ts';
import { createPriorityPlugin } from './priority.ts';
import { createRuntimeClassPlugin } from './runtime-class.ts';
import { createServiceAccountPlugin } from './service-account.ts';
import type { CallWebhook } from './webhooks/call.ts';
import { createRounds, mutate } from './webhooks/mutating.ts';
import type { Decode } from './webhooks/patch.ts';
import { validate } from './webhooks/validating.ts';

export { createWarnings, type Warnings } from './warnings.ts';
export type { CallWebhook, WebhookCall, WebhookReply } from './webhooks/call.ts';
export { createHttpsCaller, type HttpsCaller } from './webhooks/https.ts';
export type { ResolveService, ServiceReference } from './webhooks/target.ts';

export interface AdmissionOptions {
  readonly reader: Reader;
  /** All versions in which a resource is served. */
  versionsOf(key: ResourceKey): readonly ResourceInfo[];
  /** Reads what a webhook's patch has made; defaults are filled in afterwards. */
  readonly decode: Decode;
  readonly call: CallWebhook;
  /** A new UID for each review. */
  uid(): string;
  /** Five characters for generated names, as in `kube-api-access-kd8dd`. */
  suffix(): string;
}

/** Makes the admission chain. What it is given to mutate is not changed: it works on a copy. */
export function createAdmission(options: AdmissionOptions): Admission {
  const { reader, versionsOf, decode, call, uid, suffix } = options;
  const surroundings = { reader, versionsOf };
  const line = { call, uid };
  const plugins: readonly Plugin[] = [
    createNamespaceLifecycle(reader),
    createServiceAccountPlugin(reader, suffix),
    createPriorityPlugin(reader),
    defaultTolerations,
    createRuntimeClassPlugin(reader),
  ];

  return {
    async mutate(given, context) {
      const rounds = createRounds();
      const copy = given.object && { object: structuredClone(given.object) };
      let attributes: Attributes = { ...given, ...copy };
      const pass = async (round: 0 | 1): Promise<ApiObject | undefined> => {
        for (const { admit } of plugins) throwIfRefused(await admit?.(attributes));
        const object = await mutate({ attributes, context, surroundings, line, decode }, rounds, round);
        attributes = { ...attributes, ...(object && { object }) };
        return object;
      };
      const object = await pass(0);
      // What webhooks have changed may need what plugins do: an added container, for one, its token.
      return rounds.changed ? pass(1) : object;
    },
    async validate(attributes, context) {
      for (const plugin of plugins) throwIfRefused(plugin.validate?.(attributes));
      await validate(attributes, context, surroundings, line);
    },
  };
}

function throwIfRefused(refusal: Refusal): void {
  if (refusal) throw new ApiError(refusal);
}
