/** Finds SCCs that are invalid or missing, or that admit no pods. */
import type { SecurityContextConstraints } from '../../../kube/scc.ts';
import { compareBytes, plural } from '../../../kube/text.ts';
import { type Compatibility, OPENSHIFT_REQUIRED_SCCS } from '../mode.ts';
import { createSccSet } from '../order.ts';
import { prepareScc } from '../scc.ts';

/** A cluster's invalid and missing SCCs. */
export interface SccProblems {
  /** For each SCC that cannot be used in any namespace, the reason by SCC name. */
  readonly broken: ReadonlyMap<string, string>;
  /** True if one of them causes every pod to be denied. */
  readonly brokenBlocks: boolean;
  /** Missing standard SCCs, except required ones. */
  readonly missing: readonly string[];
  /** Missing SCCs that must exist before any pod is admitted. */
  readonly required: readonly string[];
}

export function findSccProblems(
  sccs: readonly SecurityContextConstraints[],
  compatibility?: Compatibility,
): SccProblems {
  const { byName } = createSccSet(sccs);
  const broken = [...byName.values()].flatMap(({ name, needs }) =>
    needs.defect === undefined ? [] : [[name, needs.defect] as const],
  );
  const isOpenShift = compatibility === 'openshift';
  const missing = OPENSHIFT_REQUIRED_SCCS.filter((name) => !byName.has(name));
  return {
    brokenBlocks: isOpenShift,
    broken: new Map(broken.sort(([a], [b]) => compareBytes(a, b))),
    missing: isOpenShift ? [] : missing,
    required: isOpenShift ? missing : [],
  };
}

/** Formats the problems on a single line. Returns `undefined` if there are none. */
export function formatSccProblems({ broken, brokenBlocks, missing, required }: SccProblems): string | undefined {
  const consequence = 'no pod is admitted because ';
  const problems = [
    ...(required.length === 0 ? [] : [`${consequence}required ${formatMissing(required)}`]),
    ...[...broken].map(([name, defect]) => `${brokenBlocks ? consequence : ''}SCC ${name} is invalid (${defect})`),
    ...(missing.length === 0 ? [] : [`standard ${formatMissing(missing)}`]),
  ];
  return problems.length === 0 ? undefined : problems.join('; ');
}

function formatMissing(names: readonly string[]): string {
  return `${plural(names.length, 'SCC')} ${names.join(', ')} ${plural(names.length, 'is', 'are')} missing`;
}

/** Returns why a valid SCC admits no pods, or `undefined` if it can admit pods. */
export function findSccDefect(scc: unknown): string | undefined {
  const { fields, needs } = prepareScc(scc);
  if (needs.defect !== undefined) return needs.defect;
  const { type, uidRangeMin: min = 0, uidRangeMax: max = 0 } = fields.runAsUser;
  return type === 'MustRunAsRange' && min > max
    ? `runAsUser.uidRangeMin ${min} is greater than uidRangeMax ${max}`
    : undefined;
}
