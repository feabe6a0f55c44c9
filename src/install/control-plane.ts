/**
 * Generates the files for the authorization webhook, which are a static pod for each control plane node and the API
 * server configuration.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/authorization/#using-configuration-file-for-authorization
 */
import type { V1ClusterRole, V1ClusterRoleBinding, V1Pod } from '@kubernetes/client-node';
import { printYaml } from '../config/yaml.ts';
import { rbacRule, WATCH_VERBS } from '../controllers/permissions.ts';
import type { JsonObject } from '../kube/types.ts';
import { DEFINITION_RULE } from './rbac.ts';
import type { ManifestOf } from './settings.ts';

/**
 * Address on which the webhook listens. It is the loopback address, so authorization does not depend on a Service or
 * the network.
 */
const ADDRESS = '127.0.0.1';
const PORT = 9444;
const PROBES_PORT = 9445;

const NAME = 'portcullis-authorizer';
/** Directory on the control plane node, which the API server and the webhook mount at the same path. */
const FOLDER = '/etc/kubernetes/authz';

/** Certificates of the webhook, and the client certificate of the API server. */
export const CONTROL_PLANE_CERTIFICATES = {
  dnsNames: ['localhost'],
  ipAddresses: [ADDRESS],
  clients: new Map([['kube-apiserver', { username: 'kube-apiserver', groups: [] }]]),
} as const;

/**
 * Returns the files, with paths relative to the output directory. The `authz` directory also requires the certificates
 * and a kubeconfig for the cluster.
 */
export function controlPlaneFiles(image: string) {
  return [
    {
      path: `manifests/${NAME}.yaml`,
      purpose: 'for /etc/kubernetes/manifests of each control plane node',
      text: printYaml([staticPod(image)]),
    },
    {
      path: 'authz/authorization.yaml',
      purpose: `for ${FOLDER}: the --authorization-config file of kube-apiserver`,
      text: `${FAILURE_POLICIES}${printYaml([AUTHORIZATION])}`,
    },
    {
      path: 'authz/minimum-kubelet-version.kubeconfig',
      purpose: `for ${FOLDER}: kubeconfig that kube-apiserver uses to call the webhook`,
      text: printYaml([WEBHOOK_KUBECONFIG]),
    },
    { path: 'rbac.yaml', purpose: 'permissions of the webhook, to apply with kubectl', text: printYaml(RBAC) },
  ];
}

/** Returns the static pod. It runs as root, because root owns the files in the directory. */
function staticPod(image: string): ManifestOf<V1Pod> {
  const probe = (path: string) => ({ httpGet: { host: ADDRESS, path, port: PROBES_PORT, scheme: 'HTTP' } });
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: NAME, namespace: 'kube-system', labels: { component: NAME, tier: 'control-plane' } },
    spec: {
      hostNetwork: true,
      priorityClassName: 'system-node-critical',
      securityContext: { runAsUser: 0, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name: NAME,
          image,
          imagePullPolicy: 'IfNotPresent',
          args: [
            'serve',
            '--authorizer',
            `--kubeconfig=${FOLDER}/portcullis.kubeconfig`,
            `--bind-address=${ADDRESS}`,
            `--secure-port=${PORT}`,
            `--health-probe-bind-address=${ADDRESS}:${PROBES_PORT}`,
            `--tls-cert-file=${FOLDER}/tls.crt`,
            `--tls-private-key-file=${FOLDER}/tls.key`,
            `--client-ca-file=${FOLDER}/ca.crt`,
            '--client-allowed-names=kube-apiserver',
          ],
          startupProbe: { ...probe('/livez'), periodSeconds: 2, failureThreshold: 30, timeoutSeconds: 5 },
          livenessProbe: { ...probe('/livez'), periodSeconds: 10, failureThreshold: 3, timeoutSeconds: 5 },
          readinessProbe: { ...probe('/readyz'), periodSeconds: 5, failureThreshold: 2, timeoutSeconds: 5 },
          resources: { requests: { cpu: '50m', memory: '128Mi' }, limits: { memory: '512Mi' } },
          securityContext: {
            allowPrivilegeEscalation: false,
            capabilities: { drop: ['ALL'] },
            readOnlyRootFilesystem: true,
          },
          volumeMounts: [{ name: 'authz', mountPath: FOLDER, readOnly: true }],
        },
      ],
      volumes: [{ name: 'authz', hostPath: { path: FOLDER, type: 'Directory' } }],
    },
  };
}

/** Match conditions that exclude requests that the webhook never denies. The webhook checks the same conditions. */
const MATCH_CONDITIONS = [
  "request.user.startsWith('system:node:')",
  "'system:nodes' in request.groups",
  "!has(request.resourceAttributes) || !(request.resourceAttributes.group == 'authorization.k8s.io' && request.resourceAttributes.resource == 'subjectaccessreviews')",
  "!has(request.resourceAttributes) || !(request.resourceAttributes.group == '' && request.resourceAttributes.resource == 'nodes' && request.resourceAttributes.verb in ['get', 'update'])",
];

const FAILURE_POLICIES = `# failurePolicy, while the webhook does not respond: NoOpinion permits requests from nodes below the minimum,
# Deny denies requests from all nodes.
`;

/**
 * Authorization configuration, which lists the webhook before the Node authorizer because the latter would allow the
 * requests.
 */
const AUTHORIZATION: JsonObject = {
  apiVersion: 'apiserver.config.k8s.io/v1',
  kind: 'AuthorizationConfiguration',
  authorizers: [
    {
      type: 'Webhook',
      name: 'minimum-kubelet-version',
      webhook: {
        timeout: '3s',
        subjectAccessReviewVersion: 'v1',
        matchConditionSubjectAccessReviewVersion: 'v1',
        failurePolicy: 'NoOpinion',
        authorizedTTL: '10s',
        unauthorizedTTL: '10s',
        connectionInfo: { type: 'KubeConfigFile', kubeConfigFile: `${FOLDER}/minimum-kubelet-version.kubeconfig` },
        matchConditions: MATCH_CONDITIONS.map((expression) => ({ expression })),
      },
    },
    { type: 'Node', name: 'node' },
    { type: 'RBAC', name: 'rbac' },
  ],
};

const WEBHOOK_KUBECONFIG: JsonObject = {
  apiVersion: 'v1',
  kind: 'Config',
  clusters: [
    {
      name: 'authorizer',
      cluster: {
        'certificate-authority': `${FOLDER}/ca.crt`,
        server: `https://${ADDRESS}:${PORT}/authorize/minimum-kubelet-version`,
      },
    },
  ],
  users: [
    {
      name: 'kube-apiserver',
      user: { 'client-certificate': `${FOLDER}/kube-apiserver.crt`, 'client-key': `${FOLDER}/kube-apiserver.key` },
    },
  ],
  contexts: [{ name: 'default', context: { cluster: 'authorizer', user: 'kube-apiserver' } }],
  'current-context': 'default',
};

const apiGroup = 'rbac.authorization.k8s.io';
const metadata = { name: NAME, labels: { 'app.kubernetes.io/name': NAME } };

/** Permissions for the static pod's user, because static pods have no service account. */
const RBAC: readonly [ManifestOf<V1ClusterRole>, ManifestOf<V1ClusterRoleBinding>] = [
  {
    apiVersion: `${apiGroup}/v1`,
    kind: 'ClusterRole',
    metadata,
    rules: [rbacRule(WATCH_VERBS, ['Node']), rbacRule(WATCH_VERBS, ['PortcullisConfiguration']), DEFINITION_RULE],
  },
  {
    apiVersion: `${apiGroup}/v1`,
    kind: 'ClusterRoleBinding',
    metadata,
    roleRef: { apiGroup, kind: 'ClusterRole', name: NAME },
    subjects: [{ apiGroup, kind: 'User', name: NAME }],
  },
];
