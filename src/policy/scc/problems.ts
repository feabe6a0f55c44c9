import { compareBytes } from '../../kube/order.ts';
import { OPENSHIFT_REQUIRED_SCCS } from './compatibility.ts';
import { orderSccs } from './order.ts';

/** What decisions do without. */
export interface SccProblems {
  /** SCCs that work in no namespace, and why, by name. */
  readonly broken: ReadonlyMap<string, string>;
  /** Standard SCCs that are not there. */
  readonly missing: readonly string[];
}

/** Finds SCCs that no pod can get, because they are wrong or not there. */
export function findSccProblems(sccs: readonly unknown[]): SccProblems {
  const { byName } = orderSccs(sccs);
  const broken = [...byName.values()].flatMap(({ name, needs }) =>
    needs.defect === undefined ? [] : [[name, needs.defect] as const],
  );
  return {
    broken: new Map(broken.sort(([a], [b]) => compareBytes(a, b))),
    missing: OPENSHIFT_REQUIRED_SCCS.filter((name) => !byName.has(name)),
  };
}

/** The problems in a line; `undefined` if there are none. */
export function printSccProblems({ broken, missing }: SccProblems): string | undefined {
  const parts = [...broken].map(([name, why]) => `${name} is broken (${why})`);
  if (missing.length > 0) parts.push(`${missing.join(', ')} ${missing.length === 1 ? 'is' : 'are'} missing`);
  return parts.length === 0 ? undefined : parts.join('; ');
}
