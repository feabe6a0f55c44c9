import type { Store } from '../../cluster/store.ts';
import { parseConfiguration, type Configuration } from '../../config/configuration.ts';
import { readPodSecuritySource } from '../../config/pod-security.ts';
import type { Source } from '../../config/source.ts';
import { INSTALLATION, POD_SECURITY_CONFIG_MAP } from '../../kube/installation.ts';
import type { Kinds } from '../../kube/types.ts';
import { DEFAULT_ROLLOUT } from '../../policy/rollout/rollout-settings.ts';
import { SCC_MODES, type SccMode } from '../../policy/scc/mode.ts';
import { argumentOf, mountedFile } from '../doctor/gather/mounted.ts';
import type { ObjectName } from '../inventory/types.ts';
import { DEFAULT_SCC_MODE } from '../scc-options.ts';
import { serveOptions } from '../serve/options.ts';
import type { RolloutValues } from './options.ts';

/** How the server runs, as far as that can be told. */
export interface InstallationSettings {
  readonly configuration: Pick<Configuration, 'rollout' | 'podSecurity'>;
  readonly scc: { readonly mode: SccMode; readonly exemptNamespaces: readonly string[] };
  /** What could not be told, each in a few words without a full stop. */
  readonly assumptions: readonly string[];
}

/** What is published by the installation, and what it runs with. */
export function installationObjects(store: Store, namespace: string): readonly ObjectName[] {
  const mounted = mountedFile(deploymentIn(store, namespace), 'config');
  const names = [POD_SECURITY_CONFIG_MAP, ...(mounted?.kind === 'ConfigMap' ? [mounted.name] : [])];
  return names.map((name) => ({ kind: 'ConfigMap', namespace, name }));
}

/** Reads how the server runs: what was typed counts, then what the installation says. Rejects with a UserError for a wrong file. */
export async function readInstallation(store: Store, values: RolloutValues): Promise<InstallationSettings> {
  const { config, 'installation-namespace': namespace } = values;
  const source = config === undefined ? mountedSource(store, namespace) : await readPodSecuritySource(config);
  const parsed = source && parseConfiguration(source, Object.keys(serveOptions));
  const said = values['scc-mode'] ?? sccModeIn(store, namespace, parsed);
  const assumptions = [
    ...(parsed ? [] : ['rollout.phase Evaluate (--config names the configuration file)']),
    ...(said === undefined ? [`mode ${DEFAULT_SCC_MODE} of SCCs (--scc-mode names another)`] : []),
  ];
  return {
    configuration: parsed ?? {
      ...parseConfiguration({ file: '', text: '' }, []),
      rollout: { ...DEFAULT_ROLLOUT, phase: 'Evaluate' },
    },
    scc: { mode: said ?? DEFAULT_SCC_MODE, exemptNamespaces: values['scc-exempt-namespaces'] },
    assumptions,
  };
}

function deploymentIn(store: Store, namespace: string): Kinds['Deployment'] | undefined {
  return store.get('Deployment', INSTALLATION.name, namespace);
}

function mountedSource(store: Store, namespace: string): Source | undefined {
  const mounted = mountedFile(deploymentIn(store, namespace), 'config');
  const data = mounted && store.get('ConfigMap', mounted.name, namespace)?.data;
  if (!mounted || !data || !Object.hasOwn(data, mounted.key)) return undefined;
  return { file: `configmaps/${mounted.name} ${mounted.key}`, text: data[mounted.key] ?? '' };
}

/** On the command line of the replicas, else in their file; where neither says anything but there are replicas, the default. */
function sccModeIn(store: Store, namespace: string, parsed: Configuration | undefined): SccMode | undefined {
  const deployment = deploymentIn(store, namespace);
  const said = argumentOf(deployment, 'scc-mode') ?? parsed?.options.get('scc-mode')?.at(-1);
  return SCC_MODES.find((mode) => mode === said) ?? (deployment && DEFAULT_SCC_MODE);
}
