import { invalidValue, requiredField, type FieldError } from '../../../kube/field-error.ts';
import { pathTo } from '../decode/paths.ts';
import { compareBytes } from '../../../kube/text.ts';
import type { SeLinuxContextFields } from '../scc.ts';
import type { SeLinuxFields } from '../decode/security-context.ts';
import type { ContainerStrategy, PodStrategy } from './index.ts';

/** Where errors lie and where they go. */
interface Check {
  readonly path: string;
  readonly errors: FieldError[];
}

interface SeLinuxStrategy {
  /** What the options lack. */
  defect(options: SeLinuxContextFields): string | undefined;
  generate(options: SeLinuxContextFields): SeLinuxFields | undefined;
  validate(options: SeLinuxContextFields, found: SeLinuxFields | undefined, check: Check): void;
}

type SeLinuxType = 'MustRunAs' | 'RunAsAny';

const STRATEGIES: Readonly<Record<SeLinuxType, SeLinuxStrategy>> = {
  MustRunAs: {
    defect: ({ seLinuxOptions }) => (seLinuxOptions === undefined ? 'MustRunAs requires SELinuxOptions' : undefined),
    generate: ({ seLinuxOptions }) => seLinuxOptions,
    validate({ seLinuxOptions: wanted }, found, { path, errors }) {
      if (wanted === undefined || found === wanted) return;
      if (found === undefined) errors.push(requiredField(path, ''));
      else compareOptions(wanted, found, { path, errors });
    },
  },
  RunAsAny: { defect: () => undefined, generate: () => undefined, validate: () => undefined },
};

/** The strategies for `seLinuxContext.type`. */
export const SE_LINUX_CONTEXT: ReadonlyMap<string, SeLinuxStrategy> = new Map(Object.entries(STRATEGIES));

/** The pod has the SELinux options that the SCC demands; without any it gets them. */
export const seLinuxContextOfPod: PodStrategy = {
  generate({ scc, bound, podValues }) {
    podValues.seLinuxOptions ??= SE_LINUX_CONTEXT.get(scc.seLinuxContext.type)?.generate(bound.seLinuxContext);
  },
  validate({ scc, bound, podValues }, errors) {
    const check = { path: '.spec.securityContext.seLinuxOptions', errors };
    SE_LINUX_CONTEXT.get(scc.seLinuxContext.type)?.validate(bound.seLinuxContext, podValues.seLinuxOptions, check);
  },
};

/** Each container has them, too; its own replace those of the pod as a whole. */
export const seLinuxContextOfContainer: ContainerStrategy = {
  validate({ scc, bound, podValues, container, values }, errors) {
    const found = values.seLinuxOptions ?? podValues.seLinuxOptions;
    const check = { path: pathTo(container.path, 'seLinuxOptions'), errors };
    SE_LINUX_CONTEXT.get(scc.seLinuxContext.type)?.validate(bound.seLinuxContext, found, check);
  },
};

const PLAIN_MEMBERS = ['role', 'type', 'user'] as const;

function compareOptions(wanted: SeLinuxFields, found: SeLinuxFields, { path, errors }: Check): void {
  if (!isSameLevel(wanted, found)) {
    errors.push(invalidValue(pathTo(path, 'level'), found.level, `must be ${wanted.level}`));
  }
  for (const member of PLAIN_MEMBERS) {
    if (wanted[member] === found[member]) continue;
    errors.push(invalidValue(pathTo(path, member), found[member], `must be ${wanted[member]}`));
  }
}

/** Categories may stand in any order. */
function isSameLevel(wanted: SeLinuxFields, found: SeLinuxFields): boolean {
  if (wanted.level === found.level) return true;
  return wanted.level.length === found.level.length && orderedWanted(wanted) === orderedLevel(found);
}

const ordered = new WeakMap<SeLinuxFields, string>();

/** The level with its categories in order; kept with the options of a container, which every SCC is compared with. */
function orderedLevel(options: SeLinuxFields): string {
  let known = ordered.get(options);
  if (known === undefined) ordered.set(options, (known = orderLevel(options.level)));
  return known;
}

let last = { level: '', ordered: '' };

/** The same of the options that are demanded: most SCCs demand the level of the namespace. */
function orderedWanted({ level }: SeLinuxFields): string {
  if (level !== last.level) last = { level, ordered: orderLevel(level) };
  return last.ordered;
}

/** A level without categories has nothing to order. */
function orderLevel(level: string): string {
  const start = level.indexOf(':') + 1;
  if (start === 0) return level;
  return level.slice(0, start) + level.slice(start).split(',').sort(compareBytes).join(',');
}
