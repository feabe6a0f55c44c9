import { invalidValue, type FieldError } from '../../../kube/field-error.ts';
import type { GroupFields } from '../decode/scc.ts';
import type { PodStrategy } from './types.ts';

interface GroupStrategy {
  /** What the options lack. */
  problem(options: GroupFields): string | undefined;
  generate(options: GroupFields): number | undefined;
  validate(options: GroupFields, groups: readonly number[] | undefined, path: string): readonly FieldError[];
}

type GroupType = 'MustRunAs' | 'RunAsAny';

const NO_ERRORS: readonly FieldError[] = [];

const STRATEGIES: Readonly<Record<GroupType, GroupStrategy>> = {
  MustRunAs: {
    problem: ({ ranges }) => (ranges.length === 0 ? 'ranges must be supplied for MustRunAs' : undefined),
    generate: ({ ranges }) => ranges[0]?.min,
    validate(options, groups, path) {
      if (groups === undefined || groups.length === 0) {
        return [invalidValue(path, groups, 'unable to validate empty groups against required ranges')];
      }
      if (groups.every((group) => isInRanges(options, group))) return NO_ERRORS;
      return groups
        .filter((group) => !isInRanges(options, group))
        .map((group) => invalidValue(path, groups, `${group} is not an allowed group`));
    },
  },
  RunAsAny: { problem: () => undefined, generate: () => undefined, validate: () => NO_ERRORS },
};

/** The strategies for `fsGroup.type` and `supplementalGroups.type`. */
export const GROUPS: ReadonlyMap<string, GroupStrategy> = new Map(Object.entries(STRATEGIES));

/** The pod's volumes belong to a group that the SCC allows; without one it gets the first. */
export const fsGroup: PodStrategy = (scc) => {
  const strategy = GROUPS.get(scc.fsGroup.type);
  if (strategy === undefined || strategy === STRATEGIES.RunAsAny) return undefined;
  return {
    generate({ pod, bound, podValues }) {
      podValues.fsGroup = pod.fsGroup ?? strategy.generate(bound.fsGroup);
    },
    validate({ bound, podValues: { fsGroup: group } }, errors) {
      const groups = group === undefined ? [] : [group];
      errors.push(...strategy.validate(bound.fsGroup, groups, '.spec.securityContext.fsGroup'));
    },
  };
};

/** The pod runs with supplemental groups that the SCC allows; without any it gets the first. */
export const supplementalGroups: PodStrategy = (scc) => {
  const strategy = GROUPS.get(scc.supplementalGroups.type);
  if (strategy === undefined || strategy === STRATEGIES.RunAsAny) return undefined;
  return {
    generate({ pod, bound, podValues }) {
      const group = pod.supplementalGroups ? undefined : strategy.generate(bound.supplementalGroups);
      podValues.supplementalGroups = group === undefined ? pod.supplementalGroups : [group];
    },
    validate({ bound, podValues }, errors) {
      const path = '.spec.securityContext.supplementalGroups';
      errors.push(...strategy.validate(bound.supplementalGroups, podValues.supplementalGroups, path));
    },
  };
};

function isInRanges({ ranges }: GroupFields, group: number): boolean {
  return ranges.some(({ min, max }) => group >= min && group <= max);
}
