import { isObject, type JsonObject } from '../../../kube/types.ts';
import { invalidValue } from '../../../kube/field-error.ts';
import { unknownTextOf, type VolumeFields } from '../decode/volume.ts';
import { hasName } from '../scc.ts';
import type { PodStrategy } from './index.ts';

/** The key in the one ConfigMap entry that is injected, by the name of the ConfigMap. */
const INJECTED_CONFIG_MAPS: ReadonlyMap<unknown, string> = new Map([
  ['kube-root-ca.crt', 'ca.crt'],
  ['openshift-service-ca.crt', 'service-ca.crt'],
]);

/**
 * True for a projected volume that holds nothing but what the API server injects for the service account.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/util/util.go
 */
function isServiceAccountVolume(volume: JsonObject): boolean {
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

/** The pod has volumes of those types only that the SCC lists; what the API server injects passes with `secret`. */
export const volumes: PodStrategy = {
  validate({ scc: { volumes: types }, pod, maxErrors }, errors) {
    if (pod.volumes.length === 0 || types.includes('*')) return;
    const isSecretAllowed = types.includes('secret');
    for (const volume of pod.volumes) {
      if (errors.length >= maxErrors) return;
      if (hasName(types, volume.type, pod.volumes.length) || (isSecretAllowed && isInjectedVolumes(volume))) continue;
      const detail =
        volume.type === ''
          ? `unknown volume type for volume: ${unknownTextOf(volume)}`
          : `${volume.type} volumes are not allowed to be used`;
      errors.push(invalidValue(`.spec.volumes[${volume.index}]`, volume.type, detail));
    }
  },
};

/** Flex volumes are driven by a listed driver, if the SCC lists any and allows flex volumes at all. */
export const allowedFlexVolumes: PodStrategy = {
  validate({ scc, pod, maxErrors }, errors) {
    if (scc.allowedFlexVolumes.length === 0) return;
    if (!scc.volumes.includes('flexVolume') && !scc.volumes.includes('*')) return;
    for (const { index, driver } of pod.volumes) {
      if (errors.length >= maxErrors) return;
      if (driver === undefined || hasName(scc.allowedFlexVolumes, driver, pod.volumes.length)) continue;
      const detail = 'Flexvolume driver is not allowed to be used';
      errors.push(invalidValue(`.spec.volumes[${index}].flexVolume.driver`, driver, detail));
    }
  },
};

/** Every SCC asks for it; a volume may have many sources. */
function isInjectedVolumes(volume: VolumeFields): boolean {
  return (volume.isInjected ??= volume.type === 'projected' && isServiceAccountVolume(volume.json));
}
