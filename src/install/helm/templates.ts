import { printYaml } from '../../config/manifests.ts';
import type { JsonObject } from '../../kube/types.ts';
import { SCC_DEFINITIONS, defaultSettings, manifestsOf, type Manifest, type ManifestSettings } from '../index.ts';
import type { Files } from '../kustomize/files.ts';
import { helmDeployment } from './deployment.ts';
import { ROLLOUT_PARTS, ROLLOUT_ROLE, type RolloutPart } from '../rbac/rollout.ts';
import { fieldsOf } from './fields.ts';
import { postInstallHook } from './post-install-hook.ts';
import { preDeleteHook } from './pre-delete-hook.ts';
import { more, toTemplate } from './slots.ts';

/** The templates: a file for each kind, each object with the condition on which it is there. */
export function templateFiles(version: string): Files {
  const files = new Map<string, string>();
  for (const manifest of allManifests(version)) {
    const file = `templates/${manifest.kind.toLowerCase()}.yaml`;
    files.set(file, `${files.get(file) ?? ''}${documentOf(manifest)}`);
  }
  return [
    ...files,
    ['templates/pre-delete-hook.yaml', preDeleteHook()],
    ['templates/post-install-hook.yaml', postInstallHook()],
  ];
}

/** What is known only when the chart is installed. */
const RELEASE: Partial<ManifestSettings> = {
  namespace: '«.Release.Namespace»',
  runbook: '«.Values.prometheusRule.runbookUrl»',
};

/** Every object that the chart can make, once. */
function allManifests(version: string): readonly Manifest[] {
  const settings = { ...defaultSettings(version), ...RELEASE };
  const variants: readonly Partial<ManifestSettings>[] = [
    {},
    { certificates: 'cert-manager' },
    { authorization: 'sar' },
    { evaluator: 'DryRun' },
    { monitoring: 'prometheus-operator' },
  ];
  const all = variants.flatMap((variant) => manifestsOf({ ...settings, ...variant }));
  return [...new Map(all.map((one) => [`${one.kind} ${one.metadata.name}`, one] as const).reverse()).values()]
    .filter(({ kind }) => kind !== 'Namespace')
    .reverse();
}

function documentOf(manifest: Manifest): string {
  const conditions = conditionsOf(manifest);
  const text = toTemplate(printYaml([templated(manifest)]));
  const opened = conditions.map((condition) => `{{- if ${condition} }}\n`).join('');
  return `${opened}---\n${text}${'{{- end }}\n'.repeat(conditions.length)}`;
}

/** In the language of templates; all must hold. */
function conditionsOf({ kind, metadata: { name } }: Manifest): readonly string[] {
  if (SCC_DEFINITIONS.some(({ metadata }) => metadata.name === name)) return [`and .Values.crds.install (${SCCS})`];
  if (kind === 'CustomResourceDefinition') return ['.Values.crds.install'];
  if (kind.endsWith('WebhookConfiguration')) {
    return ['.Values.webhook.enabled', ...(name === 'psa.portcullis.dev' ? [] : [SCCS])];
  }
  const byKind = Object.hasOwn(KIND_CONDITIONS, kind) ? KIND_CONDITIONS[kind] : undefined;
  if (byKind !== undefined) return [byKind];
  if (name === 'portcullis-dashboard') return ['.Values.grafana.enabled'];
  if (name === 'portcullis-serving-certificate') return ['not .Values.certManager.enabled'];
  if (name === 'portcullis-access-reviews') return ['eq .Values.authorization "sar"'];
  if (name === ROLLOUT_ROLE) return [ROLLED_OUT];
  const part = ROLLOUT_PARTS.find((one) => one.name === name);
  if (part) return [`and (${ROLLED_OUT}) ${partCondition(part)}`];
  return name === 'portcullis-scc' || name === 'portcullis-view' ? [SCCS] : [];
}

const SCCS = 'ne .Values.scc.mode "off"';
const ROLLED_OUT = 'ne .Values.rollout.phase "Disabled"';
const NEEDS: Readonly<Record<RolloutPart['needs'], string>> = {
  nothing: '',
  SCCs: ` (${SCCS})`,
  'dry runs': ' (eq .Values.rollout.evaluator "DryRun")',
};

function partCondition({ controller, needs }: RolloutPart): string {
  return `(not (has "${controller}" .Values.withoutControllers))${NEEDS[needs]}`;
}

const KIND_CONDITIONS: Readonly<Record<string, string>> = {
  Certificate: '.Values.certManager.enabled',
  Issuer: '.Values.certManager.enabled',
  NetworkPolicy: '.Values.networkPolicy.enabled',
  PodDisruptionBudget: '.Values.podDisruptionBudget.enabled',
  PrometheusRule: '.Values.prometheusRule.enabled',
  ServiceMonitor: '.Values.serviceMonitor.enabled',
};

function templated(manifest: Manifest): JsonObject {
  const { metadata } = manifest;
  const labels = { ...metadata.labels, ...CHART_LABELS, ...MORE_LABELS.get(manifest.kind) };
  const object = { ...manifest, metadata: { ...metadata, labels } };
  return manifest.kind === 'Deployment' ? helmDeployment(object) : fieldsOf(object);
}

/** By which operators choose what is theirs. */
const MORE_LABELS: ReadonlyMap<string, JsonObject> = new Map([
  ['ServiceMonitor', more('.Values.serviceMonitor.labels')],
  ['PrometheusRule', more('.Values.prometheusRule.labels')],
]);

const CHART_LABELS = {
  'app.kubernetes.io/managed-by': '«.Release.Service»',
  'helm.sh/chart': '«include "portcullis.chart" .»',
} as const;
