import { INSTALLATION } from '../kube/well-known.ts';
import { certificateArguments } from './certificate.ts';
import { CONFIGURATION_ARGUMENT } from './configuration.ts';
import { exemptNamespacesOf } from './exempt-namespaces.ts';
import { PORTS } from './network.ts';
import type { ManifestSettings } from './settings.ts';

/** The command line of a replica; what has its default is left out. */
export function argumentsOf(settings: ManifestSettings): readonly string[] {
  const { namespace, sccMode, authorization, withoutControllers } = settings;
  return [
    'serve',
    '--in-cluster',
    CONFIGURATION_ARGUMENT,
    '--bind-address=0.0.0.0',
    `--secure-port=${PORTS.reviews.port}`,
    `--health-probe-bind-address=0.0.0.0:${PORTS.probes.port}`,
    ...(namespace === INSTALLATION.namespace
      ? []
      : [`--scc-exempt-namespaces=${exemptNamespacesOf(settings).join(',')}`]),
    ...(sccMode === 'report' ? [] : [`--scc-mode=${sccMode}`]),
    ...(authorization === 'rbac' ? [] : [`--authorization=${authorization}`]),
    ...(withoutControllers.length === 0
      ? []
      : [`--controllers=*${withoutControllers.map((name) => `,-${name}`).join('')}`]),
    ...certificateArguments(settings),
  ];
}
