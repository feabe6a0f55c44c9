import { POD_SECURITY_LABELS } from '../../../kube/well-known.ts';
import { isLevel, type Level } from '../../pss/types.ts';
import { parseVersion } from '../../pss/version.ts';
import { MODES, type Mode } from '../../psa/policy.ts';

/** The two labels of a mode. */
export const LABELS_OF: Readonly<Record<Mode, { readonly level: string; readonly version: string }>> = {
  enforce: { level: POD_SECURITY_LABELS.enforce, version: POD_SECURITY_LABELS.enforceVersion },
  audit: { level: POD_SECURITY_LABELS.audit, version: POD_SECURITY_LABELS.auditVersion },
  warn: { level: POD_SECURITY_LABELS.warn, version: POD_SECURITY_LABELS.warnVersion },
};

const VERSIONS: ReadonlySet<string> = new Set(MODES.map((mode) => LABELS_OF[mode].version));

/** All six. */
export const PSA_LABELS: readonly string[] = MODES.flatMap((mode) => [LABELS_OF[mode].level, LABELS_OF[mode].version]);

/** The labels that hold pods to something. */
export const ENFORCE_LABELS: ReadonlySet<string> = new Set([LABELS_OF.enforce.level, LABELS_OF.enforce.version]);

/** What a label is to say in a namespace of that level. */
export function labelFor(key: string, level: Level): string {
  return VERSIONS.has(key) ? 'latest' : level;
}

/** True for a value that means something. */
export function isValidLabel(key: string, value: string): boolean {
  return VERSIONS.has(key) ? parseVersion(value) !== undefined : isLevel(value);
}
