import { canUseScc } from '../../cluster/select.ts';
import { UserError } from '../../config/user-error.ts';
import { quote } from '../../kube/quote.ts';
import type { SccSettings } from '../../policy/scc/mode.ts';
import { answerReview } from '../../policy/scc/review.ts';
import type { Inventory } from '../inventory/inventory.ts';
import { nameOf } from '../report/identity.ts';
import { printPlace } from '../report/text.ts';
import type { AnsweredReview, AskedReview } from './types.ts';

/** Nothing more is known of whoever asks about himself. */
const ANYBODY = { groups: ['system:authenticated'] };

/**
 * Answers a review as an API server would, from what has been read. Of manifests that hold no service accounts, the
 * namespace is taken to have those that are asked about.
 * @throws {UserError} that says where the review is wrong
 */
export function answer(
  { object, namespace: namespaceName, review }: AskedReview,
  { store, source, user = ANYBODY }: Inventory,
  { compatibility, preferUserNamespaces }: SccSettings,
): AnsweredReview {
  const namespace = store.get('Namespace', namespaceName);
  const place = printPlace({ file: object.document.file, ...object.positionOf([]) });
  if (namespace === undefined) throw new UserError(`${place}: namespace ${quote(namespaceName)} not found`);
  const answered = answerReview({
    review,
    namespace,
    userInfo: user,
    sccs: store.list('SecurityContextConstraints'),
    canUse: canUseScc(store),
    hasServiceAccount: (name) =>
      source === 'manifests' || store.get('ServiceAccount', name, namespaceName) !== undefined,
    compatibility,
    preferUserNamespaces,
  });
  if ('error' in answered) throw new UserError(`${place}: ${answered.error.message}`);
  const { status, warnings } = answered;
  return { resource: `${object.kind}/${nameOf(object.value)}`, review: { ...review, status }, warnings };
}
