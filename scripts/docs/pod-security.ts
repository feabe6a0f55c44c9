/**
 * Generates the page about Pod Security from the checks. The page lists the levels by field, and the changes of each
 * version.
 */
import { SAFE_SYSCTLS, SE_LINUX_TYPES } from '../../src/policy/pod/index.ts';
import { type Check, checks, newestVersion } from '../../src/policy/pss/index.ts';
import { checkPages } from './checks.ts';
import { cell, code, formatMarkdownTable } from './markdown.ts';

export const POD_SECURITY_PAGE = 'docs/reference/pod-security.md';

type Revision = Check['versions'][number];

/** Changes in a revision of a check that cannot be derived from its data, keyed by ID and version. */
const CHANGES: Readonly<Record<string, string>> = {
  'seccompProfile_baseline v1.19': 'the fields `securityContext.seccompProfile` apply instead of the annotations',
};

const EXCEPTIONS = {
  windows: 'pods with `spec.os.name: windows` are excepted',
  userNamespace: 'pods with `spec.hostUsers: false` are excepted',
} as const;

const ROWS = checks.map(({ id, level, fix, versions }) => {
  const overridden = versions.at(-1)?.overrides ?? [];
  const scope = overridden.length === 0 ? level : `${level}, instead of ${overridden.map(link).join(', ')}`;
  return [link(id), scope, cell(fix)];
});

/** Returns the versions after v1.0 in which a check is new or changes, newest first, with these checks. */
function listVersions(): readonly (readonly [version: string, changes: string])[] {
  const changes = checks
    .flatMap(({ id, versions }) =>
      versions.map((revision, index) => ({ id, version: revision.since, text: describe(id, revision, index === 0) })),
    )
    .filter(({ version }) => version !== 'v1.0');
  const byVersion = Object.entries(Object.groupBy(changes, ({ version }) => version));
  return byVersion
    .toSorted(([a], [b]) => Number(b.slice('v1.'.length)) - Number(a.slice('v1.'.length)))
    .map(([version, all = []]) => {
      const byText = Object.entries(Object.groupBy(all, ({ text }) => text));
      return [
        version,
        byText.map(([text, same = []]) => `${same.map(({ id }) => link(id)).join(', ')}: ${text}`).join('. '),
      ];
    });
}

function describe(id: string, { since, unless }: Revision, isNew: boolean): string {
  if (isNew) return 'new';
  const change = CHANGES[`${id} ${since}`];
  if (change !== undefined) return change;
  if (unless !== undefined) return EXCEPTIONS[unless];
  const allowed = findAllowed(id, since);
  if (allowed.length === 0) throw new Error(`describe the change of ${id} in ${since}`);
  return `also allows ${allowed.map(code).join(', ')}`;
}

/** Returns the values that a check allows since a version. */
function findAllowed(id: string, version: string): readonly string[] {
  if (id === 'sysctls') return SAFE_SYSCTLS.filter(({ since }) => since === version).map(({ name }) => name);
  if (id !== 'seLinuxOptions' || version !== 'v1.31') return [];
  return SE_LINUX_TYPES[version].filter((type) => !SE_LINUX_TYPES['v1.0'].includes(type));
}

function link(id: string): string {
  return `[${code(id)}](checks/${id}.md)`;
}

export function formatPodSecurityPage(): string {
  const others = checkPages().filter(({ id }) => !checks.some((check) => check.id === id));
  return `# Pod Security on one page

The [Pod Security Standards](https://kubernetes.io/docs/concepts/security/pod-security-standards/) are three levels that define what a pod may do. \`privileged\` allows everything, \`baseline\` denies known privilege escalations, such as access to the node, and \`restricted\` also requires that a pod gives up privileges that it does not need. Namespace labels set the level of each mode:

| label | effect for pods that violate the level |
| --- | --- |
| \`pod-security.kubernetes.io/enforce\` | they are denied |
| \`pod-security.kubernetes.io/warn\` | the client gets a warning |
| \`pod-security.kubernetes.io/audit\` | the audit log gets an annotation |

Namespaces without a label have the [default level](settings.md), which is \`privileged\` unless you or the [rollout](../how-to/rollout.md) change it. \`npm run docs\` generates this page from the checks.

## Levels by field

A level is a set of checks. The restricted level includes all baseline checks except those that a restricted check replaces, as the "level" column shows. The page of each check contains the reason, an example, and the CIS and NSA recommendations:

${formatMarkdownTable(['check', 'level', 'how to comply'], ROWS)}
\`portcullis check\` also reports problems that are not part of the levels: ${others.map(({ id }) => link(id)).join(', ')}.

## Versions

The label \`pod-security.kubernetes.io/enforce-version\` (or \`warn-version\`, \`audit-version\`) sets the version of a level, such as \`v1.34\`. Without this label, the version is \`latest\`, which is the version of the API server, so an upgrade of Kubernetes can change what a level allows. The newest version that Portcullis implements is ${newestVersion}. Newer versions are [evaluated as ${newestVersion}](support.md) until you upgrade Portcullis. The table lists what changes at each version:

${formatMarkdownTable(['version', 'changes'], listVersions())}
Before an upgrade, \`portcullis rollout plan --kubernetes-version v1.37\` lists the workloads that the new version would deny.

## Windows

Policies treat a pod as a Windows pod only if it sets \`spec.os.name: windows\`. A node selector is not sufficient.

| policy | Windows pods |
| --- | --- |
| \`baseline\` | all checks apply. \`windowsHostProcess\` and \`hostNamespaces\` deny HostProcess pods |
| \`restricted\`, version 1.25 and newer | \`allowPrivilegeEscalation\`, \`capabilities_restricted\` and \`seccompProfile_restricted\` do not apply. \`runAsNonRoot\` and the volume types do |
| [pod defaults](../how-to/defaults.md) | only \`runAsNonRoot\` is set, unless the user is \`ContainerAdministrator\` |
| SCCs | do not apply, so a namespace that relies on SCCs alone admits HostProcess pods, which have full access to their node. Set at least the \`baseline\` level on each namespace in a cluster with Windows nodes |

\`portcullis check --fix\` sets \`hostProcess: false\` but keeps \`runAsUserName\`. Replace an account of the node, such as \`NT AUTHORITY\\SYSTEM\`, with an account in the image, such as \`ContainerUser\`.

## Fields without a rule

Levels and SCCs restrict only the fields that they list. To restrict one of the following fields, use a ValidatingAdmissionPolicy:

| field | consequence |
| --- | --- |
| \`supplementalGroupsPolicy\` | with \`Merge\`, the default, the container also has the groups that \`/etc/group\` in its image lists, which SCCs do not restrict. \`Strict\` limits the container to the groups in its pod |
| \`seLinuxChangePolicy\` | with \`MountOption\`, a volume has one SELinux label on each node. Pods of two namespaces that share a volume on a node need \`Recursive\`, because SCCs assign a different label to each namespace |
| \`resourceClaims\` with \`adminAccess\` | API servers accept \`adminAccess\` only in namespaces with the label \`resource.kubernetes.io/admin-access: "true"\`, which anyone who can label the namespace can set |

## Workloads

Levels deny pods but not their Deployments and Jobs, because admission can change the pod before it is evaluated. Kubernetes [decided](https://github.com/kubernetes/kubernetes/issues/125507) not to change this. Workloads cause a warning, and [events](../how-to/reports.md#events-on-workloads) report their denied pods. To reject manifests before they reach the cluster, run [\`portcullis check\`](../how-to/check.md) in CI. \`kubectl --warnings-as-errors\` exits with code 1 after a warning, but still creates the object.

An installation [without a server](../how-to/policies.md#without-a-server) can also deny workloads. Its policies for warnings evaluate pod templates (without [pod defaults](../how-to/defaults.md)), so a second binding with \`Deny\` denies violating Deployments:

\`\`\`yaml
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: deny-workloads
spec:
  policyName: warn-restricted.psa.portcullis.dev
  validationActions: [Deny]
  matchResources:
    namespaceSelector:
      matchLabels: {pod-security.kubernetes.io/warn: restricted}
\`\`\`

## Exemptions

To exempt namespaces, users and runtime classes from Pod Security, list their exact names in the [settings](settings.md). As in Kubernetes, there are no selectors, because any user who can label a namespace could otherwise exempt it. To apply the \`privileged\` level to several namespaces, label them:

\`\`\`console
kubectl label namespaces -l team=build pod-security.kubernetes.io/enforce=privileged --overwrite
\`\`\`

Unlike an exemption, the label does not affect the warn and audit modes. You can turn off warnings for a namespace (\`pod-security.kubernetes.io/warn: privileged\`), but not for a user. To ignore warnings in a controller, set \`WarningHandler\` in the \`rest.Config\` of client-go to \`rest.NoWarnings{}\`. An [exception](../how-to/exceptions.md) exempts one workload from single checks.
`;
}
