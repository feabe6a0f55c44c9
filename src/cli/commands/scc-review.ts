import { printYaml } from '../../config/manifests.ts';
import { UserError } from '../../config/user-error.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';
import { assumptionBlocks, printAssumptions } from '../inventory/print-assumptions.ts';
import { readBeside } from '../inventory/read-beside.ts';
import { list, option } from '../options.ts';
import { printable } from '../report/text.ts';
import { foretoldSettingsOf } from '../scc-options.ts';
import { SCC_REVIEW_KINDS, sccReviewOptions } from '../scc-review-options.ts';
import { answer } from '../scc-review/answer.ts';
import { askAbout } from '../scc-review/ask.ts';
import { isAllowed, printReviews } from '../scc-review/print-table.ts';
import type { AnsweredReview } from '../scc-review/types.ts';
import { objectName, text } from '../values.ts';

const DETAILS = `
Says which SCC (SecurityContextConstraints) admits a pod for a user, or which SCCs do for service
accounts, as the review APIs of OpenShift answer it. A user without groups is in no group. Without
--user and --group it is about service accounts: those of --serviceaccount, else that of the pod, else
default.

Manifests may also be reviews: PodSecurityPolicySubjectReview, PodSecurityPolicySelfSubjectReview and
PodSecurityPolicyReview. They are answered as they ask; -o yaml writes them with their status. A review
of oneself is about the user of the kubeconfig, or with manifests about anybody who is authenticated.

Exit codes:
  0  an SCC admits every pod
  1  none admits one of them
  2  wrong usage, or what cannot be read

Examples:
  portcullis scc-review pod.yaml --user alice --group developers
  portcullis scc-review deployment.yaml --serviceaccount builder -n shop
  portcullis scc-review review.yaml -o yaml
`;

/** Answers the review APIs of OpenShift. */
export const sccReview = defineCommand({
  name: 'scc-review',
  summary: 'Review which SCC admits a pod for a user or for service accounts',
  operands: '[PATH...]',
  details: DETAILS,
  options: {
    user: option('USER', text, undefined, { short: 'u', help: 'User to ask about' }),
    group: list('GROUP', text, { short: 'g', help: 'Groups of the user, or groups alone' }),
    serviceaccount: list('NAME', objectName, { short: 'z', help: 'Service accounts to ask about' }),
    ...sccReviewOptions,
  },
  async run(options, paths, io) {
    const { user, group: groups, serviceaccount: serviceAccounts } = options;
    const settings = foretoldSettingsOf(options);
    if (serviceAccounts.length > 0 && (user !== undefined || groups.length > 0)) {
      throw new UserError(
        '--serviceaccount asks about service accounts, --user and --group about users: leave one out',
      );
    }
    const { objects, inventory } = await readBeside(paths, options, { io, needs: { kinds: SCC_REVIEW_KINDS } });
    const namespace = options.namespace ?? inventory.namespace;
    const subjects = { user, groups, serviceAccounts };
    const asked = objects.map((object) => askAbout(object, { subjects, namespace })).filter((one) => one !== undefined);
    if (asked.length === 0) throw new UserError('no pods, no workloads and no reviews in the manifests');
    const answered = asked.map((review) => answer(review, inventory, settings));
    write(answered, { assumptions: inventory.assumptions, format: options.output, io });
    return answered.every(isAllowed) ? EXIT.passed : EXIT.violations;
  },
});

interface Writing {
  readonly assumptions: readonly string[];
  readonly format: 'table' | 'json' | 'yaml';
  readonly io: Io;
}

/** Reviews have no field for warnings and assumptions. */
function write(answered: readonly AnsweredReview[], { assumptions, format, io: { stdout, stderr } }: Writing): void {
  const warnings = new Set(answered.flatMap((one) => one.warnings));
  for (const warning of warnings) stderr.write(`warning: ${printable(warning)}\n`);
  if (format !== 'table') for (const block of assumptionBlocks(assumptions)) stderr.write(block);
  const reviews = answered.map(({ review }) => review);
  if (format === 'table') stdout.write(printReviews(answered) + printAssumptions(assumptions));
  else if (format === 'yaml') stdout.write(printYaml(reviews));
  else stdout.write(`${JSON.stringify(reviews.length === 1 ? reviews[0] : reviews, undefined, 2)}\n`);
}
