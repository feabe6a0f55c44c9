import { INSTALLATION } from '../../kube/installation.ts';
import { metadataIn } from '../metadata.ts';
import type { ManifestSettings } from '../settings.ts';
import type { CustomManifest } from '../types.ts';
import { alertsOf, type Alert } from './alerts.ts';

/** The alerts for the Prometheus operator, each with the address of what to do. */
export function prometheusRule({ namespace, runbook }: ManifestSettings): CustomManifest {
  return {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: metadataIn(namespace, INSTALLATION.name),
    spec: { groups: [{ name: INSTALLATION.name, rules: alertsOf(namespace).map((alert) => ruleOf(alert, runbook)) }] },
  };
}

function ruleOf({ name, expr, for: duration, severity, summary }: Alert, runbook: string) {
  return {
    alert: name,
    expr,
    for: duration,
    labels: { severity },
    annotations: { summary, runbook_url: `${runbook}#${name.toLowerCase()}` },
  };
}
