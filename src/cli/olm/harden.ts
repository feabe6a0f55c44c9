import { CSV_SCOPE } from '../../cluster/live-cluster.ts';
import type { Store } from '../../cluster/store.ts';
import { diff, escapeKey, type JsonPatchOp } from '../../kube/json-patch.ts';
import { getPodTemplate, podTemplatePath } from '../../kube/pod.ts';
import { objectName, RESOURCES } from '../../kube/resources.ts';
import { compareBytes, quote, shellQuote } from '../../kube/text.ts';
import { isObject, type CatalogSource, type JsonObject, type KubeObject } from '../../kube/types.ts';
import { isCopied } from '../../policy/olm/auto-labeler.ts';
import { catalogMode, hasCatalogPods, rewriteDisableSecurity } from '../../policy/olm/catalog-source.ts';
import { hardenPod, type HardeningInput } from '../../policy/olm/hardening.ts';
import { HARDENING_MANAGER, proposeLabels, type NamespaceProposal } from '../../policy/olm/namespaces.ts';
import { containerNames, findOwningCsv, recognizeWorkload, type Candidate } from '../../policy/olm/recognition.ts';
import { decodePod, findCompletionError } from '../../policy/pod/pod.ts';
import { printFieldPath, type FieldPath } from '../../policy/pod/templates.ts';
import { findChanges, type Change } from '../../policy/scc/advice/changes.ts';
import { defineCommand, EXIT } from '../command.ts';
import {
  findNamespace,
  inventoryOptions,
  readInventory,
  selectedNamespace,
  selectionOptions,
  type Inventory,
} from '../inventory/inventory.ts';
import { flag, UsageError } from '../options.ts';
import {
  assumptionBlocks,
  DATA_AND_TABLE,
  outputOption,
  printable,
  printChanges,
  printCount,
  printReport,
  type Style,
} from '../output/print.ts';

/** An object of OLM and the patch that hardens it. */
interface HardenedObject {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  /** The field of the deployment in a ClusterServiceVersion. */
  readonly path?: string;
  readonly profile?: string;
  /** The mode of the pods of a CatalogSource. */
  readonly mode?: string;
  readonly changes: readonly Change[];
  /** The values that are kept, and the reason why an object is not patched. */
  readonly notes: readonly string[];
  /** A JSON patch; absent if nothing changes, or if the object cannot be patched. */
  readonly patch?: readonly JsonPatchOp[];
}

interface Context extends Pick<HardeningInput, 'isOpenShift' | 'isForced'> {
  readonly store: Store;
  readonly source: Inventory['source'];
}

const WORKLOADS = ['Deployment', 'CronJob', 'Job'] as const;
const KINDS = ['Namespace', ...WORKLOADS, 'CatalogSource'] as const;

/** A pod template in an object. */
interface Template {
  readonly kind: string;
  readonly object: KubeObject;
  readonly path: FieldPath;
  /** The metadata by which the workload is recognized, if it is not that of the object. */
  readonly metadata?: KubeObject['metadata'];
}

/** Hardens a template of a workload of OLM; `undefined` for any other workload. */
function hardenTemplate({ kind, object, path, metadata = object.metadata }: Template, context: Context) {
  const template = getPodTemplate(object, path);
  const decoded = decodePod(template ?? {});
  const spec: JsonObject = isObject(template?.spec) ? { ...template.spec } : {};
  const candidate: Candidate = {
    kind,
    ...(metadata ? { metadata } : {}),
    templateLabels: template?.metadata?.labels,
    containers: containerNames(spec['containers']),
    initContainers: containerNames(spec['initContainers']),
  };
  const recognized = recognizeWorkload(candidate);
  if (recognized === undefined || template === undefined) return undefined;
  const problem = decoded.error ? decoded.error.field : findCompletionError(decoded.pod);
  if (decoded.error !== undefined || problem !== undefined) {
    const note = `${printFieldPath(path)}.${problem?.path ?? ''} ${problem?.detail ?? ''}`;
    return { profile: recognized.profile, changes: [], notes: [note] };
  }
  const { pod } = decoded;
  const { isOpenShift, isForced } = context;
  const hardened = hardenPod({ ...recognized, isOpenShift, isForced, isJob: kind === 'Job', pod });
  return {
    profile: recognized.profile,
    changes: findChanges(pod.json, hardened.pod).map((change) => ({
      ...change,
      path: `${printFieldPath(path)}.${change.path}`,
    })),
    notes: hardened.conflicts.map(({ message }) => `${printFieldPath(path)}.${message}`),
    patch: templatePatch(path, pod.json, hardened.pod),
  };
}

const PATCHED_FIELDS = ['securityContext', 'volumes', 'volumeMounts'] as const;

/** Replaces whole fields, since their parents may be absent in manifests. */
function templatePatch(path: FieldPath, before: JsonObject, after: JsonObject): readonly JsonPatchOp[] {
  const base = ['', ...path.map((step) => escapeKey(String(step))), 'spec'].join('/');
  const [old, next] = [before['spec'], after['spec']].map((spec) => (isObject(spec) ? spec : {}));
  const containers = ['initContainers', 'containers'].flatMap((list) => {
    const [from, to] = [old?.[list], next?.[list]];
    if (!Array.isArray(from) || !Array.isArray(to)) return [];
    return to.flatMap((item: JsonObject, index) => {
      const operations = fieldPatch(`${base}/${list}/${index}`, from[index] as JsonObject, item);
      const name = { op: 'test', path: `${base}/${list}/${index}/name`, value: item['name'] } as const;
      return operations.length === 0 ? [] : [name, ...operations];
    });
  });
  return [...fieldPatch(base, old ?? {}, next ?? {}), ...containers];
}

function fieldPatch(base: string, before: JsonObject, after: JsonObject): readonly JsonPatchOp[] {
  return PATCHED_FIELDS.filter((field) => diff(before[field] ?? null, after[field] ?? null).length > 0).map(
    (field) => ({
      op: 'add',
      path: `${base}/${field}`,
      value: after[field],
    }),
  );
}

function identify(kind: string, object: KubeObject): Pick<HardenedObject, 'kind' | 'namespace' | 'name'> {
  return { kind, namespace: object.metadata?.namespace ?? '', name: objectName(object) };
}

function hardenWorkloads(kind: (typeof WORKLOADS)[number], context: Context): readonly HardenedObject[] {
  const path = podTemplatePath(RESOURCES[kind].group, kind) ?? [];
  return context.store.list(kind).flatMap((object) => {
    const isCreatedByCronJob = object.metadata?.ownerReferences?.some((owner) => owner.kind === 'CronJob') === true;
    const hardened = isCreatedByCronJob ? undefined : hardenTemplate({ kind, object, path }, context);
    if (hardened === undefined) return [];
    const obstacle = findObstacle(kind, object, context);
    if (obstacle === undefined || hardened.changes.length === 0) return [{ ...identify(kind, object), ...hardened }];
    const { profile, changes, notes } = hardened;
    return [{ ...identify(kind, object), profile, changes, notes: [obstacle, ...notes] }];
  });
}

/** Returns the reason why an object cannot be patched. */
function findObstacle(kind: string, object: KubeObject, { store, source }: Context): string | undefined {
  const csv = findOwningCsv(object);
  if (csv !== undefined) {
    const { namespace } = object.metadata ?? {};
    const deployments = store
      .list('ClusterServiceVersion', namespace)
      .filter((one) => objectName(one) === csv)
      .flatMap((one) => csvDeployments({ ...one }));
    const index = deployments.findIndex(({ name }) => name === objectName(object));
    const field = `spec.install.spec.deployments[${index === -1 ? '*' : index}]`;
    return `OLM restores this Deployment: change ${field} of the ClusterServiceVersion ${namespace ?? ''}/${csv}`;
  }
  if (kind !== 'Job' || source === 'manifests') return undefined;
  return 'the pods of an existing Job cannot be changed: set spec.olm.hardening.mode, which hardens new pods';
}

interface CsvDeployment {
  readonly name: string;
  readonly path: FieldPath;
  readonly labels: unknown;
}

function csvDeployments(csv: JsonObject): readonly CsvDeployment[] {
  const path = ['spec', 'install', 'spec', 'deployments'];
  const list = path.reduce<unknown>((value, step) => (isObject(value) ? value[step] : undefined), csv);
  const items: readonly unknown[] = Array.isArray(list) ? list : [];
  return items.flatMap((item, index) => {
    if (!isObject(item)) return [];
    const { name, label: labels } = item;
    return [{ name: typeof name === 'string' ? name : '', path: [...path, index, 'spec', 'template'], labels }];
  });
}

/** The Deployments of OLM in ClusterServiceVersions. Copies are not changed, because OLM restores them. */
function hardenCsvs(context: Context): readonly HardenedObject[] {
  const kind = 'ClusterServiceVersion';
  return context.store.list(kind).flatMap((object) =>
    (isCopied(object) ? [] : csvDeployments({ ...object })).flatMap(({ path, labels }) => {
      const { namespace = '' } = object.metadata ?? {};
      const metadata = { namespace, ...(isStrings(labels) ? { labels } : {}) };
      const hardened = hardenTemplate({ kind: 'Deployment', object, path, metadata }, context);
      return hardened ? [{ ...identify(kind, object), path: printFieldPath(path.slice(0, -2)), ...hardened }] : [];
    }),
  );
}

function isStrings(value: unknown): value is Readonly<Record<string, string>> {
  return isObject(value) && Object.values(value).every((one) => typeof one === 'string');
}

/** The mode of each CatalogSource, and the supported field in place of `disableSecurity`. */
function hardenCatalogs({ store }: Context): readonly HardenedObject[] {
  return store.list('CatalogSource').map((catalog) => {
    const { namespace = '' } = catalog.metadata ?? {};
    const spec = rewriteDisableSecurity(catalog);
    const hasPods = hasCatalogPods(catalog);
    const { mode, from, problems } = catalogMode(catalog, store.get('Namespace', namespace)?.metadata?.labels);
    return {
      ...identify('CatalogSource', catalog),
      profile: 'catalog-source',
      mode: hasPods ? `${mode} (${from})` : 'no pods',
      changes: findChanges({ spec: catalog.spec }, { spec: spec ?? catalog.spec }),
      notes: [...(spec ? [REWRITTEN] : []), ...(hasPods ? problems : [])],
      ...(spec ? { patch: catalogPatch(catalog, spec) } : {}),
    };
  });
}

const REWRITTEN =
  'the CRD of OLM drops spec.disableSecurity, and no release reads it; spec.grpcPodConfig.securityContextConfig replaces it';

function catalogPatch({ spec }: CatalogSource, rewritten: JsonObject): readonly JsonPatchOp[] {
  return diff({ spec }, { spec: rewritten });
}

function compareObjects(a: HardenedObject, b: HardenedObject): number {
  return (
    compareBytes(a.namespace, b.namespace) ||
    compareBytes(a.kind, b.kind) ||
    compareBytes(a.name, b.name) ||
    compareBytes(a.path ?? '', b.path ?? '')
  );
}

/** Prints an object with its changes, notes and the command that applies its patch to a cluster. */
function printObject(object: HardenedObject, style: Style): string {
  const { kind, namespace, name, path, profile, mode, changes, notes, patch = [] } = object;
  const title = `${kind} ${namespace}/${name}${path === undefined ? '' : ` (${path})`}: ${mode ?? profile ?? ''}`;
  const target = `kubectl -n ${shellQuote(namespace)} patch ${kind.toLowerCase()} ${shellQuote(name)}`;
  const lines = [
    ...(changes.length === 0 && notes.length === 0 ? ['complies'] : []),
    ...printChanges(changes).map(printable),
    ...notes.map((note) => style('yellow', printable(note))),
    // API servers reject changes of the pod template of a Job: the patch is for its manifest.
    ...(patch.length === 0 || kind === 'Job' ? [] : [`${target} --type=json -p ${shellQuote(JSON.stringify(patch))}`]),
  ];
  return `${[style('bold', printable(title)), ...lines.map((line) => `  ${line}`)].join('\n')}\n`;
}

function printNamespace({ namespace, labels, notes }: NamespaceProposal, style: Style): string {
  const set = Object.entries(labels).map(([key, value]) => shellQuote(`${key}=${value}`));
  const command = `kubectl label namespace ${shellQuote(namespace)} --overwrite --field-manager=${HARDENING_MANAGER} ${set.join(' ')}`;
  const lines = [
    ...(set.length === 0 && notes.length === 0 ? ['complies'] : []),
    ...notes.map((note) => style('yellow', printable(note))),
    ...(set.length === 0 ? [] : [command]),
  ];
  return `${[style('bold', printable(namespace)), ...lines.map((line) => `  ${line}`)].join('\n')}\n`;
}

const DETAILS = `
Prints patches that harden the workloads of the Operator Lifecycle Manager (OLM): its Deployments and
CronJobs, the Jobs that unpack bundles, and CatalogSources with the field disableSecurity. A patch sets
absent fields only; less strict values are kept and reported, unless --force replaces them. OLM restores
the Deployments of a ClusterServiceVersion: their patch changes the ClusterServiceVersion.

"portcullis olm harden namespaces" proposes Pod Security labels for the namespaces of OLM. It lowers no
level, and keeps labels of other field managers, unless --force replaces them.

The command changes nothing: review the printed commands and run them.

Exit codes:
  0  nothing has to change
  1  changes are proposed
  2  wrong usage, or the input cannot be read

Examples:
  portcullis olm harden
  portcullis olm harden -f examples/olm
  portcullis olm harden namespaces -n openshift-marketplace
`;

interface Report {
  /** The output as JSON or YAML. */
  readonly data: object;
  blocks(style: Style): readonly string[];
  readonly changed: number;
}

function reportNamespaces(
  { store, isForced }: Context,
  assumptions: readonly string[],
  only: string | undefined,
): Report {
  const namespaces = store
    .list('Namespace')
    .filter((one) => only === undefined || objectName(one) === only)
    .flatMap((namespace) => {
      const catalogs = store.list('CatalogSource', objectName(namespace));
      return proposeLabels({ namespace, catalogs, isForced }) ?? [];
    })
    .sort((a, b) => compareBytes(a.namespace, b.namespace));
  return {
    data: { namespaces, assumptions },
    blocks: (style) => [
      ...namespaces.map((one) => printNamespace(one, style)),
      ...assumptionBlocks(assumptions),
      ...(namespaces.length === 0 ? ['No namespaces of OLM found.\n'] : []),
    ],
    changed: namespaces.filter(({ labels }) => Object.keys(labels).length > 0).length,
  };
}

function reportWorkloads(context: Context, assumptions: readonly string[], only: string | undefined): Report {
  const objects = [
    ...WORKLOADS.flatMap((kind) => hardenWorkloads(kind, context)),
    ...hardenCsvs(context),
    ...hardenCatalogs(context),
  ]
    .filter(({ namespace }) => only === undefined || namespace === only)
    .sort(compareObjects);
  const changed = objects.filter(({ changes }) => changes.length > 0).length;
  return {
    data: { platform: context.isOpenShift ? 'openshift' : 'kubernetes', objects, assumptions },
    blocks: (style) => [
      ...objects.map((one) => printObject(one, style)),
      ...assumptionBlocks(assumptions),
      `${printCount(objects.length, 'object')} of OLM, ${changed} to change\n`,
    ],
    changed,
  };
}

/** Proposes changes of the workloads and namespaces of OLM. */
export const command = defineCommand({
  operands: '[namespaces]',
  details: DETAILS,
  options: {
    ...inventoryOptions,
    ...selectionOptions,
    force: flag({ help: 'Also replace less strict values, or labels of other field managers' }),
    openshift: flag({ help: 'SCC admission supplies the users of pods. Default: whether the cluster has SCCs' }),
    output: outputOption(DATA_AND_TABLE),
  },
  async run(values, [operand], io) {
    if (operand !== undefined && operand !== 'namespaces') {
      throw new UsageError(`unknown operand ${quote(operand)}: must be namespaces, or absent`);
    }
    const namespace = selectedNamespace(values);
    const operators = { ...CSV_SCOPE, ...(namespace === undefined ? {} : { namespace }), isMetadataOnly: false };
    const { store, source, assumptions } = await readInventory(values, io, {
      kinds: values.filename.length === 0 ? [...KINDS, 'SecurityContextConstraints'] : KINDS,
      only: namespace,
      optional: [operators],
    });
    if (namespace !== undefined) findNamespace(store, namespace);
    const hasSccs = source === 'cluster' && store.list('SecurityContextConstraints').length > 0;
    const context: Context = { store, source, isOpenShift: values.openshift || hasSccs, isForced: values.force };
    const report = operand === 'namespaces' ? reportNamespaces : reportWorkloads;
    const { data, blocks, changed } = report(context, assumptions, namespace);
    printReport(io, values.output, data, blocks);
    return changed === 0 ? EXIT.passed : EXIT.violations;
  },
});
