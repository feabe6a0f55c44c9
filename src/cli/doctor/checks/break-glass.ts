import { isPartOfPortcullis } from '../../../kube/webhooks.ts';
import { RELAXED_LABEL } from '../../../kube/well-known.ts';
import {
  breakGlassStatus,
  formatNote,
  parseFloorPolicy,
  type BreakGlassStatus,
} from '../../install/break-glass-state.ts';
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

/** The state of break-glass: of the webhooks, the floor, and the enforce labels of namespaces. */
export function readBreakGlass({ configurations, policies, namespaces }: Facts): BreakGlassStatus {
  const floor = (factValue(policies) ?? []).filter(({ kind }) => kind === 'ValidatingAdmissionPolicy');
  const relaxed = (factValue(namespaces) ?? []).filter(({ labels }) => labels[RELAXED_LABEL] !== undefined);
  return breakGlassStatus(
    [...floor.map(parseFloorPolicy), ...configurations.filter(isPartOfPortcullis)],
    relaxed.map(({ name }) => name),
  );
}

/** Break-glass is off. */
export const breakGlass: Check = {
  name: 'break-glass',
  evaluate(facts) {
    const { webhooks, notes, relaxedNamespaces } = readBreakGlass(facts);
    const off = webhooks.filter(({ state }) => state === 'off');
    const note = notes[0] ? `, ${formatNote(notes[0])}` : '';
    const results = [
      ...(off.length === 0
        ? []
        : [
            problem('webhooks', `break-glass is on for ${formatNames(off.map(({ webhook }) => webhook))}${note}`, {
              impact: 'these webhooks deny and change nothing',
              fix: formatFix(facts),
            }),
          ]),
      ...(relaxedNamespaces.length === 0
        ? []
        : [
            problem('namespaces', `break-glass relaxes the enforce labels of ${formatNames(relaxedNamespaces)}`, {
              impact: 'these labels admit all pods, and the label syncer does not change them',
              fix: formatFix(facts),
            }),
          ]),
    ];
    return results.length === 0 ? [ok('webhooks', 'break-glass is off')] : results;
  },
};
