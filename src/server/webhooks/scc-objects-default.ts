import { allow, deny } from '../../kube/admission.ts';
import { defaultScc, sccTypeError } from '../../policy/scc/objects.ts';
import type { SccSettings } from '../../policy/scc/mode.ts';
import { refuseScc, sccOf } from '../scc-object.ts';
import type { Webhook } from '../webhook.ts';

/**
 * Makes the webhook that completes SCCs. The schema is applied afterwards, and would list all that is missing in a short
 * SCC; so a field of a wrong type, for which nothing can be completed, is refused here by its name.
 */
export function createSccObjectsDefaultWebhook({ settings }: { readonly settings: SccSettings }): Webhook {
  return {
    path: '/scc/objects/default',
    decide(request) {
      const scc = settings.mode === 'off' ? undefined : sccOf(request);
      if (scc === undefined) return allow();
      const error = sccTypeError(scc);
      return error ? deny(refuseScc(request, [error])) : allow({ object: defaultScc(scc) });
    },
  };
}
