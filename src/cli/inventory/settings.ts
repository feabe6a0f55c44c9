/** Reads the settings of an installation, which options can override. */
import { CONFIGURATION_NAME, INSTALLATION } from '../../api/names.ts';
import type { Store } from '../../cluster/store.ts';
import { lastValidObject, settingsFromObject, settingsInForce } from '../../config/configuration.ts';
import type { TextFile } from '../../config/files.ts';
import { loadSettings, type Settings } from '../../config/settings.ts';
import { readDocuments } from '../../config/yaml.ts';
import { CONTROLLER_NAMES } from '../../controllers/index.ts';
import { quote } from '../../kube/text.ts';
import { isObject, type JsonObject, type PortcullisConfiguration, valueAt } from '../../kube/types.ts';
import { SCC_MODES, type SccMode } from '../../policy/scc/index.ts';
import { readAnnotatedSettings, POLICIES_SOURCE, equivalentConfiguration } from '../installation/policies.ts';
import { nonEmpty, oneOf, option, text, type Values } from '../options.ts';
import { DATA_AND_TABLE, outputOption } from '../output/print.ts';
import { subjectOptions } from './inventory.ts';

/** SCC mode of a cluster whose settings do not set a mode. */
const DEFAULT_SCC_MODE: SccMode = 'report';

/** SCC options of the commands that predict pod creation. Without `--scc-mode`, the mode is an assumption. */
export const sccOptions = {
  config: option('FILE', text, undefined, { help: 'PortcullisConfiguration file. Default: the object in the cluster' }),
  'scc-mode': option('MODE', oneOf(SCC_MODES), undefined, {
    help: 'Default SCC mode for namespaces without the portcullis.dev/scc label: enforce denies pods, report only warns, off disables SCC admission in the whole cluster',
    shown: DEFAULT_SCC_MODE,
  }),
};

/**
 * Returns the settings from the `--config` file. Without this flag, returns those of the policies or the
 * PortcullisConfiguration, or the defaults if neither exists. `source` describes the source of the settings, and is
 * absent for the defaults. `spec` is the spec of the document, and is absent for upstream's configuration files.
 * `isWithoutServer` is true if policies of an installation without a server exist.
 * @throws {UserError} for invalid settings
 */
export async function findSettings({
  config,
  store,
  namespace = INSTALLATION.namespace,
}: {
  readonly config: string | undefined;
  readonly store: Store;
  readonly namespace?: string;
}) {
  const object = store.get('PortcullisConfiguration', CONFIGURATION_NAME);
  const decode = { controllers: CONTROLLER_NAMES, namespace };
  const policies = readAnnotatedSettings(store.list('ValidatingAdmissionPolicy'));
  const isWithoutServer = policies !== undefined;
  if (config !== undefined) {
    const { settings, source } = await loadSettings(config, decode);
    const spec = readSpec(source);
    return { settings: withoutUnusedSccs(settings, undefined, store), source: config, spec, isWithoutServer };
  }
  const name = `PortcullisConfiguration ${quote(CONFIGURATION_NAME)}`;
  // The policies take precedence because the object may remain from an uninstalled server. If a server is still
  // installed, it enforces the object in addition to the policies.
  if (policies) {
    const settings = settingsFromObject(equivalentConfiguration(policies), decode);
    const source = object ? `${POLICIES_SOURCE}. ${name} is not evaluated, even if a server uses it` : POLICIES_SOURCE;
    return { settings, source, spec: policies.spec, isWithoutServer };
  }
  const { settings, isLastValid } = settingsInForce(object, decode);
  const source = object && (isLastValid ? `the last valid settings, because ${name} is invalid` : name);
  const spec = (isLastValid ? lastValidObject(object) : object)?.spec ?? {};
  return { settings: withoutUnusedSccs(settings, object, store), source, spec, isWithoutServer };
}

/** Returns the spec of a PortcullisConfiguration file. Other configuration files have no spec. */
function readSpec({ text, file }: TextFile): JsonObject | undefined {
  const value = valueAt(readDocuments(text, file).documents[0]?.value, ['spec']);
  return isObject(value) ? value : undefined;
}

/**
 * Turns SCC admission off in the settings if the SCC feature is not installed. The status of the object contains an SCC
 * mode only if the feature is installed. If there is no status, report mode has no effect in a cluster without SCCs.
 */
function withoutUnusedSccs(settings: Settings, object: PortcullisConfiguration | undefined, store: Store): Settings {
  const isUnused = object?.status
    ? object.status.sccMode === undefined
    : settings.scc.mode === 'report' && store.list('SecurityContextConstraints').length === 0;
  return isUnused ? { ...settings, scc: { ...settings.scc, mode: 'off' } } : settings;
}

/**
 * Returns the settings of SCC admission and their source. `mode` overrides the mode in the settings. If neither `mode`
 * nor a source exists, also describes the assumed mode.
 */
export function expectedSettings(
  { settings, source }: { readonly settings: Settings; readonly source: string | undefined },
  mode: SccMode | undefined,
) {
  const scc = { ...settings.scc, mode: mode ?? settings.scc.mode };
  const isAssumed = mode === undefined && source === undefined && scc.mode !== 'off';
  return {
    ...scc,
    source,
    assumptions: isAssumed ? [`SCC mode ${scc.mode} for namespaces without the label (set --scc-mode)`] : [],
  };
}

/**
 * Finds the settings of SCC admission.
 * @throws {UserError} for invalid settings
 */
export async function sccSettings({ config, 'scc-mode': mode }: Values<typeof sccOptions>, store: Store) {
  return expectedSettings(await findSettings({ config, store }), mode);
}

/** Options of the commands that evaluate pods in manifests. */
export const sccReviewOptions = {
  namespace: option('NAME', nonEmpty, undefined, { short: 'n', help: 'Namespace for manifests that do not set one' }),
  output: outputOption(DATA_AND_TABLE),
  ...subjectOptions,
  ...sccOptions,
};
