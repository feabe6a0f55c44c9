import { compareBytes } from '../../kube/text.ts';
import { EVERY_POD, SETTING } from './fields.ts';
import type { Check, Level, Policy, Revision, Version } from './types.ts';
import { compareVersions, parseVersion } from './version.ts';

export interface SelectOptions extends Policy {
  /** Judge as a release would that knows no version newer than this one. */
  readonly emulationVersion?: Version;
}

/** A check as it is at one version. */
export interface SelectedCheck extends Revision {
  readonly id: string;
  /** The bits of which a pod needs one for the check to run. */
  readonly settings: number;
}

/** The checks that judge a pod at a policy, in the order in which their violations are told. */
export type Selector = (options: SelectOptions) => readonly SelectedCheck[];

/** Selects from a list of checks, each policy once. */
export function createSelector(checks: readonly Check[]): Selector {
  const newest = newestVersionOf(checks);
  const baseline = createTable(checks, 'baseline', newest);
  const restricted = createTable(checks, 'restricted', newest);
  return ({ level, version, emulationVersion }) => {
    if (level === 'privileged') return [];
    const table = level === 'baseline' ? baseline : restricted;
    const known = emulationVersion === undefined ? table.get(version) : undefined;
    if (known) return known;
    const effective = effectiveVersion(version, newest, emulationVersion);
    const found = table.get(effective) ?? selectChecks(checks, level, effective);
    table.set(effective, found);
    return found;
  };
}

/** The newest version for which a check has a revision: newer ones are the same as this one. */
export function newestVersionOf(checks: readonly Check[]): Version {
  const starts = checks.flatMap((check) => check.versions.map(({ since }) => since));
  return starts.reduce((newest, since) => (compareVersions(since, newest) > 0 ? since : newest), 'v1.0');
}

type Table = Map<Version, readonly SelectedCheck[]>;

function createTable(checks: readonly Check[], level: Level, newest: Version): Table {
  return new Map([['latest', selectChecks(checks, level, newest)]]);
}

/** The version that is judged by: what is no version, or newer than all that is known, counts as `latest`. */
function effectiveVersion(version: Version, newest: Version, emulation: Version = 'latest'): Version {
  const known = compareVersions(emulation, newest) > 0 ? newest : emulation;
  const asked = parseVersion(version) ?? 'latest';
  return compareVersions(asked, known) > 0 ? known : asked;
}

function selectChecks(checks: readonly Check[], level: Level, version: Version): readonly SelectedCheck[] {
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
  return revision
    ? [
        {
          overrides: [],
          ...revision,
          id: check.id,
          settings: settingsOf(check),
        },
      ]
    : [];
}

function settingsOf({ passesUnlessSet }: Check): number {
  return passesUnlessSet?.reduce((bits, name) => bits | SETTING[name], 0) ?? EVERY_POD;
}
