import { dnsLabelErrors, dnsSubdomainErrors } from '../../kube/names.ts';
import type { SecurityContextConstraints } from '../../kube/scc.ts';
import { VOLUME_TYPES } from './decode/volume.ts';

/** A value of a list of an SCC that is valid but matches nothing, or hardly what was meant. */
export interface SccTypo {
  readonly field: keyof SecurityContextConstraints;
  readonly index: number;
  readonly value: string;
  /** What is wrong with it: `is no type of volume`. */
  readonly why: string;
  /** What was probably meant. */
  readonly meant?: string;
}

/** Nobody reads more. */
const MAX_VALUES = 1000;

/** Finds what somebody must have mistyped: it is compared with what pods have as it stands. */
export function sccTypos(scc: SecurityContextConstraints): readonly SccTypo[] {
  return CHECKS.flatMap(({ field, why, isRight, meant }) =>
    (scc[field] ?? []).slice(0, MAX_VALUES).flatMap((value, index) => {
      if (isRight(value)) return [];
      const better = meant(value);
      return [{ field, index, value, why, ...(better === undefined ? {} : { meant: better }) }];
    }),
  );
}

interface Check {
  readonly field:
    | 'volumes'
    | 'allowedCapabilities'
    | 'defaultAddCapabilities'
    | 'requiredDropCapabilities'
    | 'seccompProfiles'
    | 'users';
  readonly why: string;
  isRight(value: string): boolean;
  meant(value: string): string | undefined;
}

const VOLUMES = [...VOLUME_TYPES, 'none', '*'];
const PROFILES = ['runtime/default', 'docker/default', 'unconfined', '*'];
const ACCOUNT = 'system:serviceaccount:';

const CAPABILITIES = (['allowedCapabilities', 'defaultAddCapabilities', 'requiredDropCapabilities'] as const).map(
  (field): Check => ({
    field,
    why: 'is not how pods write a capability',
    isRight: (value) => value === '*' || (/^[A-Z][A-Z0-9_]*$/.test(value) && !value.startsWith('CAP_')),
    meant: (value) => inCapitals(value),
  }),
);

const CHECKS: readonly Check[] = [
  {
    field: 'volumes',
    why: 'is no type of volume',
    isRight: (value) => VOLUMES.includes(value),
    meant: (value) => VOLUMES.find((type) => type.toLowerCase() === value.toLowerCase()),
  },
  ...CAPABILITIES,
  {
    field: 'seccompProfiles',
    why: 'is no seccomp profile',
    isRight: (value) => PROFILES.includes(value) || /^localhost\/./.test(value),
    meant: (value) => PROFILES.find((profile) => lettersOf(profile) === lettersOf(value)),
  },
  {
    field: 'users',
    why: `is no service account, which is ${ACCOUNT}NAMESPACE:NAME`,
    isRight: (value) => !value.startsWith(ACCOUNT) || isAccount(value.slice(ACCOUNT.length)),
    meant: () => undefined,
  },
];

function inCapitals(value: string): string | undefined {
  const name = value.toUpperCase().replace(/^CAP_/, '');
  return /^[A-Z][A-Z0-9_]*$/.test(name) ? name : undefined;
}

function lettersOf(profile: string): string {
  return profile.toLowerCase().replace('/', '');
}

function isAccount(text: string): boolean {
  const [namespace = '', name = '', ...rest] = text.split(':');
  return rest.length === 0 && dnsLabelErrors(namespace).length === 0 && dnsSubdomainErrors(name).length === 0;
}
