/** The pages of the checks: why each exists, an example before and after the fix, and references. */
import { fixManifests } from '../../src/config/fix.ts';
import { withField } from '../../src/config/rewrite.ts';
import { parsePath, printYaml } from '../../src/config/yaml.ts';
import { checks } from '../../src/policy/pss/index.ts';

/** The text of a page that does not follow from the check. */
export interface CheckPage {
  readonly id: string;
  readonly level: 'baseline' | 'restricted';
  /** Why the check exists. */
  readonly why: string;
  readonly before: string;
  readonly after: string;
  readonly fix: string;
  /** The versions of the Pod Security Standards with a change of the check. */
  readonly versions: readonly string[];
  readonly upstream: string;
  /** Recommendations of the CIS Kubernetes Benchmark v1.9. */
  readonly cis: string;
  /** The section of the Kubernetes Hardening Guide of NSA and CISA, v1.2. */
  readonly nsa: string;
}

const SECURITY_CONTEXT = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
};
/** A pod that passes the level restricted. */
const POD = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'web' },
  spec: {
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [{ name: 'web', image: 'registry.example/web:1.4', securityContext: SECURITY_CONTEXT }],
  },
};
const CONTAINER = 'spec.containers[0]';
const CONTEXT = `${CONTAINER}.securityContext`;

const POD_SECURITY = 'Pod security enforcement';
const NON_ROOT = 'Non-root containers and rootless container engines';

/** The violating field of a pod that passes otherwise, and its value. */
type Violation = readonly [path: string, value: unknown];

interface Prose {
  readonly why: string;
  readonly before: Violation;
  /** Absent: what `check --fix` changes. */
  readonly after?: Violation;
  readonly cis: string;
  readonly nsa: string;
}

const HOST_PATH = [{ name: 'data', hostPath: { path: '/var/lib/data' } }];
const CLAIM = [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }];

const PROSE: Readonly<Record<string, Prose>> = {
  allowPrivilegeEscalation: {
    why: 'Setuid programs and file capabilities give a process more rights than its parent. With `false`, the kernel sets `no_new_privs`, and a process that is taken over keeps the rights of the container.',
    before: [`${CONTEXT}.allowPrivilegeEscalation`, true],
    cis: '5.2.6',
    nsa: POD_SECURITY,
  },
  appArmorProfile: {
    why: 'The default AppArmor profile of the container runtime denies mounts and writes to /proc and /sys. Without it, a flaw in the kernel or the runtime is easier to use.',
    before: [`${CONTEXT}.appArmorProfile`, { type: 'Unconfined' }],
    cis: '5.7.3',
    nsa: POD_SECURITY,
  },
  capabilities_baseline: {
    why: 'Capabilities beyond those of the container runtime reach the host: NET_ADMIN changes the network, SYS_ADMIN mounts file systems, SYS_PTRACE reads other processes.',
    before: [`${CONTEXT}.capabilities.add`, ['NET_ADMIN']],
    cis: '5.2.9',
    nsa: POD_SECURITY,
  },
  capabilities_restricted: {
    why: 'Most programs need no capability at all. The default capabilities of container runtimes, such as CHOWN and NET_RAW, help an attacker in the container and in the network.',
    before: [`${CONTEXT}.capabilities`, { add: ['CHOWN'] }],
    cis: '5.2.8, 5.2.9, 5.2.10',
    nsa: POD_SECURITY,
  },
  hostNamespaces: {
    why: 'In the namespaces of the host, a container sees all processes, the network interfaces of the node and services on its loopback address, which often have no authentication.',
    before: ['spec.hostPID', true],
    cis: '5.2.3, 5.2.4, 5.2.5',
    nsa: POD_SECURITY,
  },
  hostPathVolumes: {
    why: 'A volume of the host exposes files of the node, such as credentials of the kubelet and the sockets of the container runtime, and their owner can take over the node.',
    before: ['spec.volumes', HOST_PATH],
    after: ['spec.volumes', CLAIM],
    cis: '5.2.12',
    nsa: POD_SECURITY,
  },
  hostPorts: {
    why: 'A host port is reachable at the address of the node, outside of network policies, and only one pod of a node can use it.',
    before: [`${CONTAINER}.ports`, [{ containerPort: 8080, hostPort: 80 }]],
    cis: '5.2.13',
    nsa: POD_SECURITY,
  },
  hostProbesAndHostLifecycle: {
    why: 'The kubelet sends probes and lifecycle requests from the network of the node. With a host, a pod makes it send requests to addresses that the pod itself cannot reach.',
    before: [`${CONTAINER}.livenessProbe`, { httpGet: { host: '169.254.169.254', port: 80 } }],
    cis: '5.7.3',
    nsa: POD_SECURITY,
  },
  privileged: {
    why: 'A privileged container has all capabilities and all devices of the node. A process in it can take over the node.',
    before: [`${CONTEXT}.privileged`, true],
    cis: '5.2.2',
    nsa: POD_SECURITY,
  },
  procMount: {
    why: 'The container runtime masks paths of /proc that show or change the kernel of the node. An unmasked /proc exposes them.',
    before: [`${CONTEXT}.procMount`, 'Unmasked'],
    cis: '5.7.3',
    nsa: POD_SECURITY,
  },
  procMount_restricted: {
    why: 'As `procMount`, also for pods in user namespaces, for which the level baseline permits an unmasked /proc.',
    before: [`${CONTEXT}.procMount`, 'Unmasked'],
    cis: '5.7.3',
    nsa: POD_SECURITY,
  },
  restrictedVolumes: {
    why: 'Volumes of other types give a pod direct access to storage outside of the cluster, without the checks of a PersistentVolume.',
    before: ['spec.volumes', [{ name: 'data', nfs: { server: 'nfs.example', path: '/data' } }]],
    after: ['spec.volumes', CLAIM],
    cis: '5.7.3',
    nsa: POD_SECURITY,
  },
  runAsNonRoot: {
    why: 'A process that runs as root in a container is root on the node if it escapes. With `true`, the kubelet starts no image that runs as root.',
    before: ['spec.securityContext.runAsNonRoot', false],
    cis: '5.2.7',
    nsa: NON_ROOT,
  },
  runAsUser: {
    why: 'User 0 is root, whatever the image sets. A process that escapes from the container is root on the node.',
    before: ['spec.securityContext.runAsUser', 0],
    cis: '5.2.7',
    nsa: NON_ROOT,
  },
  seLinuxOptions: {
    why: 'SELinux separates containers from the node and from each other by the type and level of their processes. Other types, users and roles remove this separation.',
    before: [`${CONTEXT}.seLinuxOptions`, { type: 'spc_t' }],
    cis: '5.7.3',
    nsa: POD_SECURITY,
  },
  seccompProfile_baseline: {
    why: 'The default seccomp profile of the container runtime denies rarely used system calls, in which most flaws of the kernel are. `Unconfined` permits all of them.',
    before: [`${CONTEXT}.seccompProfile`, { type: 'Unconfined' }],
    cis: '5.7.2',
    nsa: POD_SECURITY,
  },
  seccompProfile_restricted: {
    why: 'Without a profile, all system calls are permitted, unless the kubelet sets a default. The default profile of the container runtime denies rarely used system calls, in which most flaws of the kernel are.',
    before: ['spec.securityContext', { runAsNonRoot: true }],
    cis: '5.7.2',
    nsa: POD_SECURITY,
  },
  sysctls: {
    why: 'Sysctls that the kernel does not isolate change the node for all pods, and may exhaust its memory.',
    before: ['spec.securityContext.sysctls', [{ name: 'kernel.msgmax', value: '65536' }]],
    cis: '5.7.3',
    nsa: POD_SECURITY,
  },
  windowsHostProcess: {
    why: 'A HostProcess container runs as a process of the Windows node with its rights.',
    before: [`${CONTEXT}.windowsOptions`, { hostProcess: true }],
    cis: '5.2.11',
    nsa: POD_SECURITY,
  },
};

const STANDARDS = 'https://kubernetes.io/docs/concepts/security/pod-security-standards/';

/** Returns the pages of the checks of the Pod Security Standards, in their order. */
export function checkPages(): readonly CheckPage[] {
  return checks.map(({ id, level, fix = '', versions }) => {
    const prose = PROSE[id];
    if (prose === undefined) throw new Error(`scripts/docs/checks.ts has no text for the check ${id}`);
    const [before, given] = [prose.before, prose.after].map((violation) => violation && printPod(violation));
    const after = given ?? fixManifests(before ?? '', { level, version: 'latest' }).text;
    const { why, cis, nsa } = prose;
    const since = versions.map((one) => one.since);
    return {
      id,
      level,
      why,
      before: before ?? '',
      after,
      fix,
      versions: since,
      upstream: `${STANDARDS}#${level}`,
      cis,
      nsa,
    };
  });
}

function printPod([path, value]: Violation): string {
  return printYaml([withField(POD, parsePath(path), value)]);
}

/** Returns the page of each check, and their list, by path. */
export function formatCheckPages(): readonly (readonly [path: string, text: string])[] {
  const pages = checkPages();
  const rows = pages.map(
    ({ id, level, why }) => `- [\`${id}\`](checks/${id}.md) (${level}): ${/^[^.]*\./.exec(why)?.[0] ?? why}\n`,
  );
  const head =
    '# Checks\n\nGenerated by `npm run docs`. Findings of `portcullis check` have the id of their check as code, and link to its page.\n\n';
  return [
    ['docs/reference/checks.md', `${head}${rows.join('')}`],
    ...pages.map((page) => [`docs/reference/checks/${page.id}.md`, formatPage(page)] as const),
  ];
}

function formatPage({ id, level, why, before, after, fix, versions, upstream, cis, nsa }: CheckPage): string {
  const [first = '', ...changes] = versions;
  const later = changes.length === 0 ? '' : `, changed in ${changes.join(', ')}`;
  return `# ${id}

Level ${level}, since ${first}${later}.

## Why

${why}

## How to fix it

${fix} \`portcullis check --fix\` makes this change where it does not depend on the application.

Before:

\`\`\`yaml
${before}\`\`\`

After:

\`\`\`yaml
${after}\`\`\`

## References

- [Pod Security Standards](${upstream})
- CIS Kubernetes Benchmark v1.9: ${cis}
- NSA and CISA, Kubernetes Hardening Guide v1.2: ${nsa}
- [All checks](../checks.md)
`;
}
