import type { Store } from '../../cluster/store.ts';
import { impersonatedUser } from '../../kube/admission.ts';
import { compareBytes } from '../../kube/text.ts';
import { isWindows } from '../../kube/pod.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import type { Pod } from '../../kube/types.ts';
import { findSccViolations } from '../../policy/scc/advice/explain.ts';
import { sccMode, type SccMode, type SccSettings } from '../../policy/scc/mode.ts';
import { isGrantedTo, sccGrants, type SccGrant, type GrantSource, printGrantSource, findScc } from '../scc-grants.ts';
import { printColumns, DATA_AND_TABLE, outputOption, printData } from '../output/print.ts';
import { RBAC_KINDS } from '../../policy/rbac/rules.ts';
import { defineCommand, EXIT } from '../command.ts';
import {
  findNamespace,
  readInventory,
  inventoryOptions,
  selectedNamespace,
  selectionOptions,
} from '../inventory/inventory.ts';
import { printAssumptions } from '../output/print.ts';
import { list, oneOf, option, text } from '../options.ts';
import { DEFAULT_SCC_MODE, sccOptions } from '../scc-options.ts';

/** A pod with the SCC that admitted it. */
interface AuditedPod {
  readonly namespace: string;
  readonly name: string;
  /** Absent for a pod that no SCC admitted. */
  readonly scc?: string;
  /** The subject with the permission to use the SCC, as recorded on the pod: `serviceaccount` or `user`. */
  readonly subject?: string;
  readonly serviceAccount?: string;
  /** The current grants of the SCC to the service account. */
  readonly through: readonly GrantSource[];
  /** An explanation of a missing SCC, a missing grant or fields that the SCC does not allow. */
  readonly note?: string;
  /** When the pod was created, in RFC 3339. */
  readonly since?: string;
  readonly owner?: { readonly kind: string; readonly name: string };
}

/** The selection of pods. Absent fields select all pods. */
interface PodFilter {
  readonly namespace?: string | undefined;
  /** An empty list also selects pods without an SCC. */
  readonly sccs: readonly string[];
  readonly subject?: string | undefined;
}

interface AuditContext {
  readonly store: Store;
  readonly settings: Pick<SccSettings, 'mode' | 'exemptNamespaces'>;
}

/** Returns the pods with their SCCs and current grants, sorted by namespace and name. */
export function auditPods(context: AuditContext, { namespace, sccs, subject }: PodFilter): readonly AuditedPod[] {
  const grantsFor = createGrantLookup(context.store);
  return context.store
    .list('Pod', namespace)
    .map((pod) => auditPod(pod, context, grantsFor))
    .filter((pod) => sccs.length === 0 || (pod.scc !== undefined && sccs.includes(pod.scc)))
    .filter((pod) => subject === undefined || pod.subject === subject)
    .sort((a, b) => compareBytes(a.namespace, b.namespace) || compareBytes(a.name, b.name));
}

/** Returns the grants of an SCC to a service account in its namespace; `undefined` if the SCC does not exist. */
type GrantLookup = (scc: string, namespace: string, account: string) => readonly GrantSource[] | undefined;

function createGrantLookup(store: Store): GrantLookup {
  const bySubject = new Map<string, readonly GrantSource[] | undefined>();
  const byScc = new Map<string, ReadonlyMap<string, readonly SccGrant[]> | undefined>();
  const grantsByNamespace = (name: string): ReadonlyMap<string, readonly SccGrant[]> | undefined => {
    const scc = store.get('SecurityContextConstraints', name);
    // A cluster has far more bindings than each of its namespaces.
    if (!byScc.has(name)) byScc.set(name, scc && Map.groupBy(sccGrants(store, scc), (grant) => grant.namespace ?? ''));
    return byScc.get(name);
  };
  return (scc, namespace, account) => {
    const key = JSON.stringify([scc, namespace, account]);
    if (!bySubject.has(key)) {
      const grants = grantsByNamespace(scc);
      const user = impersonatedUser(`system:serviceaccount:${namespace}:${account}`, []);
      const near = grants && [...(grants.get('') ?? []), ...(grants.get(namespace) ?? [])];
      bySubject.set(
        key,
        near?.filter((grant) => isGrantedTo(grant, user, namespace)).map(({ through }) => through),
      );
    }
    return bySubject.get(key);
  };
}

function auditPod(pod: Pod, context: AuditContext, grantsFor: GrantLookup): AuditedPod {
  const namespaceObject = context.store.get('Namespace', pod.metadata?.namespace ?? '') ?? { metadata: {} };
  const mode = isWindows(pod.spec) ? 'windows' : sccMode(namespaceObject, context.settings).mode;
  const { name = '', namespace = '', annotations, creationTimestamp: since, ownerReferences } = pod.metadata ?? {};
  const scc = annotations?.[POD_SCC_ANNOTATIONS.scc];
  const subject = annotations?.[POD_SCC_ANNOTATIONS.subjectType];
  const serviceAccount = pod.spec?.serviceAccountName || undefined;
  const controller = ownerReferences?.find((owner) => owner.controller === true);
  const facts = {
    namespace,
    name,
    ...(serviceAccount === undefined ? {} : { serviceAccount }),
    ...(since === undefined ? {} : { since }),
    ...(controller === undefined ? {} : { owner: { kind: controller.kind, name: controller.name } }),
  };
  if (!scc) return { ...facts, through: [], note: NOTES[mode] };
  const sccObject = context.store.get('SecurityContextConstraints', scc);
  const misfits = sccObject === undefined ? [] : findSccViolations(pod, sccObject, namespaceObject);
  const through = serviceAccount === undefined ? [] : grantsFor(scc, namespace, serviceAccount);
  const notes = [grantNote(subject, through, mode), misfitNote(scc, misfits)].filter((note) => note !== undefined);
  return {
    ...facts,
    scc,
    ...(subject ? { subject } : {}),
    through: through ?? [],
    ...(notes.length === 0 ? {} : { note: notes.join('; ') }),
  };
}

/** The SCC mode of a pod. Windows pods have none. */
type PodMode = SccMode | 'windows';

/** The reasons for pods without an SCC. */
const NOTES: Readonly<Record<PodMode, string>> = {
  windows: 'Windows pod: exempt from SCC admission',
  off: 'exempt namespace',
  report: 'SCC admission only reports here',
  enforce: 'created before SCC admission was enforced here',
};

const MAX_FIELDS = 3;

/** Ephemeral containers may have been added under another SCC. Other fields must have been admitted by the recorded SCC. */
function misfitNote(scc: string, misfits: readonly string[]): string | undefined {
  if (misfits.length === 0) return undefined;
  const more = misfits.length > MAX_FIELDS ? ` and ${misfits.length - MAX_FIELDS} more` : '';
  const fields = `${misfits.slice(0, MAX_FIELDS).join(', ')}${more}`;
  const isAddedLater = misfits.every((field) => field.startsWith('spec.ephemeralContainers['));
  return isAddedLater ? `added under another SCC: ${fields}` : `does not fit ${scc}: ${fields}`;
}

function grantNote(
  subject: string | undefined,
  through: readonly GrantSource[] | undefined,
  mode: PodMode,
): string | undefined {
  if (mode !== 'enforce')
    return 'SCC admission is not enforced here: the creator of the pod may have written the annotation';
  if (through === undefined) return 'the SCC no longer exists';
  if (through.length > 0) return undefined;
  return subject === 'serviceaccount'
    ? 'the grant no longer exists'
    : "admitted only because of its creator's permissions";
}

function printPodTable(pods: readonly AuditedPod[]): string {
  const header = ['NAMESPACE', 'POD', 'SCC', 'SUBJECT', 'GRANTED THROUGH', 'SINCE', 'OWNER'];
  return printColumns(
    header,
    pods.map((pod) => cellsOf(pod).map((cell) => cell || '<none>')),
  );
}

/**
 * Prints CSV with a header and one line for each pod.
 * @see https://www.rfc-editor.org/rfc/rfc4180
 */
function printPodCsv(pods: readonly AuditedPod[]): string {
  const header = ['namespace', 'pod', 'scc', 'subject', 'granted through', 'since', 'owner', 'service account'];
  const rows = pods.map((pod) => [...cellsOf(pod), pod.serviceAccount ?? '']);
  return [header, ...rows].map((cells) => `${cells.map(printCell).join(',')}\r\n`).join('');
}

function cellsOf({ namespace, name, scc, subject, through, note, since, owner }: AuditedPod): string[] {
  const [first, ...others] = through.map(printGrantSource);
  const more = others.length === 0 ? '' : ` and ${others.length} more`;
  const granted = [...(first === undefined ? [] : [`${first}${more}`]), ...(note === undefined ? [] : [note])].join(
    '; ',
  );
  return [namespace, name, scc ?? '', subject ?? '', granted, since ?? '', owner ? `${owner.kind}/${owner.name}` : ''];
}

/** Annotations are free text. A spreadsheet must not evaluate them as formulas. */
function printCell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const DETAILS = `
Lists the pods with the SCC (SecurityContextConstraints) that admitted them, as recorded in their
annotations: the subject with the permission to use the SCC (the service account of the pod or the user
that created it), the current grants of the service account, the creation time and the owner.

A pod without an SCC was not evaluated: its namespace is exempt or in report mode, the pod runs on
Windows, or it is older than the enforcement. Where SCC admission is not enforced, the creator of a pod
can write the annotations.

Examples:
  portcullis scc pods
  portcullis scc pods --scc privileged,anyuid -o csv > pods.csv
  portcullis scc pods --subject user -n shop
`;

const KINDS = ['Namespace', 'Pod', 'SecurityContextConstraints', ...RBAC_KINDS] as const;

/** Lists the pods with the SCCs that admitted them, for auditors. */
export const command = defineCommand({
  details: DETAILS,
  options: {
    ...inventoryOptions,
    ...selectionOptions,
    scc: list('NAME', text, { help: 'Only pods that were admitted by these SCCs' }),
    subject: option('TYPE', oneOf(['user', 'serviceaccount'] as const), undefined, {
      help: 'Only pods that were admitted by the permissions of their creator (user) or of their service account',
    }),
    'scc-mode': sccOptions['scc-mode'],
    'scc-exempt-namespaces': sccOptions['scc-exempt-namespaces'],
    output: outputOption([...DATA_AND_TABLE, 'csv']),
  },
  async run(options, _operands, io) {
    const namespace = selectedNamespace(options);
    const needs = { kinds: KINDS, only: namespace, ranges: 'leave' } as const;
    const { store, assumptions } = await readInventory(options, io, needs);
    const settings = {
      mode: options['scc-mode'] ?? DEFAULT_SCC_MODE,
      exemptNamespaces: options['scc-exempt-namespaces'],
    };
    checkFilter(store, namespace, options.scc);
    const pods = auditPods({ store, settings }, { namespace, sccs: options.scc, subject: options.subject });
    const assumed = options['scc-mode'] === undefined ? [MODE_ASSUMPTION] : [];
    io.stdout.write(PRINT[options.output](pods, [...assumptions, ...assumed]));
    return EXIT.passed;
  },
});

/** The SCC mode of a running server is not visible in the cluster. */
const MODE_ASSUMPTION = `SCC mode ${DEFAULT_SCC_MODE} for namespaces without the label (set --scc-mode)`;

/** @throws {UserError} for a namespace that does not exist, and for an SCC that neither exists nor admitted a pod */
function checkFilter(store: Store, namespace: string | undefined, sccs: readonly string[]): void {
  if (namespace !== undefined) findNamespace(store, namespace);
  const recorded = new Set(store.list('Pod').map(({ metadata }) => metadata?.annotations?.[POD_SCC_ANNOTATIONS.scc]));
  for (const scc of sccs) {
    if (!recorded.has(scc)) findScc(store, scc);
  }
}

type Print = (pods: readonly AuditedPod[], assumptions: readonly string[]) => string;

const PRINT: Readonly<Record<'table' | 'json' | 'yaml' | 'csv', Print>> = {
  table: (pods, assumptions) =>
    `${pods.length === 0 ? 'No pods found.\n' : printPodTable(pods)}${printAssumptions(assumptions)}`,
  json: (pods, assumptions) => printData('json', { pods, assumptions }),
  yaml: (pods, assumptions) => printData('yaml', { pods, assumptions }),
  csv: (pods) => printPodCsv(pods),
};
