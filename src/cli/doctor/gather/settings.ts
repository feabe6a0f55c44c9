import { parseConfiguration } from '../../../config/configuration.ts';
import { UserError } from '../../../config/user-error.ts';
import { INJECT_CA_ANNOTATION } from '../../../kube/installation.ts';
import type { Kinds } from '../../../kube/types.ts';
import { defaultSettings, type ManifestSettings } from '../../../install/index.ts';
import { isOurs, type Configuration } from '../../installation/own-webhooks.ts';
import { VERSION } from '../../version.ts';
import { DEFAULT_ROLLOUT, type RolloutSettings } from '../../../policy/rollout/rollout-settings.ts';
import { serveOptions } from '../../serve/options.ts';
import type { ConfigurationFile } from '../types.ts';
import { argumentOf } from './mounted.ts';

const CERT_MANAGER = 'cert-manager.io/inject-';

/** What the cluster shows of an installation. */
export interface Shown {
  readonly namespace: string;
  readonly configurations: readonly Configuration[];
  readonly deployment: Kinds['Deployment'] | undefined;
  readonly file: ConfigurationFile | undefined;
}

/** What an installation was made with, as far as the cluster shows it. */
export function settingsOf({ namespace, configurations, deployment, file }: Shown): ManifestSettings {
  const ours = configurations.filter(isOurs);
  const annotations = ours.flatMap(({ metadata }) => Object.keys(metadata.annotations ?? {}));
  const url = ours.flatMap(({ webhooks }) => webhooks.map(({ clientConfig }) => clientConfig.url)).find(Boolean);
  return {
    ...defaultSettings(VERSION),
    namespace,
    sccMode: argumentOf(deployment, 'scc-mode') === 'off' ? 'off' : 'report',
    authorization: argumentOf(deployment, 'authorization') === 'sar' ? 'sar' : 'rbac',
    ...rolloutOf(file),
    withoutControllers: (argumentOf(deployment, 'controllers') ?? '').split(',').flatMap(leftOut),
    certificates: certificatesOf(annotations),
    ...(url != null && URL.canParse(url) ? { webhooks: { url: new URL(url).origin } } : {}),
  };
}

function certificatesOf(annotations: readonly string[]): ManifestSettings['certificates'] {
  if (annotations.includes(INJECT_CA_ANNOTATION)) return 'self-managed';
  return annotations.some((key) => key.startsWith(CERT_MANAGER)) ? 'cert-manager' : 'others';
}

/** Of what cannot be read the doctor tells elsewhere; new replicas do not start with it. */
function rolloutOf(file: ConfigurationFile | undefined): Pick<ManifestSettings, 'rollout' | 'evaluator'> {
  const { phase, evaluator } = read(file) ?? DEFAULT_ROLLOUT;
  return { rollout: phase, evaluator };
}

function read(file: ConfigurationFile | undefined): RolloutSettings | undefined {
  if (file?.text === undefined) return undefined;
  try {
    return parseConfiguration({ file: file.source, text: file.text }, Object.keys(serveOptions)).rollout;
  } catch (error) {
    if (error instanceof UserError) return undefined;
    throw error;
  }
}

function leftOut(rule: string): readonly string[] {
  return rule.startsWith('-') ? [rule.slice(1)] : [];
}
