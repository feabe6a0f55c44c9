/** Reads and changes individual settings in the spec of a PortcullisConfiguration by path. */
import { isObject, type JsonObject, type PortcullisConfiguration, valueAt, withValueAt } from '../kube/types.ts';

export interface Setting {
  /** Field names of the path, starting below the spec. */
  readonly path: readonly string[];
  readonly value: unknown;
}

/** Returns a copy of the spec with one setting changed. */
export function withSetting(spec: JsonObject, { path, value }: Setting): JsonObject {
  return withValueAt(spec, path, value) as JsonObject;
}

/** Returns the settings in a spec. A list is a single setting. */
export function listSettings(spec: JsonObject, parents: readonly string[] = []): readonly Setting[] {
  return Object.entries(spec).flatMap(([name, value]) => {
    const path = [...parents, name];
    return isObject(value) && Object.keys(value).length > 0 ? listSettings(value, path) : [{ path, value }];
  });
}

/** Field manager that the leader uses to apply the initial settings. */
export const SETTINGS_MANAGER = 'settings-status-controller';

/** Returns the field managers of a setting, other than the leader. */
export function settingOwners({ metadata }: PortcullisConfiguration, path: readonly string[]): readonly string[] {
  const entries: readonly JsonObject[] = metadata?.managedFields ?? [];
  const fields = ['fieldsV1', 'f:spec', ...path.map((name) => `f:${name}`)];
  return entries
    .filter((entry) => valueAt(entry, fields) !== undefined && entry['manager'] !== SETTINGS_MANAGER)
    .map(({ manager, operation }) => (operation === 'Apply' ? String(manager) : `${String(manager)} (update)`));
}
