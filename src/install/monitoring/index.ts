import type { ManifestSettings } from '../settings.ts';
import type { Manifest } from '../types.ts';
import { dashboard } from './dashboard.ts';
import { prometheusRule } from './prometheus-rule.ts';
import { serviceMonitor } from './service-monitor.ts';

/** What a cluster with the Prometheus operator and Grafana watches the replicas by. */
export function monitoringObjects(settings: ManifestSettings): readonly Manifest[] {
  return [serviceMonitor(settings), prometheusRule(settings), dashboard(settings)];
}
