import type { Namespace } from '../kube/types.ts';
import { sccModeOf, type NamespaceMode, type SccMode, type SccSettings } from '../policy/scc/mode.ts';
import type { Option } from './options.ts';
import { serveOptions, sccSettingsOf, type SccValues } from './serve/options.ts';

const {
  'scc-mode': mode,
  'scc-exempt-namespaces': exemptNamespaces,
  'scc-compatibility': compatibility,
  'scc-identity': identity,
  'scc-broken': broken,
  'scc-required': required,
  'scc-unprocessed-pods': unprocessedPods,
  'scc-prefer-user-namespaces': preferUserNamespaces,
} = serveOptions;

/** The mode that `serve` has unless told otherwise. */
export const DEFAULT_SCC_MODE: SccMode = mode.resolve([]);

/** From outside nobody sees with which mode `serve` runs. */
const knownMode: Option<SccMode | undefined> = {
  ...mode,
  resolve: (texts) => (texts.length === 0 ? undefined : mode.resolve(texts)),
};

/** The options of `serve` that say how SCCs work, for commands that foretell what it would do. */
export const sccOptions = {
  'scc-mode': knownMode,
  'scc-exempt-namespaces': exemptNamespaces,
  'scc-compatibility': compatibility,
  'scc-identity': identity,
  'scc-broken': broken,
  'scc-required': required,
  // Of updates only, which are not foretold.
  'scc-unprocessed-pods': { ...unprocessedPods, visibility: 'hidden' },
  'scc-prefer-user-namespaces': preferUserNamespaces,
} as const;

/** The settings of `serve`, as far as a command is told of them. */
export interface ForetoldSettings extends SccSettings {
  /** Absent: `mode` is what somebody said. */
  readonly modeFrom?: 'assumption';
}

type ForetoldValues = Omit<SccValues, 'scc-mode'> & { readonly 'scc-mode': SccMode | undefined };

/** What `serve` runs with unless told otherwise counts as its mode. Throws as `sccSettingsOf` does. */
export function foretoldSettingsOf({ 'scc-mode': given, ...others }: ForetoldValues): ForetoldSettings {
  const settings = sccSettingsOf({ ...others, 'scc-mode': given ?? DEFAULT_SCC_MODE });
  return given === undefined ? { ...settings, modeFrom: 'assumption' } : settings;
}

/** The mode of a namespace, and whether it is known. */
export interface ForetoldMode extends NamespaceMode {
  /** Absent: the namespace says it itself, or somebody said how `serve` runs. */
  readonly modeFrom?: 'assumption';
}

/** The mode that counts in a namespace, as far as that can be told. */
export function foretoldModeOf(
  namespace: Namespace,
  settings: Pick<ForetoldSettings, 'mode' | 'modeFrom' | 'exemptNamespaces'>,
): ForetoldMode {
  const found = sccModeOf(namespace, settings);
  if (settings.modeFrom === undefined) return found;
  const dependsOnIt = sccModeOf(namespace, { ...settings, mode: 'enforce' }).mode !== found.mode;
  return dependsOnIt ? { ...found, modeFrom: settings.modeFrom } : found;
}
