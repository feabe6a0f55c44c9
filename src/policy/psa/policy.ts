/**
 * Pod Security Admission: what a namespace's labels and the configuration ask for, and the answer to a request.
 * Everything here is a pure function of values given; nothing reads a clock, a store or a file by itself.
 */
import type { Level, Policy } from '../pss/policy.ts';

/** What a policy is for: to refuse, to note in the audit log, to tell the requester; in the order of the labels. */
export const MODES = ['enforce', 'audit', 'warn'] as const;
export type Mode = (typeof MODES)[number];

/** One policy for each mode. */
export type Policies = Readonly<Record<Mode, Policy>>;

/** What upstream says of a level and of a version that are none. */
export const LEVEL_RULE = 'must be one of privileged, baseline, restricted';
export const VERSION_RULE = 'must be "latest" or "v1.x"';

const STRICTNESS: Readonly<Record<Level, number>> = { privileged: 0, baseline: 1, restricted: 2 };

/** True if the first level forbids more than the second. */
export function isStricter(level: Level, than: Level): boolean {
  return STRICTNESS[level] > STRICTNESS[than];
}

/** True if level and version are equal, for privileged policies too. */
export function isSamePolicy(a: Policy, b: Policy): boolean {
  return a.level === b.level && a.version === b.version;
}

/** True if no mode asks for anything; versions do not matter. */
export function isFullyPrivileged({ enforce, audit, warn }: Policies): boolean {
  return enforce.level === 'privileged' && audit.level === 'privileged' && warn.level === 'privileged';
}

/** True if both ask for the same in every mode: versions of privileged policies do not matter. */
export function areEquivalent(a: Policies, b: Policies): boolean {
  return MODES.every(
    (mode) => (a[mode].level === 'privileged' && b[mode].level === 'privileged') || isSamePolicy(a[mode], b[mode]),
  );
}

/** `restricted:v1.30` */
export function printPolicy({ level, version }: Policy): string {
  return `${level}:${version}`;
}
