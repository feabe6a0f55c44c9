/** Lists the controls of hardening standards with the corresponding checks. Each check names its controls. */
import { defined } from '../../kube/defined.ts';
import { checks } from './checks/index.ts';
import type { Level } from './policy.ts';

/** Titles of the standards. Each key is the name of a field in the checks. */
export const STANDARDS = {
  cis: 'CIS Kubernetes Benchmark v1.12 and v2.0',
  nsa: 'NSA and CISA, Kubernetes Hardening Guide',
} as const;
export type Standard = keyof typeof STANDARDS;

/**
 * Recommendations of the CIS benchmark about pods. The numbers and titles are the same in v1.12 (for Kubernetes 1.32
 * and 1.33) and in v2.0 (for 1.34 and 1.35). The NSA/CISA guide does not number its settings.
 */
const CIS_TITLES: Readonly<Record<string, string>> = {
  '5.2.1': 'Ensure that the cluster has at least one active policy control mechanism in place',
  '5.2.2': 'Minimize the admission of privileged containers',
  '5.2.3': 'Minimize the admission of containers wishing to share the host process ID namespace',
  '5.2.4': 'Minimize the admission of containers wishing to share the host IPC namespace',
  '5.2.5': 'Minimize the admission of containers wishing to share the host network namespace',
  '5.2.6': 'Minimize the admission of containers with allowPrivilegeEscalation',
  '5.2.7': 'Minimize the admission of root containers',
  '5.2.8': 'Minimize the admission of containers with the NET_RAW capability',
  '5.2.9': 'Minimize the admission of containers with capabilities assigned',
  '5.2.10': 'Minimize the admission of Windows HostProcess containers',
  '5.2.11': 'Minimize the admission of HostPath volumes',
  '5.2.12': 'Minimize the admission of containers which use HostPorts',
  '5.6.2': 'Ensure that the seccomp profile is set to docker/default in your Pod definitions',
  '5.6.3': 'Apply SecurityContext to your Pods and Containers',
};

export interface Control {
  readonly id: string;
  readonly title: string;
  readonly checks: readonly string[];
  /**
   * The lowest level that includes all of the checks. A control without checks only requires a level other than
   * privileged.
   */
  readonly level: Exclude<Level, 'privileged'>;
}

/** Lists the controls of a standard, in the order of the standard. */
export function listControls(standard: Standard): readonly Control[] {
  const titles =
    standard === 'cis'
      ? CIS_TITLES
      : Object.fromEntries(checks.flatMap(({ nsa }) => (nsa === undefined ? [] : [[nsa, nsa]])));
  return Object.entries(titles).map(([id, title]) => {
    const own = checks.filter((check) => check[standard]?.split(', ').includes(id));
    const level = own.some((check) => check.level === 'restricted') ? 'restricted' : 'baseline';
    return { id, title, checks: own.map((check) => check.id), level };
  });
}

/** Returns the controls of a check by standard, such as `{ cis: '5.2.2', nsa: 'no privileged containers' }`. */
export function checkControls(id: string): Readonly<Partial<Record<Standard, string>>> {
  const { cis, nsa } = checks.find((check) => check.id === id) ?? {};
  return defined({ cis, nsa });
}
