/** Maps volume sources to SCC volume types. */
import { isObject, type JsonObject } from '../../kube/types.ts';
import { VOLUME_SOURCES, type VolumeFields } from '../pod/index.ts';

/**
 * Volume types whose names in SCCs and in the API differ.
 * @see https://github.com/openshift/api/blob/master/security/v1/types.go
 */
const RENAMED_TYPES: ReadonlyMap<string, string> = new Map([
  ['cephfs', 'cephFS'],
  ['vsphereVolume', 'vsphere'],
  ['storageos', 'storageOS'],
]);

/** All volume types that pods can use, with their SCC names. */
export const VOLUME_TYPES: readonly string[] = VOLUME_SOURCES.map(toSccType);

function toSccType(source: string): string {
  return RENAMED_TYPES.get(source) ?? source;
}

/** Returns the volume type as it appears in the `volumes` field of SCCs, or an empty string for an unknown source. */
export function sccVolumeType({ sources: [source] }: VolumeFields): string {
  return source === undefined ? '' : toSccType(source);
}

/** Names of the injected ConfigMaps, with the only key of each. */
const INJECTED_CONFIG_MAPS: ReadonlyMap<unknown, string> = new Map([
  ['kube-root-ca.crt', 'ca.crt'],
  ['openshift-service-ca.crt', 'service-ca.crt'],
]);

/**
 * Returns true for a projected volume that contains only sources that the API server injects for the service account.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/util/util.go
 */
export function isServiceAccountVolume({ json, sources: [source] }: VolumeFields): boolean {
  if (source !== 'projected') return false;
  const { projected } = json;
  const sources = isObject(projected) ? (projected['sources'] ?? []) : undefined;
  return Array.isArray(sources) && sources.every((source) => isObject(source) && isInjected(source));
}

function isInjected({ serviceAccountToken, configMap, downwardAPI }: JsonObject): boolean {
  return (
    (serviceAccountToken != null || configMap != null || downwardAPI != null) &&
    (serviceAccountToken == null || isInjectedToken(serviceAccountToken)) &&
    (configMap == null || isInjectedConfigMap(configMap)) &&
    (downwardAPI == null || isInjectedNamespace(downwardAPI))
  );
}

function isInjectedToken(token: unknown): boolean {
  return isObject(token) && token['path'] === 'token' && (token['audience'] ?? '') === '';
}

function isInjectedConfigMap(configMap: unknown): boolean {
  if (!isObject(configMap)) return false;
  const key = INJECTED_CONFIG_MAPS.get(configMap['name']);
  const items = configMap['items'];
  if (key === undefined || !Array.isArray(items) || items.length !== 1) return false;
  const item: unknown = items[0];
  return isObject(item) && item['key'] === key && item['path'] === key;
}

function isInjectedNamespace(downwardApi: unknown): boolean {
  if (!isObject(downwardApi)) return false;
  const items = downwardApi['items'] ?? [];
  return Array.isArray(items) && items.every((item) => isObject(item) && isNamespaceItem(item));
}

function isNamespaceItem({ path, fieldRef }: JsonObject): boolean {
  if (path !== 'namespace' || !isObject(fieldRef)) return false;
  return fieldRef['apiVersion'] === 'v1' && fieldRef['fieldPath'] === 'metadata.namespace';
}
