import { ApiError } from '../../kube/status.ts';
import { randomSuffix } from '../write.ts';
import type { Attributes, RequestContext } from '../request.ts';
import type { ApiObject } from '../types.ts';
import { createPlugins } from './plugins.ts';
import { createMutatingWebhooks, validateWithWebhooks, type WebhookOptions } from './webhooks.ts';

/** The admission chain: built-in plugins, then webhooks. Both steps reject with an ApiError to deny the request. */
export interface Admission {
  /** Returns the object with the changes of plugins and mutating webhooks. The given object is not changed. */
  mutate(attributes: Attributes, context: RequestContext): Promise<ApiObject | undefined>;
  validate(attributes: Attributes, context: RequestContext): Promise<void>;
}

export function createAdmission(options: WebhookOptions): Admission {
  const plugins = createPlugins(options.reader, randomSuffix);
  return {
    async mutate(attributes, context) {
      const copy = attributes.object && { object: structuredClone(attributes.object) };
      const webhooks = createMutatingWebhooks(options, context);
      const runRound = async (current: Attributes): Promise<Attributes> => {
        for (const { admit } of plugins) {
          const refusal = await admit?.(current);
          if (refusal) throw new ApiError(refusal);
        }
        return webhooks.run(current);
      };
      const first = await runRound({ ...attributes, ...copy });
      // Plugins run again for the parts that webhooks have added, such as a container without the token volume.
      return (webhooks.changed() ? await runRound(first) : first).object;
    },
    async validate(attributes, context) {
      for (const { validate } of plugins) {
        const refusal = validate?.(attributes);
        if (refusal) throw new ApiError(refusal);
      }
      await validateWithWebhooks(options, attributes, context);
    },
  };
}
