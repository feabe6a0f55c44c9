import type { Store } from '../../cluster/store.ts';
import { impersonatedUser } from '../../kube/admission.ts';
import { compareBytes } from '../../kube/text.ts';
import { isWindows } from '../../kube/pod.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import type { Namespace, Pod } from '../../kube/types.ts';
import { misfitsOf } from '../../policy/scc/advice/explain.ts';
import { sccModeOf, type SccMode, type SccSettings } from '../../policy/scc/mode.ts';
import { holds, sccGrants, type SccGrant, type Through, printThrough, findScc } from '../scc-grants.ts';
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

/** What is known of the SCC of a pod. */
interface AuditedPod {
  readonly namespace: string;
  readonly name: string;
  /** The SCC that admitted it; absent: none did. */
  readonly scc?: string;
  /** Who was allowed to use the SCC, as the pod says: `serviceaccount` or `user`. */
  readonly subject?: string;
  readonly serviceAccount?: string;
  /** Through what the service account may use the SCC now; empty if it may not. */
  readonly through: readonly Through[];
  /** What there is to know beside that, or instead. */
  readonly remark?: string;
  /** When the pod was created, in RFC 3339. */
  readonly since?: string;
  readonly owner?: { readonly kind: string; readonly name: string };
}

/** Which pods to look at; what is absent does not matter. */
interface PodFilter {
  readonly namespace?: string | undefined;
  /** Empty: pods without an SCC, too. */
  readonly sccs: readonly string[];
  readonly subject?: string | undefined;
}

/** The store, and how SCCs work. */
interface Audited {
  readonly store: Store;
  readonly settings: Pick<SccSettings, 'mode' | 'exemptNamespaces'>;
}

/** Says of each pod which SCC admitted it, and through what it may use it now; sorted by namespace and name. */
export function auditPods(audited: Audited, { namespace, sccs, subject }: PodFilter): readonly AuditedPod[] {
  const grantsFor = createGrantLookup(audited.store);
  return audited.store
    .list('Pod', namespace)
    .map((pod) => auditPod(pod, audited, grantsFor))
    .filter((pod) => sccs.length === 0 || (pod.scc !== undefined && sccs.includes(pod.scc)))
    .filter((pod) => subject === undefined || pod.subject === subject)
    .sort((a, b) => compareBytes(a.namespace, b.namespace) || compareBytes(a.name, b.name));
}

/** Through what a service account may use an SCC in its namespace; `undefined` if there is no such SCC. */
type GrantLookup = (scc: string, namespace: string, account: string) => readonly Through[] | undefined;

function createGrantLookup(store: Store): GrantLookup {
  const bySubject = new Map<string, readonly Through[] | undefined>();
  const byScc = new Map<string, ReadonlyMap<string, readonly SccGrant[]> | undefined>();
  const grantsOf = (name: string): ReadonlyMap<string, readonly SccGrant[]> | undefined => {
    const scc = store.get('SecurityContextConstraints', name);
    // A cluster has far more bindings than any one namespace.
    if (!byScc.has(name)) byScc.set(name, scc && Map.groupBy(sccGrants(store, scc), (grant) => grant.namespace ?? ''));
    return byScc.get(name);
  };
  return (scc, namespace, account) => {
    const key = JSON.stringify([scc, namespace, account]);
    if (!bySubject.has(key)) {
      const grants = grantsOf(scc);
      const user = impersonatedUser(`system:serviceaccount:${namespace}:${account}`, []);
      const near = grants && [...(grants.get('') ?? []), ...(grants.get(namespace) ?? [])];
      bySubject.set(
        key,
        near?.filter((grant) => holds(grant, user, namespace)).map(({ through }) => through),
      );
    }
    return bySubject.get(key);
  };
}

function auditPod(pod: Pod, audited: Audited, grantsFor: GrantLookup): AuditedPod {
  const namespaceObject = audited.store.get('Namespace', pod.metadata?.namespace ?? '') ?? { metadata: {} };
  const mode = modeAround(pod, namespaceObject, audited);
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
  if (!scc) return { ...facts, through: [], remark: NONE[mode] };
  const named = audited.store.get('SecurityContextConstraints', scc);
  const misfits = named === undefined ? [] : misfitsOf(pod, named, namespaceObject);
  const through = serviceAccount === undefined ? [] : grantsFor(scc, namespace, serviceAccount);
  const remarks = [remarkOn(subject, through, mode), misfitRemark(scc, misfits)].filter((one) => one !== undefined);
  return {
    ...facts,
    scc,
    ...(subject ? { subject } : {}),
    through: through ?? [],
    ...(remarks.length === 0 ? {} : { remark: remarks.join('; ') }),
  };
}

/** What becomes of decisions on a pod. */
type PodMode = SccMode | 'windows';

function modeAround(pod: Pod, namespace: Namespace, { settings }: Audited): PodMode {
  if (isWindows(pod.spec)) return 'windows';
  return sccModeOf(namespace, settings).mode;
}

/** Why a pod carries no SCC. */
const NONE: Readonly<Record<PodMode, string>> = {
  windows: 'Windows: SCCs do not count',
  off: 'exempt namespace',
  report: 'SCCs are only reported here',
  enforce: 'created before SCCs were enforced here',
};

const SHOWN = 3;

/** What only an ephemeral container does was added later, under another SCC; anything else nobody can have admitted. */
function misfitRemark(scc: string, misfits: readonly string[]): string | undefined {
  if (misfits.length === 0) return undefined;
  const more = misfits.length > SHOWN ? ` and ${misfits.length - SHOWN} more` : '';
  const fields = `${misfits.slice(0, SHOWN).join(', ')}${more}`;
  const isAddedLater = misfits.every((field) => field.startsWith('spec.ephemeralContainers['));
  return isAddedLater ? `added under another SCC: ${fields}` : `does not fit ${scc}: ${fields}`;
}

function remarkOn(
  subject: string | undefined,
  through: readonly Through[] | undefined,
  mode: PodMode,
): string | undefined {
  if (mode !== 'enforce') return 'SCCs are not enforced here: whoever created the pod may have written this';
  if (through === undefined) return 'the SCC is gone';
  if (through.length > 0) return undefined;
  return subject === 'serviceaccount' ? 'the grant is gone' : 'granted to whoever created the pod';
}

/** For people. */
function printPodTable(pods: readonly AuditedPod[]): string {
  const header = ['NAMESPACE', 'POD', 'SCC', 'SUBJECT', 'GRANTED THROUGH', 'SINCE', 'OWNER'];
  return printColumns(
    header,
    pods.map((pod) => cellsOf(pod).map((cell) => cell || '<none>')),
  );
}

/**
 * For spreadsheets: a header, one line per pod.
 * @see https://www.rfc-editor.org/rfc/rfc4180
 */
function printPodCsv(pods: readonly AuditedPod[]): string {
  const header = ['namespace', 'pod', 'scc', 'subject', 'granted through', 'since', 'owner', 'service account'];
  const rows = pods.map((pod) => [...cellsOf(pod), pod.serviceAccount ?? '']);
  return [header, ...rows].map((cells) => `${cells.map(printCell).join(',')}\r\n`).join('');
}

function cellsOf({ namespace, name, scc, subject, through, remark, since, owner }: AuditedPod): string[] {
  const [first, ...others] = through.map(printThrough);
  const more = others.length === 0 ? '' : ` and ${others.length} more`;
  const granted = [...(first === undefined ? [] : [`${first}${more}`]), ...(remark === undefined ? [] : [remark])].join(
    '; ',
  );
  return [namespace, name, scc ?? '', subject ?? '', granted, since ?? '', owner ? `${owner.kind}/${owner.name}` : ''];
}

/** Annotations are free text: what begins like a formula must not become one. */
function printCell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const DETAILS = `
Lists pods with the SCC (SecurityContextConstraints) that admitted them, as their annotations say:
whether the service account of the pod or the user who created it was allowed to use the SCC, through
what the service account is allowed to use it now, since when the pod runs, and what owns it.

A pod without an SCC was never judged: its namespace is exempt or SCCs are only reported there, it runs
on Windows, or it is older than the enforcement of SCCs. Where SCCs are not enforced, whoever creates a
pod can write the annotations.

Examples:
  portcullis scc pods
  portcullis scc pods --scc privileged,anyuid -o csv > pods.csv
  portcullis scc pods --subject user -n shop
`;

const KINDS = ['Namespace', 'Pod', 'SecurityContextConstraints', ...RBAC_KINDS] as const;

/** Tells auditors which pod runs under which SCC. */
export const command = defineCommand({
  details: DETAILS,
  options: {
    ...inventoryOptions,
    ...selectionOptions,
    scc: list('NAME', text, { help: 'Only pods that these SCCs admitted' }),
    subject: option('TYPE', oneOf(['user', 'serviceaccount'] as const), undefined, {
      help: 'Only pods whose user, or whose service account, was allowed to use the SCC: user, serviceaccount',
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

/** How the program runs is not seen from outside. */
const MODE_ASSUMPTION = `mode ${DEFAULT_SCC_MODE} of namespaces whose label names none (--scc-mode names another)`;

/** @throws {UserError} for a namespace that does not exist, and for an SCC that neither exists nor admitted any pod */
function checkFilter(store: Store, namespace: string | undefined, sccs: readonly string[]): void {
  if (namespace !== undefined) findNamespace(store, namespace);
  const named = new Set(store.list('Pod').map(({ metadata }) => metadata?.annotations?.[POD_SCC_ANNOTATIONS.scc]));
  for (const scc of sccs) {
    if (!named.has(scc)) findScc(store, scc);
  }
}

type Print = (pods: readonly AuditedPod[], assumptions: readonly string[]) => string;

const PRINT: Readonly<Record<'table' | 'json' | 'yaml' | 'csv', Print>> = {
  table: (pods, assumptions) =>
    `${pods.length === 0 ? 'no pods\n' : printPodTable(pods)}${printAssumptions(assumptions)}`,
  json: (pods, assumptions) => printData('json', { pods, assumptions }),
  yaml: (pods, assumptions) => printData('yaml', { pods, assumptions }),
  csv: (pods) => printPodCsv(pods),
};
