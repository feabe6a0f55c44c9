import { quote } from '../../kube/quote.ts';
import { explainOrder } from './order.ts';
import type { PreparedScc } from './prepare.ts';
import type { PassedOver, SearchResult } from './search.ts';
import { aggregate, distinctTexts } from './texts.ts';

type Annotations = Readonly<Record<string, string>>;

const WOULD_CHANGE = 'failures final validation after mutating admission';

/** What the audit log says of a pod that is created: which SCCs were passed over and why the chosen one was chosen. */
export function auditCreate(
  { passedOver, chosen }: SearchResult,
  next: PreparedScc | 'unknown' | undefined,
): Annotations {
  const denied: string[] = [];
  const annotations: Record<string, string> = {};
  for (const one of passedOver) {
    if (one.because === 'denied') denied.push(one.scc.name);
    else annotations[one.scc.auditKey] = whyNot(one);
  }
  const isAllDenied = denied.length === passedOver.length;
  annotations['denied'] = denied.join(',');
  annotations['reason'] = chosen
    ? whyChosen(chosen.scc, next)
    : isAllDenied
      ? 'all denied'
      : 'all too restrictive or denied';
  return annotations;
}

/** What the audit log says where the pod may not be changed; `recorded` is the SCC that was chosen before, if any. */
export function auditUnchanged({ passedOver, chosen }: SearchResult, recorded: string): Annotations {
  const accepted: Annotations = chosen ? { chosen: chosen.scc.name } : {};
  if (recorded === '' || chosen?.scc.name === recorded) return accepted;
  const failure = passedOver.find(({ scc, because }) => because !== 'denied' && scc.name === recorded);
  const original = `originally chosen ${quote(recorded)}`;
  const denied = `${original} got denied in final validation after mutating admission`;
  return {
    ...(failure ? { [failure.scc.auditKey]: whyNot(failure) } : { 'denied-validation': denied }),
    ...(chosen
      ? {
          'reason-validation': `${original} did not pass final validation after mutating admission, but ${quote(chosen.scc.name)} did instead`,
        }
      : { 'denied-validation': `${denied}, and no other matched` }),
    ...accepted,
  };
}

function whyNot(passedOver: PassedOver): string {
  return passedOver.because === 'changes' ? WOULD_CHANGE : aggregate(distinctTexts([passedOver]));
}

function whyChosen(chosen: PreparedScc, next: PreparedScc | 'unknown' | undefined): string {
  const name = quote(chosen.name);
  if (next === 'unknown')
    return `${name} is most restrictive and not denied; the pod is too large to try those behind it`;
  if (next === undefined) return `${name} is the only one not too restrictive and not denied`;
  const reason = explainOrder(chosen, next);
  return `${name} is most restrictive, not denied, and chosen over ${quote(next.name)} because ${name} ${reason}`;
}
