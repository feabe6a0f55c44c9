import { CONFIGURATION, rolloutSection } from '../configuration.ts';
import { deployment } from '../deployment.ts';
import { defaultSettings } from '../settings.ts';

/** What the chart installs where nobody says otherwise: the same as the other manifests. */
export function valuesOf(version: string) {
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
export const VALUE_COMMENTS: Readonly<Record<keyof ReturnType<typeof valuesOf>, string>> = {
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
