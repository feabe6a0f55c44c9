import type { SecurityContextConstraints } from '../../src/kube/scc.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { VOLUME_TYPES } from '../../src/policy/scc/index.ts';

/**
 * Returns pods that each use one permission that SCCs can grant. There is a pod for each permission of the given SCC,
 * but the SCC does not admit all of the pods.
 */
export function candidatesFor(scc: SecurityContextConstraints): readonly JsonObject[] {
  const required = scc.userNamespaceLevel === 'RequirePodLevel' ? { hostUsers: false } : {};
  return [...specs(scc), ...securityContexts(scc).map(containerWith)].map(({ containers, ...spec }) => ({
    metadata: { name: 'p' },
    spec: { ...required, ...spec, containers: containers ?? [{ name: 'a', image: 'registry.example/app:1' }] },
  }));
}

function specs(scc: SecurityContextConstraints): readonly JsonObject[] {
  const { volumes = [], allowedUnsafeSysctls = [], allowedFlexVolumes } = scc;
  const types = volumes?.includes('*') === true ? [...VOLUME_TYPES, 'hostPath'] : (volumes ?? []);
  return [
    {},
    { hostIPC: true },
    { hostNetwork: true },
    { hostPID: true },
    { containers: [{ name: 'a', image: 'registry.example/app:1', ports: [{ containerPort: 80, hostPort: 80 }] }] },
    ...types.map((type) => {
      const source = type === 'flexVolume' ? { driver: allowedFlexVolumes?.[0]?.driver ?? 'example/a' } : {};
      return { volumes: [{ name: 'v', [volumeSource(type)]: source }] };
    }),
    ...(allowedUnsafeSysctls ?? []).map((name) => ({
      securityContext: { sysctls: [{ name: name.replace('*', 'odd'), value: '1' }] },
    })),
  ];
}

function securityContexts({ allowedCapabilities, seccompProfiles }: SecurityContextConstraints): readonly JsonObject[] {
  return [
    { allowPrivilegeEscalation: true },
    { privileged: true },
    { runAsUser: 0 },
    { seLinuxOptions: { type: 'spc_t' } },
    ...(allowedCapabilities ?? []).map((name) => ({ capabilities: { add: [name === '*' ? 'SYS_ADMIN' : name] } })),
    ...(seccompProfiles ?? []).map((name) => ({ seccompProfile: getProfile(name) })),
  ];
}

function containerWith(securityContext: JsonObject): JsonObject {
  return { containers: [{ name: 'a', image: 'registry.example/app:1', securityContext }] };
}

function getProfile(name: string): JsonObject {
  if (name.startsWith('localhost/')) return { type: 'Localhost', localhostProfile: name.slice('localhost/'.length) };
  return { type: name.endsWith('/default') ? 'RuntimeDefault' : 'Unconfined' };
}

/** Pod fields of the volume types that have another name in SCCs. */
const SOURCES: ReadonlyMap<string, string> = new Map([
  ['cephFS', 'cephfs'],
  ['storageOS', 'storageos'],
  ['vsphere', 'vsphereVolume'],
]);

/** Returns the pod volume field for an SCC's volume type. */
export function volumeSource(type: string): string {
  return SOURCES.get(type) ?? type;
}
