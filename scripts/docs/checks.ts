/**
 * Generates the documentation pages for `check` findings, with the reason for each check, an example before and after
 * the fix, and references. The texts about Pod Security checks come from the checks.
 */
import { diffLines } from 'diff';
import { OTHER_RESULTS, type OtherCheck } from '../../src/cli/output/findings.ts';
import { parsePath, printYaml } from '../../src/config/yaml.ts';
import { withValueAt } from '../../src/kube/types.ts';
import { type Check, checks, type FieldExample, STANDARDS } from '../../src/policy/pss/index.ts';
import { fixManifests } from '../../src/web/evaluate.ts';

/** A page about a finding of `portcullis check`. */
export interface CheckPage {
  readonly id: string;
  /** Level and versions of the check, or the objects that can have the finding. */
  readonly summary: string;
  /** Why the check exists. */
  readonly why: string;
  readonly before: string;
  readonly after: string;
  readonly fix: string;
  /** Options of `check` that are required for the example to have this finding before the fix. */
  readonly options: readonly string[];
  /** Links to recommendations, with their names. */
  readonly references: readonly string[];
}

const SECURITY_CONTEXT = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
};
/** A pod that passes the restricted level. */
const POD = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'web' },
  spec: {
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [{ name: 'web', image: 'registry.example/web:1.4', securityContext: SECURITY_CONTEXT }],
  },
};

const STANDARDS_URL = 'https://kubernetes.io/docs/concepts/security/pod-security-standards/';

/** Texts for findings outside the Pod Security Standards. */
interface OtherProse extends Omit<CheckPage, 'id' | 'options' | 'references'> {
  readonly options?: readonly string[];
  readonly upstream: readonly [title: string, url: string];
}

const SCC_API: OtherProse['upstream'] = [
  'API of SecurityContextConstraints',
  'https://github.com/openshift/api/blob/master/security/v1/types.go',
];
const LABELS = 'https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/';

function printNamespace(label: string, value: string): string {
  return printYaml([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop', labels: { [label]: value } } }]);
}

/** Returns an SCC that admits pods and has no findings. */
function printScc(change: object): string {
  const scc = { apiVersion: 'security.openshift.io/v1', kind: 'SecurityContextConstraints', metadata: { name: 'web' } };
  const any = { type: 'RunAsAny' };
  const rules = { runAsUser: any, seLinuxContext: any, fsGroup: any, supplementalGroups: any, volumes: ['*'] };
  return printYaml([{ ...scc, ...rules, ...change }]);
}

const OTHERS: Readonly<Record<OtherCheck, OtherProse>> = {
  labels: {
    summary:
      'This check reports namespaces with invalid Pod Security labels and, in `warn` mode, labels and annotations under `pod-security.kubernetes.io/` that have no effect.',
    why: 'The API server rejects a Namespace whose Pod Security labels are not valid levels and versions. An annotation, a label with another name, or a label of a workload has no effect, so the intended policy does not apply.',
    before: printNamespace('pod-security.kubernetes.io/enforce', 'Restricted'),
    after: printNamespace('pod-security.kubernetes.io/enforce', 'restricted'),
    fix: 'Use a level (`privileged`, `baseline`, `restricted`) or a version (`latest`, `v1.N`), in lower case. Set the level with a label of the namespace.',
    upstream: ['Pod Security Admission', 'https://kubernetes.io/docs/concepts/security/pod-security-admission/'],
  },
  'scc-label': {
    summary: 'This check reports namespaces with an invalid SCC mode.',
    why: 'API servers accept any label value, and an unknown mode is treated as `enforce`. For example, with `Report`, pods are denied instead of reported.',
    before: printNamespace('portcullis.dev/scc', 'Report'),
    after: printNamespace('portcullis.dev/scc', 'report'),
    fix: 'Use `enforce`, `report` or `off`, in lower case and, for `off`, in quotes.',
    upstream: ['Labels', LABELS],
  },
  unknownField: {
    summary:
      'This check reports unknown fields in SecurityContextConstraints and, in `warn` mode, in objects of built-in kinds.',
    why: 'API servers may silently drop an unknown field. A security setting that is misspelled or in the wrong object is then ignored.',
    before: printPod(['spec.securityContext.readOnlyRootFilesystem', true]),
    after: printPod(['spec.containers[0].securityContext.readOnlyRootFilesystem', true]),
    fix: 'Move the field to the object in the finding, correct the name, or remove the field. `portcullis check --fix` moves and renames fields of built-in kinds if their place is clear.',
    upstream: ['Field validation', 'https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation'],
  },
  decode: {
    summary:
      'This check reports values with the wrong type in objects of built-in kinds, in the pods of other kinds and in SecurityContextConstraints.',
    why: 'API servers reject an object that contains a value with the wrong type, and evaluate no policies on it.',
    before: printPod(['spec.containers[0].env', [{ name: 'PORT', value: 8080 }]]),
    after: printPod(['spec.containers[0].env', [{ name: 'PORT', value: '8080' }]]),
    fix: 'Give the field a value of the type that the Kubernetes API documents. Put numbers and words such as `yes` in quotes if the API requires text, and remove the quotes otherwise.',
    upstream: ['Pod', 'https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/'],
  },
  invalid: {
    summary:
      'This check reports missing and invalid fields in objects of built-in kinds and in PodSecurityExceptions, such as a missing selector or a duplicate container name.',
    why: 'API servers reject such objects regardless of policies, so no policy is evaluated on them. The finding contains the message of the API server.',
    before: printPod(['spec.containers[0].securityContext.privileged', true]),
    after: printYaml([POD]),
    fix: 'Correct the field in the finding. If a kustomization adds the missing field, check its output: `kubectl kustomize DIR | portcullis check -f -`.',
    upstream: ['Pod', 'https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/'],
  },
  scc: {
    summary: 'This check reports invalid SecurityContextConstraints.',
    why: 'OpenShift and the SCC webhook reject them.',
    before: printScc({ allowedCapabilities: ['KILL'], requiredDropCapabilities: ['KILL'] }),
    after: printScc({ requiredDropCapabilities: ['KILL'] }),
    fix: 'Correct the field in the finding. The finding contains the rule for the field.',
    upstream: SCC_API,
  },
  unusable: {
    summary: 'This check reports SecurityContextConstraints with an incomplete strategy.',
    why: 'Such an SCC is valid but does not allow any pods.',
    before: printScc({ runAsUser: { type: 'MustRunAs' } }),
    after: printScc({ runAsUser: { type: 'MustRunAs', uid: 1000 } }),
    fix: 'For `MustRunAs`, set a `uid`. For `MustRunAsRange`, set both bounds in ascending order, or neither.',
    upstream: SCC_API,
  },
  mistyped: {
    summary: 'This check reports list values in SecurityContextConstraints that cannot match any pod.',
    why: 'The API accepts any string in these lists, so a misspelled value has no effect.',
    before: printScc({ requiredDropCapabilities: ['CAP_KILL'] }),
    after: printScc({ requiredDropCapabilities: ['KILL'] }),
    fix: 'Write capabilities as `NET_ADMIN`, volume types as in pods, seccomp profiles as `runtime/default` or `localhost/FILE`, and service accounts as `system:serviceaccount:NAMESPACE:NAME`.',
    upstream: SCC_API,
  },
  'scc-admission': {
    summary:
      'With `--platform=openshift`, `--sccs` or `--config`, this check reports pods and workloads that no SCC admits.',
    why: 'A pod needs an SCC that its service account may use and that allows all its fields. Otherwise it is denied, and the workload has no pods.',
    before: printPod(['spec.securityContext.fsGroup', 1001]),
    after: printYaml([POD]),
    fix: "Remove the fields, so the SCC sets IDs from the namespace's range. `portcullis check --fix` removes IDs. Otherwise, use `portcullis scc create` to create a copy of the closest SCC that allows the fields, or `portcullis scc grant` to grant a more permissive SCC.",
    options: ['--platform=openshift'],
    upstream: [
      'Managing security context constraints',
      'https://github.com/openshift/openshift-docs/blob/main/authentication/managing-security-context-constraints.adoc',
    ],
  },
};

/** Returns a page for each finding, starting with the checks of the Pod Security Standards in order. */
export function checkPages(): readonly CheckPage[] {
  const others = (Object.keys(OTHER_RESULTS) as OtherCheck[]).map((id): CheckPage => {
    const { upstream, options = [], ...page } = OTHERS[id];
    return { id, ...page, options, references: [`[${upstream[0]}](${upstream[1]})`] };
  });
  return [...checks.map(standardPage), ...others];
}

function standardPage({ id, level, why, fix, violation, correction, cis, nsa, versions }: Check): CheckPage {
  const before = printPod(violation);
  const [first = '', ...changes] = versions.map(({ since }) => since);
  const later = changes.length === 0 ? '' : ` and changed in ${new Intl.ListFormat('en-GB').format(changes)}`;
  return {
    id,
    summary: `This check has been part of the ${level} level since ${first}${later}.`,
    why,
    before,
    after: correction ? printPod(correction) : fixManifests(before, { level, version: 'latest' }).text,
    fix: correction
      ? `${fix} \`portcullis check --fix\` does not make this change, because it depends on the application.`
      : `${fix} \`portcullis check --fix\` makes this change, except where the correct value depends on the application.`,
    options: [`--level=${level}`],
    references: [
      `[Pod Security Standards](${STANDARDS_URL}#${level})`,
      ...(cis === undefined ? [] : [`${STANDARDS.cis}: ${cis}`]),
      ...(nsa === undefined ? [] : [`${STANDARDS.nsa}: ${nsa}`]),
    ],
  };
}

function printPod([path, value]: FieldExample): string {
  return printYaml([withValueAt(POD, parsePath(path), value)]);
}

/** Returns the pages of all findings by path. */
export function formatCheckPages(): readonly (readonly [path: string, text: string])[] {
  return checkPages().map((page) => [`docs/reference/checks/${page.id}.md`, formatPage(page)] as const);
}

function formatPage({ id, summary, why, before, after, fix, references }: CheckPage): string {
  return `# ${id}

${summary} ${why}

## How to fix it

${fix}

\`\`\`diff
${formatDiff(before, after)}\`\`\`

## References

${[...references, '[All checks](../pod-security.md#levels-by-field)'].map((reference) => `- ${reference}`).join('\n')}
`;
}

/** Returns all lines of the example, and marks the lines that the fix removes and adds. */
function formatDiff(before: string, after: string): string {
  const marked = diffLines(before, after).map(({ value, added, removed }) =>
    value.replaceAll(/^(?=.)/gm, added ? '+' : removed ? '-' : ' '),
  );
  return marked.join('');
}
