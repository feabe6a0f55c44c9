import type { V1ConfigMap } from '@kubernetes/client-node';
import { metadataIn } from '../metadata.ts';
import type { ManifestSettings } from '../settings.ts';
import type { ManifestOf } from '../types.ts';
import { panelsOf, type Panel } from './panels.ts';

const DATASOURCE = { type: 'prometheus', uid: '${datasource}' } as const;
const COLUMNS = 2;
/** Grafana's grid is 24 wide. */
const SIZE = { w: 24 / COLUMNS, h: 8 } as const;

/** A dashboard that Grafana's sidecar finds by its label. */
export function dashboard({ namespace }: ManifestSettings): ManifestOf<V1ConfigMap> {
  const { labels, ...metadata } = metadataIn(namespace, 'portcullis-dashboard');
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { ...metadata, labels: { ...labels, grafana_dashboard: '1' } },
    data: { 'portcullis.json': `${JSON.stringify(dashboardOf(namespace), undefined, 2)}\n` },
  };
}

/** @see https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/ */
function dashboardOf(namespace: string) {
  return {
    uid: 'portcullis',
    title: 'Portcullis',
    tags: ['kubernetes', 'security'],
    schemaVersion: 39,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    templating: { list: [{ name: 'datasource', type: 'datasource', query: 'prometheus' }] },
    panels: panelsOf(namespace).map(panelAt),
  };
}

function panelAt({ title, unit, queries }: Panel, index: number) {
  return {
    id: index + 1,
    type: 'timeseries',
    title,
    datasource: DATASOURCE,
    gridPos: { ...SIZE, x: (index % COLUMNS) * SIZE.w, y: Math.floor(index / COLUMNS) * SIZE.h },
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    targets: queries.map(([expr, legendFormat], number) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + number),
      datasource: DATASOURCE,
      expr,
      legendFormat,
    })),
  };
}
