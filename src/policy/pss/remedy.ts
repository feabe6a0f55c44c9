import { checks } from './checks/index.ts';

const REMEDIES: ReadonlyMap<string, string> = new Map([
  ...checks.map(({ id, remedy = '' }): [string, string] => [id, remedy]),
  ['decode', 'Give the field a value of the type that the Kubernetes API documents.'],
]);

/** What to do about a violation of a check, in one sentence; empty where nothing is known. */
export function remedyOf(check: string): string {
  return REMEDIES.get(check) ?? '';
}
