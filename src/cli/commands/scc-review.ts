/**
 * What `scc-review` asks and is answered, as plain data. The folder reads nothing in and writes nothing out.
 */
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

/** Nothing more is known of whoever asks about himself. */
const ANYBODY = { groups: ['system:authenticated'] };

/**
 * Answers a review as an API server would, from what has been read. Of manifests that hold no service accounts, the
 * namespace is taken to have those that are asked about.
 * @throws {UserError} that says where the review is wrong
 */
function answer(
  { object, namespace: namespaceName, review }: AskedReview,
  { store, source, user = ANYBODY }: Inventory,
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

/** Whom to ask about. */
interface Subjects {
  readonly user: string | undefined;
  readonly groups: readonly string[];
  readonly serviceAccounts: readonly string[];
}

/** The API version of reviews is that of SCCs. */
const API_VERSION = getApiVersion('SecurityContextConstraints');

/**
 * The review that an object is, or that asks about its pod; `undefined` for kinds without pods. Without a user or a group
 * it is about service accounts: those named, else that of the pod.
 */
function askAbout(
  object: ManifestObject,
  { subjects, namespace: fallback }: { readonly subjects: Subjects; readonly namespace: string },
): AskedReview | undefined {
  const { apiVersion, kind, value } = object;
  const namespace = manifestNamespace(value) ?? fallback;
  if (apiVersion === API_VERSION && REVIEW_KINDS.some((one) => one === kind)) {
    return { object, namespace, review: value };
  }
  const path = podPath(apiVersion, kind);
  if (path === undefined) return undefined;
  const { metadata, spec } = getPodTemplate(value, path) ?? {};
  const template = path.length === 0 ? { metadata: { annotations: metadata?.annotations }, spec } : { metadata, spec };
  return { object, namespace, review: { apiVersion: API_VERSION, ...questionOf(subjects, template) } };
}

function questionOf({ user, groups, serviceAccounts }: Subjects, template: unknown) {
  if (user === undefined && groups.length === 0) {
    const names = serviceAccounts.length === 0 ? {} : { serviceAccountNames: serviceAccounts };
    return { kind: 'PodSecurityPolicyReview', spec: { template, ...names } };
  }
  const spec = { template, ...(user === undefined ? {} : { user }), ...(groups.length === 0 ? {} : { groups }) };
  return { kind: 'PodSecurityPolicySubjectReview', spec };
}

/** As `oc policy scc-subject-review` and `oc policy scc-review` print them: one table for subjects, one for accounts. */
function printReviews(reviews: readonly AnsweredReview[]): string {
  const subjects = reviews.filter((one) => !isAboutAccounts(one)).map((one) => [one.resource, sccIn(statusOf(one))]);
  const accounts = reviews.filter(isAboutAccounts).flatMap(accountRows);
  return [
    ...(subjects.length === 0 ? [] : [printColumns(['RESOURCE', 'ALLOWED BY'], subjects)]),
    ...(accounts.length === 0 ? [] : [printColumns(['RESOURCE', 'SERVICE ACCOUNT', 'ALLOWED BY'], accounts)]),
  ].join('\n');
}

/** True if an SCC admits the pod for whoever the review asks about, for each of several service accounts. */
function isAllowed(answered: AnsweredReview): boolean {
  const rows = isAboutAccounts(answered) ? accountRows(answered) : [[sccIn(statusOf(answered))]];
  return rows.every((row) => row.at(-1) !== NONE);
}

const NONE = '<none>';

function isAboutAccounts({ review }: AnsweredReview): boolean {
  return review['kind'] === 'PodSecurityPolicyReview';
}

function accountRows(answered: AnsweredReview): readonly (readonly string[])[] {
  const { resource } = answered;
  return accountsIn(answered).flatMap((name) => {
    const entries = entriesOf(answered).filter((entry) => entry['name'] === name);
    return entries.length === 0 ? [[resource, name, NONE]] : entries.map((entry) => [resource, name, sccIn(entry)]);
  });
}

/** The service accounts that a review asks about: the list, else that of the template, else the default one. */
function accountsIn({ review }: AnsweredReview): readonly string[] {
  const spec = memberOf(review, 'spec');
  const names: unknown = spec['serviceAccountNames'];
  if (Array.isArray(names) && names.length > 0) return names.map(textOf);
  const name = textOf(memberOf(memberOf(spec, 'template'), 'spec')['serviceAccountName']);
  return [name === '' ? 'default' : name];
}

function entriesOf(answered: AnsweredReview): readonly JsonObject[] {
  const entries = statusOf(answered)['allowedServiceAccounts'];
  return Array.isArray(entries) ? entries.filter(isObject) : [];
}

function statusOf({ review }: AnsweredReview): JsonObject {
  return memberOf(review, 'status');
}

function memberOf(owner: JsonObject, key: string): JsonObject {
  const member = owner[key];
  return isObject(member) ? member : {};
}

function sccIn({ allowedBy }: JsonObject): string {
  return isObject(allowedBy) ? textOf(allowedBy['name']) : NONE;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

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
export const command = defineCommand({
  operands: '[path...]',
  details: DETAILS,
  options: {
    user: option('USER', text, undefined, { short: 'u', help: 'User to ask about' }),
    group: list('GROUP', text, { short: 'g', help: 'Groups of the user, or groups alone' }),
    serviceaccount: list('NAME', objectName, { short: 'z', help: 'Service accounts to ask about' }),
    ...sccReviewOptions,
  },
  async run(options, paths, io) {
    const { user, group: groups, serviceaccount: serviceAccounts } = options;
    const settings = expectedSettings(options);
    if (serviceAccounts.length > 0 && (user !== undefined || groups.length > 0)) {
      throw new UserError(
        '--serviceaccount asks about service accounts, --user and --group about users: leave one out',
      );
    }
    const { objects, inventory } = await readSubjects(paths, options, { io, needs: { kinds: SCC_REVIEW_KINDS } });
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

/** A review that is asked about an object, or that the object is. */
interface AskedReview {
  readonly object: ManifestObject;
  readonly namespace: string;
  readonly review: JsonObject;
}

/** A review with its `status`. */
interface AnsweredReview {
  /** `Deployment/web`, whom the review is about. */
  readonly resource: string;
  readonly review: JsonObject;
  readonly warnings: readonly string[];
}
