import type { V1Deployment } from '@kubernetes/client-node';
import {
  CONFIGURATION,
  rolloutSection,
  deployment,
  certificateArguments,
  certificateMounts,
  certificateVolumes,
} from './deployment.ts';
import { defaultSettings, clusterMetadata, metadataIn, type Manifest as ManifestPreDeleteHook } from './settings.ts';
import { ENFORCEMENT_MODES, PSA_ENFORCEMENT_CONFIG } from '../kube/psa-enforcement-config.ts';
import { ROLLOUT_PHASES } from '../policy/rollout/enforcement.ts';
import { EVALUATORS } from '../policy/rollout/settings.ts';
import { type JsonObject, draft, isObject } from '../kube/types.ts';
import {
  defaultSettings as defaultSettingsDeployment,
  type Manifest,
  type ManifestOf,
  SCC_DEFINITIONS,
  defaultSettings as defaultSettingsTemplates,
  manifestsOf,
  type ManifestSettings,
} from './index.ts';
import { printYaml } from '../config/yaml.ts';
import { getApiVersion } from '../kube/resources.ts';
import { rule, clusterRole, ROLLOUT_PARTS, ROLLOUT_ROLE, type RolloutPart } from './rbac.ts';
import type { Files } from './kustomize.ts';

/** What the chart installs where nobody says otherwise: the same as the other manifests. */
function valuesOf(version: string) {
  const settings = defaultSettings(version);
  const { spec } = deployment(settings);
  const pod = spec?.template.spec;
  const container = pod?.containers[0];
  return {
    replicaCount: spec?.replicas,
    image: { registry: '', repository: 'portcullis', tag: '', digest: '', pullPolicy: container?.imagePullPolicy },
    imagePullSecrets: [],
    scc: { mode: 'report' },
    authorization: 'rbac',
    rollout: rolloutSection(settings),
    enforcementMode: '',
    withoutControllers: settings.withoutControllers,
    configuration: CONFIGURATION,
    certManager: { enabled: false },
    webhook: { enabled: true, failurePolicy: 'Fail', annotations: {} },
    crds: { install: true, keep: true },
    serviceAccount: { annotations: {} },
    podAnnotations: {},
    podLabels: {},
    podSecurityContext: pod?.securityContext,
    securityContext: container?.securityContext,
    resources: container?.resources,
    nodeSelector: pod?.nodeSelector,
    tolerations: [],
    affinity: {},
    topologySpreadConstraints: pod?.topologySpreadConstraints,
    priorityClassName: pod?.priorityClassName,
    podDisruptionBudget: { enabled: true, maxUnavailable: 1 },
    networkPolicy: { enabled: true },
    serviceMonitor: { enabled: false, labels: {} },
    prometheusRule: { enabled: false, labels: {}, runbookUrl: settings.runbook },
    grafana: { enabled: false },
    extraArgs: [],
    extraEnv: [],
    extraVolumes: [],
    extraVolumeMounts: [],
  } as const;
}

/** What each value is for, in the order of `valuesOf`. */
const VALUE_COMMENTS: Readonly<Record<keyof ReturnType<typeof valuesOf>, string>> = {
  replicaCount: 'How many replicas answer reviews.',
  image: 'The image; without a tag that of the version of the chart. A digest goes before the tag.',
  imagePullSecrets: 'Names of Secrets with the rights to pull the image.',
  scc: 'What becomes of decisions about security context constraints: report, enforce, or off, where nothing of them is installed.',
  authorization: 'Who tells which SCCs a user may use: rbac or sar, see --authorization.',
  rollout:
    'How far enforcement of the Pod Security Standards is rolled out, by phase: Disabled, Evaluate (tells what it would break), or Enforce. It becomes the section rollout of the configuration file, whose other fields may stand here as well.',
  enforcementMode:
    'What the first installation on a cluster that is new asks for, as spec.enforcementMode of PSAEnforcementConfig: with the phase Enforce, Restricted enforces from the start. Empty: whoever administers the cluster asks.',
  withoutControllers:
    'Names of controllers that are not to run, see --controllers; those of the rollout get no rights then.',
  configuration: 'The configuration file without its section rollout; followed while the replicas run.',
  certManager: 'Whether cert-manager makes the serving certificate, instead of the replicas themselves.',
  webhook:
    'Whether API servers ask; what happens to requests while nobody answers, outside of the namespaces that fail open; and annotations of the configurations.',
  crds: 'Whether the chart brings the definitions (SCCs, ranges of ids, PSAEnforcementConfig), and whether they outlive it with all their objects.',
  serviceAccount: 'Annotations of the service account.',
  podAnnotations: 'More annotations of the pods.',
  podLabels: 'More labels of the pods.',
  podSecurityContext: 'Security context of the pods. OpenShift chooses their user: name none.',
  securityContext: 'Security context of the container.',
  resources: 'Requests and limits; without a limit of CPU, since a webhook that is throttled holds up the API server.',
  nodeSelector: 'Nodes for the replicas.',
  tolerations: 'Taints that the replicas tolerate.',
  affinity: 'Affinity of the replicas.',
  topologySpreadConstraints: 'How the replicas are spread over nodes and zones.',
  priorityClassName: 'Priority class of the replicas.',
  podDisruptionBudget: 'How many replicas may be missing while nodes are emptied.',
  networkPolicy: 'Whether all ports but the two that are served are closed.',
  serviceMonitor: 'Whether the Prometheus operator reads the metrics, and labels by which it chooses.',
  prometheusRule:
    'Whether the Prometheus operator gets the alerts, labels by which it chooses, and your copy of docs/runbook.md, to whose parts the alerts point.',
  grafana: "Whether Grafana's sidecar gets the dashboard.",
  extraArgs: 'More arguments, such as --log-level=debug.',
  extraEnv: 'More environment variables.',
  extraVolumes: 'More volumes.',
  extraVolumeMounts: 'Where more volumes are mounted.',
};

type Schema = Readonly<Record<string, unknown>>;

/** Objects and lists of Kubernetes, which know best themselves what they may hold. */
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

/** What a value may be beyond what its default shows. */
const NARROWER: Readonly<Record<string, Schema>> = {
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

/** The schema of the chart's values: unknown names are errors, as are values of another type than the default's. */
function valuesSchema(version: string): Schema {
  const { properties, ...schema } = schemaOf('', valuesOf(version));
  const described = Object.entries(properties as Readonly<Record<string, Schema>>).map(([name, own]) => [
    name,
    { description: VALUE_COMMENTS[name as keyof typeof VALUE_COMMENTS], ...own },
  ]);
  // Helm adds it for charts that hold this one.
  const all = { ...Object.fromEntries(described), global: { type: 'object' } } as Readonly<Record<string, Schema>>;
  return { $schema: 'http://json-schema.org/draft-07/schema#', ...schema, properties: all };
}

function schemaOf(name: string, value: unknown): Schema {
  return { ...typeOf(name, value), ...NARROWER[name] };
}

function typeOf(name: string, value: unknown): Schema {
  if (Array.isArray(value)) return { type: 'array' };
  if (typeof value === 'number') return { type: 'integer' };
  if (typeof value !== 'object' || value === null) return { type: typeof value };
  if (OPEN.has(name)) return { type: 'object' };
  const properties = Object.fromEntries(Object.entries(value).map(([key, own]) => [key, schemaOf(key, own)]));
  return { type: 'object', additionalProperties: false, properties };
}

/** What Helm says after an installation or upgrade: what comes next. */
const NOTES = `{{- if .Values.webhook.enabled -}}
API servers ask Portcullis. Until a replica is ready, pods are refused outside of the namespaces that fail open:

  kubectl -n {{ .Release.Namespace }} rollout status deployment/portcullis

Does all fit together?

  portcullis doctor -n {{ .Release.Namespace }}

The way out, should it keep pods from starting: portcullis break-glass on
{{- else -}}
Portcullis is installed, and nobody asks it yet. When its replicas are ready, have API servers ask them:

  kubectl -n {{ .Release.Namespace }} rollout status deployment/portcullis
  helm upgrade {{ .Release.Name }} CHART -n {{ .Release.Namespace }} --reuse-values --set webhook.enabled=true
{{- end }}

A chart cannot label its namespace:

  kubectl label namespace {{ .Release.Namespace }} pod-security.kubernetes.io/enforce=restricted
`;

// * Templates are manifests in which some values are slots: texts that are turned into actions of the template language
// once the manifest is printed.

/** Stands for what an expression prints; it may be part of a text. */
function print(expression: string): string {
  return `«${expression}»`;
}

/** Stands for a whole value that is kept in the values of the chart. */
function value(expression: string): string {
  return `«value ${expression}»`;
}

/** The same for a field that is left out where the value is empty; in a list for some more items. */
function optional(expression: string): string {
  return `«with ${expression}»`;
}

/** A member that stands for some more. */
function more(expression: string): JsonObject {
  return { '«more»': `«${expression}»` };
}

/** Items of a list that are there on a condition. */
function when<T>(condition: string, items: readonly T[]): readonly (T | string)[] {
  return [`«if ${condition}»`, ...items, '«end»'];
}

/** A printed manifest as a template. */
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
const SETTINGS = { ...defaultSettingsDeployment(''), certificates: 'cert-manager' } as const;

/** The replicas with what the values of the chart say of them. */
function helmDeployment(manifest: Manifest): JsonObject {
  const { spec, ...rest } = manifest as ManifestOf<V1Deployment>;
  const { template, ...others } = draft(spec ?? { selector: {}, template: {} });
  const { containers, volumes = [], ...pod } = template.spec ?? { containers: [] };
  const [container] = containers;
  return {
    ...rest,
    spec: {
      ...others,
      replicas: print('.Values.replicaCount'),
      template: {
        metadata: {
          labels: { ...template.metadata?.labels, ...MORE.labels },
          annotations: { ...template.metadata?.annotations, ...MORE.annotations },
        },
        spec: {
          ...pod,
          imagePullSecrets: optional('.Values.imagePullSecrets'),
          priorityClassName: print('.Values.priorityClassName | quote'),
          securityContext: value('.Values.podSecurityContext'),
          nodeSelector: optional('.Values.nodeSelector'),
          tolerations: optional('.Values.tolerations'),
          affinity: optional('.Values.affinity'),
          topologySpreadConstraints: optional('.Values.topologySpreadConstraints'),
          containers: [container ? helmContainer(container) : {}],
          volumes: [...volumes, ...when(CERT_MANAGER, certificateVolumes(SETTINGS)), optional('.Values.extraVolumes')],
        },
      },
    },
  };
}

const MORE = {
  labels: more('.Values.podLabels'),
  annotations: more('.Values.podAnnotations'),
} as const;

function helmContainer(container: JsonObject): JsonObject {
  const { args, volumeMounts, ...rest } = container;
  return {
    ...rest,
    image: print('include "portcullis.image" . | quote'),
    imagePullPolicy: print('.Values.image.pullPolicy'),
    args: [
      ...(args as readonly string[]),
      ...when('ne .Values.scc.mode "report"', [`--scc-mode=${print('.Values.scc.mode')}`]),
      ...when('ne .Values.authorization "rbac"', [`--authorization=${print('.Values.authorization')}`]),
      ...when('.Values.withoutControllers', [`--controllers=*,-${print('join ",-" .Values.withoutControllers')}`]),
      ...when(CERT_MANAGER, certificateArguments(SETTINGS)),
      optional('.Values.extraArgs'),
    ],
    env: optional('.Values.extraEnv'),
    resources: value('.Values.resources'),
    securityContext: value('.Values.securityContext'),
    volumeMounts: [
      ...(volumeMounts as readonly JsonObject[]),
      ...when(CERT_MANAGER, certificateMounts(SETTINGS)),
      optional('.Values.extraVolumeMounts'),
    ],
  };
}

/** An object with what the values of the chart say of it. */
function fieldsOf(manifest: Manifest): JsonObject {
  const { kind, metadata } = manifest;
  const change = Object.hasOwn(CHANGES, kind) ? CHANGES[kind] : undefined;
  if (change) return change(manifest);
  return kind === 'ConfigMap' && metadata.name === 'portcullis-configuration' ? configurationOf(manifest) : manifest;
}

const CHANGES: Readonly<Record<string, (manifest: Manifest) => JsonObject>> = {
  CustomResourceDefinition: withOptionalAnnotations('include "portcullis.crdAnnotations" . | fromYaml'),
  MutatingWebhookConfiguration: webhooksOf,
  PodDisruptionBudget: (manifest) => {
    const spec = memberOf(manifest, 'spec');
    return { ...manifest, spec: { ...spec, maxUnavailable: print('.Values.podDisruptionBudget.maxUnavailable') } };
  },
  ServiceAccount: withOptionalAnnotations('.Values.serviceAccount.annotations'),
  ValidatingWebhookConfiguration: webhooksOf,
};

function withOptionalAnnotations(expression: string): (manifest: Manifest) => JsonObject {
  return (manifest) => ({
    ...manifest,
    metadata: { ...manifest.metadata, annotations: optional(expression) },
  });
}

/** Who may say whom API servers trust depends on who makes the certificate. */
function webhooksOf(manifest: Manifest): JsonObject {
  const webhooks = (manifest as unknown as { readonly webhooks: readonly JsonObject[] }).webhooks;
  return {
    ...manifest,
    metadata: { ...manifest.metadata, annotations: value('(include "portcullis.webhookAnnotations" . | fromYaml)') },
    webhooks: webhooks.map((webhook) =>
      webhook['failurePolicy'] === 'Fail'
        ? { ...webhook, failurePolicy: print('.Values.webhook.failurePolicy') }
        : webhook,
    ),
  };
}

function configurationOf(manifest: Manifest): JsonObject {
  const [file = ''] = Object.keys(memberOf(manifest, 'data'));
  return {
    ...manifest,
    data: { [file]: print('toYaml (set (deepCopy .Values.configuration) "rollout" .Values.rollout) | quote') },
  };
}

function memberOf(manifest: Manifest, name: string): JsonObject {
  const member = (manifest as JsonObject)[name];
  return isObject(member) ? member : {};
}

/**
 * What a first installation asks for. It is no part of the release: its definition is, which Helm would have to know
 * before; and later it is the administrator's.
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

const NAME = 'portcullis-pre-delete';
const NAMESPACE = print('.Release.Namespace');

/**
 * Before a release is removed, no API server may ask any more: what is removed first would not be there to answer. The
 * webhooks are switched off as in an emergency, and removed with all the rest.
 */
function preDeleteHook(): string {
  const [role, binding] = clusterRole(NAME, RULES, NAMESPACE);
  const inNamespace = metadataIn(NAMESPACE, NAME);
  const subjects = [{ kind: 'ServiceAccount', name: NAME, namespace: NAMESPACE }];
  const objects = [
    { apiVersion: 'v1', kind: 'ServiceAccount', ...hook(inNamespace, 0), automountServiceAccountToken: false },
    { ...role, ...hook(role.metadata, 0) },
    { ...binding, ...hook(binding.metadata, 0), subjects },
    { apiVersion: 'batch/v1', kind: 'Job', ...hook(inNamespace, 1), spec: JOB },
  ];
  return `{{- if .Values.webhook.enabled }}\n${toTemplate(printYaml(objects))}{{- end }}\n`;
}

const RULES = [rule(['get', 'list', 'patch'], ['MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration'])];

/** Hooks run by their weights, the lightest first, and are gone when they have succeeded. */
function hook(metadata: ManifestPreDeleteHook['metadata'], weight: number) {
  return {
    metadata: {
      ...metadata,
      annotations: {
        'helm.sh/hook': 'pre-delete',
        'helm.sh/hook-weight': String(weight),
        'helm.sh/hook-delete-policy': 'before-hook-creation,hook-succeeded',
      },
    },
  };
}

const JOB = {
  backoffLimit: 3,
  activeDeadlineSeconds: 120,
  template: {
    spec: {
      serviceAccountName: NAME,
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

/** The templates: a file for each kind, each object with the condition on which it is there. */
function templateFiles(version: string): Files {
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
  const settings = { ...defaultSettingsTemplates(version), ...RELEASE };
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

/** The lowest version whose API servers know match conditions. */
const KUBE_VERSION = '>= 1.30.0-0';

/** The Helm chart. */
export function chartFiles(version: string): Files {
  const chart = {
    apiVersion: 'v2',
    name: 'portcullis',
    description: 'Pod security admission for any Kubernetes cluster',
    type: 'application',
    version,
    appVersion: version,
    kubeVersion: KUBE_VERSION,
  };
  return [
    ['Chart.yaml', printYaml([chart])],
    ['values.yaml', values(version)],
    ['values.schema.json', `${JSON.stringify(valuesSchema(version), undefined, 2)}\n`],
    ['templates/_helpers.tpl', HELPERS],
    ['templates/NOTES.txt', NOTES],
    ...templateFiles(version),
  ];
}

function values(version: string): string {
  const parts = Object.entries(valuesOf(version)).map(
    ([name, value]) => `# ${VALUE_COMMENTS[name as keyof typeof VALUE_COMMENTS]}\n${printYaml([{ [name]: value }])}`,
  );
  return `# Generated by \`npm run manifests\`.\n\n${parts.join('\n')}`;
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
