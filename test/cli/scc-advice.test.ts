/**
 * Tests that `check`, `explain` and `rollout plan -n` print the same reason and advice for pods that no SCC admits, in
 * order of preference.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { runProgram } from '../support/memory-io.ts';

const ACCOUNT = '---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: builder, namespace: ci}\n';
const OWN = `---
apiVersion: security.openshift.io/v1
kind: SecurityContextConstraints
metadata: {name: build-scc}
allowPrivilegeEscalation: true
allowedCapabilities: [SETFCAP]
requiredDropCapabilities: [MKNOD]
fsGroup: {type: MustRunAs}
runAsUser: {type: RunAsAny}
seLinuxContext: {type: MustRunAs}
supplementalGroups: {type: RunAsAny}
volumes: [configMap, emptyDir, projected, secret]
users: ["system:serviceaccount:ci:builder"]
`;

const RANGED = `---
apiVersion: security.openshift.io/v1
kind: SecurityContextConstraints
metadata: {name: ranged}
allowPrivilegeEscalation: false
requiredDropCapabilities: [ALL]
runAsUser: {type: MustRunAsRange, uidRangeMin: 0, uidRangeMax: 10}
seLinuxContext: {type: MustRunAs}
seccompProfiles: [runtime/default]
volumes: [configMap, emptyDir, projected, secret]
`;

/** Returns a pod whose second-to-last line contains the security context of its container. */
function pod(context: string, more = ''): string {
  return `apiVersion: v1
kind: Pod
metadata: {name: build, namespace: ci}
spec:
  serviceAccountName: builder${more}
  containers:
  - name: build
    securityContext: ${context}
    image: build
`;
}

const PRIVILEGED =
  'As a last resort, grant SCC "privileged": portcullis scc grant privileged -z builder -n ci. This gives all pods of service account "builder" these permissions: full control of their nodes.';
const SECURITY = 'spec.containers[0].securityContext';

interface Case {
  readonly name: string;
  readonly manifests: string;
  readonly position: string;
  readonly detail: string;
  readonly fixes: readonly string[];
}

const cases: readonly Case[] = [
  {
    name: 'a profile in a file: copy the own SCC, and add the profile',
    manifests: `${pod('{runAsUser: 0, capabilities: {add: [SETFCAP]}, seccompProfile: {type: Localhost, localhostProfile: a.json}}')}${OWN}`,
    position: '8:103',
    detail: `the closest SCC is "build-scc", which does not allow ${SECURITY}.seccompProfile.localhostProfile=a.json`,
    fixes: [
      `Remove or change ${SECURITY}.seccompProfile.localhostProfile in the pods.`,
      'Copy SCC "build-scc", add localhost/a.json to seccompProfiles, and grant the copy: portcullis scc create build pod/build -n ci -f FILE.',
      PRIVILEGED,
    ],
  },
  {
    name: 'an empty field: remove it',
    manifests: pod('{seLinuxOptions: {}}'),
    position: '8:23',
    detail: `the closest SCC is "restricted-v2", which does not allow ${SECURITY}.seLinuxOptions.level=""`,
    fixes: [`Remove ${SECURITY}.seLinuxOptions, which is empty.`],
  },
  {
    name: 'a deprecated annotation: remove it',
    manifests: pod('{}').replace(
      'metadata: {',
      'metadata: {annotations: {seccomp.security.alpha.kubernetes.io/pod: unconfined}, ',
    ),
    position: '3:26',
    detail:
      'the closest SCC is "restricted-v2", which does not allow metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]=unconfined',
    fixes: ['Remove metadata.annotations[seccomp.security.alpha.kubernetes.io/pod], which is deprecated.'],
  },
  {
    name: 'a sysctl with slashes: write dots',
    manifests: pod('{}', '\n  securityContext: {sysctls: [{name: kernel/shm_rmid_forced, value: "1"}]}'),
    position: '6:32',
    detail:
      'the closest SCC is "restricted-v2", which does not allow spec.securityContext.sysctls[0].name=kernel/shm_rmid_forced',
    fixes: ['Write kernel.shm_rmid_forced instead of kernel/shm_rmid_forced in spec.securityContext.sysctls[0].name.'],
  },
  {
    name: 'a misspelled required SCC: correct the annotation, with the SCC that admits the pod',
    manifests: pod('{}').replace('metadata: {', 'metadata: {annotations: {openshift.io/required-scc: restrictd-v2}, '),
    position: '3:26',
    detail:
      'failed to retrieve the required SCC "restrictd-v2": securitycontextconstraints.security.openshift.io "restrictd-v2" not found',
    fixes: ['Write "restricted-v2" in annotation openshift.io/required-scc.'],
  },
  {
    name: 'the root user: copy the closest SCC before a stronger standard SCC',
    manifests: pod('{runAsUser: 0}'),
    position: '8:23',
    detail: `the closest SCC is "restricted-v2", which does not allow ${SECURITY}.runAsUser=0`,
    fixes: [
      `Remove or change ${SECURITY}.runAsUser in the pods.`,
      'Copy SCC "restricted-v2", set runAsUser={type: MustRunAs, uid: 0}, and grant the copy: portcullis scc create build pod/build -n ci -f FILE.',
      'Grant SCC "anyuid": portcullis scc grant anyuid -z builder -n ci. This gives all pods of service account "builder" these permissions: the root user and privilege escalation.',
    ],
  },
  {
    name: 'the root user: a grant of an SCC whose range contains it',
    manifests: `${pod('{runAsUser: 0}')}${RANGED}`,
    position: '8:23',
    detail: `the closest SCC is "restricted-v2", which does not allow ${SECURITY}.runAsUser=0`,
    fixes: [
      `Remove or change ${SECURITY}.runAsUser in the pods.`,
      'Copy SCC "restricted-v2", set runAsUser={type: MustRunAs, uid: 0}, and grant the copy: portcullis scc create build pod/build -n ci -f FILE.',
      'Grant SCC "ranged": portcullis scc grant ranged -z builder -n ci. This gives all pods of service account "builder" these permissions: the root user.',
    ],
  },
  {
    name: 'the root user: a grant of an SCC that adds a capability to all pods',
    manifests: `${pod('{runAsUser: 0}')}${RANGED.replace('requiredDropCapabilities: [ALL]', 'defaultAddCapabilities: [NET_ADMIN]')}`,
    position: '8:23',
    detail: `the closest SCC is "restricted-v2", which does not allow ${SECURITY}.runAsUser=0`,
    fixes: [
      `Remove or change ${SECURITY}.runAsUser in the pods.`,
      'Copy SCC "restricted-v2", set runAsUser={type: MustRunAs, uid: 0}, and grant the copy: portcullis scc create build pod/build -n ci -f FILE.',
      'Grant SCC "ranged": portcullis scc grant ranged -z builder -n ci. This gives all pods of service account "builder" these permissions: the root user and the capability NET_ADMIN.',
    ],
  },
  {
    name: 'several fields of the SCC: grant a standard SCC',
    manifests: pod('{runAsUser: 7}', '\n  securityContext: {fsGroup: 7}'),
    position: '6:21',
    detail: `the closest SCC is "restricted-v2", which does not allow spec.securityContext.fsGroup=7, ${SECURITY}.runAsUser=7`,
    fixes: [
      `Remove or change spec.securityContext.fsGroup, ${SECURITY}.runAsUser in the pods.`,
      'Grant SCC "nonroot-v2": portcullis scc grant nonroot-v2 -z builder -n ci. This gives all pods of service account "builder" these permissions: any user except root.',
    ],
  },
  {
    name: 'a hostPath volume: allowHostDirVolumePlugin adds it to the volumes',
    manifests: pod('{}', '\n  volumes: [{name: v, hostPath: {path: /}}]'),
    position: '6:13',
    detail: 'the closest SCC is "restricted-v2", which does not allow spec.volumes[0]=hostPath',
    fixes: [
      'Remove or change spec.volumes[0] in the pods.',
      'Copy SCC "restricted-v2", set allowHostDirVolumePlugin=true, and grant the copy: portcullis scc create build pod/build -n ci -f FILE.',
      'Grant SCC "hostmount-anyuid": portcullis scc grant hostmount-anyuid -z builder -n ci. This gives all pods of service account "builder" these permissions: files of the node (hostPath), the root user and privilege escalation.',
    ],
  },
  {
    name: 'a privileged container: only privileged',
    manifests: pod('{privileged: true}'),
    position: '8:23',
    detail: `the closest SCC is "restricted-v2", which does not allow ${SECURITY}.privileged=true`,
    fixes: [`Remove or change ${SECURITY}.privileged in the pods.`, PRIVILEGED],
  },
];

interface CheckReport {
  readonly objects: readonly {
    readonly kind: string;
    readonly findings: readonly {
      readonly reason: string;
      readonly detail: string;
      readonly fix: string;
      readonly fields: readonly { readonly line: number; readonly column: number }[];
    }[];
  }[];
}

interface Explanation {
  readonly objects: readonly {
    readonly scc: {
      readonly cause: { readonly reason: string; readonly detail: string };
      readonly fixes: readonly { readonly text: string; readonly command?: string; readonly consequence?: string }[];
    };
  }[];
}

suite('the advice for a pod that no SCC admits is the smallest change that admits it', () => {
  for (const { name, manifests, position, detail, fixes } of cases) {
    test(name, async () => {
      const stdin = `${manifests}${ACCOUNT}`;
      const checked = await runProgram(['check', '-f', '-', '--platform=openshift', '-o', 'json'], { stdin });
      const report = JSON.parse(checked.stdout) as CheckReport;
      const [finding] = report.objects.find(({ kind }) => kind === 'Pod')?.findings ?? [];
      const [field] = finding?.fields ?? [];
      assert.deepEqual(
        { code: checked.code, reason: finding?.reason, detail: finding?.detail, fix: finding?.fix },
        { code: 1, reason: 'no SCC admits the pod', detail, fix: fixes.join(' Or: ') },
      );
      assert.equal(`${field?.line}:${field?.column}`, position);

      const args = ['explain', '-f', '-', '--offline', '--scc-mode=enforce'];
      const explained = await runProgram([...args, '-o', 'json'], { stdin });
      const [explanation] = (JSON.parse(explained.stdout) as Explanation).objects;
      assert.deepEqual(explanation?.scc.cause, { reason: finding?.reason, detail: finding?.detail });
      const printed = explanation?.scc.fixes.map(({ text, command, consequence }) =>
        [command === undefined ? text : `${text}: ${command}.`, consequence].filter(Boolean).join(' '),
      );
      assert.deepEqual(printed, fixes);
      const title = 'denied, no SCC admits it';
      const table = await runProgram(['check', '-f', '-', '--platform=openshift'], { stdin });
      assert.ok(table.stdout.includes(`Pod ci/build is ${title}\n`), table.stdout);

      const plan = ['rollout', 'plan', '-n', 'ci', '-f', '-', '--scc-mode=enforce'];
      const planned = await runProgram(plan, { stdin });
      const [, block = ''] = planned.stdout.split('\nci (SCCs)\n');
      const [first = 'Fix', ...others] = fixes;
      assert.equal(
        block.split('\n\n')[0],
        [
          `  Pod build: ${title}`,
          `    scc-admission: no SCC admits the pod (${detail})`,
          `      Fix: ${first}`,
          ...others.map((fix) => `      Or: ${fix}`),
        ].join('\n'),
      );

      const { code, stdout } = await runProgram(args, { stdin });
      assert.equal(code, 1);
      assert.ok(stdout.startsWith(`Pod ci/build: ${title}\n`), stdout);
      const lines = stdout.split('\n').map((line) => line.trim());
      assert.ok(lines.includes(`Denied because   no SCC admits the pod (${detail})`), stdout);
      assert.deepEqual(
        lines.flatMap((line) => /^(?:Fix|Or) +(.*)$/.exec(line)?.[1] ?? []),
        fixes,
      );
    });
  }

  test('check --fix makes the first change of the advice', async () => {
    for (const { manifests, fixes } of cases.slice(1, 5)) {
      const args = ['check', '-f', '-', '--platform=openshift', '--fix'];
      const { code, stderr } = await runProgram(args, { stdin: `${manifests}${ACCOUNT}` });
      assert.equal(code, 0, `${fixes.join()}\n${stderr}`);
    }
  });
});
