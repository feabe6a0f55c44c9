import { noteOf } from '../../break-glass/plan.ts';
import { statusOf } from '../../break-glass/print.ts';
import { isOurs } from '../../installation/own-webhooks.ts';
import { printNames } from '../names.ts';
import type { Check } from '../types.ts';

/** Enforcement is not switched off. */
export const breakGlass: Check = {
  name: 'break-glass',
  judge({ configurations }) {
    const ours = configurations.filter(isOurs);
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
        fix: 'portcullis break-glass off',
      },
    ];
  },
};
