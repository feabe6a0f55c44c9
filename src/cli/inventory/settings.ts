/** Reads the settings of an installation, which options can override. */
import type { Store } from '../../cluster/store.ts';
import { settingsFromObject, settingsInForce } from '../../config/configuration.ts';
import { loadSettings, type Settings } from '../../config/settings.ts';
import { CONTROLLER_NAMES } from '../../controllers/index.ts';
import { quote } from '../../kube/text.ts';
import type { Namespace } from '../../kube/types.ts';
import { CONFIGURATION_NAME, INSTALLATION } from '../../kube/well-known.ts';
import { type NamespaceMode, SCC_MODES, type SccMode, sccMode, type SccSettings } from '../../policy/scc/mode.ts';
import { readServerless, SERVERLESS_SOURCE, serverlessConfiguration } from '../installed/serverless.ts';
import { nonEmpty, oneOf, option, text, type Values } from '../options.ts';
import { DATA_AND_TABLE, outputOption } from '../output/print.ts';
import { subjectOptions } from './inventory.ts';

/** SCC mode of a cluster whose settings do not set a mode. */
export const DEFAULT_SCC_MODE: SccMode = 'report';

/** SCC options of the commands that predict pod creation. Without `--scc-mode`, the mode is an assumption. */
export const sccOptions = {
  config: option('FILE', text, undefined, {
    help: 'File with a PortcullisConfiguration. Default: the object in the cluster',
  }),
  'scc-mode': option('MODE', oneOf(SCC_MODES), undefined, {
    help: 'Default SCC mode for namespaces without the portcullis.dev/scc label: enforce denies pods, report only warns, off disables SCC admission in the whole cluster',
    shown: DEFAULT_SCC_MODE,
  }),
};

/** Settings of an installation, and a description of their source, which is absent for the defaults. */
interface FoundSettings {
  readonly settings: Settings;
  readonly source: string | undefined;
  /** True if the settings come from the policies of a serverless installation. */
  readonly isServerless: boolean;
}

interface SettingsLocation {
  /** Path of the `--config` file. */
  readonly config: string | undefined;
  /** Objects from a cluster or from manifests, which may include a PortcullisConfiguration. */
  readonly store: Store;
  /** Installation namespace. */
  readonly namespace?: string;
}

/**
 * Returns the settings from the `--config` file, otherwise from the policies or the PortcullisConfiguration, otherwise
 * the defaults.
 * @throws {UserError} for invalid settings
 */
export async function findSettings({ config, store, namespace }: SettingsLocation): Promise<FoundSettings> {
  const decode = { controllers: CONTROLLER_NAMES, namespace: namespace ?? INSTALLATION.namespace };
  const policies = readServerless(store.list('ValidatingAdmissionPolicy'));
  const isServerless = policies !== undefined;
  if (config !== undefined) {
    return { settings: (await loadSettings(config, decode)).settings, source: config, isServerless };
  }
  const object = store.get('PortcullisConfiguration', CONFIGURATION_NAME);
  const name = `PortcullisConfiguration ${quote(CONFIGURATION_NAME)}`;
  // The object may remain from an uninstalled server. If a server is still installed, it enforces the object in
  // addition to the policies.
  if (policies) {
    const settings = settingsFromObject(serverlessConfiguration(policies), decode);
    const source = object
      ? `${SERVERLESS_SOURCE}. ${name} is not evaluated, even if a server uses it`
      : SERVERLESS_SOURCE;
    return { settings, source, isServerless };
  }
  const { settings, isLastValid } = settingsInForce(object, decode);
  const source = object && (isLastValid ? `the last valid settings, because ${name} is invalid` : name);
  return { settings, source, isServerless };
}

/** The expected SCC admission settings of `serve`. */
export interface ExpectedSettings extends SccSettings {
  /** Absent if `--scc-mode`, the `--config` file or the PortcullisConfiguration sets the mode. */
  readonly modeFrom?: 'assumption';
  /** See `FoundSettings`. */
  readonly source?: string | undefined;
}

/** Returns the settings of SCC admission. `--scc-mode` takes precedence. */
export function expectedSettings(
  { settings, source }: Pick<FoundSettings, 'settings' | 'source'>,
  mode: SccMode | undefined,
): ExpectedSettings {
  return {
    ...settings.scc,
    mode: mode ?? settings.scc.mode,
    source,
    ...(mode === undefined && source === undefined ? { modeFrom: 'assumption' } : {}),
  };
}

/**
 * Finds the settings of SCC admission.
 * @throws {UserError} for invalid settings
 */
export async function sccSettings(values: Values<typeof sccOptions>, store: Store): Promise<ExpectedSettings> {
  const { config, 'scc-mode': mode } = values;
  return expectedSettings(await findSettings({ config, store }), mode);
}

/** The expected SCC mode of a namespace. */
export interface ExpectedMode extends NamespaceMode {
  /** Absent if a namespace label, `--scc-mode` or the settings determine the mode. */
  readonly modeFrom?: 'assumption';
}

/** Returns the expected SCC mode of a namespace. */
export function expectedMode(
  namespace: Namespace,
  settings: Pick<ExpectedSettings, 'mode' | 'modeFrom' | 'exemptNamespaces'>,
): ExpectedMode {
  const result = sccMode(namespace, settings);
  if (settings.modeFrom === undefined) return result;
  const dependsOnMode = sccMode(namespace, { ...settings, mode: 'enforce' }).mode !== result.mode;
  return dependsOnMode ? { ...result, modeFrom: settings.modeFrom } : result;
}

/** Options of the commands that evaluate pods in manifests. */
export const sccReviewOptions = {
  namespace: option('NAME', nonEmpty, undefined, { short: 'n', help: 'Namespace for manifests that do not set one' }),
  output: outputOption(DATA_AND_TABLE),
  ...subjectOptions,
  ...sccOptions,
};
