import { UserError } from '../../config/user-error.ts';
import { impersonatedUser } from '../../kube/impersonation.ts';
import { defineCommand } from '../command.ts';
import { explainObjects } from '../explain/explain-objects.ts';
import type { Creator } from '../explain/pod-of.ts';
import { dataOf } from '../explain/print-data.ts';
import { printExplanation } from '../explain/print-table.ts';
import { exitCodeOf } from '../explain/summary.ts';
import type { Inventory } from '../inventory/inventory.ts';
import { readBeside } from '../inventory/read-beside.ts';
import { list, option } from '../options.ts';
import { printData } from '../report/print-data.ts';
import { styleOf } from '../report/style.ts';
import { foretoldSettingsOf } from '../scc-options.ts';
import { SCC_REVIEW_KINDS, sccReviewOptions } from '../scc-review-options.ts';
import { text } from '../values.ts';

const DETAILS = `
Tells of pods, before they are created, what every SCC (SecurityContextConstraints) says of them, in
the order in which SCCs are tried: who may use it, whether the pod fits or why not, and what would be
changed; which one is chosen, and which level of the Pod Security Standards the result keeps. Of a
workload it tells what becomes of the pods that its controller would create.

Roles, bindings, SCCs and namespaces come from the manifests of --filename, or from the cluster of the
kubeconfig. Where there is neither, the paths are all that there is. Manifests without SCCs are judged
by the standard SCCs and their grants.

Exit codes:
  0  every pod is admitted, or no SCC counts for it
  1  a pod is refused
  2  wrong usage, or what cannot be read

Examples:
  portcullis explain pod.yaml -n shop
  portcullis explain pod.yaml --as alice --as-group developers
  portcullis explain deployment.yaml -f cluster/ -o json
  helm template shop ./chart | portcullis explain - --kubeconfig admin.conf
`;

/** Says what SCCs would do to pods, and why. */
export const explain = defineCommand({
  name: 'explain',
  summary: 'Explain which SCC admits a pod, and why others do not',
  operands: '[PATH...]',
  details: DETAILS,
  options: {
    as: option('USER', text, undefined, {
      help: 'Who creates pods that no controller creates; absent, the user of the kubeconfig',
    }),
    'as-group': list('GROUP', text, { help: 'Groups of that user, besides system:authenticated' }),
    ...sccReviewOptions,
  },
  async run(options, paths, io) {
    const settings = foretoldSettingsOf(options);
    const { as: user, 'as-group': groups } = options;
    if (user === undefined && groups.length > 0) throw new UserError('--as-group needs --as');
    const { objects, inventory } = await readBeside(paths, options, { io, needs: { kinds: SCC_REVIEW_KINDS } });
    const namespace = options.namespace ?? inventory.namespace;
    const creator = creatorOf(user, groups, inventory);
    const explanation = explainObjects(objects, inventory, { settings, namespace, creator });
    if (explanation.objects.length === 0) throw new UserError('no pods and no workloads in the manifests');
    const { output } = options;
    if (output === 'table') io.stdout.write(printExplanation(explanation, styleOf(io)));
    else io.stdout.write(printData(output, dataOf(explanation)));
    return exitCodeOf(explanation);
  },
});

/** Of nobody in particular only that is known which everybody is. */
function creatorOf(user: string | undefined, groups: readonly string[], inventory: Inventory): Creator {
  if (user !== undefined) return { user: impersonatedUser(user, groups), name: user };
  if (inventory.user) return { user: inventory.user, name: inventory.user.username ?? '' };
  return { user: { groups: ['system:authenticated'] }, name: 'anybody who is authenticated (--as names somebody)' };
}
