import { noteOf, statusOf } from '../../break-glass.ts';
import { isOurs } from '../../installation.ts';
import { printNames, type Check, type Facts } from '../facts.ts';
import { certificates } from './certificates.ts';
import { leases } from './leases.ts';
import { replicas } from './replicas.ts';

const OFF = 'portcullis break-glass off';

/** By what else shows whether the webhooks would answer, since nobody asks them. */
function printFix(facts: Facts): string {
  const judged = [replicas, certificates, leases].map(({ name, judge }) => ({ name, remarks: judge(facts) }));
  const namesOf = (severity: 'problem' | 'unknown'): string =>
    judged
      .filter(({ remarks }) => remarks.some((remark) => remark.severity === severity))
      .map(({ name }) => name)
      .join(', ');
  const [broken, unseen] = [namesOf('problem'), namesOf('unknown')];
  if (broken !== '') return `first what is a problem below (${broken}), or requests are refused again; then ${OFF}`;
  if (unseen !== '') return `first make sure of what could not be looked at (${unseen}); then ${OFF}`;
  return `${OFF} # replicas are ready and certificates fit`;
}

/** Enforcement is not switched off. */
export const breakGlass: Check = {
  name: 'break-glass',
  judge(facts) {
    const ours = facts.configurations.filter(isOurs);
    const { webhooks } = statusOf(ours);
    const off = webhooks.filter(({ state }) => state === 'off').map(({ webhook }) => webhook);
    const where = 'webhooks';
    if (off.length === 0) return [{ severity: 'ok', where, what: 'break-glass is not in force' }];
    const { since, by, reason } = ours.map(noteOf).find((note) => note.since !== undefined) ?? {};
    const who = by === undefined ? '' : ` by ${by}`;
    const noted = since === undefined ? '' : `, since ${since}${who}${reason === undefined ? '' : `: ${reason}`}`;
    return [
      {
        severity: 'problem',
        where,
        what: `break-glass is in force for ${printNames(off)}${noted}`,
        why: 'nothing is refused or changed by them',
        fix: printFix(facts),
      },
    ];
  },
};
