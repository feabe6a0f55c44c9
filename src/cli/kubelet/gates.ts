import type { ManifestObject } from '../../config/objects.ts';
import { getApiVersion } from '../../kube/resources.ts';
import type { FeatureGate } from '../../kube/types.ts';
import { UserError } from '../../kube/user-error.ts';
import {
  type ComponentVersion,
  GATE_REQUIREMENTS,
  type GateBlock,
  type GateInput,
  type GateLists,
  type GateRendering,
  readGateBlocks,
  renderFeatureGates,
} from '../../policy/kubelet/feature-gates.ts';
import { defineCommand, EXIT, type Io } from '../command.ts';
import { readInventory } from '../inventory/inventory.ts';
import { option, text, type Values } from '../options.ts';
import { printReport, printTable, withHeader } from '../output/print.ts';
import { gatherKubelets, kubeletOptions, minimumVersion } from './facts.ts';

const DETAILS = `
Renders the feature gates of OpenShift for a minimum kubelet version. A gate that requires a kubelet version is
enabled only if the minimum is that version or newer. Gates of preview feature sets and gates in
spec.customNoUpgrade.enabled stay enabled, with a warning. The command changes nothing.

The gates are read from FeatureGate objects of a cluster or of manifests. Gates without
requiredMinimumComponentVersions have the requirements that OpenShift assigned:
${[...GATE_REQUIREMENTS.keys()].join(', ')}: 1.30.0.

The exit code is 1 if a gate is enabled but kubelets may be older than it requires.

Examples:
  portcullis kubelet gates
  portcullis kubelet gates --minimum 1.33.0
  portcullis kubelet gates -f featuregate.yaml --minimum 1.30.0 -o yaml
`;

const options = {
  ...kubeletOptions,
  minimum: option('VERSION', (value) => minimumVersion(value).text, undefined, {
    help: 'Minimum version to render. Default: the rendered minimum in the cluster',
  }),
  version: option('VERSION', text, undefined, {
    help: 'Version of the entry in status.featureGates to render. Default: the first entry',
  }),
};

export const command = defineCommand({
  details: DETAILS,
  options,
  async run(values, _operands, io) {
    const { gates, minimum } = await gatherGates(values, io);
    // Uses an object with custom gates for the Default feature set only if no other object has that feature set.
    const ordered = gates.toSorted((a, b) => Number(isCustom(b.object)) - Number(isCustom(a.object)));
    const sets = new Map(ordered.map(({ set, lists }) => [set, lists]));
    const requirements = new Map([...GATE_REQUIREMENTS, ...gates.flatMap(({ block }) => describedRequirements(block))]);
    const known = { sets, requirements, minimum };
    const rendered = gates.map((subject) => ({ ...subject, ...render(subject, known) }));
    const featureGates = rendered.map(({ object, status, warnings }) => ({
      metadata: { name: object.metadata?.name },
      spec: object.spec ?? {},
      status: { featureGates: status },
      warnings,
    }));
    printReport(io, values.output, { minimum, featureGates }, (style) =>
      rendered.flatMap(({ object, set, status: [block], warnings }) => [
        printGates(block, object.spec?.featureSet || set, values),
        ...warnings.map(
          (gate) => `${style('yellow', 'Warning:')} ${gate} is enabled, but kubelets may be older than it requires\n`,
        ),
      ]),
    );
    return rendered.every(({ warnings }) => warnings.length === 0) ? EXIT.passed : EXIT.violations;
  },
});

/** A FeatureGate and the status entry to render. */
interface Subject {
  readonly object: FeatureGate;
  readonly block: GateBlock;
  /** Feature set to which the lists in the entry apply. */
  readonly set: string;
  readonly lists: GateLists;
}

function isCustom({ spec }: FeatureGate): boolean {
  return spec?.featureSet === 'CustomNoUpgrade';
}

/** Optional, because most clusters do not serve FeatureGates. */
const GATES = [{ kind: 'FeatureGate' }] as const;

/** Without `--minimum`, the minimum for manifests comes from the settings in the manifests. */
async function gatherGates(values: Values<typeof options>, io: Io) {
  const isCluster = values.filename.length === 0;
  const facts = values.minimum === undefined ? await gatherKubelets(values, io, [], GATES) : undefined;
  const {
    store,
    objects: manifests,
    assumptions,
  } = facts ?? (await readInventory(values, io, { kinds: [], optional: GATES }));
  const objects = isCluster ? store.list('FeatureGate') : findGates(manifests);
  if (objects.length === 0) {
    const problem = assumptions.join('; ') || 'the cluster has none';
    const fix = isCluster ? `${problem}; specify a manifest with -f` : 'the manifests contain none';
    throw new UserError(`no FeatureGate of ${getApiVersion('FeatureGate')}: ${fix}`);
  }
  const { requested = '', rendered = '' } = facts?.minimums ?? {};
  const minimum = values.minimum ?? (isCluster ? rendered : requested);
  return { minimum, gates: objects.map((object) => toSubject(object, values.version)) };
}

/** Returns all FeatureGate objects. The store would keep only one, because all of them are named `cluster`. */
function findGates(manifests: readonly ManifestObject[]): readonly FeatureGate[] {
  return manifests
    .filter(({ kind, apiVersion }) => kind === 'FeatureGate' && apiVersion === getApiVersion('FeatureGate'))
    .map(({ value }): FeatureGate => value);
}

function toSubject(object: FeatureGate, version: string | undefined): Subject {
  const blocks = readGateBlocks(object);
  const block = version === undefined ? blocks[0] : blocks.find((one) => one.version === version);
  const featureSet = object.spec?.featureSet ?? '';
  if (block === undefined) {
    const which = version === undefined ? 'no entry' : `no entry for version ${version}`;
    throw new UserError(`FeatureGate of the feature set ${featureSet || 'Default'}: status.featureGates has ${which}`);
  }
  // Custom gates are the gates of the Default feature set with the user's changes.
  const set = featureSet === '' || isCustom(object) ? 'Default' : featureSet;
  const names = (entries: GateBlock['enabled']): readonly string[] => entries.map(({ name }) => name);
  return { object, block, set, lists: { enabled: names(block.enabled), disabled: names(block.disabled) } };
}

function describedRequirements({ enabled, disabled }: GateBlock): readonly [string, readonly ComponentVersion[]][] {
  return [...enabled, ...disabled].flatMap(
    ({ name, requiredMinimumComponentVersions: required }): [string, readonly ComponentVersion[]][] =>
      required ? [[name, required]] : [],
  );
}

function render(
  { object, block, set }: Subject,
  known: Pick<GateInput, 'sets' | 'requirements' | 'minimum'>,
): GateRendering {
  const { featureSet, customNoUpgrade: custom } = object.spec ?? {};
  const status = readGateBlocks(object);
  const result = renderFeatureGates({
    ...known,
    version: block.version,
    history: status.map(({ version }) => version),
    featureSet: featureSet ?? '',
    custom: custom ? { enabled: custom.enabled ?? [], disabled: custom.disabled ?? [] } : undefined,
    status,
  });
  if ('value' in result) return result.value;
  throw new UserError(`FeatureGate of the feature set ${set}: ${result.error}`);
}

function printGates({ version, enabled, disabled }: GateBlock, set: string, values: Values<typeof options>): string {
  const rows = [...enabled, ...disabled].flatMap((entry) => {
    const { name, requiredMinimumComponentVersions: required } = entry;
    if (!required) return [];
    const requirement = required.map((one) => `${one.component} ${one.version}`).join(', ');
    return [[name, enabled.includes(entry) ? 'on' : 'off', requirement, set, version]];
  });
  const header = ['GATE', 'STATE', 'REQUIRES', 'FEATURE SET', 'VERSION'];
  return rows.length === 0 ? `No gate of ${set} requires a version.\n` : printTable(withHeader(header, rows, values));
}
