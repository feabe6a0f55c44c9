import { canUseScc } from '../../cluster/access.ts';
import { UserError } from '../../config/files.ts';
import { quote } from '../../kube/text.ts';
import type { SccSettings } from '../../policy/scc/mode.ts';
import { answerReview, REVIEW_KINDS } from '../../policy/scc/review.ts';
import { type Inventory, readSubjects } from '../inventory/inventory.ts';
import { manifestName, manifestNamespace, podPath } from '../inventory/manifests.ts';
import { printable, printColumns } from '../output/print.ts';
import { printPosition } from '../output/findings.ts';
import type { ManifestObject } from '../../config/manifests.ts';
import { printYaml } from '../../config/yaml.ts';
import { getPodTemplate } from '../../kube/pod.ts';
import { getApiVersion } from '../../kube/resources.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';
import { assumptionBlocks, printAssumptions } from '../output/print.ts';
import { list, objectName, option, text } from '../options.ts';
import { expectedSettings, SCC_REVIEW_KINDS, sccReviewOptions } from '../scc-options.ts';

/** The user of self subject reviews without a cluster. */
const AUTHENTICATED_USER = { groups: ['system:authenticated'] };

/**
 * Answers a review as an API server would. For manifests, all service accounts of the review are assumed to exist.
 * @throws {UserError} with the position of an invalid review
 */
function answer(
  { object, namespace: namespaceName, review }: Review,
  { store, source, user = AUTHENTICATED_USER }: Inventory,
  { compatibility, preferUserNamespaces }: SccSettings,
): AnsweredReview {
  const namespace = store.get('Namespace', namespaceName);
  const place = printPosition({ file: object.document.file, ...object.positionOf([]) });
  if (namespace === undefined) throw new UserError(`${place}: namespace ${quote(namespaceName)} not found`);
  const answered = answerReview({
    review,
    namespace,
    userInfo: user,
    sccs: store.list('SecurityContextConstraints'),
    canUse: canUseScc(store),
    hasServiceAccount: (name) =>
      source === 'manifests' || store.get('ServiceAccount', name, namespaceName) !== undefined,
    compatibility,
    preferUserNamespaces,
  });
  if ('error' in answered) throw new UserError(`${place}: ${answered.error.message}`);
  const { status, warnings } = answered;
  return { resource: `${object.kind}/${manifestName(object.value)}`, review: { ...review, status }, warnings };
}

/** The subjects of the options. */
interface Subjects {
  readonly user: string | undefined;
  readonly groups: readonly string[];
  readonly serviceAccounts: readonly string[];
}

/** Reviews have the same API version as SCCs. */
const API_VERSION = getApiVersion('SecurityContextConstraints');

/**
 * Returns an object that is a review, or a review for its pod; `undefined` for kinds without pods. Without a user and a group,
 * the review is about service accounts: those of the options, otherwise that of the pod.
 */
function createReview(
  object: ManifestObject,
  { subjects, namespace: fallback }: { readonly subjects: Subjects; readonly namespace: string },
): Review | undefined {
  const { apiVersion, kind, value } = object;
  const namespace = manifestNamespace(value) ?? fallback;
  if (apiVersion === API_VERSION && REVIEW_KINDS.some((one) => one === kind)) {
    return { object, namespace, review: value };
  }
  const path = podPath(apiVersion, kind);
  if (path === undefined) return undefined;
  const { metadata, spec } = getPodTemplate(value, path) ?? {};
  const template = path.length === 0 ? { metadata: { annotations: metadata?.annotations }, spec } : { metadata, spec };
  return { object, namespace, review: { apiVersion: API_VERSION, ...reviewSpec(subjects, template) } };
}

function reviewSpec({ user, groups, serviceAccounts }: Subjects, template: unknown) {
  if (user === undefined && groups.length === 0) {
    const names = serviceAccounts.length === 0 ? {} : { serviceAccountNames: serviceAccounts };
    return { kind: 'PodSecurityPolicyReview', spec: { template, ...names } };
  }
  const spec = { template, ...(user === undefined ? {} : { user }), ...(groups.length === 0 ? {} : { groups }) };
  return { kind: 'PodSecurityPolicySubjectReview', spec };
}

/** Prints a table of subject reviews and one of service accounts, as `oc policy scc-subject-review` and `oc policy scc-review` do. */
function printReviews(reviews: readonly AnsweredReview[]): string {
  const subjects = reviews
    .filter((one) => !isAccountReview(one))
    .map((one) => [one.resource, allowedBy(reviewStatus(one))]);
  const accounts = reviews.filter(isAccountReview).flatMap(accountRows);
  return [
    ...(subjects.length === 0 ? [] : [printColumns(['RESOURCE', 'ALLOWED BY'], subjects)]),
    ...(accounts.length === 0 ? [] : [printColumns(['RESOURCE', 'SERVICE ACCOUNT', 'ALLOWED BY'], accounts)]),
  ].join('\n');
}

/** True if an SCC admits the pod for the user, or for every service account of the review. */
function isAllowed(answered: AnsweredReview): boolean {
  const rows = isAccountReview(answered) ? accountRows(answered) : [[allowedBy(reviewStatus(answered))]];
  return rows.every((row) => row.at(-1) !== NONE);
}

const NONE = '<none>';

function isAccountReview({ review }: AnsweredReview): boolean {
  return review['kind'] === 'PodSecurityPolicyReview';
}

function accountRows(answered: AnsweredReview): readonly (readonly string[])[] {
  const { resource } = answered;
  return reviewedAccounts(answered).flatMap((name) => {
    const entries = allowedAccounts(answered).filter((entry) => entry['name'] === name);
    return entries.length === 0 ? [[resource, name, NONE]] : entries.map((entry) => [resource, name, allowedBy(entry)]);
  });
}

/** The service accounts of a review: the list, otherwise that of the template, otherwise `default`. */
function reviewedAccounts({ review }: AnsweredReview): readonly string[] {
  const spec = objectMember(review, 'spec');
  const names: unknown = spec['serviceAccountNames'];
  if (Array.isArray(names) && names.length > 0) return names.map(stringValue);
  const name = stringValue(objectMember(objectMember(spec, 'template'), 'spec')['serviceAccountName']);
  return [name === '' ? 'default' : name];
}

function allowedAccounts(answered: AnsweredReview): readonly JsonObject[] {
  const entries = reviewStatus(answered)['allowedServiceAccounts'];
  return Array.isArray(entries) ? entries.filter(isObject) : [];
}

function reviewStatus({ review }: AnsweredReview): JsonObject {
  return objectMember(review, 'status');
}

function objectMember(owner: JsonObject, key: string): JsonObject {
  const member = owner[key];
  return isObject(member) ? member : {};
}

function allowedBy({ allowedBy }: JsonObject): string {
  return isObject(allowedBy) ? stringValue(allowedBy['name']) : NONE;
}

function stringValue(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

const DETAILS = `
Prints the SCC (SecurityContextConstraints) that admits a pod for a user, or the SCCs that admit it for
service accounts, with the semantics of OpenShift's review APIs. A user without --group is in no group.
Without --user and --group, the service accounts of --serviceaccount are reviewed, otherwise the service
account of the pod, otherwise default.

Manifests may also contain reviews: PodSecurityPolicySubjectReview, PodSecurityPolicySelfSubjectReview
and PodSecurityPolicyReview; -o yaml prints them with their status. A self subject review is about the
user of the kubeconfig, or for manifests about a user in the group system:authenticated.

Exit codes:
  0  an SCC admits every pod
  1  no SCC admits some pod
  2  wrong usage, or sources that cannot be read

Examples:
  portcullis scc-review pod.yaml --user alice --group developers
  portcullis scc-review deployment.yaml --serviceaccount builder -n shop
  portcullis scc-review review.yaml -o yaml
`;

/** Answers the pod security policy reviews of OpenShift. */
export const command = defineCommand({
  operands: '[path...]',
  details: DETAILS,
  options: {
    user: option('USER', text, undefined, { short: 'u', help: 'Reviewed user' }),
    group: list('GROUP', text, { short: 'g', help: 'Groups of the user, or reviewed groups without a user' }),
    serviceaccount: list('NAME', objectName, { short: 'z', help: 'Reviewed service accounts' }),
    ...sccReviewOptions,
  },
  async run(options, paths, io) {
    const { user, group: groups, serviceaccount: serviceAccounts } = options;
    const settings = expectedSettings(options);
    if (serviceAccounts.length > 0 && (user !== undefined || groups.length > 0)) {
      throw new UserError(
        '--serviceaccount cannot be combined with --user and --group: review service accounts or users',
      );
    }
    const { objects, inventory } = await readSubjects(paths, options, { io, needs: { kinds: SCC_REVIEW_KINDS } });
    const namespace = options.namespace ?? inventory.namespace;
    const subjects = { user, groups, serviceAccounts };
    const reviews = objects
      .map((object) => createReview(object, { subjects, namespace }))
      .filter((one) => one !== undefined);
    if (reviews.length === 0) throw new UserError('no pods, workloads or reviews in the manifests');
    const answered = reviews.map((review) => answer(review, inventory, settings));
    write(answered, { assumptions: inventory.assumptions, format: options.output, io });
    return answered.every(isAllowed) ? EXIT.passed : EXIT.violations;
  },
});

interface WriteOptions {
  readonly assumptions: readonly string[];
  readonly format: 'table' | 'json' | 'yaml';
  readonly io: Io;
}

/** Warnings and assumptions go to the standard error, because reviews have no field for them. */
function write(
  answered: readonly AnsweredReview[],
  { assumptions, format, io: { stdout, stderr } }: WriteOptions,
): void {
  const warnings = new Set(answered.flatMap((one) => one.warnings));
  for (const warning of warnings) stderr.write(`warning: ${printable(warning)}\n`);
  if (format !== 'table') for (const block of assumptionBlocks(assumptions)) stderr.write(block);
  const reviews = answered.map(({ review }) => review);
  if (format === 'table') stdout.write(printReviews(answered) + printAssumptions(assumptions));
  else if (format === 'yaml') stdout.write(printYaml(reviews));
  else stdout.write(`${JSON.stringify(reviews.length === 1 ? reviews[0] : reviews, undefined, 2)}\n`);
}

/** A review with the object that it comes from. */
interface Review {
  readonly object: ManifestObject;
  readonly namespace: string;
  readonly review: JsonObject;
}

/** A review with its `status`. */
interface AnsweredReview {
  /** The reviewed object, such as `Deployment/web`. */
  readonly resource: string;
  readonly review: JsonObject;
  readonly warnings: readonly string[];
}
