import { INJECT_CA_ANNOTATION } from '../../../kube/installation.ts';
import type { Kinds } from '../../../kube/types.ts';
import { defaultSettings, type ManifestSettings } from '../../../manifests/index.ts';
import { isOurs, type Configuration } from '../../installation/own-webhooks.ts';
import { VERSION } from '../../version.ts';
import { argumentOf } from './mounted.ts';

const CERT_MANAGER = 'cert-manager.io/inject-';

/** What an installation was made with, as far as the cluster shows it. */
export function settingsOf(
  namespace: string,
  configurations: readonly Configuration[],
  deployment: Kinds['Deployment'] | undefined,
): ManifestSettings {
  const ours = configurations.filter(isOurs);
  const annotations = ours.flatMap(({ metadata }) => Object.keys(metadata.annotations ?? {}));
  const url = ours.flatMap(({ webhooks }) => webhooks.map(({ clientConfig }) => clientConfig.url)).find(Boolean);
  return {
    ...defaultSettings(VERSION),
    namespace,
    sccMode: argumentOf(deployment, 'scc-mode') === 'off' ? 'off' : 'report',
    authorization: argumentOf(deployment, 'authorization') === 'sar' ? 'sar' : 'rbac',
    certificates: certificatesOf(annotations),
    ...(url != null && URL.canParse(url) ? { webhooks: { url: new URL(url).origin } } : {}),
  };
}

function certificatesOf(annotations: readonly string[]): ManifestSettings['certificates'] {
  if (annotations.includes(INJECT_CA_ANNOTATION)) return 'self-managed';
  return annotations.some((key) => key.startsWith(CERT_MANAGER)) ? 'cert-manager' : 'others';
}
