import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { closeObjects } from '../config/ajv.ts';
import { CONFIGURATION_SCHEMA } from '../config/portcullis-configuration.ts';
import { printYaml } from '../config/yaml.ts';
import { CONTROLLER_NAMES } from '../controllers/index.ts';
import { draft, type JsonObject } from '../kube/types.ts';
import {
  certificateArguments,
  certificateMounts,
  certificateVolumes,
  CONFIGURATION_FILE,
  CONFIGURATION_NAME,
} from './deployment.ts';
import schema from './chart/values.schema.json' with { type: 'json' };
import { buildManifests } from './index.ts';
import { DASHBOARD } from './monitoring.ts';
import { defaultSettings, MINIMUM_MINOR, PROFILES, type Manifest, type ManifestSettings } from './settings.ts';

/** Files by their paths below the output folder. */
export type Files = readonly (readonly [path: string, text: string])[];

/** Files that are not generated. The values of the chart have the defaults of the other manifests. */
const CHART_FILES = [
  'values.yaml',
  'templates/_helpers.tpl',
  'templates/NOTES.txt',
  'templates/pre-delete-hook.yaml',
  'templates/post-install-hook.yaml',
];

// Templates are manifests with placeholders between « and », which `toTemplate` replaces with template actions after the
// manifest is printed as YAML.

/** A placeholder for the output of an expression. It may be a part of a string. */
function print(expression: string): string {
  return `«${expression}»`;
}

/** A placeholder for a field, or for items of a list, that is omitted if the value is empty. */
function optional(expression: string): string {
  return `«with ${expression}»`;
}

/** A placeholder for additional members of a map. */
function more(expression: string): JsonObject {
  return { [optional(expression)]: null };
}

/** Items of a list that depend on a condition. */
function when<T>(condition: string, items: readonly T[]): readonly (T | string)[] {
  return [`«if ${condition}»`, ...items, '«end»'];
}

/** Replaces the placeholders in a printed manifest with template actions. */
function toTemplate(yaml: string): string {
  return yaml
    .replaceAll('{{', '{{ "{{" }}')
    .replaceAll(/^( *)- «(if [^»]+|end)»\n/gm, '$1{{- $2 }}\n')
    .replaceAll(/^( *)(?:- )?«(with [^»]+)»(?:: null)?\n/gm, (_all, indent: string, action: string) =>
      lines(indent, [`{{- ${action} }}`, `{{- toYaml . | nindent ${indent.length} }}`, '{{- end }}']),
    )
    .replaceAll(/^( *)([\w-]+): «(with [^»]+)»\n/gm, (_all, indent: string, key: string, action: string) =>
      lines(indent, [`{{- ${action} }}`, `${key}:`, `  {{- toYaml . | nindent ${indent.length + 2} }}`, '{{- end }}']),
    )
    .replaceAll(/«([^»]+)»/g, '{{ $1 }}');
}

function lines(indent: string, texts: readonly string[]): string {
  return texts.map((text) => `${indent}${text}\n`).join('');
}

const CERT_MANAGER = '.Values.certManager.enabled';
const CERT_MANAGER_SETTINGS = { ...defaultSettings(''), certificates: 'cert-manager' } as const;

/** Replaces the value at a path. A path that ends in `+` adds the values to the list or map at the path. */
type Substitution = readonly [path: string, value: unknown];

const POD = 'spec.template.spec';
const CONTAINER = `${POD}.containers.0`;

const DEPLOYMENT: readonly Substitution[] = [
  ['spec.replicas', print('.Values.replicaCount')],
  ['spec.template.metadata.labels+', more('.Values.podLabels')],
  ['spec.template.metadata.annotations+', more('.Values.podAnnotations')],
  [`${POD}.imagePullSecrets`, optional('.Values.imagePullSecrets')],
  [`${POD}.priorityClassName`, print('.Values.priorityClassName | quote')],
  [`${POD}.securityContext`, optional('.Values.podSecurityContext')],
  [`${POD}.nodeSelector`, optional('.Values.nodeSelector')],
  [`${POD}.tolerations`, optional('.Values.tolerations')],
  [`${POD}.affinity`, optional('.Values.affinity')],
  [`${POD}.topologySpreadConstraints`, optional('.Values.topologySpreadConstraints')],
  [
    `${POD}.volumes+`,
    [...when(CERT_MANAGER, certificateVolumes(CERT_MANAGER_SETTINGS)), optional('.Values.extraVolumes')],
  ],
  [`${CONTAINER}.image`, print('include "portcullis.image" . | quote')],
  [`${CONTAINER}.imagePullPolicy`, print('.Values.image.pullPolicy')],
  [
    `${CONTAINER}.args+`,
    [...when(CERT_MANAGER, certificateArguments(CERT_MANAGER_SETTINGS)), optional('.Values.extraArgs')],
  ],
  [`${CONTAINER}.env+`, [optional('.Values.extraEnv')]],
  [`${CONTAINER}.resources`, optional('.Values.resources')],
  [`${CONTAINER}.securityContext`, optional('.Values.securityContext')],
  [
    `${CONTAINER}.volumeMounts+`,
    [...when(CERT_MANAGER, certificateMounts(CERT_MANAGER_SETTINGS)), optional('.Values.extraVolumeMounts')],
  ],
];

const WEBHOOKS: readonly Substitution[] = [
  ['metadata.annotations', optional('include "portcullis.webhookAnnotations" . | fromYaml')],
];

/** The fields of manifests that depend on values, by kind. */
const SUBSTITUTIONS: Readonly<Record<string, readonly Substitution[]>> = {
  CustomResourceDefinition: [['metadata.annotations', optional('include "portcullis.crdAnnotations" . | fromYaml')]],
  Deployment: DEPLOYMENT,
  MutatingWebhookConfiguration: WEBHOOKS,
  PodDisruptionBudget: [['spec.maxUnavailable', print('.Values.podDisruptionBudget.maxUnavailable')]],
  PrometheusRule: [['metadata.labels+', more('.Values.prometheusRule.labels')]],
  ServiceAccount: [['metadata.annotations', optional('.Values.serviceAccount.annotations')]],
  ServiceMonitor: [['metadata.labels+', more('.Values.serviceMonitor.labels')]],
  ValidatingWebhookConfiguration: WEBHOOKS,
};

/** Substitutions that also depend on the content of the manifest. */
function contentSubstitutions(manifest: Manifest): readonly Substitution[] {
  if (manifest.metadata.name === CONFIGURATION_NAME) {
    return [['data', { [CONFIGURATION_FILE]: print('include "portcullis.configuration" . | quote') }]];
  }
  const { webhooks = [] } = manifest as { readonly webhooks?: readonly JsonObject[] };
  return webhooks.flatMap(({ failurePolicy }, index) =>
    failurePolicy === 'Fail' ? [[`webhooks.${index}.failurePolicy`, print('.Values.webhook.failurePolicy')]] : [],
  );
}

function substitute(manifest: Manifest): JsonObject {
  const template: unknown = draft(manifest);
  for (const [path, value] of [...(SUBSTITUTIONS[manifest.kind] ?? []), ...contentSubstitutions(manifest)]) {
    const keys = path.replace(/\+$/, '').split('.');
    const last = keys.pop() ?? '';
    const parent = keys.reduce((object, key) => (object as Record<string, unknown>)[key], template) as Record<
      string,
      unknown
    >;
    parent[last] = path.endsWith('+') ? merge(parent[last], value) : value;
  }
  return template as JsonObject;
}

function merge(target: unknown, added: unknown): unknown {
  return Array.isArray(target) && Array.isArray(added)
    ? [...(target as unknown[]), ...(added as unknown[])]
    : { ...(target as object), ...(added as object) };
}

/** The templates: one file for each kind. */
function templateFiles(version: string): Files {
  const namespace = print('.Release.Namespace');
  const runbook = print('.Values.prometheusRule.runbookUrl');
  const files = new Map<string, string>();
  for (const { manifest, conditions } of conditionalManifests({ ...defaultSettings(version), namespace, runbook })) {
    const file = `templates/${manifest.kind.toLowerCase()}.yaml`;
    files.set(file, `${files.get(file) ?? ''}${templateDocument(manifest, conditions)}`);
  }
  return [...files];
}

/** Settings that remove objects, and the template condition of these objects. */
const REMOVALS: readonly (readonly [settings: Partial<ManifestSettings>, condition: string])[] = [
  [{ sccMode: 'off' }, 'ne .Values.settings.scc.mode "off"'],
  [{ rollout: 'Disabled' }, 'ne .Values.settings.rollout.phase "Disabled"'],
  [{ evaluator: 'InProcess' }, 'eq .Values.settings.rollout.evaluator "DryRun"'],
  [{ authorization: 'rbac' }, 'eq .Values.settings.scc.authorization "sar"'],
  [{ certificates: 'cert-manager' }, `not ${CERT_MANAGER}`],
  [{ certificates: 'self-managed' }, CERT_MANAGER],
  ...CONTROLLER_NAMES.map(
    (name) => [{ withoutControllers: [name] }, `not (has "${name}" .Values.settings.controllers.disabled)`] as const,
  ),
];

/** Conditions for objects that no setting of the other manifests removes. */
const KIND_CONDITIONS: Readonly<Record<string, string>> = {
  CustomResourceDefinition: '.Values.crds.install',
  MutatingWebhookConfiguration: '.Values.webhook.enabled',
  NetworkPolicy: '.Values.networkPolicy.enabled',
  PodDisruptionBudget: '.Values.podDisruptionBudget.enabled',
  PrometheusRule: '.Values.prometheusRule.enabled',
  ServiceMonitor: '.Values.serviceMonitor.enabled',
  ValidatingWebhookConfiguration: '.Values.webhook.enabled',
};

interface ConditionalManifest {
  readonly manifest: Manifest;
  /** Template conditions, all of which have to hold. */
  readonly conditions: readonly string[];
}

/** Every object that the chart can create. Helm creates the namespace. */
function conditionalManifests(settings: ManifestSettings): readonly ConditionalManifest[] {
  const everything = { ...settings, authorization: 'sar', evaluator: 'DryRun', ...PROFILES.monitoring } as const;
  const defaults = new Map(buildManifests(settings).map((manifest) => [identity(manifest), manifest]));
  const results = new Map<string, ConditionalManifest>();
  for (const all of [everything, { ...everything, ...PROFILES['cert-manager'] }]) {
    const removals = REMOVALS.map(([change, condition]) => {
      const kept = new Set(buildManifests({ ...all, ...change }).map(identity));
      return { kept, condition };
    });
    for (const manifest of buildManifests(all)) {
      const key = identity(manifest);
      if (manifest.kind === 'Namespace' || results.has(key)) continue;
      const removing = removals.filter(({ kept }) => !kept.has(key)).map(({ condition }) => condition);
      const conditions = [...valueConditions(manifest), ...removing];
      results.set(key, { manifest: defaults.get(key) ?? manifest, conditions });
    }
  }
  return [...results.values()];
}

function identity({ kind, metadata: { name } }: Manifest): string {
  return `${kind} ${name}`;
}

function valueConditions({ kind, metadata }: Manifest): readonly string[] {
  if (metadata.name === DASHBOARD) return ['.Values.grafana.enabled'];
  const condition = Object.hasOwn(KIND_CONDITIONS, kind) ? KIND_CONDITIONS[kind] : undefined;
  return condition === undefined ? [] : [condition];
}

function templateDocument(manifest: Manifest, conditions: readonly string[]): string {
  const { metadata } = manifest;
  const labels = { ...metadata.labels, ...CHART_LABELS };
  const text = `---\n${toTemplate(printYaml([substitute({ ...manifest, metadata: { ...metadata, labels } })]))}`;
  if (conditions.length === 0) return text;
  const terms = conditions.map((condition) => (condition.includes(' ') ? `(${condition})` : condition));
  return `{{- if ${terms.length === 1 ? conditions.join() : `and ${terms.join(' ')}`} }}\n${text}{{- end }}\n`;
}

const CHART_LABELS = {
  'app.kubernetes.io/managed-by': print('.Release.Service'),
  'helm.sh/chart': print('include "portcullis.chart" .'),
} as const;

/** The files of the Helm chart. */
export function chartFiles(version: string): Files {
  const chart = {
    apiVersion: 'v2',
    name: 'portcullis',
    description: 'Pod security admission for any Kubernetes cluster',
    type: 'application',
    version,
    appVersion: version,
    kubeVersion: `>= 1.${MINIMUM_MINOR}.0-0`,
  };
  return [
    ['Chart.yaml', printYaml([chart])],
    ['values.schema.json', `${JSON.stringify(valuesSchema(), undefined, 2)}\n`],
    ...CHART_FILES.map((path) => [path, readFileSync(join(import.meta.dirname, 'chart', path), 'utf8')] as const),
    ...templateFiles(version),
  ];
}

/** The schema of the values. The schema of the policy settings is the one of their object. */
function valuesSchema(): JsonObject {
  const { spec } = CONFIGURATION_SCHEMA.properties;
  return { ...schema, properties: { ...schema.properties, settings: closeObjects(spec) } };
}
