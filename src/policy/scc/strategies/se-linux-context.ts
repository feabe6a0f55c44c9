import { type FieldError, invalidValue, requiredField } from '../../../kube/field-error.ts';
import { compareBytes } from '../../../kube/text.ts';
import { LOST, type SeLinuxFields } from '../../pod/index.ts';
import type { SeLinuxContextFields } from '../scc-fields.ts';
import type { ContainerStrategy, PodStrategy } from './strategy.ts';

interface SeLinuxStrategy {
  findDefect(options: SeLinuxContextFields): string | undefined;
  generate(options: SeLinuxContextFields): SeLinuxFields | undefined;
  validate(options: SeLinuxContextFields, actual: SeLinuxFields | undefined, report: ErrorReport): void;
}

/** The path of the options, and the list that collects errors. */
interface ErrorReport {
  readonly path: string;
  readonly errors: FieldError[];
}

/** Strategies by `seLinuxContext.type`. */
export const SE_LINUX_CONTEXT: ReadonlyMap<string, SeLinuxStrategy> = new Map<string, SeLinuxStrategy>([
  [
    'MustRunAs',
    {
      findDefect: ({ seLinuxOptions }) =>
        seLinuxOptions === undefined ? 'MustRunAs requires SELinuxOptions' : undefined,
      generate: ({ seLinuxOptions }) => seLinuxOptions,
      validate({ seLinuxOptions: expected }, actual, report) {
        if (expected === undefined || actual === expected) return;
        if (actual === undefined) report.errors.push(requiredField(report.path, ''));
        else compareOptions(expected, actual, report);
      },
    },
  ],
  ['RunAsAny', { findDefect: () => undefined, generate: () => undefined, validate: () => undefined }],
]);

export const seLinuxContextOfPod: PodStrategy = {
  repairs: [{ field: /^(.*\.seLinuxOptions)(?:\.|$)/, remove: 'field', note: LOST.seLinux, explicit: true }],
  generate({ scc, bound, podValues }) {
    podValues.seLinuxOptions ??= SE_LINUX_CONTEXT.get(scc.seLinuxContext.type)?.generate(bound.seLinuxContext);
  },
  validate({ scc, bound, podValues }, errors) {
    const strategy = SE_LINUX_CONTEXT.get(scc.seLinuxContext.type);
    const path = '.spec.securityContext.seLinuxOptions';
    strategy?.validate(bound.seLinuxContext, podValues.seLinuxOptions, { path, errors });
  },
};

/** A container's options replace the pod's options as a whole. */
export const seLinuxContextOfContainer: ContainerStrategy = {
  validate({ scc, bound, podValues, container, values }, errors) {
    const strategy = SE_LINUX_CONTEXT.get(scc.seLinuxContext.type);
    const actual = values.seLinuxOptions ?? podValues.seLinuxOptions;
    const path = `.${container.location}.seLinuxOptions`;
    strategy?.validate(bound.seLinuxContext, actual, { path, errors });
  },
};

function compareOptions(expected: SeLinuxFields, actual: SeLinuxFields, { path, errors }: ErrorReport): void {
  for (const member of ['level', 'role', 'type', 'user'] as const) {
    const isEqual =
      member === 'level' ? isSameLevel(expected.level, actual.level) : expected[member] === actual[member];
    if (!isEqual) errors.push(invalidValue(`${path}.${member}`, actual[member], `must be ${expected[member]}`));
  }
}

/** Returns true if both levels are equal, regardless of the order of their categories. */
function isSameLevel(a: string, b: string): boolean {
  return a === b || (a.length === b.length && sortCategories(a) === sortCategories(b));
}

function sortCategories(level: string): string {
  const start = level.indexOf(':') + 1;
  if (start === 0) return level;
  return level.slice(0, start) + level.slice(start).split(',').sort(compareBytes).join(',');
}
