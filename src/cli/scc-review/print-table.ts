import { isObject, type JsonObject } from '../../kube/types.ts';
import { printColumns } from '../report/columns.ts';
import type { AnsweredReview } from './types.ts';

/** As `oc policy scc-subject-review` and `oc policy scc-review` print them: one table for subjects, one for accounts. */
export function printReviews(reviews: readonly AnsweredReview[]): string {
  const subjects = reviews.filter((one) => !isAboutAccounts(one)).map((one) => [one.resource, sccIn(statusOf(one))]);
  const accounts = reviews.filter(isAboutAccounts).flatMap(accountRows);
  return [
    ...(subjects.length === 0 ? [] : [printColumns(['RESOURCE', 'ALLOWED BY'], subjects)]),
    ...(accounts.length === 0 ? [] : [printColumns(['RESOURCE', 'SERVICE ACCOUNT', 'ALLOWED BY'], accounts)]),
  ].join('\n');
}

/** True if an SCC admits the pod for whoever the review asks about, for each of several service accounts. */
export function isAllowed(answered: AnsweredReview): boolean {
  const rows = isAboutAccounts(answered) ? accountRows(answered) : [[sccIn(statusOf(answered))]];
  return rows.every((row) => row.at(-1) !== NONE);
}

const NONE = '<none>';

function isAboutAccounts({ review }: AnsweredReview): boolean {
  return review['kind'] === 'PodSecurityPolicyReview';
}

function accountRows(answered: AnsweredReview): readonly (readonly string[])[] {
  const { resource } = answered;
  return accountsIn(answered).flatMap((name) => {
    const entries = entriesOf(answered).filter((entry) => entry['name'] === name);
    return entries.length === 0 ? [[resource, name, NONE]] : entries.map((entry) => [resource, name, sccIn(entry)]);
  });
}

/** The service accounts that a review asks about: the list, else that of the template, else the default one. */
function accountsIn({ review }: AnsweredReview): readonly string[] {
  const spec = memberOf(review, 'spec');
  const names: unknown = spec['serviceAccountNames'];
  if (Array.isArray(names) && names.length > 0) return names.map(textOf);
  const name = textOf(memberOf(memberOf(spec, 'template'), 'spec')['serviceAccountName']);
  return [name === '' ? 'default' : name];
}

function entriesOf(answered: AnsweredReview): readonly JsonObject[] {
  const entries = statusOf(answered)['allowedServiceAccounts'];
  return Array.isArray(entries) ? entries.filter(isObject) : [];
}

function statusOf({ review }: AnsweredReview): JsonObject {
  return memberOf(review, 'status');
}

function memberOf(owner: JsonObject, key: string): JsonObject {
  const member = owner[key];
  return isObject(member) ? member : {};
}

function sccIn({ allowedBy }: JsonObject): string {
  return isObject(allowedBy) ? textOf(allowedBy['name']) : NONE;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
