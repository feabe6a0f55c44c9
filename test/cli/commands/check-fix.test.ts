/**
 * Tests `check --fix` and `check --platform=openshift` with files, streams, diffs, patches, and invalid combinations of
 * options.
 */
import assert from 'node:assert/strict';
import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { after, before, describe, suite, test } from 'node:test';
import { createKubectl, hasKubectl } from '../../support/kubectl.ts';
import { runProgram } from '../../support/memory-io.ts';

const POD =
  'apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  hostPID: true # debug\n  containers: [{ name: c, image: i }]\n';
const FIXED = POD.replace('true', 'false');
const HOST_PID = 'used the host PID namespace. Processes of the node and of other pods are not visible';
const DENIED = `apiVersion: apps/v1
kind: Deployment
metadata: {name: db, namespace: shop}
spec:
  template:
    spec:
      serviceAccountName: db
      securityContext:
        fsGroup: 1001
      containers:
        - name: db
          securityContext: {runAsUser: 1001}
          image: db
    metadata: {labels: {app: db}}
  selector: {matchLabels: {app: db}}
`;
const GRANT = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: db, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:openshift:scc:nonroot-v2"}
subjects: [{kind: ServiceAccount, name: db, namespace: shop}]
`;

const TWO_PODS = ['a', 'b']
  .map(
    (name) => `apiVersion: v1
kind: Pod
metadata: {name: ${name}}
spec:
  securityContext:
    seccompProfile: {type: RuntimeDefault}
  containers:
    - {name: c, image: i, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}
`,
  )
  .join('---\n');

/** The pod and two of its containers run as root. */
const ROOT = `apiVersion: v1
kind: Pod
metadata: {name: db}
spec:
  securityContext: {runAsUser: 0, fsGroup: 999, seccompProfile: {type: RuntimeDefault}}
  initContainers:
    - name: chown
      securityContext:
        allowPrivilegeEscalation: false
        capabilities: {drop: [ALL]}
        runAsUser: 0
        runAsNonRoot: false
      image: chown
  containers:
    - name: db
      securityContext: {runAsUser: 0, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      image: db
`;

const RAN_AS_ROOT =
  'ran as root. The image must work as another user, either its own numeric USER or the one in runAsUser. Operations that need root or a dropped capability, such as chown, fail. To change the group of volumes, set fsGroup in the pod instead';
const ANY_USER =
  'OpenShift sets the user and groups, so the image must work with any user ID. On clusters without SCCs, it runs as the USER of the image and without the removed groups';

let folder = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'portcullis-fix-'));
});
after(() => rm(folder, { recursive: true }));

test('--fix replaces the files and keeps their modes and links', async () => {
  const [file, link] = [join(folder, 'pod.yaml'), join(folder, 'link.yaml')];
  await writeFile(file, POD);
  await chmod(file, 0o666);
  await symlink(file, link);
  assert.deepEqual(await runProgram(['check', '-f', link, '--level=baseline', '--fix']), {
    code: 0,
    stdout: '1 passed, 0 failed\n',
    stderr: `fixed: ${link}:5:3: hostNamespaces: spec.hostPID set to false\nverify: ${link}:5:3: pod: ${HOST_PID}\n`,
  });
  assert.equal(await readFile(file, 'utf8'), FIXED);
  assert.equal((await stat(file)).mode & 0o777, 0o666);
  assert.ok((await lstat(link)).isSymbolicLink());
  assert.deepEqual((await readdir(folder)).sort(), ['link.yaml', 'pod.yaml']);
});

test('--fix does not write apiVersion and kind into the items of a typed list', async () => {
  const stdin =
    'apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: p}\n  spec:\n    hostPID: true\n    containers: [{name: c, image: i}]\n';
  const { stdout } = await runProgram(['check', '-f', '-', '--level=baseline', '--fix'], { stdin });
  assert.equal(stdout, stdin.replace('true', 'false'));
});

test('--fix keeps the encoding of a file', async () => {
  const file = join(folder, 'utf16.yaml');
  await writeFile(file, `\ufeff${POD}`, 'utf16le');
  const { code } = await runProgram(['check', '-f', file, '--level=baseline', '--fix']);
  assert.equal(code, 0);
  assert.deepEqual(await readFile(file), Buffer.from(`\ufeff${FIXED}`, 'utf16le'));
  await rm(file);
});

for (const [name, path, expected] of [
  ['a space', 'a dir/pod.yaml', 'a dir/pod.yaml\t'],
  ['a control character', 'a\té.yaml', '"a\\011é.yaml"'],
] as const) {
  test(`--fix=diff prints a path that git and patch read: ${name}`, async () => {
    const root = await mkdtemp(join(tmpdir(), 'portcullis-diff-'));
    const file = join(root, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, POD);
    for (const given of [`${root}/${path}`, `${relative(process.cwd(), root)}/${path}`]) {
      const { stdout } = await runProgram(['check', '--level=baseline', '--fix=diff', '--', given]);
      const quote = expected.startsWith('"') ? '"' : '';
      const [from, to] = ['a', 'b'].map((side) => `${quote}${side}${root}/${expected.slice(quote.length)}`);
      assert.deepEqual(stdout.split('\n').slice(0, 2), [`--- ${from}`, `+++ ${to}`]);
    }
    await rm(root, { recursive: true });
  });
}

test('--fix=diff prints the path from the working directory', async () => {
  const path = 'examples/pods/host-network.yaml';
  for (const given of [path, resolve(path), join('..', basename(process.cwd()), path)]) {
    const { stdout } = await runProgram(['check', '--level=baseline', '--fix=diff', '-f', given]);
    assert.deepEqual(stdout.split('\n').slice(0, 2), [`--- a/${path}`, `+++ b/${path}`], given);
  }
});

test('--fix reports only the changes to files that it has written', async () => {
  const inside = join(folder, 'unwritable');
  await mkdir(inside);
  // The file cannot be written, because the name of the temporary file is too long.
  const [written, unwritable] = [join(inside, 'a.yaml'), join(inside, `${'b'.repeat(240)}.yaml`)];
  for (const file of [written, unwritable]) await writeFile(file, POD);
  const args = ['check', '-f', inside, '--level=baseline', '--fix'];
  const { code, stdout, stderr } = await runProgram(args);
  assert.deepEqual([code, stdout], [2, '']);
  assert.match(
    stderr.replaceAll(inside, 'DIR'),
    /^fixed: DIR\/a\.yaml:5:3: hostNamespaces: spec\.hostPID set to false\nverify: .*\nerror: cannot write DIR\/b+\.yaml: .*\n$/,
  );
  assert.equal(await readFile(written, 'utf8'), FIXED);
});

test('--fix does not replace a file that has changed since it was read', async () => {
  const file = join(folder, 'edited.yaml');
  await writeFile(file, POD);
  const edited = POD.replace('debug', 'edited');
  async function* edit() {
    await writeFile(file, edited);
    yield 'apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {portcullis.dev/scc: "off"}}\n';
  }
  const args = ['check', '-f', file, '--level=baseline', '--fix', '--sccs=-'];
  const { code, stderr } = await runProgram(args, { stdin: edit() });
  assert.equal(stderr, `error: cannot write ${file}: it has changed since it was read, so run the command again\n`);
  assert.deepEqual([code, await readFile(file, 'utf8')], [2, edited]);
  await rm(file);
});

test('--fix does not follow links out of the directory', async () => {
  const [inside, outside] = [join(folder, 'deploy'), join(folder, 'outside.yaml')];
  await mkdir(join(inside, '..data'), { recursive: true });
  for (const file of [outside, join(inside, '..data', 'a.txt')]) await writeFile(file, POD);
  await symlink(join('..data', 'a.txt'), join(inside, 'a.yaml'));
  await symlink(join('..', 'outside.yaml'), join(inside, 'b.yaml'));
  const expected = {
    code: 2,
    stdout: '1 passed, 0 failed, 1 unreadable\n',
    stderr: `fixed: ${inside}/a.yaml:5:3: hostNamespaces: spec.hostPID set to false\nverify: ${inside}/a.yaml:5:3: pod: ${HOST_PID}\nerror: ${inside}/b.yaml: not fixed: this symbolic link points outside ${inside}, to ${outside}: specify that file with -f, or replace the link with a copy\n`,
  };
  assert.deepEqual(await runProgram(['check', '-f', inside, '--level=baseline', '--fix']), expected);
  assert.equal(await readFile(join(inside, 'a.yaml'), 'utf8'), FIXED);
  assert.equal(await readFile(outside, 'utf8'), POD);
  const { stdout } = await runProgram(['check', '-f', inside, '--level=baseline', '--fix=diff']);
  assert.equal(stdout, '');
  await rm(inside, { recursive: true });
  await rm(outside);
});

test('--fix prints a condition to verify for each fix that may affect the application', async () => {
  const container = '{name: c, securityContext: {privileged: true}}';
  const stdin = POD.replace('hostPID: true # debug', 'hostNetwork: true').replace('{ name: c, image: i }', container);
  const { stderr } = await runProgram(['check', '-f', '-', '--level=baseline', '--fix'], { stdin });
  assert.deepEqual(
    stderr.split('\n').filter((line) => line.startsWith('verify: ')),
    [
      'verify: stdin:5:3: pod: used the host network. Clients now need a Service, and node addresses such as localhost are not reachable',
      'verify: stdin:6:44: container "c": was privileged. Host devices, mounts, kernel settings and most capabilities are no longer available',
    ],
  );
});

describe('--fix makes no change that API servers would reject:', () => {
  const spec = (text: string): string => `apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n${text}`;
  const SAFE =
    'allowPrivilegeEscalation: false, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}, capabilities: {drop: [ALL]';
  const WINDOWS = spec('  nodeSelector: {kubernetes.io/os: windows}\n  containers: [{name: c, image: i}]\n');
  const exception = (check: string): string =>
    `---\napiVersion: policy.portcullis.dev/v1alpha1\nkind: PodSecurityException\nmetadata: {name: e}\nspec: {serviceAccountName: default, reason: r, expiresAt: "2100-01-01T00:00:00Z", allow: [{check: ${check}}]}\n`;
  const cases: readonly (readonly [
    name: string,
    args: string,
    stdin: string,
    code: number,
    fixed: string,
    messages: readonly string[],
  ])[] = [
    [
      'a privileged container keeps privilege escalation',
      '--level=restricted',
      spec(
        `  containers: [{name: c, image: i, securityContext: {privileged: true, ${SAFE.replace(/^.*?, /, '')}}}}]\n${exception('privileged, container: c, image: docker.io/library/i')}`,
      ),
      1,
      '',
      [
        'not fixed: stdin:5:36: allowPrivilegeEscalation: container "c" must set securityContext.allowPrivilegeEscalation=false: remove privileged, or add an exception for allowPrivilegeEscalation, because API servers reject privileged together with allowPrivilegeEscalation=false',
      ],
    ],
    [
      'a container with CAP_SYS_ADMIN keeps privilege escalation',
      '--level=restricted',
      spec(
        `  containers: [{name: c, image: i, securityContext: {${SAFE.replace(/^.*?, /, '')}, add: [CAP_SYS_ADMIN]}}}]\n${exception('capabilities_restricted, container: c, image: docker.io/library/i, values: [CAP_SYS_ADMIN]')}`,
      ),
      1,
      '',
      [
        'not fixed: stdin:5:36: allowPrivilegeEscalation: container "c" must set securityContext.allowPrivilegeEscalation=false: remove the capability CAP_SYS_ADMIN, or add an exception for allowPrivilegeEscalation, because API servers reject the capability CAP_SYS_ADMIN together with allowPrivilegeEscalation=false',
      ],
    ],
    [
      'a profile file excludes the type RuntimeDefault',
      '--level=baseline',
      spec(
        '  securityContext: {seccompProfile: {type: Unconfined, localhostProfile: a.json}}\n  containers: [{ name: c, image: i }]\n',
      ),
      1,
      '',
      [
        'not fixed: stdin:5:38: seccompProfile_baseline: pod must not set securityContext.seccompProfile.type to "Unconfined": set type to Localhost, or remove localhostProfile, which API servers reject with other types',
      ],
    ],
    [
      'an annotation excludes another seccomp profile',
      '--level=restricted',
      spec(`  containers: [{name: c, securityContext: {${SAFE.replace('RuntimeDefault', 'Unconfined')}}}}]\n`).replace(
        '{name: p}',
        '{name: p, annotations: {container.seccomp.security.alpha.kubernetes.io/c: unconfined}}',
      ),
      1,
      '',
      [
        'not fixed: stdin:5:114: seccompProfile_restricted: container "c" must not set securityContext.seccompProfile.type to "Unconfined": remove the annotation container.seccomp.security.alpha.kubernetes.io/c, whose value API servers require to match the field',
      ],
    ],
    [
      'an annotation excludes a seccomp profile with the name of an inherited property',
      '--level=restricted',
      spec(`  containers: [{name: c, securityContext: {${SAFE.replace('RuntimeDefault', 'constructor')}}}}]\n`).replace(
        '{name: p}',
        '{name: p, annotations: {container.seccomp.security.alpha.kubernetes.io/c: unconfined}}',
      ),
      1,
      '',
      [
        'not fixed: stdin:5:114: seccompProfile_restricted: container "c" must not set securityContext.seccompProfile.type to "constructor": remove the annotation container.seccomp.security.alpha.kubernetes.io/c, whose value API servers require to match the field',
      ],
    ],
    [
      'a HostProcess pod keeps the host network',
      '--level=baseline',
      spec(
        `  hostNetwork: true\n  securityContext: {windowsOptions: {hostProcess: true}}\n  containers: [{name: c}]\n${exception('windowsHostProcess')}`,
      ),
      1,
      '',
      [
        'not fixed: stdin:5:3: hostNamespaces: hostNetwork=true: remove hostProcess from all containers, because API servers require hostNetwork with it',
      ],
    ],
    [
      'a Windows pod does not get Linux fields at an old version',
      '--level=restricted --kubernetes-version=v1.24',
      spec(
        '  os: {name: windows}\n  securityContext: {runAsNonRoot: true}\n  containers: [{name: c, securityContext: {capabilities: {drop: [ALL]}}}]\n',
      ),
      1,
      '',
      [
        'not fixed: stdin:7:26: allowPrivilegeEscalation: container "c" must set securityContext.allowPrivilegeEscalation=false: for Windows nodes, set spec.os.name to windows and remove spec.securityContext.seccompProfile, spec.containers[0].securityContext.allowPrivilegeEscalation, spec.containers[0].securityContext.capabilities, which API servers reject in Windows pods',
        'not fixed: stdin:7:26: seccompProfile_restricted: pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost": for Windows nodes, set spec.os.name to windows and remove spec.securityContext.seccompProfile, spec.containers[0].securityContext.allowPrivilegeEscalation, spec.containers[0].securityContext.capabilities, which API servers reject in Windows pods',
        'stdin: 0 fields fixed, 2 not fixed',
      ],
    ],
    [
      'a pod that selects Windows nodes gets the operating system',
      '--level=restricted',
      WINDOWS.replace('  containers', '  securityContext: {runAsNonRoot: true}\n  containers'),
      0,
      '+  os:\n+    name: windows\n',
      ['fixed: stdin:4:1: allowPrivilegeEscalation: spec.os.name set to windows'],
    ],
    [
      'a pod whose node affinity requires Windows gets the operating system',
      '--level=restricted',
      WINDOWS.replace(
        'nodeSelector: {kubernetes.io/os: windows}',
        'affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/os, operator: In, values: [windows]}]}]}}}',
      ).replace('  containers', '  securityContext: {runAsNonRoot: true}\n  containers'),
      0,
      '+  os:\n+    name: windows\n',
      ['fixed: stdin:4:1: allowPrivilegeEscalation: spec.os.name set to windows'],
    ],
    [
      'a pod that selects Windows nodes keeps its Linux field',
      '--level=restricted',
      WINDOWS.replace(
        '  containers',
        '  securityContext: {runAsNonRoot: true, fsGroup: 1, seLinuxChangePolicy: MountOption}\n  containers',
      ),
      1,
      '',
      ['allowPrivilegeEscalation', 'capabilities_restricted', 'seccompProfile_restricted']
        .map((check) => {
          const detail = {
            allowPrivilegeEscalation: 'container "c" must set securityContext.allowPrivilegeEscalation=false',
            capabilities_restricted: 'container "c" must set securityContext.capabilities.drop=["ALL"]',
            seccompProfile_restricted:
              'pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"',
          }[check];
          return `not fixed: stdin:7:16: ${check}: ${detail}: for Windows nodes, set spec.os.name to windows and remove spec.securityContext.fsGroup, spec.securityContext.seLinuxChangePolicy, which API servers reject in Windows pods`;
        })
        .concat('stdin: 0 fields fixed, 3 not fixed'),
    ],
    [
      'capability names that container runtimes also accept are normalized',
      '--level=restricted',
      spec(
        `  containers: [{name: c, securityContext: {${SAFE.replace('ALL', 'all')}, add: [CAP_NET_BIND_SERVICE]}}, image: i}]\n`,
      ),
      0,
      `+${spec(`  containers: [{name: c, securityContext: {${SAFE}, add: [NET_BIND_SERVICE]}}, image: i}]\n`).split('\n').at(-2)}\n`,
      [
        'fixed: stdin:5:152: capabilities_restricted: spec.containers[0].securityContext.capabilities.drop set to include "ALL"',
        'fixed: stdin:5:165: capabilities_restricted: spec.containers[0].securityContext.capabilities.add set with "NET_BIND_SERVICE" instead of "CAP_NET_BIND_SERVICE"',
        'stdin: 2 fields fixed, 0 not fixed',
      ],
    ],
  ];
  for (const [name, args, stdin, code, added, messages] of cases) {
    test(name, async () => {
      const outcome = await runProgram(['check', '-f', '-', '--fix=diff', ...args.split(' ')], { stdin });
      const lines = outcome.stderr.split('\n').filter((line) => /^(?:fixed|verify|not fixed|stdin): ?/.test(line));
      assert.deepEqual([lines, outcome.code], [messages, code]);
      assert.equal(outcome.stdout.match(/^\+(?!\+).*\n/gm)?.join('') ?? '', added);
    });
  }
});

test('--fix prints a condition to verify for each removed value', async () => {
  const stdin = `apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  hostNetwork: true
  hostPID: true
  hostIPC: true
  securityContext:
    seLinuxOptions: {type: spc_t}
    seccompProfile: {type: Unconfined}
    appArmorProfile: {type: Unconfined}
    sysctls: [{name: net.core.somaxconn, value: "4096"}, {name: kernel.msgmax, value: "1"}]
    windowsOptions: {hostProcess: true}
  containers:
    - name: c
      ports: [{containerPort: 80, hostPort: 80}]
      livenessProbe: {httpGet: {host: 127.0.0.1, port: 80}}
      securityContext:
        privileged: true
        procMount: Unmasked
        capabilities: {add: [IPC_LOCK, NET_ADMIN]}
`;
  const { stderr } = await runProgram(['check', '-f', '-', '--level=baseline', '--fix'], { stdin });
  assert.deepEqual(
    stderr.split('\n').filter((line) => line.startsWith('verify: ')),
    [
      'verify: stdin:11:5: pod: used the AppArmor profile "Unconfined". The default profile denies mounts and most writes to /proc and /sys',
      'verify: stdin:21:24: container "c": added the capabilities "IPC_LOCK", "NET_ADMIN". Operations that need them now fail',
      'verify: stdin:5:3: pod: used the host network. Clients now need a Service, and node addresses such as localhost are not reachable',
      'verify: stdin:6:3: pod: used the host PID namespace. Processes of the node and of other pods are not visible',
      'verify: stdin:7:3: pod: used the host IPC namespace. Shared memory and semaphores of other processes on the node are not reachable',
      'verify: stdin:16:35: container "c": used the host port 80. Clients now need a Service',
      'verify: stdin:17:33: container "c": sent requests of a probe or lifecycle hook to "127.0.0.1". They now go to the IP address of the pod, where the container must listen',
      'verify: stdin:19:9: container "c": was privileged. Host devices, mounts, kernel settings and most capabilities are no longer available',
      'verify: stdin:20:9: container "c": used the proc mount "Unmasked". Some files in /proc are now hidden or read-only',
      'verify: stdin:9:22: pod: used the SELinux options "spc_t". The default type permits fewer operations and files',
      'verify: stdin:10:22: pod: used the seccomp profile "Unconfined". The new profile denies rarely used system calls',
      'verify: stdin:12:15: pod: set the sysctl "net.core.somaxconn". The application now gets the default value of its network namespace or node',
      'verify: stdin:12:58: pod: set the sysctl "kernel.msgmax". The application now gets the default value of its network namespace or node',
      'verify: stdin:13:22: pod: ran as a process of the Windows node. It now runs isolated from the node',
    ],
  );
});

test('--fix rewrites a sysctl from slashes to dots if the pod then passes', async () => {
  const names = [
    'net/ipv4/tcp_syncookies',
    'net/core/somaxconn',
    'net/ipv4/tcp_rmem',
    'net.ipv4.tcp_rmem',
    'net/ipv4/tcp_wmem',
  ];
  const sysctls = names.map((name) => `    - {name: ${name}, value: "1"} # ${name}\n`).join('');
  const pod = `apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  securityContext:\n    sysctls:\n${sysctls}  containers: [{ name: c, image: i }]\n`;
  const { stdout, stderr } = await runProgram(['check', '-f', '-', '--level=baseline', '--fix'], { stdin: pod });
  const lost = 'The application now gets the default value of its network namespace or node';
  assert.deepEqual(stdout.split('\n').slice(6, -2), [
    '    - {name: "net.ipv4.tcp_syncookies", value: "1"} # net/ipv4/tcp_syncookies',
    '    - {name: "net.ipv4.tcp_rmem", value: "1"} # net/ipv4/tcp_rmem',
    '    - {name: "net.ipv4.tcp_wmem", value: "1"} # net/ipv4/tcp_wmem',
  ]);
  assert.deepEqual(stderr.split('\n').slice(0, 7), [
    'fixed: stdin:7:7: sysctls: spec.securityContext.sysctls[0] set with "net.ipv4.tcp_syncookies" instead of "net/ipv4/tcp_syncookies"',
    'fixed: stdin:8:7: sysctls: spec.securityContext.sysctls[1] removed',
    'fixed: stdin:9:7: sysctls: spec.securityContext.sysctls[2] removed',
    'fixed: stdin:11:7: sysctls: spec.securityContext.sysctls[4] set with "net.ipv4.tcp_wmem" instead of "net/ipv4/tcp_wmem"',
    `verify: stdin:8:7: pod: set the sysctl "net/core/somaxconn". ${lost}`,
    `verify: stdin:9:7: pod: set the sysctl "net/ipv4/tcp_rmem". ${lost}`,
    'stdin: 4 fields fixed, 0 not fixed',
  ]);
});

test('--fix moves a field even if it then corrects the value in the new place', async () => {
  const stdin = `apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  securityContext: {privileged: false}\n  containers: [{name: c, securityContext: {privileged: true}, image: i}]\n`;
  const { stdout, stderr } = await runProgram(['check', '-f', '-', '--level=baseline', '--fix'], { stdin });
  assert.match(stdout, /^spec:\n {2}containers: \[\{name: c, securityContext: \{privileged: false\}, image: i\}\]\n$/m);
  assert.match(
    stderr,
    /^fixed: stdin:5:21: unknownField: spec.securityContext.privileged moved to spec.containers\[0\].securityContext$/m,
  );
});

test('--fix=diff of a list takes linear time', async () => {
  const item = `- apiVersion: v1\n  kind: Pod\n  metadata: {name: p}\n  spec:\n    containers:\n    - name: c\n      image: i\n`;
  const stdin = `apiVersion: v1\nkind: List\nitems:\n${item.repeat(800)}`;
  const measure = async (mode: string): Promise<number> => {
    const startMs = performance.now();
    const { stdout } = await runProgram(['check', '-f', '-', mode], { stdin });
    assert.equal(stdout.match(/allowPrivilegeEscalation/g)?.length, 800);
    return performance.now() - startMs;
  };
  const textMs = await measure('--fix');
  const diffMs = await measure('--fix=diff');
  assert.ok(diffMs < 6 * textMs, `${diffMs} ms for the diff, ${textMs} ms for the text`);
});

describe('--fix prints the changes', () => {
  const fixed = `fixed: stdin:5:3: hostNamespaces: spec.hostPID set to false\nverify: stdin:5:3: pod: ${HOST_PID}\n`;
  const cases: readonly (readonly [
    name: string,
    args: string,
    stdin: string,
    code: number,
    stdout: string,
    stderr: string,
  ])[] = [
    [
      'as the complete text for a stream',
      '--fix',
      `# a\n${POD}`,
      0,
      `# a\n${FIXED}`,
      `${fixed.replaceAll(':5:', ':6:')}1 passed, 0 failed\n`,
    ],
    [
      'as a diff',
      '--fix=diff',
      POD,
      0,
      `--- a/stdin\n+++ b/stdin\n@@ -1,6 +1,6 @@\n apiVersion: v1\n kind: Pod\n metadata: {name: p}\n spec:\n-  hostPID: true # debug\n+  hostPID: false # debug\n   containers: [{ name: c, image: i }]\n`,
      `${fixed}1 passed, 0 failed\n`,
    ],
    [
      'as a diff with the line endings of the file',
      '--fix=diff',
      POD.replaceAll('\n', '\r\n').trimEnd(),
      0,
      `--- a/stdin\n+++ b/stdin\n@@ -1,6 +1,6 @@\n apiVersion: v1\r\n kind: Pod\r\n metadata: {name: p}\r\n spec:\r\n-  hostPID: true # debug\r\n+  hostPID: false # debug\r\n   containers: [{ name: c, image: i }]\n\\ No newline at end of file\n`,
      `${fixed}1 passed, 0 failed\n`,
    ],
    [
      'as a diff of a last line that is changed and followed by new lines',
      '--fix=diff --level=restricted',
      'apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: i, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]\n  hostPID: true',
      0,
      '--- a/stdin\n+++ b/stdin\n@@ -2,5 +2,9 @@\n kind: Pod\n metadata: {name: p}\n spec:\n   containers: [{name: c, image: i, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]\n-  hostPID: true\n\\ No newline at end of file\n+  hostPID: false\n+  securityContext:\n+    runAsNonRoot: true\n+    seccompProfile:\n+      type: RuntimeDefault\n\\ No newline at end of file\n',
      `fixed: stdin:6:3: hostNamespaces: spec.hostPID set to false\nfixed: stdin:4:1: runAsNonRoot: spec.securityContext.runAsNonRoot set to true\nfixed: stdin:4:1: seccompProfile_restricted: spec.securityContext.seccompProfile.type set to RuntimeDefault\nverify: stdin:6:3: pod: ${HOST_PID}\nverify: stdin:1:1: the kubelet rejects an image whose USER is missing, root or a name, so use an image with a numeric USER other than 0, or set runAsUser to the UID of a user in the image\nstdin: 3 fields fixed, 0 not fixed\n1 passed, 0 failed\n`,
    ],
    [
      'as patches for a kustomization',
      '--fix=patch',
      POD,
      0,
      'patches:\n  - target:\n      version: v1\n      kind: Pod\n      name: p\n    patch: |\n      - op: replace\n        path: /spec/hostPID\n        value: false\n',
      `${fixed}1 passed, 0 failed\n`,
    ],
    [
      'with one line for each condition to verify, and the counts of the file',
      '--fix=diff --level=restricted',
      TWO_PODS,
      0,
      `--- a/stdin
+++ b/stdin
@@ -3,8 +3,9 @@
 metadata: {name: a}
 spec:
   securityContext:
     seccompProfile: {type: RuntimeDefault}
+    runAsNonRoot: true
   containers:
     - {name: c, image: i, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}
 ---
 apiVersion: v1
@@ -12,6 +13,7 @@
 metadata: {name: b}
 spec:
   securityContext:
     seccompProfile: {type: RuntimeDefault}
+    runAsNonRoot: true
   containers:
     - {name: c, image: i, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}
`,
      `fixed: stdin:5:3: runAsNonRoot: spec.securityContext.runAsNonRoot set to true
fixed: stdin:14:3: runAsNonRoot: spec.securityContext.runAsNonRoot set to true
verify: stdin:1:1: the kubelet rejects an image whose USER is missing, root or a name, so use an image with a numeric USER other than 0, or set runAsUser to the UID of a user in the image (also line 10)
stdin: 2 fields fixed, 0 not fixed
2 passed, 0 failed
`,
    ],
    [
      'with one line for each container and pod that ran as root',
      '--fix=patch --level=restricted',
      ROOT,
      0,
      `patches:
  - target:
      version: v1
      kind: Pod
      name: db
    patch: |
      - op: remove
        path: /spec/securityContext/runAsUser
      - op: add
        path: /spec/securityContext/runAsNonRoot
        value: true
      - op: remove
        path: /spec/initContainers/0/securityContext/runAsUser
      - op: replace
        path: /spec/initContainers/0/securityContext/runAsNonRoot
        value: true
      - op: remove
        path: /spec/containers/0/securityContext/runAsUser
`,
      `fixed: stdin:12:9: runAsNonRoot: spec.initContainers[0].securityContext.runAsNonRoot set to true
fixed: stdin:5:21: runAsUser: spec.securityContext.runAsUser removed
fixed: stdin:11:9: runAsUser: spec.initContainers[0].securityContext.runAsUser removed
fixed: stdin:16:25: runAsUser: spec.containers[0].securityContext.runAsUser removed
fixed: stdin:5:3: runAsNonRoot: spec.securityContext.runAsNonRoot set to true
verify: stdin:12:9: init container "chown": ${RAN_AS_ROOT}
verify: stdin:5:21: pod: ${RAN_AS_ROOT}
verify: stdin:16:25: container "db": ${RAN_AS_ROOT}
verify: stdin:1:1: the kubelet rejects an image whose USER is missing, root or a name, so use an image with a numeric USER other than 0, or set runAsUser to the UID of a user in the image
stdin: 5 fields fixed, 0 not fixed
1 passed, 0 failed
`,
    ],
    [
      'with one line for each container and pod whose user and groups OpenShift sets',
      '--fix=patch --platform=openshift --level=privileged',
      ROOT,
      0,
      `patches:
  - target:
      version: v1
      kind: Pod
      name: db
    patch: |
      - op: remove
        path: /spec/securityContext/runAsUser
      - op: remove
        path: /spec/securityContext/fsGroup
      - op: remove
        path: /spec/initContainers/0/securityContext/runAsUser
      - op: remove
        path: /spec/containers/0/securityContext/runAsUser
`,
      `fixed: stdin:5:35: scc-admission: spec.securityContext.fsGroup removed
fixed: stdin:11:9: scc-admission: spec.initContainers[0].securityContext.runAsUser removed
fixed: stdin:16:25: scc-admission: spec.containers[0].securityContext.runAsUser removed
fixed: stdin:5:21: scc-admission: spec.securityContext.runAsUser removed
verify: stdin:5:35: pod: ${ANY_USER}
verify: stdin:11:9: init container "chown": ${ANY_USER}
verify: stdin:16:25: container "db": ${ANY_USER}
stdin: 4 fields fixed, 0 not fixed
1 passed, 0 failed
`,
    ],
    ['as empty output if nothing changes', '--fix=patch', FIXED, 0, '', '1 passed, 0 failed\n'],
    [
      'with the choices for violations that it cannot fix',
      '--fix=diff',
      FIXED.replace('spec:', 'spec:\n  volumes: [{name: v, hostPath: {path: /}}]'),
      1,
      '',
      `not fixed: stdin:5:23: hostPathVolumes: volume "v": choose: use a persistentVolumeClaim for data that must outlive the pod; use an emptyDir for the data of a single pod; use a configMap, secret, downwardAPI or projected volume for files from the cluster; keep the volume, and move the pod to a separate namespace that enforces a less strict level
Pod default/p violates PodSecurity "baseline:latest"
  stdin:5:23  hostPathVolumes  hostPath volumes (volume "v")
                               Fix: Replace hostPath in spec.volumes with persistentVolumeClaim, emptyDir or another volume source.

0 passed, 1 failed
`,
    ],
  ];
  for (const [name, args, stdin, code, stdout, stderr] of cases) {
    test(name, async () => {
      const level = args.includes('--level=') ? [] : ['--level=baseline'];
      const outcome = await runProgram(['check', '-f', '-', ...level, ...args.split(' ')], { stdin });
      assert.deepEqual(outcome, { code, stdout, stderr });
    });
  }
});

describe('check --platform=openshift', () => {
  const denial = `Deployment shop/db is denied, no SCC admits it
  stdin:9:9    scc-admission  no SCC admits the pod (the closest SCC is "restricted-v2", which does not allow spec.securityContext.fsGroup=1001, spec.containers[0].securityContext.runAsUser=1001)
  stdin:12:29                 Fix: Remove or change spec.securityContext.fsGroup, spec.containers[0].securityContext.runAsUser in the pods. Or: Grant SCC "nonroot-v2": portcullis scc grant nonroot-v2 -z db -n shop. This gives all pods of service account "db" these permissions: any user except root.

0 passed, 1 failed
`;
  const cases: readonly (readonly [
    name: string,
    args: readonly string[],
    stdin: string,
    code: number,
    stdout: string,
  ])[] = [
    ['denies pods with pinned users and groups', ['--platform=openshift'], DENIED, 1, denial],
    [
      'sets the defaults of SCCs before it evaluates the Pod Security levels',
      ['--platform=openshift', '--level=restricted'],
      DENIED,
      1,
      denial,
    ],
    [
      'evaluates grants among the manifests',
      ['--platform=openshift'],
      DENIED + GRANT,
      0,
      '1 passed, 0 failed, 1 of other kinds\n',
    ],
    [
      'removes pinned users and groups with --fix',
      ['--platform=openshift', '--level=restricted', '--fix'],
      DENIED,
      0,
      DENIED.replace('      securityContext:\n        fsGroup: 1001\n', '').replace(
        '        - name: db\n          securityContext: {runAsUser: 1001}\n',
        '        - name: db\n',
      ),
    ],
  ];
  for (const [name, args, stdin, code, stdout] of cases) {
    test(name, async () => {
      const outcome = await runProgram(['check', '-f', '-', ...args], { stdin });
      assert.deepEqual([outcome.code, outcome.stdout], [code, stdout], outcome.stderr);
    });
  }

  test('applies the SCC mode in the --config file', async () => {
    const config = join(folder, 'config.yaml');
    const type = 'apiVersion: config.portcullis.dev/v1alpha1\nkind: PortcullisConfiguration\n';
    for (const [mode, code, summary] of [
      ['enforce', 1, '0 passed, 1 failed'],
      ['report', 0, '0 passed, 0 failed, 1 with warnings'],
      ['off', 0, '1 passed, 0 failed'],
    ] as const) {
      await writeFile(config, `${type}spec: {scc: {mode: '${mode}'}}\n`);
      const outcome = await runProgram(['check', '-f', '-', '--level=privileged', `--config=${config}`], {
        stdin: DENIED,
      });
      assert.deepEqual([outcome.code, outcome.stdout.trim().split('\n').at(-1)], [code, summary]);
    }
  });

  test('evaluates the SCCs of a cluster instead of the standard SCCs', async () => {
    const sccs = join(folder, 'sccs.yaml');
    const any = '{type: RunAsAny}';
    const strategies = ['runAsUser', 'fsGroup', 'supplementalGroups', 'seLinuxContext'].map(
      (name) => `${name}: ${any}\n`,
    );
    const scc = `apiVersion: security.openshift.io/v1\nkind: SecurityContextConstraints\nmetadata: {name: own}\n${strategies.join('')}`;
    await writeFile(sccs, `${scc}volumes: ['*']\ngroups: [system:authenticated]\n`);
    const outcome = await runProgram(['check', '-f', '-', '--platform=openshift', `--sccs=${sccs}`], { stdin: DENIED });
    assert.deepEqual(outcome, { code: 0, stdout: '1 passed, 0 failed\n', stderr: '' });
  });
});

describe('check --fix rejects', () => {
  const cases: readonly (readonly [name: string, args: readonly string[], message: string])[] = [
    [
      'standard input together with a file',
      ['-f', '-', '-f', 'package.json', '--fix'],
      '--fix cannot write standard input: use --fix=diff',
    ],
    [
      'another output format for standard input',
      ['-f', '-', '--fix', '-o', 'json'],
      '-o json cannot be combined with --fix if the changes are printed to stdout',
    ],
  ];
  for (const [name, args, message] of cases) {
    test(name, async () => {
      const { code, stderr } = await runProgram(['check', ...args], { stdin: POD, env: { PATH: folder } });
      assert.equal(stderr.split('\n')[0], `error: ${message}`);
      assert.equal(code, 2);
    });
  }
});

describe('--fix=patch reports what kustomize cannot match:', () => {
  const pod = (metadata: string, field = 'hostPID'): string =>
    `apiVersion: v1\nkind: Pod\nmetadata: ${metadata}\nspec: {${field}: true}\n`;
  const same = (other: string): string =>
    `rename one of the objects or check them separately, because kustomize cannot distinguish this object from the object at ${other}`;
  const unnamed = 'set metadata.name, because kustomize rejects objects without a name';
  const cases: readonly (readonly [
    name: string,
    stdin: string,
    refusals: readonly (readonly [at: string, choice: string])[],
  ])[] = [
    ['an object without metadata', 'apiVersion: v1\nkind: Pod\nspec: {hostPID: true}\n', [['3:8', unnamed]]],
    ['an object with an empty name', pod('{name: ""}'), [['4:8', unnamed]]],
    ['an object whose name is not a string', pod('{name: 8080}'), [['4:8', unnamed]]],
    ['generateName', pod('{generateName: p-}'), [['4:8', unnamed]]],
    [
      'the items of a typed list',
      'apiVersion: v1\nkind: PodList\nitems:\n  - metadata: {name: p}\n    spec: {hostPID: true}\n',
      [['5:12', 'set apiVersion and kind of the list item, because kustomize rejects items without them']],
    ],
    [
      'two objects with the same name',
      `${pod('{name: p}')}---\n${pod('{name: p}')}`,
      [
        ['4:8', same('stdin:6:1')],
        ['9:8', same('stdin:1:1')],
      ],
    ],
    [
      'objects with the same name, without a namespace and in the default namespace',
      `${pod('{name: p}')}---\n${pod('{name: p, namespace: default}')}`,
      [
        ['4:8', same('stdin:6:1')],
        ['9:8', same('stdin:1:1')],
      ],
    ],
  ];
  for (const [name, stdin, refusals] of cases) {
    test(name, async () => {
      const { code, stdout, stderr } = await runProgram(['check', '-f', '-', '--level=baseline', '--fix=patch'], {
        stdin,
      });
      const lines = stderr.split('\n').filter((line) => /^(?:fixed|not fixed).*hostNamespaces/.test(line));
      assert.deepEqual(
        { code, stdout, lines },
        {
          code: 1,
          stdout: '',
          lines: refusals.map(([at, choice]) => `not fixed: stdin:${at}: hostNamespaces: not set to false: ${choice}`),
        },
      );
    });
  }

  test('other objects are patched', async () => {
    const stdin = `${pod('{generateName: p-}')}---\n${pod('{name: a}')}`;
    const { code, stdout } = await runProgram(['check', '-f', '-', '--level=baseline', '--fix=patch'], { stdin });
    assert.deepEqual([code, stdout.match(/name: .*/g)], [1, ['name: a']]);
  });
});

suite('a kustomization', { skip: !hasKubectl && 'there is no kubectl' }, () => {
  const DEPLOYMENT = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - {name: web, image: "web:1", securityContext: {privileged: true}}
`;
  const files: Readonly<Record<string, string>> = {
    'base/kustomization.yaml': 'resources: [web.yaml]\n',
    'base/web.yaml': DEPLOYMENT,
    'overlay/kustomization.yaml': `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: shop
resources: [../base]
patches:
  - target: {kind: Deployment}
    patch: '[{"op": "add", "path": "/spec/template/spec/hostPID", "value": true}]'
`,
  };
  before(async () => {
    for (const [name, text] of Object.entries(files)) {
      await mkdir(join(folder, dirname(name)), { recursive: true });
      await writeFile(join(folder, name), text);
    }
  });

  const build = async (name: string): Promise<string> => {
    const { code, stdout, stderr } = await createKubectl('')(['kustomize', join(folder, name)]);
    assert.equal(code, 0, stderr);
    return stdout;
  };

  test('passes with the patches from --fix=patch', async () => {
    const stdin = await build('overlay');
    const { code, stdout } = await runProgram(['check', '-f', '-', '--fix=patch'], { stdin });
    assert.equal(code, 0);
    await mkdir(join(folder, 'fixed'));
    await writeFile(join(folder, 'fixed/kustomization.yaml'), `resources: [../overlay]\n${stdout}`);
    const fixed = await runProgram(['check', '-f', '-'], { stdin: await build('fixed') });
    assert.deepEqual(fixed, { code: 0, stdout: '1 passed, 0 failed\n', stderr: '' });
  });

  test('passes with patches for objects that have similar names, are in several namespaces, or are in a list', async () => {
    const pod = (metadata: string, field: string): string =>
      `{apiVersion: v1, kind: Pod, metadata: ${metadata}, spec: {${field}: true, containers: [{ name: c, image: i }]}}`;
    const pods = [
      pod('{name: a.b}', 'hostPID'),
      pod('{name: a-b}', 'hostIPC'),
      pod('{name: a-b, namespace: x}', 'hostNetwork'),
    ].join('\n---\n');
    const list = `apiVersion: v1\nkind: List\nitems: [${pod('{name: c}', 'hostPID')}]\n`;
    await mkdir(join(folder, 'names'));
    await writeFile(join(folder, 'names/kustomization.yaml'), 'resources: [pods.yaml]\n');
    await writeFile(join(folder, 'names/pods.yaml'), `${pods}\n---\n${list}`);
    const args = ['check', '-f', join(folder, 'names/pods.yaml'), '--level=baseline', '--fix=patch'];
    const { code, stdout } = await runProgram(args);
    assert.equal(code, 0);
    await writeFile(join(folder, 'names/kustomization.yaml'), `resources: [pods.yaml]\n${stdout}`);
    const stdin = await build('names');
    // A patch that also matched another pod would add a field to that pod.
    assert.equal(stdin.match(/host\w+: false/g)?.length, 4);
    const fixed = await runProgram(['check', '-f', '-', '--level=baseline'], { stdin });
    assert.deepEqual(fixed, { code: 0, stdout: '4 passed, 0 failed\n', stderr: '' });
  });

  for (const name of ['base', 'overlay']) {
    test(`is not evaluated directly: ${name}`, async () => {
      const path = join(folder, name);
      const { code, stderr } = await runProgram(['check', '-f', path]);
      assert.equal(
        stderr,
        `error: ${path}/kustomization.yaml:1:1: not evaluated, because a kustomization changes the manifests that it lists. Check its result with: kubectl kustomize ${path} | portcullis check -f -. To skip this kind, set --skip-kind=Kustomization.kustomize.config.k8s.io\n`,
      );
      assert.equal(code, 2);
      const skipped = await runProgram([
        'check',
        '-f',
        path,
        '--level=privileged',
        '--skip-kind=Kustomization.kustomize.config.k8s.io',
      ]);
      assert.deepEqual([skipped.code, skipped.stderr], [0, '']);
    });
  }
});
