import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { V1Deployment } from '@kubernetes/client-node';
import { closeObjects } from '../config/ajv.ts';
import { printYaml, readDocuments } from '../config/yaml.ts';
import { draft, isObject, type JsonObject } from '../kube/types.ts';
import { INSTALLED_CONFIGURATIONS } from '../kube/webhooks.ts';
import { FEATURES, INSTALLATION, NAMESPACE_NAME_LABEL, WEBHOOK_LABELS } from '../kube/well-known.ts';
import {
  AUTHORITY,
  CERTIFICATE,
  certificateArguments,
  certificateMounts,
  certificateVolumes,
  PORTS,
  probeRequest,
} from './deployment.ts';
import { chartMetadata, chartReadme, type Product } from './chart.ts';
import schema from './chart/values.schema.json' with { type: 'json' };
import { buildManifests } from './index.ts';
import { DASHBOARD } from './monitoring.ts';
import {
  ALL_FEATURES,
  defaultSettings,
  featuresArgument,
  PROFILES,
  SETTINGS_SCHEMA,
  type Manifest,
  type ManifestOf,
  type ManifestSettings,
} from './settings.ts';
import type { WebhookConfiguration } from './webhooks.ts';

/** Files by their paths below the output folder. */
export type Files = readonly (readonly [path: string, text: string])[];

/** Files that are not generated. The values of the chart have the defaults of the other manifests. */
const CHART_FILES = ['values.yaml', 'templates/_helpers.tpl', 'templates/NOTES.txt'];

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
  return (
    yaml
      .replaceAll('{{', '{{ "{{" }}')
      // A placeholder is not folded.
      .replaceAll(/^( *- ".*)\\\n */gm, '$1')
      .replaceAll(/^( *)- «(if [^»]+|end)»\n/gm, '$1{{- $2 }}\n')
      .replaceAll(/^( *)(?:- )?«(with [^»]+)»(?:: null)?\n/gm, (_all, indent: string, action: string) =>
        lines(indent, [`{{- ${action} }}`, `{{- toYaml . | nindent ${indent.length} }}`, '{{- end }}']),
      )
      .replaceAll(/^( *)([\w-]+): «(with [^»]+)»\n/gm, (_all, indent: string, key: string, action: string) =>
        lines(indent, [
          `{{- ${action} }}`,
          `${key}:`,
          `  {{- toYaml . | nindent ${indent.length + 2} }}`,
          '{{- end }}',
        ]),
      )
      .replaceAll(/«([^»]+)»/g, '{{ $1 }}')
  );
}

function lines(indent: string, texts: readonly string[]): string {
  return texts.map((text) => `${indent}${text}\n`).join('');
}

const CERT_MANAGER = '.Values.certManager.enabled';
const CERT_MANAGER_SETTINGS = {
  ...defaultSettings(''),
  namespace: print('.Release.Namespace'),
  certificates: 'cert-manager',
} as const;

/** Replaces the value at a path. A path that ends in `+` adds the values to the list or map at the path. */
type Substitution = readonly [path: string, value: unknown];

const POD = 'spec.template.spec';
const CONTAINER = `${POD}.containers.0`;

/** An expression for the entries of two maps. The second takes precedence. */
function merged(first: string, second: string): string {
  return `mergeOverwrite (deepCopy ${first}) ${/^\.[\w.]+$/.test(second) ? second : `(${second})`}`;
}

/** An expression for the output of a helper, which is YAML. */
function parsed(helper: string, parser = 'fromYaml'): string {
  return `include "portcullis.${helper}" . | ${parser}`;
}

const DEPLOYMENT: readonly Substitution[] = [
  ['spec.replicas', print('.Values.replicaCount')],
  ['spec.revisionHistoryLimit', print('.Values.revisionHistoryLimit')],
  // The ports of a node are free only after another replica stops.
  ['spec.strategy.rollingUpdate.maxUnavailable', print('ternary 1 0 .Values.hostNetwork')],
  ['spec.template.metadata.labels+', more(merged('.Values.commonLabels', '.Values.podLabels'))],
  ['spec.template.metadata.annotations+', more('.Values.podAnnotations')],
  [`${POD}+`, more(parsed('network'))],
  [`${POD}.dnsConfig`, optional('.Values.dnsConfig')],
  [`${POD}.hostAliases`, optional('.Values.hostAliases')],
  [`${POD}.runtimeClassName`, optional('.Values.runtimeClassName')],
  [`${POD}.imagePullSecrets`, optional(parsed('imagePullSecrets', 'fromYamlArray'))],
  [`${POD}.priorityClassName`, optional('.Values.priorityClassName')],
  [`${POD}.terminationGracePeriodSeconds`, print('.Values.terminationGracePeriodSeconds')],
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
  [`${CONTAINER}.env.1.value`, print('include "portcullis.settings" . | quote')],
  [`${CONTAINER}.env+`, [optional('.Values.extraEnv')]],
  [`${CONTAINER}.envFrom`, optional('.Values.extraEnvFrom')],
  [`${CONTAINER}.ports.0.containerPort`, print('.Values.ports.reviews')],
  [`${CONTAINER}.ports.1.containerPort`, print('.Values.ports.probes')],
  [`${CONTAINER}.startupProbe`, { ...probeRequest('/livez'), ...more('.Values.startupProbe') }],
  [`${CONTAINER}.livenessProbe`, { ...probeRequest('/livez'), ...more('.Values.livenessProbe') }],
  [`${CONTAINER}.readinessProbe`, { ...probeRequest('/readyz'), ...more('.Values.readinessProbe') }],
  [`${CONTAINER}.resources`, optional('.Values.resources')],
  [`${CONTAINER}.securityContext`, optional('.Values.securityContext')],
  [
    `${CONTAINER}.volumeMounts+`,
    [...when(CERT_MANAGER, certificateMounts(CERT_MANAGER_SETTINGS)), optional('.Values.extraVolumeMounts')],
  ],
  [`${POD}.initContainers`, optional('.Values.initContainers')],
  [`${POD}.containers+`, [optional('.Values.extraContainers')]],
];

/** The fields of manifests that depend on values, by kind. */
const SUBSTITUTIONS: Readonly<Record<string, readonly Substitution[]>> = {
  Deployment: DEPLOYMENT,
  PodDisruptionBudget: [
    ['spec.maxUnavailable', undefined],
    ['spec+', more(parsed('disruptionBudget'))],
  ],
  ServiceMonitor: [
    ['spec.endpoints.0.interval', print('.Values.serviceMonitor.interval')],
    ['spec.endpoints.0.scrapeTimeout', optional('.Values.serviceMonitor.scrapeTimeout')],
  ],
  ResourceQuota: [
    ['spec.hard.pods', print('.Values.resourceQuota.pods | quote')],
    ['spec.scopeSelector.matchExpressions.0.values', [print('.Values.priorityClassName | quote')]],
  ],
};

/** Expressions for labels of objects of a kind, in addition to the common labels. */
const LABELS: Readonly<Record<string, string>> = {
  PrometheusRule: '.Values.prometheusRule.labels',
  ServiceMonitor: '.Values.serviceMonitor.labels',
};

/** Expressions for annotations of objects of a kind, in addition to the common annotations. */
const ANNOTATIONS: Readonly<Record<string, string>> = {
  CustomResourceDefinition: parsed('crdAnnotations'),
  Deployment: '.Values.deploymentAnnotations',
  MutatingWebhookConfiguration: parsed('webhookAnnotations'),
  Service: '.Values.service.annotations',
  ServiceAccount: '.Values.serviceAccount.annotations',
  ValidatingWebhookConfiguration: parsed('webhookAnnotations'),
};

/** An expression for the common entries and those of a kind. */
function withCommon(common: string, more: string | undefined): string {
  return more === undefined ? common : merged(common, more);
}

/** The parts of arguments that depend on values, and their template expressions. */
const ARGUMENTS = [
  [`${PORTS.reviews.port}`, '.Values.ports.reviews'],
  [`${PORTS.probes.port}`, '.Values.ports.probes'],
  [featuresArgument(defaultSettings('').features).replace(/.*=/, ''), 'include "portcullis.features" .'],
] as const;

/** Substitutions that also depend on the content of the manifest. */
function contentSubstitutions(manifest: Manifest): readonly Substitution[] {
  const { kind, metadata } = manifest;
  if (kind === 'Certificate' && metadata.name === CERTIFICATE) {
    return [['spec.issuerRef', optional(parsed('issuer'))]];
  }
  if (kind === 'Deployment') return substituteArguments(manifest);
  if (kind === 'PrometheusRule') return runbookLinks(manifest as RuleManifest);
  const { webhooks = [] } = manifest as Partial<WebhookConfiguration>;
  return webhooks.flatMap(webhookSubstitutions);
}

type RuleManifest = Manifest & {
  readonly spec: { readonly groups: readonly { readonly rules: readonly { readonly alert: string }[] }[] };
};

function runbookLinks({ spec }: RuleManifest): readonly Substitution[] {
  return (spec.groups[0]?.rules ?? []).map(({ alert }, index) => {
    const values = `dict "url" .Values.prometheusRule.runbookUrl "section" "${alert.toLowerCase()}"`;
    const link = more(`include "portcullis.runbook" (${values}) | fromYaml`);
    return [`spec.groups.0.rules.${index}.annotations+`, link];
  });
}

function substituteArguments({ spec }: ManifestOf<V1Deployment>): readonly Substitution[] {
  const { args = [] } = spec?.template.spec?.containers[0] ?? {};
  return args.flatMap((argument, index) =>
    ARGUMENTS.filter(([end]) => argument.endsWith(end)).map(([end, expression]) => {
      const start = argument.slice(0, -end.length);
      return [`${CONTAINER}.args.${index}`, `${start}${print(expression)}`] as const;
    }),
  );
}

type Webhook = NonNullable<WebhookConfiguration['webhooks']>[number];

/** As in `requiredConfigurations`, the timeout of the settings is the one of webhooks that fail closed. */
function webhookSubstitutions(
  { failurePolicy, timeoutSeconds = 0, namespaceSelector }: Webhook,
  index: number,
): readonly Substitution[] {
  const path = `webhooks.${index}`;
  const requirements = (namespaceSelector?.matchExpressions ?? []).flatMap(({ key, operator }, requirement) => {
    const values = `${path}.namespaceSelector.matchExpressions.${requirement}.values+`;
    const isExclusion = key === NAMESPACE_NAME_LABEL && operator === 'NotIn';
    return isExclusion ? [[values, [optional('.Values.webhook.exemptNamespaces')]] as const] : [];
  });
  return failurePolicy === 'Ignore'
    ? requirements
    : [
        [`${path}.timeoutSeconds`, print(`dig "webhooks" "timeoutSeconds" ${timeoutSeconds} .Values.settings`)],
        [`${path}.failurePolicy`, print('.Values.webhook.failurePolicy')],
        ...requirements,
      ];
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

/** Completes the values before a template uses them. */
const PREPARE = '{{- include "portcullis.prepare" . }}\n';

/** The templates: one file for each kind. */
function templateFiles(version: string): Files {
  const settings = { ...defaultSettings(version), namespace: print('.Release.Namespace') };
  const files = new Map<string, string>();
  const manifests = conditionalManifests(settings);
  for (const { manifest, conditions } of manifests) {
    const file = `templates/${manifest.kind.toLowerCase()}.yaml`;
    files.set(file, `${files.get(file) ?? PREPARE}${templateDocument(manifest, conditions)}`);
  }
  const definitions = manifests.filter(({ manifest }) => manifest.kind === 'CustomResourceDefinition');
  const names = definitions.map(({ manifest: { metadata }, conditions }) =>
    conditional(`- ${metadata.name}\n`, conditions),
  );
  return [
    ...files,
    [
      'templates/_generated.tpl',
      `${define('defaults', printYaml([defaults()]))}\n${define('definitions', names.join(''))}`,
    ],
    ['templates/pre-delete-hook.yaml', preDeleteHook()],
  ];
}

function define(name: string, text: string): string {
  return `{{- define "portcullis.${name}" -}}\n${text}{{- end }}\n`;
}

const HOOK = {
  'helm.sh/hook': 'pre-delete',
  'helm.sh/hook-delete-policy': 'before-hook-creation,hook-succeeded',
} as const;

/**
 * Deletes the webhook configurations before the replicas, and before them the binding that allows the leader to restore
 * them. Helm itself would delete them last. Helm deletes the object of a hook before it creates it, and after it succeeds:
 * neither an image nor a permission of a service account is needed.
 */
function preDeleteHook(): string {
  const apiGroup = 'rbac.authorization.k8s.io';
  const name = INSTALLATION.webhookRole;
  const binding = {
    apiVersion: `${apiGroup}/v1`,
    kind: 'ClusterRoleBinding',
    metadata: { name, labels: WEBHOOK_LABELS, annotations: { ...HOOK, 'helm.sh/hook-weight': '-1' } },
    roleRef: { apiGroup, kind: 'ClusterRole', name },
  };
  const hooks = Object.entries(INSTALLED_CONFIGURATIONS).flatMap(([kind, names]) =>
    names.map((name) => ({
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind,
      metadata: { name, labels: WEBHOOK_LABELS, annotations: HOOK },
    })),
  );
  return `{{- if include "portcullis.isRelease" . }}\n---\n${toTemplate(printYaml([binding, ...hooks]))}{{- end }}\n`;
}

/** Settings that remove objects, and the template condition of these objects. */
const REMOVALS: readonly (readonly [settings: Partial<ManifestSettings>, condition: string])[] = [
  ...FEATURES.map((name) => [{ features: { ...ALL_FEATURES, [name]: false } }, `.Values.features.${name}`] as const),
  [{ nodesConfig: false }, '.Values.crds.nodesConfig'],
  [{ certificates: 'cert-manager' }, `not ${CERT_MANAGER}`],
  [{ certificates: 'self-managed' }, CERT_MANAGER],
];

/** The certificate authority of the chart is not needed if another issuer is named. */
const OWN_ISSUER = 'not .Values.certManager.issuerRef.name';
/** True if the release contains the webhook configurations. Otherwise, the leader registers the webhooks. */
const STATIC_WEBHOOKS = 'eq (dig "webhooks" "management" "managed" .Values.settings) "static"';
const STATIC: Partial<ManifestSettings> = {
  policy: { scc: { mode: 'enforce' }, rollout: { phase: 'Enforce' }, webhooks: { management: 'static' } },
};

/** The ClusterRoles, and their bindings, that depend on settings. */
const SETTING_ROLES: Readonly<Record<string, string>> = {
  [`${INSTALLATION.name}-kubelet-taint`]: 'dig "kubelet" "taint" false .Values.settings',
  [INSTALLATION.defaultsRole]: 'ne (dig "defaults" "mode" "off" .Values.settings) "off"',
};

/** Conditions for objects that no setting of the other manifests removes. */
const KIND_CONDITIONS: Readonly<Record<string, string>> = {
  CustomResourceDefinition: '.Values.crds.install',
  Issuer: OWN_ISSUER,
  MutatingWebhookConfiguration: STATIC_WEBHOOKS,
  NetworkPolicy: '.Values.networkPolicy.enabled',
  PodDisruptionBudget: '.Values.podDisruptionBudget.enabled',
  PrometheusRule: '.Values.prometheusRule.enabled',
  ResourceQuota: 'and .Values.resourceQuota.enabled .Values.priorityClassName',
  ServiceAccount: '.Values.serviceAccount.create',
  ServiceMonitor: '.Values.serviceMonitor.enabled',
  ValidatingWebhookConfiguration: STATIC_WEBHOOKS,
};

interface ConditionalManifest {
  readonly manifest: Manifest;
  /** Template conditions, all of which have to hold. */
  readonly conditions: readonly string[];
}

/** Every object that the chart can create. Helm creates the namespace. */
function conditionalManifests(settings: ManifestSettings): readonly ConditionalManifest[] {
  const optionalObjects = { ...PROFILES.monitoring, nodesConfig: true };
  const policy = { ...settings.policy, kubelet: { taint: true }, defaults: { mode: 'apply' } };
  const everything = { ...settings, ...optionalObjects, policy, features: ALL_FEATURES } as const;
  const defaults = new Map(buildManifests(settings).map((manifest) => [identity(manifest), manifest]));
  const results = new Map<string, ConditionalManifest>();
  for (const one of [everything, { ...everything, ...PROFILES['cert-manager'] }, { ...everything, ...STATIC }]) {
    const removals = REMOVALS.map(([change, condition]) => {
      const kept = new Set(buildManifests({ ...one, ...change }).map(identity));
      return { kept, condition };
    });
    for (const manifest of buildManifests(one)) {
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
  const setting = SETTING_ROLES[metadata.name];
  if (setting !== undefined) return [setting];
  if (metadata.name === DASHBOARD) return ['.Values.grafana.enabled'];
  if (kind === 'Certificate' && metadata.name === AUTHORITY) return [OWN_ISSUER];
  const condition = Object.hasOwn(KIND_CONDITIONS, kind) ? KIND_CONDITIONS[kind] : undefined;
  return condition === undefined ? [] : [condition];
}

function templateDocument(manifest: Manifest, conditions: readonly string[]): string {
  const { kind, metadata: given } = manifest;
  const labels = { ...given.labels, ...CHART_LABELS, ...more(withCommon('.Values.commonLabels', LABELS[kind])) };
  const annotations = optional(withCommon('.Values.commonAnnotations', ANNOTATIONS[kind]));
  const metadata = { ...given, labels, annotations } as unknown as Manifest['metadata'];
  const text = `---\n${toTemplate(printYaml([substitute({ ...manifest, metadata })]))}`;
  return conditional(text, conditions);
}

function conditional(text: string, conditions: readonly string[]): string {
  if (conditions.length === 0) return text;
  const terms = conditions.map((condition) => (condition.includes(' ') ? `(${condition})` : condition));
  return `{{- if ${terms.length === 1 ? conditions.join() : `and ${terms.join(' ')}`} }}\n${text}{{- end }}\n`;
}

const CHART_LABELS = {
  'app.kubernetes.io/managed-by': print('.Release.Service'),
  'helm.sh/chart': print('include "portcullis.chart" .'),
} as const;

/** The files of the Helm chart. */
export function chartFiles(product: Product): Files {
  return [
    ['Chart.yaml', chartMetadata(product, readChartFile('icon.svg'))],
    ['README.md', chartReadme(product, readChartFile('values.yaml'))],
    ['values.schema.json', `${JSON.stringify(valuesSchema(), undefined, 2)}\n`],
    ...CHART_FILES.map((path) => [path, readChartFile(path)] as const),
    ...templateFiles(product.version),
  ];
}

/** The schema of the values. The schema of the policy settings is the one of their object. */
function valuesSchema(): JsonObject {
  const { spec } = SETTINGS_SCHEMA.properties;
  return { ...schema, properties: { ...schema.properties, settings: closeObjects(spec) } };
}

function readChartFile(path: string): string {
  return readFileSync(join(import.meta.dirname, 'chart', path), 'utf8');
}

/** Values with defaults that a user can remove with `null`. */
const REMOVABLE = ['podSecurityContext', 'securityContext', 'resources', 'nodeSelector', 'topologySpreadConstraints'];

/** Defaults for `helm upgrade --reuse-values`, which omits the values that a new version of the chart adds. */
function defaults(): unknown {
  const [values] = readDocuments(readChartFile('values.yaml'), 'values.yaml').documents;
  const all = isObject(values?.value) ? Object.entries(values.value) : [];
  return Object.fromEntries(all.filter(([name]) => !REMOVABLE.includes(name)));
}
