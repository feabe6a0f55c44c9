import { POD_SECURITY_PATH, type Observer } from './types.ts';

/** Who and what is not held to anything: what the configuration file says, whether anything is enforced or not. */
export const podSecurityExemptions: Observer = {
  name: 'pod-security-exemptions',
  path: [...POD_SECURITY_PATH, 'exemptions'],
  observe: ({ exemptions }) => ({ value: exemptions }),
};
