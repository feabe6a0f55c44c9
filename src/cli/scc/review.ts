import { fieldNamespace, manifestName, manifestNamespace, type ManifestObject } from '../../config/objects.ts';
import { printYaml } from '../../config/yaml.ts';
import { defined } from '../../kube/defined.ts';
import { getPodTemplate } from '../../kube/pod.ts';
import { getApiVersion } from '../../kube/resources.ts';
import { quote } from '../../kube/text.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import { findPodTemplates } from '../../policy/pod/index.ts';
import { answerReview, REVIEW_KINDS, type SccSettings } from '../../policy/scc/index.ts';
import { defineCommand, EXIT } from '../command.ts';
import { type Inventory, readSubjects } from '../inventory/inventory.ts';
import { SCC_INPUT_KINDS, sccInput } from '../inventory/scc-input.ts';
import { sccReviewOptions, sccSettings } from '../inventory/settings.ts';
import { list, nonEmpty, option, text, type Values } from '../options.ts';
import { printPosition } from '../output/findings.ts';
import { assumptionBlocks, headersOption, printable, printData, printTable, withHeader } from '../output/print.ts';

const subjectOptions = {
  user: option('USER', text, undefined, { short: 'u', help: 'User to review' }),
  group: list('GROUP', text, { short: 'g', help: 'Groups of the user or, without --user, groups to review' }),
  serviceaccount: list('NAME', nonEmpty, { short: 'z', help: 'Service accounts to review' }),
};

/** API version of reviews, which is also that of SCCs. */
const API_VERSION = getApiVersion('SecurityContextConstraints');

interface RequestedReview {
  readonly review: JsonObject;
  /** `undefined` for the default namespace of the source. */
  readonly namespace: string | undefined;
}

/**
 * Returns the object if it is a review. Otherwise returns a review for each of its pods and pod templates. Without a
 * user or group, the review is for the service accounts in the options or, by default, for the pod's service account.
 */
function createReviews(
  { apiVersion, kind, value }: ManifestObject,
  { user, group: groups, serviceaccount: accounts }: Values<typeof subjectOptions>,
): readonly RequestedReview[] {
  if (apiVersion === API_VERSION && REVIEW_KINDS.some((reviewKind) => reviewKind === kind)) {
    return [{ review: value, namespace: manifestNamespace(value) }];
  }
  const subjects = {
    ...defined({ user }),
    ...(groups.length === 0 ? {} : { groups }),
    ...(accounts.length === 0 ? {} : { serviceAccountNames: accounts }),
  };
  const isOfUser = user !== undefined || groups.length > 0;
  const { templates, composed } = findPodTemplates(value);
  const pods = [...templates.map((path) => ({ path, pod: getPodTemplate(value, path) })), ...composed];
  return pods.map(({ path, pod }) => {
    const { metadata, spec } = pod ?? {};
    const template =
      path.length === 0 ? { metadata: { annotations: metadata?.annotations }, spec } : { metadata, spec };
    const review = {
      apiVersion: API_VERSION,
      kind: isOfUser ? 'PodSecurityPolicySubjectReview' : 'PodSecurityPolicyReview',
      spec: { template, ...subjects },
    };
    return { review, namespace: fieldNamespace(value, path) };
  });
}

/** Status of a review of a user or of service accounts. */
interface ReviewStatus {
  readonly allowedBy?: { readonly name: string };
  readonly allowedServiceAccounts?: readonly (Pick<ReviewStatus, 'allowedBy'> & { readonly name: string })[];
}

/** Assumed user in self subject reviews if there is no cluster. */
const AUTHENTICATED_USER = { groups: ['system:authenticated'] };
const NONE = '<none>';

/**
 * Evaluates a review as an API server would, or returns its error with the position. For manifests, all service
 * accounts in the review are assumed to exist.
 */
function answer(
  object: ManifestObject,
  { review, namespace: requested }: RequestedReview,
  { store, source, namespace: fallback, user, settings }: Inventory & { readonly settings: SccSettings },
) {
  const namespaceName = requested ?? fallback;
  const namespace = store.get('Namespace', namespaceName);
  const position = printPosition({ file: object.document.file, ...object.locate([]) });
  if (namespace === undefined) return `${position}: namespace ${quote(namespaceName)} not found`;
  const answered = answerReview({
    ...sccInput(store, settings),
    review,
    namespace,
    userInfo: user ?? AUTHENTICATED_USER,
    hasServiceAccount: (name) =>
      source === 'manifests' || store.get('ServiceAccount', name, namespaceName) !== undefined,
  });
  if ('error' in answered) return `${position}: ${answered.error.message}`;
  const { status, warnings } = answered;
  const { allowedBy, allowedServiceAccounts = [] }: ReviewStatus = status;
  const resource = `${object.kind}/${manifestName(object.value)}`;
  const rows =
    review['kind'] === 'PodSecurityPolicyReview'
      ? reviewedAccounts(review).flatMap((account) => {
          const names = allowedServiceAccounts.flatMap(({ name, allowedBy }) =>
            name === account ? [allowedBy?.name ?? NONE] : [],
          );
          return (names.length === 0 ? [NONE] : names).map((scc) => [resource, account, scc]);
        })
      : [[resource, allowedBy?.name ?? NONE]];
  return { review: { ...review, status }, warnings, rows };
}

/** Returns the service accounts that a review lists. If it lists none, returns that of the template, or `default`. */
function reviewedAccounts({ spec }: JsonObject): readonly string[] {
  const { serviceAccountNames: names, template } = isObject(spec) ? spec : {};
  if (Array.isArray(names) && names.length > 0) return names.map(String);
  const podSpec = isObject(template) ? template['spec'] : undefined;
  const account = isObject(podSpec) ? podSpec['serviceAccountName'] : undefined;
  return [typeof account === 'string' && account !== '' ? account : 'default'];
}

/**
 * Formats a table of subject reviews and a table of service account reviews, like `oc policy scc-subject-review` and
 * `oc policy scc-review`.
 */
function printReviews(rows: readonly (readonly string[])[], values: Values<typeof headersOption>): readonly string[] {
  const subjects = rows.filter((row) => row.length === 2);
  const accounts = rows.filter((row) => row.length === 3);
  return [
    ...(subjects.length === 0 ? [] : [printTable(withHeader(['RESOURCE', 'ALLOWED BY'], subjects, values))]),
    ...(accounts.length === 0
      ? []
      : [printTable(withHeader(['RESOURCE', 'SERVICE ACCOUNT', 'ALLOWED BY'], accounts, values))]),
  ];
}

const DETAILS = `
Prints the SCC (SecurityContextConstraints) that admits a pod for a user, or the SCCs that admit it for service
accounts, with the semantics of OpenShift's review APIs. Without --user and --group, it reviews the service
accounts in --serviceaccount or, if there are none, the service account of the pod, which defaults to "default".
Manifests may also contain reviews, such as PodSecurityPolicySubjectReview, which -o yaml prints with their status.

The exit code is 1 if no SCC admits a pod, and 2 if a review cannot be evaluated.

Examples:
  portcullis scc review -f pod.yaml --user alice --group developers
  portcullis scc review -f deployment.yaml --serviceaccount builder -n shop
  portcullis scc review -f review.yaml -o yaml
`;

/** This command prints warnings and assumptions to stderr, because reviews have no field for them. */
export const command = defineCommand({
  details: DETAILS,
  options: { ...subjectOptions, ...sccReviewOptions, ...headersOption },
  async run(options, _operands, io) {
    const { stdout, text, stderr } = io;
    if (options.serviceaccount.length > 0 && (options.user !== undefined || options.group.length > 0)) {
      throw new UserError(
        '--serviceaccount cannot be combined with --user and --group: specify either service accounts or a user with groups',
      );
    }
    const needs = { kinds: SCC_INPUT_KINDS, gaps: 'ranges' } as const;
    const { objects, inventory } = await readSubjects(options, { io, needs });
    const { assumptions, store } = inventory;
    const settings = await sccSettings(options, store);
    const context = { ...inventory, settings };
    const errors: string[] = [];
    const requests = objects.flatMap((object) => createReviews(object, options).map((review) => ({ object, review })));
    const answered = requests.flatMap(({ object, review }) => {
      const result = answer(object, review, context);
      if (typeof result === 'object') return [result];
      errors.push(result);
      return [];
    });
    if (requests.length === 0) throw new UserError('no pods, workloads or reviews in the manifests');
    const rows = answered.flatMap((answer) => answer.rows);
    const reviews = answered.map(({ review }) => review);
    for (const warning of new Set(answered.flatMap(({ warnings }) => warnings))) {
      stderr.write(`warning: ${printable(warning)}\n`);
    }
    if (answered.length === 0) throw new UserError(errors.join('\n'));
    if (options.output === 'table')
      text.write([...printReviews(rows, options), ...assumptionBlocks(assumptions, settings.source)].join('\n'));
    else {
      for (const block of assumptionBlocks(assumptions, settings.source)) stderr.write(block);
      const data = reviews.length === 1 ? reviews[0] : reviews;
      stdout.write(options.output === 'yaml' ? printYaml(reviews) : printData('json', data));
    }
    // The results of the successful reviews are already printed at this point.
    if (errors.length > 0) throw new UserError(errors.join('\n'));
    return rows.every((row) => row.at(-1) !== NONE) ? EXIT.passed : EXIT.violations;
  },
});
