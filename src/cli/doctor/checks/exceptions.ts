import { EXPIRY_NOTICE_MS } from '../../../api/names.ts';
import { decodePolicy } from '../../../install/index.ts';
import type { PodSecurityException } from '../../../kube/pod-security-exception.ts';
import { parseTimestamp } from '../../../kube/units.ts';
import { type DoctorCheck, type CheckResult, evaluateFact, ok, warning } from '../facts.ts';
import { instruction, commandFix } from '../fix.ts';

const OBJECT = 'PodSecurityExceptions';

/** Checks for exceptions that are shadowed, have expired or expire soon. */
export const exceptions: DoctorCheck = {
  name: 'exceptions',
  evaluate: (facts) =>
    decodePolicy(facts.settings).exceptions.mode === 'off'
      ? []
      : evaluateFact(facts.exceptions, OBJECT, (objects) => {
          const results = objects.flatMap((object) => evaluateException(object, facts.now.getTime()));
          return results.length > 0
            ? results
            : [ok(OBJECT, 'none is shadowed, has expired or expires within seven days')];
        }),
};

/**
 * Evaluates the expiry and the conditions that the leader publishes. An exception without the Active condition results
 * in no finding unless it has expired or is shadowed.
 */
function evaluateException(
  { metadata = {}, spec, status }: PodSecurityException,
  nowMs: number,
): readonly CheckResult[] {
  const { name = '', namespace = '' } = metadata;
  const { expiresAt = '' } = spec ?? {};
  const object = `PodSecurityException ${namespace}/${name}`;
  const remove = commandFix('kubectl', '-n', namespace, 'delete', 'podsecurityexception', name);
  const find = (type: string) =>
    status?.conditions?.find((condition) => condition.type === type && condition.status === 'True');
  const leftMs = (parseTimestamp(expiresAt) ?? 0) - nowMs;
  if (leftMs <= 0) {
    return [warning(object, `expired at ${expiresAt}`, { impact: 'it allows nothing', fix: remove })];
  }
  const shadow = find('Shadowed')?.message;
  if (shadow !== undefined) {
    const [impact = '', command] = shadow.split(COMMAND);
    const fix = command === undefined ? instruction(shadow) : commandFix('kubectl', ...command.split(' '));
    return [warning(object, 'has no effect', { impact, fix })];
  }
  if (find('Active') === undefined || leftMs > EXPIRY_NOTICE_MS) return [];
  const isUnused = find('Unused') !== undefined;
  const fix = isUnused ? remove : commandFix('kubectl', '-n', namespace, 'edit', 'podsecurityexception', name);
  const note = 'change expiresAt. Another user must then approve the exception';
  return [
    warning(object, `expires at ${expiresAt}`, {
      impact: isUnused ? 'no running pod needs it' : 'new pods that need it are denied afterwards',
      fix: isUnused ? fix : { ...fix, note },
    }),
  ];
}

/** Text before the command at the end of the Shadowed condition's message. */
const COMMAND = '. To let Portcullis alone enforce the level: kubectl ';
