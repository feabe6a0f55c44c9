import { isObject, type JsonObject } from '../../kube/types.ts';

/** The key in the one ConfigMap entry that is injected, by the name of the ConfigMap. */
const INJECTED_CONFIG_MAPS: ReadonlyMap<unknown, string> = new Map([
  ['kube-root-ca.crt', 'ca.crt'],
  ['openshift-service-ca.crt', 'service-ca.crt'],
]);

/**
 * True for a projected volume that holds nothing but what the API server injects for the service account.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/util/util.go
 */
export function isServiceAccountVolume(volume: JsonObject): boolean {
  const projected = volume['projected'];
  if (!isObject(projected)) return false;
  const sources = projected['sources'] ?? [];
  return Array.isArray(sources) && sources.every((source) => isObject(source) && isInjected(source));
}

function isInjected(source: JsonObject): boolean {
  const { serviceAccountToken, configMap, downwardAPI } = source;
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
