import { MODES } from '../../policy/psa/policy.ts';
import { defineCommand, type Io } from '../command.ts';
import { flag, list, mapped, option } from '../options.ts';
import { readAllManifests } from '../read-manifests.ts';
import { FORMATS, FORMAT_NAMES } from '../report/formats.ts';
import { judge } from '../report/judge.ts';
import { outputOption } from '../report/output-option.ts';
import { styleOf } from '../report/style.ts';
import { printTable } from '../report/table.ts';
import { printable, printPlace, problemsOf } from '../report/text.ts';
import { createUnknownFieldFinder } from '../report/strict.ts';
import type { Remark, Report } from '../report/types.ts';
import { exitCodeOf } from '../report/verdict.ts';
import { keyValue, objectName, oneOf } from '../values.ts';
import { level, podSecurityLabels, policyVersion } from '../policy-values.ts';

const DETAILS = `
Paths are files, folders (their .yaml, .yml and .json files, those of subfolders too) and - for the
standard input. Every object with pods is judged by the policies of its namespace: those that the
labels of the Namespace say if it is among the manifests, else those of --namespace-labels. What
labels do not say, --level and --version do. SecurityContextConstraints are judged by the rules
that the API server holds them to, and for fields that it would drop.

Exit codes:
  0  nothing violates a policy in the mode of --fail-on, or in a stronger one (enforce, warn, audit)
  1  something does, or an SCC is wrong
  2  wrong usage, or a document that cannot be read or judged; the others are judged all the same

Examples:
  portcullis check deploy/
  helm template shop ./chart | portcullis check --level baseline -
  portcullis check --version v1.30 -o sarif deploy/ > portcullis.sarif
  portcullis check --namespace-labels pod-security.kubernetes.io/enforce=baseline pod.yaml
`;

/** Judges manifests by the Pod Security Standards, and SCCs by their own rules, without a cluster. */
export const check = defineCommand({
  name: 'check',
  summary: 'Check manifests against the Pod Security Standards',
  operands: 'PATH...',
  details: DETAILS,
  options: {
    level: option('LEVEL', level, 'restricted', { help: 'Level to enforce: privileged, baseline, restricted' }),
    version: option('VERSION', policyVersion, 'latest', { help: 'Version of the policies: latest, v1.N' }),
    'namespace-labels': mapped(
      list('KEY=VALUE', keyValue, { help: 'Labels of namespaces that are not among the manifests' }),
      podSecurityLabels,
    ),
    namespace: option('NAME', objectName, 'default', { short: 'n', help: 'Namespace of objects that name none' }),
    'fail-on': option('MODE', oneOf(MODES), 'enforce', {
      help: 'Weakest mode in which a violation fails the check: enforce, warn, audit',
    }),
    strict: flag({ help: 'Report fields that pods, workloads and namespaces do not have, too' }),
    output: outputOption(['table', ...FORMAT_NAMES]),
  },
  async run(options, paths, io) {
    const manifests = await readAllManifests(paths, io);
    const report = judge(manifests, {
      level: options.level,
      version: options.version,
      namespaceLabels: options['namespace-labels'],
      namespace: options.namespace,
      failOn: options['fail-on'],
      ...(options.strict ? { findUnknownFields: createUnknownFieldFinder() } : {}),
    });
    if (options.output === 'table') writeTable(report, io);
    else io.stdout.write(FORMATS[options.output](report));
    return exitCodeOf(report);
  },
});

/** The table on the standard output; on the error output what could not be read, and warnings. */
function writeTable(report: Report, io: Io): void {
  const writeRemarks = (prefix: string, remarks: readonly Remark[]): void => {
    for (const remark of remarks)
      io.stderr.write(`${prefix}: ${printable(`${printPlace(remark)}: ${remark.message}`)}\n`);
  };
  writeRemarks('error', problemsOf(report));
  writeRemarks('warning', report.warnings);
  io.stdout.write(printTable(report, styleOf(io)));
}
