import alerts from '../../src/install/alerts.json' with { type: 'json' };
import { cell, code, formatMarkdownTable } from './markdown.ts';

const HEAD = `# Alerts

The \`monitoring\` component and \`portcullis install --monitoring\` install these alerts for Prometheus. Alerts of a feature exist only in installations with the feature. The [runbook](../how-to/runbook.md) describes how to respond to them. \`npm run docs\` generates this page.
`;

export function formatAlertReference(): string {
  const rows = alerts.map(({ alert, for: duration, labels, annotations, expr, feature = '' }) => [
    `[${alert}](../how-to/runbook.md#${alert.toLowerCase()})`,
    labels.severity,
    duration,
    feature,
    cell(annotations.summary),
    code(expr),
  ]);
  return [HEAD, formatMarkdownTable(['alert', 'severity', 'for', 'feature', 'summary', 'expression'], rows)].join('\n');
}
