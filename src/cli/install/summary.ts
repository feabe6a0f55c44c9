/** Summarizes the changes to an installation. */
import { listSettings } from '../../config/setting-paths.ts';
import type { ManifestSettings } from '../../install/index.ts';
import { NODES_CONFIG } from './installation.ts';

/**
 * Returns one line with the settings and customized fields that keep their values, and one with the settings that
 * change.
 */
export function summarizeSettings(
  before: Partial<ManifestSettings>,
  after: Partial<ManifestSettings>,
  fields: readonly string[] = [],
): readonly string[] {
  const old = new Map(describeSettings(before));
  const next = describeSettings(after);
  const kept = next.filter(([name, value]) => old.get(name) === value).map(([name, value]) => `${name}=${value}`);
  /** Returns the previous value of a setting, or the previous values of its fields. */
  const former = (name: string): string => {
    const fields = [...old].filter(([field]) => field.startsWith(`${name}.`)).map((field) => field.join('='));
    return old.get(name) ?? (fields.join(', ') || 'unset');
  };
  const changed = next
    .filter(([name, value]) => old.size > 0 && old.get(name) !== value)
    .map(([name, value]) => `${name}: ${former(name)} -> ${value}`);
  return [`kept: ${listOrNothing([...kept, ...fields])}`, `changed: ${listOrNothing(changed)}`];
}

export function listOrNothing(items: readonly string[]): string {
  return items.length === 0 ? 'nothing' : items.join(', ');
}

function describeSettings(settings: Partial<ManifestSettings>): readonly (readonly [name: string, value: string])[] {
  const { image, replicas, certificates, monitoring, runbook, webhooks, features, nodesConfig, policy = {} } = settings;
  const values = {
    ...{ image, replicas, certificates, monitoring },
    runbook: monitoring === 'prometheus-operator' ? runbook || undefined : undefined,
    'webhook-url': webhooks === 'service' ? undefined : webhooks?.url,
    ...features,
    [NODES_CONFIG]: nodesConfig || undefined,
  };
  return [
    ...Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)] as const])),
    ...listSettings(policy).map(({ path, value }) => [`spec.${path.join('.')}`, JSON.stringify(value)] as const),
  ];
}
