import { INSTALLATION } from '../kube/well-known.ts';
import { DEFAULT_EXEMPT_NAMESPACES } from '../policy/scc/mode.ts';
import type { ManifestSettings } from './settings.ts';

/** The namespaces in which SCCs never count, that of the installation among them. */
export function exemptNamespacesOf({ namespace }: Pick<ManifestSettings, 'namespace'>): readonly string[] {
  return DEFAULT_EXEMPT_NAMESPACES.map((name) => (name === INSTALLATION.namespace ? namespace : name));
}
