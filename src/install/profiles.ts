import type { ManifestSettings } from './settings.ts';

/** Kinds of installations, by what they do differently. */
export const PROFILES = {
  default: {},
  /** SCCs are built in there, and so are those who keep labels by them and tell what enforcement would break. */
  openshift: { sccMode: 'off', rollout: 'Disabled' },
  /** Nobody tells what enforcement would break. */
  'without-rollout': { rollout: 'Disabled' },
  'cert-manager': { certificates: 'cert-manager' },
  'high-availability': { replicas: 5, spread: 'required' },
  monitoring: { monitoring: 'prometheus-operator' },
  /** For API servers that do not reach services: the replicas run beside them. */
  local: { webhooks: { url: 'https://127.0.0.1:8443' } },
} as const satisfies Readonly<Record<string, Partial<ManifestSettings>>>;

export type Profile = keyof typeof PROFILES;
