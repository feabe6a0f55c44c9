import { UserError } from '../../config/files.ts';
import { formatFieldErrors } from '../../kube/field-error.ts';
import { podTemplatePath } from '../../kube/pod.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { LEVEL_RULE, MODES, resolvePolicies, type Labels } from '../../policy/psa/policy.ts';
import { isLevel, type Level } from '../../policy/pss/index.ts';
import { createUnknownFieldFinder } from '../check/fields.ts';
import { checkManifests } from '../check/manifests.ts';
import { defineCommand } from '../command.ts';
import { filenameOption, readAllManifests } from '../inventory/manifests.ts';
import { flag, keyValue, list, mapped, nonEmpty, oneOf, option, policyVersion } from '../options.ts';
import { exitCode, FINDING_FORMATS, printFindingTable, printPosition, problems } from '../output/findings.ts';
import { outputOption, printable, outputStyle } from '../output/print.ts';

function level(value: string): Level {
  if (!isLevel(value)) throw new UserError(LEVEL_RULE);
  return value;
}

const KNOWN_LABELS: ReadonlySet<string> = new Set(Object.values(POD_SECURITY_LABELS));
const DEFAULT = { level: 'restricted', version: 'latest' } as const;

/** Labels of a namespace: none, or at least one valid Pod Security label. */
function podSecurityLabels(pairs: readonly (readonly [key: string, value: string])[]): Labels {
  const labels = Object.fromEntries(pairs);
  const { errors } = resolvePolicies(labels, { enforce: DEFAULT, audit: DEFAULT, warn: DEFAULT });
  if (errors.length > 0) throw new UserError(formatFieldErrors(errors));
  const setsPolicy = pairs.some(([key]) => KNOWN_LABELS.has(key));
  if (pairs.length > 0 && !setsPolicy) throw new UserError(`must have one of ${[...KNOWN_LABELS].join(', ')}`);
  return labels;
}

/** A kind that is not built in, such as `Prometheus.monitoring.coreos.com`. */
function customKind(value: string): string {
  const [, kind = '', group = ''] = /^([A-Z]\w*)\.([a-z0-9.-]+)$/.exec(value) ?? [];
  if (kind === '') throw new UserError('must be KIND.GROUP, such as Prometheus.monitoring.coreos.com');
  if (podTemplatePath(group, kind)) throw new UserError(`${value} is always checked`);
  return value;
}

const DETAILS = `
Folders stand for their .yaml, .yml and .json files, including those of subfolders. Pods and workloads
are checked against the policies of their namespace. The labels of the Namespace set these policies if it
is among the manifests, otherwise --namespace-labels; --level and --kubernetes-version are the defaults.
SecurityContextConstraints are checked against the validation rules of the API server, and for fields that
it would drop.

In kinds of other API groups, such as Rollout and CloneSet, pod templates are found by the kind or by their
shape, and are checked like Deployments. Containers outside of a template are an error, unless --skip-kind
names the kind.

Exit codes:
  0  no violation in the mode of --fail-on or in a stronger mode (enforce, warn, audit)
  1  violations, or an invalid SCC
  2  wrong usage, or documents that cannot be read or evaluated; all others are still checked

Examples:
  portcullis check -f deploy/
  helm template shop ./chart | portcullis check --level baseline -f -
  portcullis check -f deploy/ --kubernetes-version v1.30 -o sarif > portcullis.sarif
  portcullis check -f pod.yaml --namespace-labels pod-security.kubernetes.io/enforce=baseline
`;

/** Checks manifests against the Pod Security Standards, and SCCs against their validation, without a cluster. */
export const command = defineCommand({
  details: DETAILS,
  options: {
    filename: filenameOption('Manifests'),
    level: option('LEVEL', level, 'restricted', { help: 'Enforced level: privileged, baseline, restricted' }),
    'kubernetes-version': option('VERSION', policyVersion, 'latest', {
      help: 'Kubernetes version of the policies: latest, v1.N',
    }),
    'namespace-labels': mapped(
      list('KEY=VALUE', keyValue, { help: 'Labels of namespaces that are not among the manifests' }),
      podSecurityLabels,
    ),
    namespace: option('NAME', nonEmpty, 'default', { short: 'n', help: 'Namespace of objects without one' }),
    'fail-on': option('MODE', oneOf(MODES), 'enforce', { help: 'Weakest mode in which a violation fails the check' }),
    'skip-kind': list('KIND.GROUP', customKind, { help: 'Kinds of other API groups that are not checked' }),
    strict: flag({ help: 'Report unknown fields of pods, workloads and namespaces' }),
    output: outputOption(['table', ...(Object.keys(FINDING_FORMATS) as (keyof typeof FINDING_FORMATS)[])]),
  },
  async run(options, _operands, io) {
    const report = checkManifests(await readAllManifests(options.filename, io), {
      level: options.level,
      version: options['kubernetes-version'],
      namespaceLabels: options['namespace-labels'],
      namespace: options.namespace,
      failOn: options['fail-on'],
      skippedKinds: options['skip-kind'],
      ...(options.strict ? { findUnknownFields: await createUnknownFieldFinder() } : {}),
    });
    if (options.output === 'table') {
      const messages = [
        ...problems(report).map((error) => ['error', error] as const),
        ...report.warnings.map((warning) => ['warning', warning] as const),
      ];
      for (const [severity, one] of messages)
        io.stderr.write(`${severity}: ${printable(`${printPosition(one)}: ${one.message}`)}\n`);
      io.stdout.write(printFindingTable(report, outputStyle(io)));
    } else io.stdout.write(FINDING_FORMATS[options.output](report));
    return exitCode(report);
  },
});
