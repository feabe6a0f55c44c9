import { type FieldError, invalidValue, requiredField } from '../../../kube/field-error.ts';
import { ANY_USER } from '../../pod/index.ts';
import type { RunAsUserFields } from '../scc-fields.ts';
import type { ContainerStrategy } from './strategy.ts';

/** The user fields of a container, including inherited values. */
interface EffectiveUser {
  readonly runAsUser: number | undefined;
  readonly runAsNonRoot: boolean | undefined;
}

interface RunAsUserStrategy {
  findDefect(options: RunAsUserFields): string | undefined;
  generate(options: RunAsUserFields): number | undefined;
  validate(options: RunAsUserFields, user: EffectiveUser, path: string): FieldError | undefined;
}

/** Strategies by `runAsUser.type`. */
export const RUN_AS_USER: ReadonlyMap<string, RunAsUserStrategy> = new Map<string, RunAsUserStrategy>([
  [
    'MustRunAs',
    {
      findDefect: ({ uid }) => (uid === undefined ? 'MustRunAs requires a UID' : undefined),
      generate: ({ uid }) => uid,
      validate({ uid }, { runAsUser }, path) {
        if (runAsUser === undefined) return requiredField(`${path}.runAsUser`, '');
        return runAsUser === uid ? undefined : invalidValue(`${path}.runAsUser`, runAsUser, `must be: ${uid ?? ''}`);
      },
    },
  ],
  [
    'MustRunAsRange',
    {
      findDefect({ uidRangeMin, uidRangeMax }) {
        if (uidRangeMin === undefined) return 'MustRunAsRange requires a UIDRangeMin';
        return uidRangeMax === undefined ? 'MustRunAsRange requires a UIDRangeMax' : undefined;
      },
      generate: ({ uidRangeMin }) => uidRangeMin,
      validate({ uidRangeMin: min = 0, uidRangeMax: max = 0 }, { runAsUser }, path) {
        if (runAsUser === undefined) return requiredField(`${path}.runAsUser`, '');
        if (runAsUser >= min && runAsUser <= max) return undefined;
        return invalidValue(`${path}.runAsUser`, runAsUser, `must be in the ranges: [${min}, ${max}]`);
      },
    },
  ],
  [
    'MustRunAsNonRoot',
    {
      findDefect: () => undefined,
      generate: () => undefined,
      validate(_options, { runAsUser, runAsNonRoot }, path) {
        if (runAsNonRoot === false) return invalidValue(`${path}.runAsNonRoot`, false, 'must be true');
        if (runAsUser === 0) return invalidValue(`${path}.runAsUser`, 0, 'running with the root UID is forbidden');
        const isUnset = runAsNonRoot === undefined && runAsUser === undefined;
        return isUnset ? requiredField(`${path}.runAsNonRoot`, 'must be true') : undefined;
      },
    },
  ],
  ['RunAsAny', { findDefect: () => undefined, generate: () => undefined, validate: () => undefined }],
]);

/** Every strategy sets `runAsNonRoot: true` on containers that run as a non-root user. */
export const runAsUser: ContainerStrategy = {
  repairs: [
    { field: /\.runAsUser$/, remove: 'field', note: ANY_USER, explicit: true },
    { field: /\.runAsNonRoot$/, set: true },
  ],
  generate({ scc, pod, bound, values }) {
    const { type } = scc.runAsUser;
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
    const strategy = RUN_AS_USER.get(scc.runAsUser.type);
    const error = strategy?.validate(bound.runAsUser, user, `.${container.location}`);
    if (error) errors.push(error);
  },
};
