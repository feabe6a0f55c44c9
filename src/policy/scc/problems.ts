import { compareBytes } from '../../kube/text.ts';
import { OPENSHIFT_REQUIRED_SCCS, resolveCompatibility } from './compatibility.ts';
import { orderSccs } from './order.ts';
import type { Compatibility } from './types.ts';

/** What decisions do without. */
export interface SccProblems {
  /** SCCs that work in no namespace, and why, by name. */
  readonly broken: ReadonlyMap<string, string>;
  /** Standard SCCs that are not there, and none of the required ones. */
  readonly missing: readonly string[];
  /** SCCs that are not there and without which no pod is admitted. */
  readonly required: readonly string[];
}

/** Finds SCCs that no pod can get, because they are wrong or not there. */
export function findSccProblems(sccs: readonly unknown[], compatibility?: Compatibility): SccProblems {
  const { byName } = orderSccs(sccs);
  const broken = [...byName.values()].flatMap(({ name, needs }) =>
    needs.defect === undefined ? [] : [[name, needs.defect] as const],
  );
  const required = resolveCompatibility(compatibility).requiredSccs.filter((name) => !byName.has(name));
  return {
    broken: new Map(broken.sort(([a], [b]) => compareBytes(a, b))),
    missing: OPENSHIFT_REQUIRED_SCCS.filter((name) => !byName.has(name) && !required.includes(name)),
    required,
  };
}

/** The problems in a line; `undefined` if there are none. */
export function printSccProblems({ broken, missing, required }: SccProblems): string | undefined {
  const parts = [...broken].map(([name, why]) => `${name} is broken (${why})`);
  if (required.length > 0) parts.unshift(`no pod is admitted, since ${listed(required)} required and missing`);
  if (missing.length > 0) parts.push(`${listed(missing)} missing`);
  return parts.length === 0 ? undefined : parts.join('; ');
}

function listed(names: readonly string[]): string {
  return `${names.join(', ')} ${names.length === 1 ? 'is' : 'are'}`;
}
