import { LABEL_SYNC_LABEL, SUFFICIENT_LEVEL_ANNOTATION } from '../../../kube/label-sync.ts';
import { quote } from '../../../kube/quote.ts';
import { sortedSet } from '../../../kube/order.ts';
import type { Level } from '../../pss/types.ts';
import { isLeftAlone, type FieldsInput, type IntendedFields } from './intended.ts';
import { labelFor, PSA_LABELS } from './labels.ts';
import type { NeededLevel } from './needed-level.ts';
import { foreignOwnersOf, ownFieldsOf } from './ownership.ts';

/** Something to tell in an Event on the namespace, once for as long as it holds. */
export interface Remark {
  readonly type: 'Normal' | 'Warning';
  readonly reason: 'NoUsableSCC' | 'LabelKept' | 'LabelForced' | 'LevelPrivileged';
  readonly message: string;
}

/** What whoever looks after the namespace should know. */
export function remarksOn(input: FieldsInput, need: NeededLevel, fields: IntendedFields): readonly Remark[] {
  return [...ofNeed(input, need), ...ofKeptLabels(input, need.level), ...ofForcedLabels(input, fields)];
}

function ofNeed({ namespace }: FieldsInput, { level, cause }: NeededLevel): readonly Remark[] {
  if (cause === undefined) {
    const message = 'no service account of the namespace may use any SCC: its level is restricted';
    return [{ type: 'Warning', reason: 'NoUsableSCC', message }];
  }
  const before = namespace.metadata?.annotations?.[SUFFICIENT_LEVEL_ANNOTATION];
  if (level !== 'privileged' || before === undefined || before === level) return [];
  const message = `the level drops to privileged, since service account ${quote(cause.serviceAccount)} may use SCC ${quote(cause.scc)}`;
  return [{ type: 'Warning', reason: 'LevelPrivileged', message }];
}

function ofKeptLabels(input: FieldsInput, level: Level): readonly Remark[] {
  const { labels } = input.namespace.metadata ?? {};
  return PSA_LABELS.filter((key) => isLeftAlone(key, input) && labels?.[key] !== labelFor(key, level)).map((key) => ({
    type: 'Normal',
    reason: 'LabelKept',
    message: `label ${key}=${labels?.[key] ?? ''} ${ownersText(key, input)}: it stays, although ${labelFor(key, level)} would do`,
  }));
}

function ofForcedLabels(input: FieldsInput, { labels }: IntendedFields): readonly Remark[] {
  const current = input.namespace.metadata?.labels;
  const own = ownFieldsOf(input.owners).labels;
  return [...labels]
    .filter(([key, value]) => !own.has(key) && current?.[key] !== value && isForeignIn(input, key))
    .map(([key, value]) => ({
      type: 'Warning',
      reason: 'LabelForced',
      message: `label ${key}=${current?.[key] ?? ''} ${ownersText(key, input)}: it becomes ${value}, since the namespace has label ${LABEL_SYNC_LABEL}=true`,
    }));
}

function isForeignIn({ namespace, owners }: FieldsInput, key: string): boolean {
  return namespace.metadata?.labels?.[key] !== undefined && foreignOwnersOf(key, owners).length > 0;
}

function ownersText(key: string, { owners }: FieldsInput): string {
  const managers = sortedSet(foreignOwnersOf(key, owners));
  return managers.length === 0 ? 'has no recorded owner' : `belongs to ${managers.map(quote).join(', ')}`;
}
