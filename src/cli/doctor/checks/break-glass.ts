import { RELAXED_LABEL } from '../../../api/names.ts';
import { isPartOfPortcullis } from '../../../api/webhooks.ts';
import { type BreakGlassStatus, breakGlassStatus, formatNote, parseFloorPolicy } from '../../../install/index.ts';
import { summarizeNames } from '../../../kube/text.ts';
import { PROGRAM } from '../../command.ts';
import { type DoctorCheck, type Facts, factValue, ok, problem } from '../facts.ts';
import { commandFix, END_BREAK_GLASS } from '../fix.ts';
import { isDevCluster } from './installation.ts';

/** Returns the break-glass state of the webhooks, the floor and the enforce labels of namespaces. */
export function readBreakGlass({ webhookConfigurations, policies, namespaces }: Facts): BreakGlassStatus {
  const floor = (factValue(policies) ?? []).filter(({ kind }) => kind === 'ValidatingAdmissionPolicy');
  const relaxed = (factValue(namespaces) ?? []).filter(({ labels }) => labels[RELAXED_LABEL] !== undefined);
  return breakGlassStatus(
    [...floor.map(parseFloorPolicy), ...webhookConfigurations.filter(isPartOfPortcullis)],
    relaxed.map(({ name }) => name),
  );
}

/** Checks that break-glass is off. */
export const breakGlass: DoctorCheck = {
  name: 'break-glass',
  evaluate(facts) {
    const { webhooks, notes, relaxedNamespaces } = readBreakGlass(facts);
    // The Service of the development cluster has no endpoints, on which the command otherwise waits.
    const fix = isDevCluster(facts) ? commandFix(PROGRAM, 'break-glass', 'off', '--force') : END_BREAK_GLASS;
    const off = webhooks.filter(({ state }) => state === 'off').map(({ webhook }) => webhook);
    const note = notes[0] ? `, ${formatNote(notes[0])}` : '';
    const stopped = problem('webhooks', `break-glass is on for ${summarizeNames(off, 3)}${note}`, {
      impact: 'API servers do not call these webhooks',
      fix,
    });
    const relaxed = problem(
      'namespaces',
      `break-glass relaxes the enforce labels of ${summarizeNames(relaxedNamespaces, 3)}`,
      {
        impact: 'these labels admit all pods, and the label syncer does not change them',
        fix,
      },
    );
    const results = [...(off.length === 0 ? [] : [stopped]), ...(relaxedNamespaces.length === 0 ? [] : [relaxed])];
    return results.length === 0 ? [ok('webhooks', 'break-glass is off')] : results;
  },
};
