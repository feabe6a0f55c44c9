import type { Store } from '../../cluster/store.ts';
import { impersonatedUser } from '../../kube/admission.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { compareBytes } from '../../kube/text.ts';
import type { Pod } from '../../kube/types.ts';
import { matchesUser, RBAC_KINDS } from '../../policy/rbac/index.ts';
import { findSccViolations, type SccMode, sccMode, type SccSettings } from '../../policy/scc/index.ts';
import { findScc, type GrantSource, printGrantSource, type SccGrant, sccGrants } from '../../views/scc-grants.ts';
import { formatCsv } from '../../web/csv.ts';
import { defineCommand, EXIT } from '../command.ts';
import {
  findNamespace,
  inventoryOptions,
  readInventory,
  selectedNamespace,
  selectionOptions,
  selectorOption,
} from '../inventory/inventory.ts';
import { sccOptions, sccSettings } from '../inventory/settings.ts';
import { list, oneOf, option, text } from '../options.ts';
import {
  assumptionBlocks,
  DATA_AND_TABLE,
  listOptions,
  outputOption,
  printable,
  printListing,
  printTable,
  withHeader,
} from '../output/print.ts';

/** Returns the grants of an SCC to a service account in its namespace, or `undefined` if the SCC does not exist. */
type GrantLookup = (scc: string, namespace: string, account: string) => readonly GrantSource[] | undefined;

/**
 * Creates the function that looks up grants. Indexes them by namespace, because a cluster has far more bindings than a
 * single namespace.
 */
function createGrantLookup(store: Store): GrantLookup {
  const bySccs = new Map<string, ReadonlyMap<string, readonly SccGrant[]>>();
  return (name, namespace, account) => {
    const scc = store.get('SecurityContextConstraints', name);
    if (scc === undefined) return undefined;
    const byNamespace = bySccs.get(name) ?? Map.groupBy(sccGrants(store, scc), (grant) => grant.namespace ?? '');
    bySccs.set(name, byNamespace);
    const user = impersonatedUser(`system:serviceaccount:${namespace}:${account}`, []);
    return [...(byNamespace.get('') ?? []), ...(byNamespace.get(namespace) ?? [])]
      .filter(({ subject }) => matchesUser(subject, user))
      .map(({ through }) => through);
  };
}

/**
 * Returns the function that determines which SCC admitted a pod in the store according to its annotations. The note
 * explains a missing SCC, a missing grant, or fields that the SCC does not allow.
 */
function createAuditor(store: Store, settings: Pick<SccSettings, 'mode' | 'exemptNamespaces'>) {
  const findGrants = createGrantLookup(store);
  return (pod: Pod) => {
    const { name = '', namespace = '', annotations, creationTimestamp: since, ownerReferences } = pod.metadata ?? {};
    const namespaceObject = store.get('Namespace', namespace) ?? { metadata: {} };
    const mode = pod.spec?.os?.name === 'windows' ? 'windows' : sccMode(namespaceObject, settings).mode;
    const serviceAccount = pod.spec?.serviceAccountName || undefined;
    const controller = ownerReferences?.find((owner) => owner.controller === true);
    const owner = controller && { kind: controller.kind, name: controller.name };
    const scc = annotations?.[POD_SCC_ANNOTATIONS.scc];
    if (!scc) {
      const facts = { namespace, name, serviceAccount, since, owner };
      return { ...facts, scc: undefined, subject: undefined, through: [], note: NOTES[mode] };
    }
    const subject = annotations?.[POD_SCC_ANNOTATIONS.subjectType] || undefined;
    const object = store.get('SecurityContextConstraints', scc);
    const through = serviceAccount === undefined ? [] : findGrants(scc, namespace, serviceAccount);
    const disallowed = object === undefined ? [] : findSccViolations(pod, object, namespaceObject);
    const notes = [grantNote(subject, through?.length, mode), disallowedNote(scc, disallowed)];
    const note = notes.filter((text) => text !== undefined).join('; ') || undefined;
    return { namespace, name, serviceAccount, since, owner, scc, subject, through: through ?? [], note };
  };
}

/** SCC mode that applies to a pod. Windows pods are exempt. */
type PodMode = SccMode | 'windows';

/** Notes on a pod without an SCC, by mode. */
const NOTES: Readonly<Record<PodMode, string>> = {
  windows: 'Windows pod: exempt from SCC admission',
  off: 'exempt namespace',
  report: 'SCC admission only reports here',
  enforce: 'created before SCC admission was enforced here',
};

const MAX_FIELDS = 3;

/**
 * Returns a note about the fields that the recorded SCC does not allow. Ephemeral containers may have been added under
 * another SCC, but the recorded SCC must have admitted all other fields.
 */
function disallowedNote(scc: string, disallowed: readonly string[]): string | undefined {
  if (disallowed.length === 0) return undefined;
  const more = disallowed.length > MAX_FIELDS ? ` and ${disallowed.length - MAX_FIELDS} more` : '';
  const fields = `${disallowed.slice(0, MAX_FIELDS).join(', ')}${more}`;
  const isAddedLater = disallowed.every((field) => field.startsWith('spec.ephemeralContainers['));
  return isAddedLater ? `added under another SCC: ${fields}` : `not allowed by ${scc}: ${fields}`;
}

function grantNote(subject: string | undefined, grants: number | undefined, mode: PodMode): string | undefined {
  if (mode !== 'enforce')
    return 'SCC admission is not enforced here: the creator of the pod may have written the annotation';
  if (grants === undefined) return 'the SCC no longer exists';
  if (grants > 0) return undefined;
  return subject === 'serviceaccount'
    ? 'the grant no longer exists'
    : "admitted only because of its creator's permissions";
}

type AuditedPod = ReturnType<ReturnType<typeof createAuditor>>;

const HEADER = ['NAMESPACE', 'POD', 'SCC', 'SUBJECT', 'GRANTED THROUGH', 'SINCE', 'OWNER'];

function printPod({ namespace, name, scc, subject, through, note, since, owner }: AuditedPod): string[] {
  const [first, ...others] = through.map(printGrantSource);
  const more = others.length === 0 ? '' : ` and ${others.length} more`;
  const granted = [first === undefined ? undefined : `${first}${more}`, note].filter((part) => part !== undefined);
  const controller = owner ? `${owner.kind}/${owner.name}` : '';
  return [namespace, name, scc ?? '', subject ?? '', granted.join('; '), since ?? '', controller];
}

const WIDE_HEADER = [...HEADER, 'SERVICE ACCOUNT'];

function printWidePod(pod: AuditedPod): string[] {
  return [...printPod(pod), pod.serviceAccount ?? ''];
}

const DETAILS = `
Lists the pods with the SCC (SecurityContextConstraints) that admitted them, as recorded in their
annotations. Each row contains the subject with the permission to use the SCC (the service account of the pod or
the user that created it), the current grants of the service account, the creation time and the owner.

SCC admission did not evaluate a pod without an SCC, because its namespace is exempt or in report mode, the pod
runs on Windows, or it was created before enforcement. Where SCC admission is not enforced, the creator of a pod
can write the annotations.

Examples:
  portcullis scc pods
  portcullis scc pods --scc privileged,anyuid -o csv > pods.csv
  portcullis scc pods --subject user -n shop
`;

export const command = defineCommand({
  details: DETAILS,
  options: {
    ...inventoryOptions,
    ...selectionOptions,
    ...selectorOption,
    scc: list('NAME', text, { help: 'Only pods that were admitted by these SCCs' }),
    subject: option('TYPE', oneOf(['user', 'serviceaccount'] as const), undefined, {
      help: 'Only pods admitted through the permissions of their creator (user) or of their service account',
    }),
    ...sccOptions,
    ...listOptions,
    output: outputOption([...DATA_AND_TABLE, 'wide', 'name', 'csv']),
  },
  async run(options, _operands, io) {
    const { scc: sccs, subject, output } = options;
    const namespace = selectedNamespace(options);
    const kinds = ['Namespace', 'Pod', 'SecurityContextConstraints', ...RBAC_KINDS] as const;
    const { store, assumptions: missing } = await readInventory(options, io, { kinds, only: namespace });
    if (namespace !== undefined) findNamespace(store, namespace);
    const settings = await sccSettings(options, store);
    const selected = store.list('Pod').filter(({ metadata }) => options.selector(metadata?.labels));
    const all = selected.map(createAuditor(store, settings));
    for (const name of sccs) if (!all.some(({ scc }) => scc === name)) findScc(store, name);
    const pods = all
      .filter((pod) => namespace === undefined || pod.namespace === namespace)
      .filter(({ scc }) => sccs.length === 0 || (scc !== undefined && sccs.includes(scc)))
      .filter((pod) => subject === undefined || pod.subject === subject)
      .sort((a, b) => compareBytes(a.namespace, b.namespace) || compareBytes(a.name, b.name));
    const assumptions = [...missing, ...settings.assumptions];
    if (output === 'csv') {
      const header = WIDE_HEADER.map((title) => title.toLowerCase());
      io.stdout.write(
        formatCsv(
          header,
          pods.map((pod) => printWidePod(pod).map(printable)),
        ),
      );
    } else {
      const isWide = output === 'wide';
      const rows = pods.map((pod) => (isWide ? printWidePod(pod) : printPod(pod)).map((cell) => cell || '<none>'));
      const headed = withHeader(isWide ? WIDE_HEADER : HEADER, rows, options);
      const table = pods.length === 0 ? 'No pods found.\n' : printTable(headed);
      const data = { pods, settings: settings.source, assumptions };
      const blocks = [table, ...assumptionBlocks(assumptions, settings.source)];
      const objects = pods.map(({ name }) => ({ kind: 'Pod', name }));
      printListing(io, output, { data, objects }, () => blocks);
    }
    return EXIT.passed;
  },
});
