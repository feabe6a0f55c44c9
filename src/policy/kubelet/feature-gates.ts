/**
 * Renders feature gates. A gate that requires a kubelet version is enabled only if the cluster enforces that version.
 */
import { deepEqual } from '../../kube/equality.ts';
import { quote, sortedSet } from '../../kube/text.ts';
import type { FeatureGate, Result } from '../../kube/types.ts';
import { compareKubeletVersions, parseVersion } from './version.ts';

export interface ComponentVersion {
  readonly component: string;
  readonly version: string;
}

/** Gate names by state. */
export interface GateLists {
  readonly enabled: readonly string[];
  readonly disabled: readonly string[];
}

interface GateEntry {
  readonly name: string;
  /** Absent for gates that are safe with every kubelet version. */
  readonly requiredMinimumComponentVersions?: readonly ComponentVersion[];
}

/** Gates of one OpenShift version. */
export interface GateBlock {
  readonly version: string;
  readonly enabled: readonly GateEntry[];
  readonly disabled: readonly GateEntry[];
  /** Minimum component versions that the lists were computed from. Absent if there were none. */
  readonly renderedMinimumComponentVersions?: readonly ComponentVersion[];
}

type GateRequirements = ReadonlyMap<string, readonly ComponentVersion[]>;

export interface GateInput {
  /** OpenShift version to render. */
  readonly version: string;
  /** Versions whose existing blocks are kept. */
  readonly history: readonly string[];
  /** An empty string means `Default`. */
  readonly featureSet: string;
  /** The lists in `spec.customNoUpgrade`. */
  readonly custom?: GateLists | undefined;
  /** Minimum kubelet version to render. Empty if there is none. */
  readonly minimum: string;
  /** The gates in each known feature set. */
  readonly sets: ReadonlyMap<string, GateLists>;
  readonly requirements: GateRequirements;
  /** The current blocks. */
  readonly status: readonly GateBlock[];
}

export interface GateRendering {
  /** The rendered block, followed by the blocks to keep. */
  readonly status: readonly [GateBlock, ...GateBlock[]];
  /** True if the status differs from the current one. */
  readonly isChanged: boolean;
  /** Enabled gates that require a newer kubelet version than the minimum. */
  readonly warnings: readonly string[];
}

/** Requirements of gates for which OpenShift does not declare `requiredMinimumComponentVersions`. */
export const GATE_REQUIREMENTS: GateRequirements = new Map(
  ['ProcMountType', 'UserNamespacesPodSecurityStandards', 'UserNamespacesSupport'].map((name) => [
    name,
    [{ component: 'Kubelet', version: '1.30.0' }],
  ]),
);

const CUSTOM = 'CustomNoUpgrade';
const DEFAULT = 'Default';

/** Feature sets that enable a gate only if its requirements are met. Preview feature sets always enable their gates. */
const FILTERED: ReadonlySet<string> = new Set([DEFAULT, 'OKD']);

/** The gates in a feature set before evaluating their requirements. */
interface BaseGates {
  /** Gates that are enabled regardless of their requirements. */
  readonly forced: readonly string[];
  /** Gates that have a requirement are enabled if it is met. All other gates keep their listed state. */
  readonly filtered: GateLists;
  readonly known: readonly string[];
}

/**
 * Renders the gates for a version. Returns an error if the feature set is unknown or a gate is in both custom lists.
 */
export function renderFeatureGates(input: GateInput): Result<GateRendering> {
  const { version, history, minimum, requirements, status: current } = input;
  const base = findBase(input);
  if ('error' in base) return base;
  const { forced, filtered, known } = base.value;
  const isMet = (gate: string): boolean => meetsRequirements(requirements.get(gate) ?? [], minimum);
  const filteredOn = [...filtered.enabled, ...filtered.disabled.filter((gate) => requirements.has(gate))].filter(isMet);
  const enabled = sortedSet([...forced, ...filteredOn]);
  const on = new Set(enabled);
  const disabled = sortedSet(known).filter((gate) => !on.has(gate));
  const toEntry = (name: string): GateEntry => {
    const required = requirements.get(name);
    return required ? { name, requiredMinimumComponentVersions: required } : { name };
  };
  const block: GateBlock = {
    version,
    enabled: enabled.map(toEntry),
    disabled: disabled.map(toEntry),
    ...(minimum === '' ? {} : { renderedMinimumComponentVersions: [{ component: 'Kubelet', version: minimum }] }),
  };
  const kept = current.filter((other) => other.version !== version && history.includes(other.version));
  const status: GateRendering['status'] = [block, ...kept];
  const warnings = sortedSet(forced).filter((gate) => !isMet(gate));
  return { value: { status, isChanged: !deepEqual(status, current), warnings } };
}

function findBase({ featureSet, custom, sets }: GateInput): Result<BaseGates> {
  if (featureSet === CUSTOM && custom) return findCustomBase(custom, sets.get(DEFAULT));
  const name = featureSet === '' || featureSet === CUSTOM ? DEFAULT : featureSet;
  const set = sets.get(name);
  if (set === undefined) return { error: `unknown feature set ${quote(name)}` };
  const known = [...sets.values()].flatMap(({ enabled, disabled }) => [...enabled, ...disabled]);
  return {
    value: FILTERED.has(name)
      ? { forced: [], filtered: set, known }
      : { forced: set.enabled, filtered: { enabled: [], disabled: [] }, known },
  };
}

/** The custom lists, combined with the gates of the `Default` feature set. */
function findCustomBase(custom: GateLists, defaults: GateLists | undefined): Result<BaseGates> {
  const both = custom.enabled.find((gate) => custom.disabled.includes(gate));
  if (both !== undefined) return { error: `trying to enable and disable ${quote(both)}` };
  if (defaults === undefined) return { error: `unknown feature set ${quote(DEFAULT)}` };
  const isInherited = (gate: string): boolean => !custom.disabled.includes(gate);
  const filtered = { enabled: defaults.enabled.filter(isInherited), disabled: defaults.disabled.filter(isInherited) };
  const known = [...custom.disabled, ...defaults.enabled, ...defaults.disabled];
  return { value: { forced: custom.enabled, filtered, known } };
}

/** If there is no minimum, no requirement is met. Only requirements on the kubelet can be met. */
function meetsRequirements(required: readonly ComponentVersion[], minimum: string): boolean {
  const rendered = parseVersion(minimum);
  return required.every(({ component, version }) => {
    const needed = parseVersion(version);
    if (component !== 'Kubelet' || 'error' in rendered || 'error' in needed) return false;
    return compareKubeletVersions(rendered.value, needed.value) >= 0;
  });
}

type WireBlock = NonNullable<NonNullable<FeatureGate['status']>['featureGates']>[number];

/** Reads the blocks in a FeatureGate object. Drops entries that have no name. */
export function readGateBlocks(object: FeatureGate): readonly GateBlock[] {
  return (object.status?.featureGates ?? []).map((block) => {
    const { version, enabled, disabled, renderedMinimumComponentVersions: rendered } = block;
    return {
      version: version ?? '',
      enabled: readEntries(enabled),
      disabled: readEntries(disabled),
      ...(rendered ? { renderedMinimumComponentVersions: rendered } : {}),
    };
  });
}

function readEntries(entries: WireBlock['enabled']): readonly GateEntry[] {
  return (entries ?? []).flatMap(({ name, requiredMinimumComponentVersions: required }) =>
    name ? [{ name, ...(required ? { requiredMinimumComponentVersions: required } : {}) }] : [],
  );
}
