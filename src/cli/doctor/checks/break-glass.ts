import { isPartOfPortcullis } from '../../../kube/webhooks.ts';
import { breakGlassStatus, formatNote, parseFloorPolicy, type Target } from '../../break-glass.ts';
import { factValue, formatNames, ok, problem, type Check, type Facts, type Severity } from '../facts.ts';
import { certificates } from './certificates.ts';
import { leases } from './leases.ts';
import { replicas } from './replicas.ts';

const OFF = 'portcullis break-glass off';

/** The fix depends on other checks: API servers do not call the webhooks, so no probe tests them. */
function formatFix(facts: Facts): string {
  const evaluated = [replicas, certificates, leases].map(({ name, evaluate }) => ({ name, results: evaluate(facts) }));
  const checksWith = (severity: Severity): string =>
    evaluated
      .filter(({ results }) => results.some((result) => result.severity === severity))
      .map(({ name }) => name)
      .join(', ');
  const [failed, unread] = [checksWith('problem'), checksWith('unknown')];
  if (failed !== '') return `# first fix the problems below (${failed}), otherwise requests are denied; then ${OFF}`;
  if (unread !== '') return `# first verify what could not be read (${unread}); then ${OFF}`;
  return `${OFF} # replicas are ready, and certificates match`;
}

/** The objects that break-glass changes. */
export function breakGlassTargets({ configurations, policies }: Facts): readonly Target[] {
  const floor = (factValue(policies) ?? []).filter(({ kind }) => kind === 'ValidatingAdmissionPolicy');
  return [...floor.map(parseFloorPolicy), ...configurations.filter(isPartOfPortcullis)];
}

/** Break-glass is off. */
export const breakGlass: Check = {
  name: 'break-glass',
  evaluate(facts) {
    const { webhooks, notes } = breakGlassStatus(breakGlassTargets(facts));
    const off = webhooks.filter(({ state }) => state === 'off');
    if (off.length === 0) return [ok('webhooks', 'break-glass is off')];
    const note = notes[0] ? `, ${formatNote(notes[0])}` : '';
    return [
      problem('webhooks', `break-glass is on for ${formatNames(off.map(({ webhook }) => webhook))}${note}`, {
        impact: 'these webhooks deny and change nothing',
        fix: formatFix(facts),
      }),
    ];
  },
};
