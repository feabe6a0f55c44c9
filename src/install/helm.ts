import { printYaml } from '../config/yaml.ts';
import { CONTROLLER_NAMES } from '../controllers/index.ts';
import { ENFORCEMENT_MODES, PSA_ENFORCEMENT_CONFIG } from '../kube/psa-enforcement-config.ts';
import { getApiVersion } from '../kube/resources.ts';
import { draft, isObject, type JsonObject } from '../kube/types.ts';
import { ROLLOUT_PHASES, EVALUATORS } from '../policy/rollout/settings.ts';
import {
  certificateArguments,
  certificateMounts,
  certificateVolumes,
  CONFIGURATION,
  CONFIGURATION_FILE,
  CONFIGURATION_NAME,
  deployment,
  rolloutSection,
} from './deployment.ts';
import { buildManifests } from './index.ts';
import { DASHBOARD } from './monitoring.ts';
import { clusterRole, rule } from './rbac.ts';
import {
  clusterMetadata,
  defaultSettings,
  MINIMUM_MINOR,
  namespacedMetadata,
  type Manifest,
  type ManifestSettings,
} from './settings.ts';

/** Files by their paths below the output folder. */
export type Files = readonly (readonly [path: string, text: string])[];

/** A value of the chart: its name, its default and its description. */
type ChartValue = readonly [name: string, value: unknown, description: string];

/** The values of the chart. The defaults are those of the other manifests. */
function chartValues(version: string): readonly ChartValue[] {
  const settings = defaultSettings(version);
  const { spec } = deployment(settings);
  const pod = spec?.template.spec;
  const container = pod?.containers[0];
  const image = { registry: '', repository: 'portcullis', tag: '', digest: '', pullPolicy: container?.imagePullPolicy };
  return [
    ['replicaCount', spec?.replicas, 'Number of replicas.'],
    ['image', image, 'Image. The default tag is the version of the chart. A digest takes precedence over the tag.'],
    ['imagePullSecrets', [], 'Names of Secrets with credentials for the registry.'],
    [
      'scc',
      { mode: 'report' },
      'Default SCC mode for namespaces without the label: report, enforce, or off. With off, no objects for SCCs are installed.',
    ],
    ['authorization', 'rbac', 'Source of SCC permissions: rbac or sar. See --authorization.'],
    [
      'rollout',
      rolloutSection(settings),
      'Section rollout of the configuration file. phase: Disabled, Evaluate (reports violations) or Enforce. Accepts the other fields of the section.',
    ],
    [
      'enforcementMode',
      '',
      'Value of spec.enforcementMode that the first installation on a new cluster requests. With rollout.phase Enforce, Restricted enforces from the start. Empty: the cluster administrator sets it.',
    ],
    [
      'withoutControllers',
      settings.withoutControllers,
      'Names of disabled controllers. See --controllers. Controllers of the rollout get no roles.',
    ],
    [
      'configuration',
      CONFIGURATION,
      'Configuration file without its section rollout. Replicas reload it when it changes.',
    ],
    [
      'certManager',
      { enabled: false },
      'Whether cert-manager issues the serving certificate, in place of the replicas.',
    ],
    [
      'webhook',
      { enabled: true, failurePolicy: 'Fail', annotations: {} },
      'Webhook configurations: whether they are installed, the failure policy outside of namespaces that fail open, and annotations.',
    ],
    [
      'crds',
      { install: true, keep: true },
      'CustomResourceDefinitions: whether the chart installs them, and whether they and their objects remain after helm uninstall.',
    ],
    ['serviceAccount', { annotations: {} }, 'Annotations of the service account.'],
    ['podAnnotations', {}, 'Additional annotations of the pods.'],
    ['podLabels', {}, 'Additional labels of the pods.'],
    ['podSecurityContext', pod?.securityContext, 'Security context of the pods. Do not set runAsUser on OpenShift.'],
    ['securityContext', container?.securityContext, 'Security context of the container.'],
    [
      'resources',
      container?.resources,
      'Resources of the container. No CPU limit: a throttled webhook delays the API server.',
    ],
    ['nodeSelector', pod?.nodeSelector, 'Node selector of the replicas.'],
    ['tolerations', [], 'Tolerations of the replicas.'],
    ['affinity', {}, 'Affinity of the replicas.'],
    ['topologySpreadConstraints', pod?.topologySpreadConstraints, 'Spread of the replicas over nodes and zones.'],
    ['priorityClassName', pod?.priorityClassName, 'Priority class of the replicas.'],
    ['podDisruptionBudget', { enabled: true, maxUnavailable: 1 }, 'PodDisruptionBudget of the replicas.'],
    ['networkPolicy', { enabled: true }, 'NetworkPolicy that closes all ports except those for reviews and metrics.'],
    [
      'serviceMonitor',
      { enabled: false, labels: {} },
      'ServiceMonitor for the Prometheus operator, with additional labels.',
    ],
    [
      'prometheusRule',
      { enabled: false, labels: {}, runbookUrl: settings.runbook },
      'PrometheusRule with the alerts, with additional labels and the URL of your copy of docs/runbook.md.',
    ],
    ['grafana', { enabled: false }, 'ConfigMap with a dashboard for the sidecar of Grafana.'],
    ['extraArgs', [], 'Additional arguments, such as --log-level=debug.'],
    ['extraEnv', [], 'Additional environment variables.'],
    ['extraVolumes', [], 'Additional volumes.'],
    ['extraVolumeMounts', [], 'Additional volume mounts.'],
  ];
}

function valuesFile(version: string): string {
  const parts = chartValues(version).map(
    ([name, value, description]) => `# ${description}\n${printYaml([{ [name]: value }])}`,
  );
  return `# Generated by \`npm run manifests\`.\n\n${parts.join('\n')}`;
}

type Schema = Readonly<Record<string, unknown>>;

/** Values with the schema of a Kubernetes type, which the chart does not repeat. */
const OPEN: ReadonlySet<string> = new Set([
  'affinity',
  'annotations',
  'configuration',
  'labels',
  'nodeSelector',
  'podAnnotations',
  'podLabels',
  'podSecurityContext',
  'resources',
  'rollout',
  'securityContext',
]);

/** Constraints beyond the type of the default. */
const CONSTRAINTS: Readonly<Record<string, Schema>> = {
  replicaCount: { minimum: 1 },
  pullPolicy: { enum: ['Always', 'IfNotPresent', 'Never'] },
  mode: { enum: ['enforce', 'report', 'off'] },
  authorization: { enum: ['rbac', 'sar'] },
  failurePolicy: { enum: ['Fail', 'Ignore'] },
  rollout: {
    required: ['phase'],
    properties: { phase: { enum: [...ROLLOUT_PHASES] }, evaluator: { enum: [...EVALUATORS] } },
  },
  runbookUrl: { pattern: '^https?://[^#\\s]+$' },
  enforcementMode: { enum: [...ENFORCEMENT_MODES] },
  digest: { pattern: '^(sha256:[0-9a-f]{64})?$' },
  maxUnavailable: { type: ['integer', 'string'] },
};

/** The schema of the values. It rejects unknown names, and values of another type than the default. */
function valuesSchema(version: string): Schema {
  const described = chartValues(version).map(([name, value, description]) => [
    name,
    { description, ...valueSchema(name, value) },
  ]);
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    type: 'object',
    additionalProperties: false,
    // Helm adds `global` if this chart is a dependency of another chart.
    properties: { ...(Object.fromEntries(described) as Schema), global: { type: 'object' } },
  };
}

function valueSchema(name: string, value: unknown): Schema {
  return { ...typeSchema(name, value), ...CONSTRAINTS[name] };
}

function typeSchema(name: string, value: unknown): Schema {
  if (Array.isArray(value)) return { type: 'array' };
  if (typeof value === 'number') return { type: 'integer' };
  if (!isObject(value)) return { type: typeof value };
  if (OPEN.has(name)) return { type: 'object' };
  const properties = Object.fromEntries(Object.entries(value).map(([key, member]) => [key, valueSchema(key, member)]));
  return { type: 'object', additionalProperties: false, properties };
}

/** Next steps that Helm prints after an installation or an upgrade. */
const NOTES = `{{- if .Values.webhook.enabled -}}
The API servers call Portcullis. Until a replica is ready, pods are denied except in namespaces that fail open:

  kubectl -n {{ .Release.Namespace }} rollout status deployment/portcullis

Diagnose the installation:

  portcullis doctor -n {{ .Release.Namespace }}

If Portcullis keeps pods from starting, switch enforcement off: portcullis break-glass on
{{- else -}}
Portcullis is installed without webhooks. When the replicas are ready, register the webhooks:

  kubectl -n {{ .Release.Namespace }} rollout status deployment/portcullis
  helm upgrade {{ .Release.Name }} CHART -n {{ .Release.Namespace }} --reuse-values --set webhook.enabled=true
{{- end }}

A chart cannot label its namespace:

  kubectl label namespace {{ .Release.Namespace }} pod-security.kubernetes.io/enforce=restricted
`;

// Templates are manifests with placeholders between « and », which `toTemplate` replaces with template actions after the
// manifest is printed as YAML.

/** A placeholder for the output of an expression. It may be a part of a string. */
function print(expression: string): string {
  return `«${expression}»`;
}

/** A placeholder for a value of any type. */
function value(expression: string): string {
  return `«value ${expression}»`;
}

/** A placeholder for a field, or for items of a list, that is omitted if the value is empty. */
function optional(expression: string): string {
  return `«with ${expression}»`;
}

/** A placeholder for additional members of a map. */
function more(expression: string): JsonObject {
  return { '«more»': `«${expression}»` };
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
    .replaceAll(/^( *)- «with ([^»]+)»\n/gm, (_all, indent: string, expression: string) =>
      lines(indent, [`{{- with ${expression} }}`, `{{- toYaml . | nindent ${indent.length} }}`, '{{- end }}']),
    )
    .replaceAll(/^( *)([\w-]+): «with ([^»]+)»\n/gm, (_all, indent: string, key: string, expression: string) =>
      lines(indent, [
        `{{- with ${expression} }}`,
        `${key}:`,
        `  {{- toYaml . | nindent ${indent.length + 2} }}`,
        '{{- end }}',
      ]),
    )
    .replaceAll(/^( *)([\w-]+): «value ([^»]+)»\n/gm, (_all, indent: string, key: string, expression: string) =>
      lines(indent, [`${key}:`, `  {{- toYaml ${expression} | nindent ${indent.length + 2} }}`]),
    )
    .replaceAll(/^( *)«more»: «([^»]+)»\n/gm, (_all, indent: string, expression: string) =>
      lines(indent, [`{{- with ${expression} }}`, `{{- toYaml . | nindent ${indent.length} }}`, '{{- end }}']),
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
  [`${POD}.securityContext`, value('.Values.podSecurityContext')],
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
    [
      ...when('ne .Values.scc.mode "report"', [`--scc-mode=${print('.Values.scc.mode')}`]),
      ...when('ne .Values.authorization "rbac"', [`--authorization=${print('.Values.authorization')}`]),
      ...when('.Values.withoutControllers', [`--controllers=*,-${print('join ",-" .Values.withoutControllers')}`]),
      ...when(CERT_MANAGER, certificateArguments(CERT_MANAGER_SETTINGS)),
      optional('.Values.extraArgs'),
    ],
  ],
  [`${CONTAINER}.env`, optional('.Values.extraEnv')],
  [`${CONTAINER}.resources`, value('.Values.resources')],
  [`${CONTAINER}.securityContext`, value('.Values.securityContext')],
  [
    `${CONTAINER}.volumeMounts+`,
    [...when(CERT_MANAGER, certificateMounts(CERT_MANAGER_SETTINGS)), optional('.Values.extraVolumeMounts')],
  ],
];

const WEBHOOKS: readonly Substitution[] = [
  ['metadata.annotations', value('(include "portcullis.webhookAnnotations" . | fromYaml)')],
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
    const configuration = 'toYaml (set (deepCopy .Values.configuration) "rollout" .Values.rollout) | quote';
    return [['data', { [CONFIGURATION_FILE]: print(configuration) }]];
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

/**
 * Creates the PSAEnforcementConfig after the first installation. It is not a part of the release: Helm would need its
 * definition before the installation, and upgrades must not change the choice of the administrator.
 */
function postInstallHook(): string {
  const object = {
    apiVersion: getApiVersion('PSAEnforcementConfig'),
    kind: 'PSAEnforcementConfig',
    metadata: { ...clusterMetadata(PSA_ENFORCEMENT_CONFIG), annotations: { 'helm.sh/hook': 'post-install' } },
    spec: { enforcementMode: print('.Values.enforcementMode') },
  };
  return `{{- if .Values.enforcementMode }}\n${toTemplate(printYaml([object]))}{{- end }}\n`;
}

const NAMESPACE = print('.Release.Namespace');
const PRE_DELETE = 'portcullis-pre-delete';
const PRE_DELETE_RULES = [
  rule(['get', 'list', 'patch'], ['MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration']),
];

/**
 * Switches the webhooks off with break-glass before Helm deletes the release. Helm may delete the replicas before the
 * webhook configurations, and requests would fail in between.
 */
function preDeleteHook(): string {
  const [role, binding] = clusterRole(PRE_DELETE, PRE_DELETE_RULES, NAMESPACE);
  const metadata = namespacedMetadata(NAMESPACE, PRE_DELETE);
  const subjects = [{ kind: 'ServiceAccount', name: PRE_DELETE, namespace: NAMESPACE }];
  const objects = [
    { apiVersion: 'v1', kind: 'ServiceAccount', ...hook(metadata, 0), automountServiceAccountToken: false },
    { ...role, ...hook(role.metadata, 0) },
    { ...binding, ...hook(binding.metadata, 0), subjects },
    { apiVersion: 'batch/v1', kind: 'Job', ...hook(metadata, 1), spec: PRE_DELETE_JOB },
  ];
  return `{{- if .Values.webhook.enabled }}\n${toTemplate(printYaml(objects))}{{- end }}\n`;
}

/** Hooks run in the order of their weights. Helm deletes them after success. */
function hook(metadata: Manifest['metadata'], weight: number) {
  const annotations = {
    'helm.sh/hook': 'pre-delete',
    'helm.sh/hook-weight': String(weight),
    'helm.sh/hook-delete-policy': 'before-hook-creation,hook-succeeded',
  };
  return { metadata: { ...metadata, annotations } };
}

const PRE_DELETE_JOB = {
  backoffLimit: 3,
  activeDeadlineSeconds: 120,
  template: {
    spec: {
      serviceAccountName: PRE_DELETE,
      automountServiceAccountToken: true,
      restartPolicy: 'Never',
      priorityClassName: print('.Values.priorityClassName | quote'),
      securityContext: value('.Values.podSecurityContext'),
      containers: [
        {
          name: 'break-glass',
          image: print('include "portcullis.image" . | quote'),
          imagePullPolicy: print('.Values.image.pullPolicy'),
          args: ['break-glass', 'on', '--reason=helm uninstall'],
          resources: value('.Values.resources'),
          securityContext: value('.Values.securityContext'),
        },
      ],
    },
  },
} as const;

/** Settings of a default installation, with placeholders for the values of the chart. */
function templateSettings(version: string): ManifestSettings {
  const runbook = print('.Values.prometheusRule.runbookUrl');
  return { ...defaultSettings(version), namespace: NAMESPACE, runbook };
}

/** The templates: one file for each kind. */
function templateFiles(version: string): Files {
  const files = new Map<string, string>();
  for (const { manifest, conditions } of conditionalManifests(templateSettings(version))) {
    const file = `templates/${manifest.kind.toLowerCase()}.yaml`;
    files.set(file, `${files.get(file) ?? ''}${templateDocument(manifest, conditions)}`);
  }
  return [
    ...files,
    ['templates/pre-delete-hook.yaml', preDeleteHook()],
    ['templates/post-install-hook.yaml', postInstallHook()],
  ];
}

/** Settings that remove objects, and the template condition of these objects. */
const REMOVALS: readonly (readonly [settings: Partial<ManifestSettings>, condition: string])[] = [
  [{ sccMode: 'off' }, 'ne .Values.scc.mode "off"'],
  [{ rollout: 'Disabled' }, 'ne .Values.rollout.phase "Disabled"'],
  [{ evaluator: 'InProcess' }, 'eq .Values.rollout.evaluator "DryRun"'],
  [{ authorization: 'rbac' }, 'eq .Values.authorization "sar"'],
  [{ certificates: 'cert-manager' }, `not ${CERT_MANAGER}`],
  [{ certificates: 'self-managed' }, CERT_MANAGER],
  ...CONTROLLER_NAMES.map(
    (name) => [{ withoutControllers: [name] }, `not (has "${name}" .Values.withoutControllers)`] as const,
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
  const everything = {
    ...settings,
    authorization: 'sar',
    evaluator: 'DryRun',
    monitoring: 'prometheus-operator',
  } as const;
  const conditional = [everything, { ...everything, certificates: 'cert-manager' } as const].flatMap((all) => {
    const removals = REMOVALS.map(([change, condition]) => {
      const kept = new Set(buildManifests({ ...all, ...change }).map(identity));
      return { kept, condition };
    });
    return buildManifests(all).map((manifest) => {
      const removing = removals.filter(({ kept }) => !kept.has(identity(manifest)));
      return { manifest, conditions: [...valueConditions(manifest), ...removing.map(({ condition }) => condition)] };
    });
  });
  const defaults = new Map(buildManifests(settings).map((manifest) => [identity(manifest), manifest]));
  const unique = new Map(conditional.toReversed().map((one) => [identity(one.manifest), one])).values();
  return [...unique]
    .toReversed()
    .filter(({ manifest }) => manifest.kind !== 'Namespace')
    .map((one) => ({ ...one, manifest: defaults.get(identity(one.manifest)) ?? one.manifest }));
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
  const [first = '', ...others] = conditions;
  const all =
    others.length === 0
      ? first
      : `and ${conditions.map((condition) => (condition.includes(' ') ? `(${condition})` : condition)).join(' ')}`;
  return `{{- if ${all} }}\n${text}{{- end }}\n`;
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
    ['values.yaml', valuesFile(version)],
    ['values.schema.json', `${JSON.stringify(valuesSchema(version), undefined, 2)}\n`],
    ['templates/_helpers.tpl', HELPERS],
    ['templates/NOTES.txt', NOTES],
    ...templateFiles(version),
  ];
}

const HELPERS = `{{- define "portcullis.chart" -}}
{{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "portcullis.image" -}}
{{- with .Values.image.registry }}{{ . }}/{{ end }}{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "portcullis.webhookAnnotations" -}}
admissions.enforcer/disabled: "true"
{{- if .Values.certManager.enabled }}
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/portcullis-tls
{{- else }}
portcullis.dev/inject-ca-from: {{ .Release.Namespace }}/portcullis-serving-certificate
{{- end }}
{{- with .Values.webhook.annotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "portcullis.crdAnnotations" -}}
{{- if .Values.crds.keep }}
helm.sh/resource-policy: keep
{{- end }}
{{- end }}
`;
