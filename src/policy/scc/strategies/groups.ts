import { invalidValue, type FieldError } from '../../../kube/field-error.ts';
import type { GroupFields } from '../scc.ts';
import type { PodStrategy } from './index.ts';

/** Where errors lie and where they go. */
interface Check {
  readonly path: string;
  readonly errors: FieldError[];
  readonly maxErrors: number;
}

interface GroupStrategy {
  /** What the options lack. */
  defect(options: GroupFields): string | undefined;
  generate(options: GroupFields): number | undefined;
  validate(options: GroupFields, groups: readonly number[] | undefined, check: Check): void;
}

/** Each error repeats all groups: of longer lists only the first one that is wrong is told. */
const MAX_GROUPS = 100;

type GroupType = 'MustRunAs' | 'RunAsAny';

const STRATEGIES: Readonly<Record<GroupType, GroupStrategy>> = {
  MustRunAs: {
    defect: ({ ranges }) => (ranges.length === 0 ? 'ranges must be supplied for MustRunAs' : undefined),
    generate: ({ ranges }) => ranges[0]?.min,
    validate(options, groups, { path, errors, maxErrors }) {
      if (groups === undefined || groups.length === 0) {
        errors.push(invalidValue(path, groups, 'unable to validate empty groups against required ranges'));
        return;
      }
      for (const group of groups) {
        if (isInRanges(options, group)) continue;
        errors.push(invalidValue(path, groups, `${group} is not an allowed group`));
        if (groups.length > MAX_GROUPS || errors.length >= maxErrors) return;
      }
    },
  },
  RunAsAny: { defect: () => undefined, generate: () => undefined, validate: () => undefined },
};

/** The strategies for `fsGroup.type` and `supplementalGroups.type`. */
export const GROUPS: ReadonlyMap<string, GroupStrategy> = new Map(Object.entries(STRATEGIES));

/** The pod's volumes belong to a group that the SCC allows; without one it gets the first. */
export const fsGroup: PodStrategy = {
  generate({ scc, bound, podValues }) {
    podValues.fsGroup ??= GROUPS.get(scc.fsGroup.type)?.generate(bound.fsGroup);
  },
  validate({ scc, bound, podValues, maxErrors }, errors) {
    const groups = podValues.fsGroup === undefined ? [] : [podValues.fsGroup];
    const check = { path: '.spec.securityContext.fsGroup', errors, maxErrors };
    GROUPS.get(scc.fsGroup.type)?.validate(bound.fsGroup, groups, check);
  },
};

/** The pod runs with supplemental groups that the SCC allows; without any it gets the first. */
export const supplementalGroups: PodStrategy = {
  generate({ scc, bound, podValues }) {
    if (podValues.supplementalGroups !== undefined) return;
    const group = GROUPS.get(scc.supplementalGroups.type)?.generate(bound.supplementalGroups);
    if (group !== undefined) podValues.supplementalGroups = [group];
  },
  validate({ scc, bound, podValues, maxErrors }, errors) {
    const check = { path: '.spec.securityContext.supplementalGroups', errors, maxErrors };
    const strategy = GROUPS.get(scc.supplementalGroups.type);
    strategy?.validate(bound.supplementalGroups, podValues.supplementalGroups, check);
  },
};

function isInRanges({ ranges }: GroupFields, group: number): boolean {
  return ranges.some(({ min, max }) => group >= min && group <= max);
}
