import { compareBytes } from '../../kube/order.ts';
import { EVERY_POD, SETTING } from './fields.ts';
import type { Check, Level, Revision, Version } from './types.ts';
import { compareVersions, parseVersion } from './version.ts';

/** A check as it is at one version. */
export interface SelectedCheck extends Revision {
  readonly id: string;
  /** The bits of which a pod needs one for the check to run. */
  readonly settings: number;
}

/** What makes a list of checks unusable; empty if nothing does. */
export function registryErrors(checks: readonly Check[]): string[] {
  const levels = new Map(checks.map((check) => [check.id, check.level]));
  const repeated = checks.map(({ id }) => id).filter((id, index, ids) => ids.indexOf(id) !== index);
  return [
    ...new Set(repeated.map((id) => `check "${id}" is registered more than once`)),
    ...checks.flatMap((check) => [...checkErrors(check), ...overrideErrors(check, levels)]),
  ];
}

/** The newest version for which a check has a revision: newer ones are the same as this one. */
export function newestVersionOf(checks: readonly Check[]): Version {
  const starts = checks.flatMap((check) => check.versions.map(({ since }) => since));
  return starts.reduce((newest, since) => (compareVersions(since, newest) > 0 ? since : newest), 'v1.0');
}

/** The checks that judge a pod at a level and version, in the order in which their violations are told. */
export function selectChecks(checks: readonly Check[], level: Level, version: Version): readonly SelectedCheck[] {
  if (level === 'privileged') return [];
  const select = (of: Check['level']): SelectedCheck[] =>
    checks
      .filter((check) => check.level === of)
      .sort((a, b) => compareBytes(a.id, b.id))
      .flatMap((check) => revisionAt(check, version));
  const baseline = select('baseline');
  if (level === 'baseline') return baseline;
  const restricted = select('restricted');
  const overridden = new Set(restricted.flatMap((check) => check.overrides ?? []));
  return [...baseline.filter((check) => !overridden.has(check.id)), ...restricted];
}

/** The newest revision that is not newer than the version; none before the first. */
function revisionAt(check: Check, version: Version): SelectedCheck[] {
  const revision = check.versions.findLast(({ since }) => compareVersions(since, version) <= 0);
  return revision ? [{ id: check.id, settings: settingsOf(check), ...revision }] : [];
}

function settingsOf({ passesUnlessSet }: Check): number {
  return passesUnlessSet?.reduce((bits, name) => bits | SETTING[name], 0) ?? EVERY_POD;
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
