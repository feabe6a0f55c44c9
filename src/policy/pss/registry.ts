import type { Check, Level } from './types.ts';
import { compareVersions, parseVersion } from './version.ts';

/** What makes a list of checks unusable; empty if nothing does. */
export function registryErrors(checks: readonly Check[]): string[] {
  const levels = new Map(checks.map((check) => [check.id, check.level]));
  const repeated = checks.map(({ id }) => id).filter((id, index, ids) => ids.indexOf(id) !== index);
  return [
    ...new Set(repeated.map((id) => `check "${id}" is registered more than once`)),
    ...checks.flatMap((check) => [...checkErrors(check), ...overrideErrors(check, levels)]),
  ];
}

function checkErrors({ id, level, versions }: Check): string[] {
  const errors: string[] = [];
  if (level !== 'baseline' && level !== 'restricted') {
    errors.push(`check "${id}" has level "${String(level)}": must be baseline or restricted`);
  }
  if (versions.length === 0) errors.push(`check "${id}" has no versions`);
  const starts = versions.map(({ since }) => since);
  const bad = starts.filter((since) => since === 'latest' || parseVersion(since) === undefined);
  errors.push(
    ...bad.map((since) => `check "${id}" has a revision since "${since}": must be a version such as "v1.25"`),
  );
  starts.slice(1).forEach((since, index) => {
    const before = starts[index];
    if (before !== undefined && compareVersions(before, since) >= 0) {
      errors.push(`check "${id}" has a revision since "${since}" after one since "${before}": versions must rise`);
    }
  });
  return errors;
}

function overrideErrors({ id, level, versions }: Check, levels: ReadonlyMap<string, Level>): string[] {
  const overrides = [...new Set(versions.flatMap((revision) => revision.overrides ?? []))];
  if (overrides.length > 0 && level !== 'restricted') {
    return [`check "${id}" overrides others: only restricted checks may`];
  }
  return overrides
    .filter((other) => levels.has(other) && levels.get(other) !== 'baseline')
    .map((other) => `check "${id}" overrides "${other}", which is not a baseline check`);
}
