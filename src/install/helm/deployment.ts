import type { V1Deployment } from '@kubernetes/client-node';
import { certificateArguments, certificateMounts, certificateVolumes } from '../certificate.ts';
import { draft, type JsonObject } from '../../kube/types.ts';
import { defaultSettings, type Manifest, type ManifestOf } from '../index.ts';
import { more, optional, print, value, when } from './slots.ts';

const CERT_MANAGER = '.Values.certManager.enabled';
const SETTINGS = { ...defaultSettings(''), certificates: 'cert-manager' } as const;

/** The replicas with what the values of the chart say of them. */
export function helmDeployment(manifest: Manifest): JsonObject {
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
