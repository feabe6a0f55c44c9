import { type FieldError, invalidValue } from '../../../kube/field-error.ts';
import { ANY_USER } from '../../pod/index.ts';
import type { GroupFields } from '../scc-fields.ts';
import type { PodStrategy } from './strategy.ts';

interface GroupStrategy {
  /** Returns an error message if the strategy lacks required options. */
  findDefect(options: GroupFields): string | undefined;
  generate(options: GroupFields): number | undefined;
  validate(options: GroupFields, groups: readonly number[] | undefined, report: ReportError): void;
}

/** Adds an error that includes the value of the field. Returns false if no further errors should be added. */
type ReportError = (value: unknown, detail: string) => boolean;

/** Maximum number of groups with separate errors. Each error repeats all groups, so a longer list has one error. */
const MAX_GROUPS = 100;

/** Strategies by `fsGroup.type` or `supplementalGroups.type`. */
export const GROUPS: ReadonlyMap<string, GroupStrategy> = new Map<string, GroupStrategy>([
  [
    'MustRunAs',
    {
      findDefect: ({ ranges }) => (ranges.length === 0 ? 'ranges must be supplied for MustRunAs' : undefined),
      generate: ({ ranges }) => ranges[0]?.min,
      validate({ ranges }, groups, report) {
        if (groups === undefined || groups.length === 0) {
          report(groups, 'unable to validate empty groups against required ranges');
          return;
        }
        for (const group of groups) {
          if (ranges.some(({ min, max }) => group >= min && group <= max)) continue;
          if (!report(groups, `${group} is not an allowed group`) || groups.length > MAX_GROUPS) return;
        }
      },
    },
  ],
  ['RunAsAny', { findDefect: () => undefined, generate: () => undefined, validate: () => undefined }],
]);

export const fsGroup: PodStrategy = {
  repairs: [{ field: /\.fsGroup$/, remove: 'field', note: ANY_USER, explicit: true }],
  generate({ scc, bound, podValues }) {
    podValues.fsGroup ??= GROUPS.get(scc.fsGroup.type)?.generate(bound.fsGroup);
  },
  validate({ scc, bound, podValues, maxErrors }, errors) {
    const groups = podValues.fsGroup === undefined ? [] : [podValues.fsGroup];
    const report = createReport('.spec.securityContext.fsGroup', errors, maxErrors);
    GROUPS.get(scc.fsGroup.type)?.validate(bound.fsGroup, groups, report);
  },
};

export const supplementalGroups: PodStrategy = {
  repairs: [{ field: /\.supplementalGroups$/, remove: 'field', note: ANY_USER, explicit: true }],
  generate({ scc, bound, podValues }) {
    if (podValues.supplementalGroups !== undefined) return;
    const group = GROUPS.get(scc.supplementalGroups.type)?.generate(bound.supplementalGroups);
    if (group !== undefined) podValues.supplementalGroups = [group];
  },
  validate({ scc, bound, podValues, maxErrors }, errors) {
    const report = createReport('.spec.securityContext.supplementalGroups', errors, maxErrors);
    const strategy = GROUPS.get(scc.supplementalGroups.type);
    strategy?.validate(bound.supplementalGroups, podValues.supplementalGroups, report);
  },
};

function createReport(path: string, errors: FieldError[], maxErrors: number): ReportError {
  return (value, detail) => {
    errors.push(invalidValue(path, value, detail));
    return errors.length < maxErrors;
  };
}
