/** Workloads that violate the same checks. */
interface CheckGroup {
  readonly checks: ReadonlySet<string>;
  readonly workloads: number;
}

/** A violated check. */
interface OrderedCheck {
  readonly check: string;
  /** Number of workloads that violate the check. */
  readonly workloads: number;
  /** Number of workloads that are admitted once this check and all previous checks are fixed. */
  readonly admitted: number;
}

/**
 * Returns the violated checks in the order in which to fix them. The fix of each check admits the most additional
 * workloads at that point.
 */
export function orderChecks(groups: readonly CheckGroup[]): readonly OrderedCheck[] {
  const sum = (selected: readonly CheckGroup[]): number =>
    selected.reduce((total, { workloads }) => total + workloads, 0);
  const ordered: OrderedCheck[] = [];
  for (let rest = groups; rest.length > 0;) {
    const counts = new Map<string, { readonly admitted: number; readonly violating: number }>();
    for (const { checks, workloads } of rest) {
      for (const check of checks) {
        const { admitted, violating } = counts.get(check) ?? { admitted: 0, violating: 0 };
        counts.set(check, {
          admitted: admitted + (checks.size === 1 ? workloads : 0),
          violating: violating + workloads,
        });
      }
    }
    const [[check] = ['']] = [...counts].sort(([, a], [, b]) => b.admitted - a.admitted || b.violating - a.violating);
    rest = rest
      .map(({ checks, workloads }) => ({ checks: checks.difference(new Set([check])), workloads }))
      .filter(({ checks }) => checks.size > 0);
    const violating = groups.filter(({ checks }) => checks.has(check));
    ordered.push({ check, workloads: sum(violating), admitted: sum(groups) - sum(rest) });
  }
  return ordered;
}
