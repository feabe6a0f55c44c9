import { integer, listOf, nullable, object, text, type Fields, type Schema } from './schema.ts';

function groups(description: string, ofMustRunAs: string): Schema {
  const properties = {
    min: nullable(integer('int64', 'The first group of the range.')),
    max: nullable(integer('int64', 'The last group of the range.')),
  };
  return nullable(
    object(description, {
      type: text('MustRunAs (in one of the ranges) or RunAsAny.'),
      ranges: nullable(listOf({ type: 'object', properties }, ofMustRunAs)),
    }),
  );
}

/** The fields of an SCC that say how something is decided. */
export const STRATEGIES: Fields = {
  seLinuxContext: nullable(
    object('How the SELinux label of pods is decided.', {
      type: text(
        'MustRunAs (the one of seLinuxOptions, its level that of the namespace where none is given) or RunAsAny.',
      ),
      seLinuxOptions: nullable(
        object('The label that MustRunAs demands.', {
          user: nullable(text('The user part of the label.')),
          role: nullable(text('The role part of the label.')),
          type: nullable(text('The type part of the label.')),
          level: nullable(text('The level part of the label.')),
        }),
      ),
    }),
  ),
  runAsUser: nullable(
    object('How the user of containers is decided.', {
      type: text('MustRunAs (uid), MustRunAsRange, MustRunAsNonRoot or RunAsAny.'),
      uid: nullable(integer('int64', 'The user that MustRunAs demands; it cannot do without.')),
      uidRangeMin: nullable(
        integer(
          'int64',
          'The first user of MustRunAsRange, which containers get that name none. Without both bounds the range of the namespace counts.',
        ),
      ),
      uidRangeMax: nullable(integer('int64', 'The last user of MustRunAsRange.')),
    }),
  ),
  supplementalGroups: groups(
    'How the supplemental groups of pods are decided. Absent is RunAsAny.',
    'The groups that MustRunAs allows; pods that name none get the first. Without ranges those of the namespace count.',
  ),
  fsGroup: groups(
    'How the group that owns the volumes of pods is decided. Absent is RunAsAny.',
    'The groups that MustRunAs allows; pods that name none get the first. Without ranges the first group of the namespace counts.',
  ),
};
