/** Finds values in SCC lists that cannot match any pod value. */
import { defined } from '../../../kube/defined.ts';
import { dnsLabelErrors, dnsSubdomainErrors } from '../../../kube/names.ts';
import type { SecurityContextConstraints } from '../../../kube/scc.ts';
import { VOLUME_TYPES } from '../volume-types.ts';

/** A value in an SCC list that is valid but cannot match any pod value. */
export interface InvalidValue {
  readonly field: keyof SecurityContextConstraints;
  readonly index: number;
  readonly value: string;
  /** A verb phrase, such as `is not a volume type`. */
  readonly problem: string;
  /** The value that the author probably meant. */
  readonly suggestion?: string;
}

/** Maximum number of values to check in each list. */
const MAX_VALUES = 1000;

/** Returns the values in an SCC's lists that cannot match any pod value. */
export function findInvalidValues(scc: SecurityContextConstraints): readonly InvalidValue[] {
  return VALUE_CHECKS.flatMap(({ field, problem, isValid, suggest }) =>
    (scc[field] ?? []).slice(0, MAX_VALUES).flatMap((value, index) => {
      if (isValid(value)) return [];
      const suggestion = suggest(value);
      return [{ field, index, value, problem, ...defined({ suggestion }) }];
    }),
  );
}

interface ValueCheck {
  readonly field:
    | 'volumes'
    | 'allowedCapabilities'
    | 'defaultAddCapabilities'
    | 'requiredDropCapabilities'
    | 'seccompProfiles'
    | 'users';
  readonly problem: string;
  isValid(value: string): boolean;
  suggest(value: string): string | undefined;
}

/** No pod volume has type `serviceAccountToken`, but the SCC API defines it. */
const VOLUMES = [...VOLUME_TYPES, 'serviceAccountToken', 'none', '*'];
const PROFILES = ['runtime/default', 'docker/default', 'unconfined', '*'];
const CAPABILITY = /^[A-Z][A-Z0-9_]*$/;
const ACCOUNT = 'system:serviceaccount:';

const CAPABILITY_CHECKS = (['allowedCapabilities', 'defaultAddCapabilities', 'requiredDropCapabilities'] as const).map(
  (field): ValueCheck => ({
    field,
    problem: 'is not a capability name',
    isValid: (value) => value === '*' || (CAPABILITY.test(value) && !value.startsWith('CAP_')),
    suggest(value) {
      const name = value.toUpperCase().replace(/^CAP_/, '');
      return CAPABILITY.test(name) ? name : undefined;
    },
  }),
);

const VALUE_CHECKS: readonly ValueCheck[] = [
  {
    field: 'volumes',
    problem: 'is not a volume type',
    isValid: (value) => VOLUMES.includes(value),
    suggest: (value) => VOLUMES.find((type) => type.toLowerCase() === value.toLowerCase()),
  },
  ...CAPABILITY_CHECKS,
  {
    field: 'seccompProfiles',
    problem: 'is not a seccomp profile',
    isValid: (value) => PROFILES.includes(value) || /^localhost\/./.test(value),
    suggest: (value) => PROFILES.find((profile) => normalizeProfile(profile) === normalizeProfile(value)),
  },
  {
    field: 'users',
    problem: `is not a service account (${ACCOUNT}NAMESPACE:NAME)`,
    isValid: (value) => !value.startsWith(ACCOUNT) || isAccount(value.slice(ACCOUNT.length)),
    suggest: () => undefined,
  },
];

function normalizeProfile(profile: string): string {
  return profile.toLowerCase().replace('/', '');
}

function isAccount(text: string): boolean {
  const [namespace = '', name = '', ...rest] = text.split(':');
  return rest.length === 0 && dnsLabelErrors(namespace).length === 0 && dnsSubdomainErrors(name).length === 0;
}
