import { URL_PATTERN } from '../../config/manifest-files.ts';
import type { Manifests } from '../../config/manifests.ts';
import { fieldNamespace, readPods } from '../../config/objects.ts';
import { STDIN } from '../../config/yaml.ts';
import { formatFieldErrors } from '../../kube/field-error.ts';
import { podTemplatePath } from '../../kube/pod.ts';
import { UserError } from '../../kube/user-error.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { type Labels, LEVEL_RULE, MODES, resolvePolicies } from '../../policy/psa/index.ts';
import { isLevel, type Level } from '../../policy/pss/index.ts';
import { defineCommand, type Io } from '../command.ts';
import { manifestOptions, readAllManifests, readObjects } from '../inventory/manifests.ts';
import { policyVersion } from '../inventory/policy-version.ts';
import {
  keyValue,
  list,
  mapped,
  namespaceName,
  oneOf,
  option,
  text,
  time,
  UsageError,
  type Values,
} from '../options.ts';
import {
  exitCode,
  FINDING_FORMATS,
  printFindingTable,
  printPosition,
  problems,
  type CheckReport,
} from '../output/findings.ts';
import { outputOption, outputStyle, printable } from '../output/print.ts';
import {
  FIX_MODES,
  fixedManifests,
  fixTexts,
  patchTargets,
  printFixes,
  printDiffs,
  printPatches,
  writeFixes,
} from './fix.ts';
import { checkManifests, type CheckSettings, createFailureFinder, isSkipped } from './manifests.ts';
import { createSccReviewer } from './scc-admission.ts';

function level(value: string): Level {
  if (!isLevel(value)) throw new UserError(LEVEL_RULE);
  return value;
}

const KNOWN_LABELS: ReadonlySet<string> = new Set(Object.values(POD_SECURITY_LABELS));
const DEFAULT = { level: 'restricted', version: 'latest' } as const;

/** Returns the labels. Throws a UserError if a value is invalid, or if there are labels but none sets a policy. */
function podSecurityLabels(pairs: readonly (readonly [key: string, value: string])[]): Labels {
  const labels = Object.fromEntries(pairs);
  const { errors } = resolvePolicies(labels, { enforce: DEFAULT, audit: DEFAULT, warn: DEFAULT });
  if (errors.length > 0) throw new UserError(formatFieldErrors(errors));
  const setsPolicy = pairs.some(([key]) => KNOWN_LABELS.has(key));
  if (pairs.length > 0 && !setsPolicy)
    throw new UserError(`must include one of the labels ${[...KNOWN_LABELS].join(', ')}`);
  return labels;
}

/** Parses a custom resource kind, such as `Prometheus.monitoring.coreos.com`. */
function customKind(value: string): string {
  const [, kind = '', group = ''] = /^([A-Z]\w*)\.([a-z0-9.-]+)$/.exec(value) ?? [];
  if (kind === '') throw new UserError('must be KIND.GROUP, such as Prometheus.monitoring.coreos.com');
  if (podTemplatePath(group, kind)) throw new UserError(`${value} is always checked`);
  return value;
}

const DETAILS = `
Checks pods and workloads against the policies of their namespace. If the manifests contain the Namespace, its
labels set the policies. Otherwise, --namespace-labels sets them. --level and --kubernetes-version set the
defaults. The command also validates SecurityContextConstraints. It reads directories recursively, and skips
files in them that contain no Kubernetes objects. After --, a path may begin with a hyphen.

In built-in kinds and in the pods of other kinds, a field with a value that API servers cannot decode is a
violation at every level. In built-in kinds, the most common API server validation errors, such as a missing
name, selector, container or image, are also violations at every level, and unknown fields are violations in
warn mode. Manifests inside strings, such as the data of a ConfigMap, are not evaluated.

For kinds of other API groups, such as Rollout, the command finds pod templates by kind or by structure.
A custom resource with containers or security fields outside a recognized pod template is an error unless
--skip-kind lists its kind.

PodSecurityExceptions in the manifests apply as if they were approved. --at evaluates them as of another date.

--fix changes the files so they pass, and preserves comments, order and style. For standard input, it prints the
fixed manifests. --fix=diff prints a unified diff, and --fix=patch prints patches for a kustomization. The exit
code reflects the fixed manifests.

--platform=openshift, --sccs and --config also evaluate SCC admission, with the grants in the manifests. A pod
that no SCC admits for its service account is a violation.

The exit code is 1 for violations in the --fail-on mode or a stronger mode (strongest first: enforce,
warn, audit), and 2 for documents that the command cannot read or evaluate.

Examples:
  portcullis check deploy/
  portcullis check . --exclude charts --exclude 'test/**/invalid-*.yaml'
  helm template shop ./chart | portcullis check --level baseline -f -
  portcullis check deploy/ --kubernetes-version v1.30 -o sarif > portcullis.sarif
  portcullis check deploy/ --fix
  git diff --name-only -z -- '*.yaml' | xargs -0 portcullis check --
  helm template shop ./chart | portcullis check -f - --platform=openshift
  portcullis check -f pod.yaml --namespace-labels pod-security.kubernetes.io/enforce=baseline
`;

const options = {
  ...manifestOptions('Manifests'),
  level: option('LEVEL', level, undefined, {
    help: 'Enforced level: privileged, baseline, restricted. With --platform=openshift, the default is privileged',
    shown: 'restricted',
  }),
  'kubernetes-version': option('VERSION', policyVersion, 'latest', { help: 'Version of the policies: latest or v1.N' }),
  'namespace-labels': mapped(
    list('KEY=VALUE', keyValue, { help: 'Labels for namespaces that the manifests do not contain' }),
    podSecurityLabels,
  ),
  namespace: option('NAME', namespaceName, 'default', {
    short: 'n',
    help: 'Namespace for manifests that do not set one',
  }),
  'fail-on': option('MODE', oneOf(MODES), 'enforce', { help: 'Weakest mode whose violations fail the check' }),
  'skip-kind': list('KIND.GROUP', customKind, { help: 'Kinds of other API groups to skip' }),
  fix: option('MODE', oneOf(FIX_MODES), undefined, {
    bare: 'write',
    help: 'Fix violations that fail the check. --fix changes the files, whereas --fix=diff and --fix=patch print the changes',
  }),
  at: option('DATE', time, undefined, { help: 'Evaluate exceptions in the manifests as of this date. Default: now' }),
  platform: option('PLATFORM', oneOf(['openshift']), undefined, { help: 'Evaluate SCC admission with standard SCCs' }),
  sccs: list('PATH', text, { help: 'Manifests with SCCs and their grants, for example exported from a cluster' }),
  config: option('FILE', text, undefined, { help: 'PortcullisConfiguration with the SCC settings (spec.scc)' }),
  output: outputOption(['table', 'wide', ...(Object.keys(FINDING_FORMATS) as (keyof typeof FINDING_FORMATS)[])]),
};

export const command = defineCommand({
  details: DETAILS,
  options,
  async run(values, _operands, io) {
    const { fix, output } = values;
    checkFixOptions(values);
    const texts = new Map<string, string>();
    const reading =
      fix === undefined
        ? {}
        : { isRewrite: true, onText: (file: string, content: string): void => void texts.set(file, content) };
    const manifests = await readAllManifests(values, io, reading);
    const settings: CheckSettings = {
      level: values.level ?? (values.platform === undefined ? 'restricted' : 'privileged'),
      version: values['kubernetes-version'],
      namespaceLabels: values['namespace-labels'],
      namespace: values.namespace,
      failOn: values['fail-on'],
      skippedKinds: values['skip-kind'],
      at: values.at ?? new Date(),
      ...(await sccReview(values, manifests, io)),
    };
    if (fix === undefined) {
      const report = checkManifests(manifests, settings);
      printReport(report, output, io);
      return exitCode(report);
    }
    const targets = fix === 'patch' ? patchTargets(manifests) : undefined;
    const fixes = fixTexts(texts, createFailureFinder(manifests, settings), {
      targets,
      isSkipped: (object) => isSkipped(object, settings),
    });
    const fixed = fixedManifests(fixes, manifests);
    const report = checkManifests(fixed, settings);
    const [stream] = isStream(values) ? fixes.values() : [];
    if (fix === 'write' && stream === undefined) {
      await writeFixes(fixes, io.stderr);
      printReport(report, output, io);
      return exitCode(report);
    }
    const printed = {
      diff: () => printDiffs(fixes),
      patch: () => (targets ? printPatches(manifests, fixed, targets) : ''),
      write: () => stream?.text ?? '',
    };
    printFixes(io.stderr, fixes);
    io.stdout.write(printed[fix]());
    printReport(report, 'table', { ...io, stdout: io.stderr, text: io.stderr });
    return exitCode(report);
  },
});

type CheckValues = Pick<
  Values<typeof options>,
  'filename' | 'fix' | 'output' | 'platform' | 'sccs' | 'config' | 'namespace'
>;

/** Returns true if standard input is the only source of manifests. */
function isStream({ filename }: Pick<CheckValues, 'filename'>): boolean {
  return filename.length === 1 && filename[0] === STDIN.path;
}

/**
 * Checks the options that `--fix` restricts.
 * @throws {UsageError} for options that cannot be combined
 */
function checkFixOptions(values: CheckValues): void {
  const { filename, fix, output } = values;
  if (fix === undefined) return;
  if (output !== 'table' && output !== 'wide' && (fix !== 'write' || isStream(values))) {
    throw new UsageError(`-o ${output} cannot be combined with --fix if the changes are printed to stdout`);
  }
  const stream = filename.find((path) => path === STDIN.path || URL_PATTERN.test(path));
  if (fix === 'write' && stream !== undefined && !isStream(values)) {
    throw new UsageError(`--fix cannot write ${stream === STDIN.path ? 'standard input' : stream}: use --fix=diff`);
  }
}

/** Returns the function that reviews pods with SCC admission, if an option enables it. */
async function sccReview(
  { platform, sccs, config, namespace }: CheckValues,
  { objects }: Manifests,
  io: Io,
): Promise<Pick<CheckSettings, 'reviewScc'>> {
  if (platform === undefined && sccs.length === 0 && config === undefined) return {};
  const others = sccs.length === 0 ? [] : await readObjects({ filename: sccs }, io);
  const pods = objects.flatMap((object) =>
    readPods(object.value).pods.map(({ path }) => fieldNamespace(object.value, path) ?? namespace),
  );
  const reviewScc = await createSccReviewer({
    objects: [...objects, ...others],
    namespace,
    namespaces: [...new Set(pods)],
    config,
    isOpenShift: platform === 'openshift',
  });
  return { reviewScc };
}

function printReport(report: CheckReport, output: CheckValues['output'], io: Io): void {
  if (output !== 'table' && output !== 'wide') {
    io.stdout.write(FINDING_FORMATS[output](report));
    return;
  }
  const messages = [
    ...problems(report).map((error) => ['error', error] as const),
    ...report.warnings.map((warning) => ['warning', warning] as const),
  ];
  for (const [severity, message] of messages)
    io.stderr.write(`${severity}: ${printable(`${printPosition(message)}: ${message.message}`)}\n`);
  io.text.write(printFindingTable(report, outputStyle(io), output === 'wide'));
}
