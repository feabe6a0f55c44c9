import { invalidValue, requiredField, type FieldError } from '../../../kube/field-error.ts';
import { pathTo } from '../decode/paths.ts';
import type { RunAsUserFields } from '../scc.ts';
import type { ContainerStrategy } from './index.ts';

/** Who a container runs as, the values of its pod included. */
interface EffectiveUser {
  readonly runAsUser: number | undefined;
  readonly runAsNonRoot: boolean | undefined;
}

interface RunAsUserStrategy {
  /** What the options lack. */
  defect(options: RunAsUserFields): string | undefined;
  generate(options: RunAsUserFields): number | undefined;
  validate(options: RunAsUserFields, user: EffectiveUser, path: string): FieldError | undefined;
}

type RunAsUserType = 'MustRunAs' | 'MustRunAsRange' | 'MustRunAsNonRoot' | 'RunAsAny';

const STRATEGIES: Readonly<Record<RunAsUserType, RunAsUserStrategy>> = {
  MustRunAs: {
    defect: ({ uid }) => (uid === undefined ? 'MustRunAs requires a UID' : undefined),
    generate: ({ uid }) => uid,
    validate({ uid }, { runAsUser }, path) {
      if (runAsUser === undefined) return requiredField(pathTo(path, 'runAsUser'), '');
      return runAsUser === uid
        ? undefined
        : invalidValue(pathTo(path, 'runAsUser'), runAsUser, `must be: ${uid ?? ''}`);
    },
  },
  MustRunAsRange: {
    defect({ uidRangeMin, uidRangeMax }) {
      if (uidRangeMin === undefined) return 'MustRunAsRange requires a UIDRangeMin';
      return uidRangeMax === undefined ? 'MustRunAsRange requires a UIDRangeMax' : undefined;
    },
    generate: ({ uidRangeMin }) => uidRangeMin,
    validate({ uidRangeMin: min = 0, uidRangeMax: max = 0 }, { runAsUser }, path) {
      if (runAsUser === undefined) return requiredField(pathTo(path, 'runAsUser'), '');
      if (runAsUser >= min && runAsUser <= max) return undefined;
      return invalidValue(pathTo(path, 'runAsUser'), runAsUser, `must be in the ranges: [${min}, ${max}]`);
    },
  },
  MustRunAsNonRoot: {
    defect: () => undefined,
    generate: () => undefined,
    validate(_options, { runAsUser, runAsNonRoot }, path) {
      if (runAsNonRoot === false) return invalidValue(pathTo(path, 'runAsNonRoot'), false, 'must be true');
      if (runAsUser === 0) return invalidValue(pathTo(path, 'runAsUser'), 0, 'running with the root UID is forbidden');
      const isOpen = runAsNonRoot === undefined && runAsUser === undefined;
      return isOpen ? requiredField(pathTo(path, 'runAsNonRoot'), 'must be true') : undefined;
    },
  },
  RunAsAny: { defect: () => undefined, generate: () => undefined, validate: () => undefined },
};

/** The strategies for `runAsUser.type`; a type that is not among them makes the SCC useless. */
export const RUN_AS_USER: ReadonlyMap<string, RunAsUserStrategy> = new Map(Object.entries(STRATEGIES));

/**
 * Each container runs as a user that the SCC allows; without a user it gets one. A user other than root brings
 * `runAsNonRoot: true`, under every strategy.
 */
export const runAsUser: ContainerStrategy = {
  generate({ scc, pod, bound, values }) {
    const type = scc.runAsUser.type;
    if (pod.runAsUser === undefined) values.runAsUser ??= RUN_AS_USER.get(type)?.generate(bound.runAsUser);
    if ((values.runAsNonRoot ?? pod.runAsNonRoot) !== undefined) return;
    const user = values.runAsUser ?? pod.runAsUser;
    if (user === undefined ? type === 'MustRunAsNonRoot' : user > 0) values.runAsNonRoot = true;
  },
  validate({ scc, pod, bound, container, values }, errors) {
    const user = {
      runAsUser: values.runAsUser ?? pod.runAsUser,
      runAsNonRoot: values.runAsNonRoot ?? pod.runAsNonRoot,
    };
    const error = RUN_AS_USER.get(scc.runAsUser.type)?.validate(bound.runAsUser, user, container.path);
    if (error) errors.push(error);
  },
};
