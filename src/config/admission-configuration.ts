import { childOf, strictIssues, typeIssues, userError, type ConfigNode, type Struct } from './strict.ts';
import { requireKind, type ConfigKind } from './typed-document.ts';

/** @see https://kubernetes.io/docs/reference/config-api/apiserver-config.v1/#apiserver-config-k8s-io-v1-AdmissionConfiguration */
export const ADMISSION_CONFIGURATION: ConfigKind = {
  kind: 'AdmissionConfiguration',
  apiVersions: ['apiserver.config.k8s.io/v1'],
};

const STRUCT: Struct = {
  type: 'AdmissionConfiguration',
  fields: {
    apiVersion: 'string',
    kind: 'string',
    plugins: [
      { type: 'AdmissionPluginConfiguration', fields: { name: 'string', path: 'string', configuration: 'anything' } },
    ],
  },
};

/** The configuration of one plugin: here, or in a file that is named relative to this one, or neither. */
export interface PluginConfiguration {
  readonly inline?: ConfigNode;
  readonly path?: string;
}

/**
 * Finds a plugin's configuration in the file that an API server takes with `--admission-control-config-file`.
 * @throws {UserError} if the file is wrong or does not name the plugin
 */
export function pluginConfigurationOf(node: ConfigNode, name: string): PluginConfiguration {
  requireKind(node, [ADMISSION_CONFIGURATION]);
  const types = typeIssues(node.value, STRUCT);
  if (types.length > 0) throw userError(node, '', types);
  const strict = strictIssues(node, STRUCT);
  if (strict.length > 0) throw userError(node, 'strict decoding error: ', strict);
  const plugins = childOf(node, ['plugins']).value ?? [];
  const index = (plugins as readonly (PluginEntry | null)[]).findIndex((plugin) => plugin?.name === name);
  if (index < 0) {
    throw userError(node, '', [{ message: `no plugin "${name}" in the AdmissionConfiguration`, path: ['plugins'] }]);
  }
  const inline = childOf(node, ['plugins', index, 'configuration']);
  // As for the API server, what is written here wins over a path.
  if (inline.value != null) return { inline };
  const path = childOf(node, ['plugins', index, 'path']).value;
  return typeof path === 'string' && path !== '' ? { path } : {};
}

interface PluginEntry {
  readonly name?: string | null;
}
