/** Builds AdmissionReviews for pods as an API server sends them, with defaults and managed fields. */

/** The security contexts of a pod and its container. */
interface Security {
  readonly pod: object;
  readonly container?: object;
}

const RESTRICTED: Security = {
  pod: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
  container: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
};

/** The defaults of the API server for a pod without security contexts. */
const UNSPECIFIED: Security = { pod: {} };

function pod(name: string, namespace: string, security: Security): Record<string, unknown> {
  return {
    kind: 'Pod',
    apiVersion: 'v1',
    metadata: {
      name,
      generateName: 'shop-6d4b75cb6d-',
      namespace,
      uid: '73eccb7c-9974-414d-af65-79671bc4e27a',
      creationTimestamp: '2026-01-02T03:04:05Z',
      labels: { app: 'shop', 'pod-template-hash': '6d4b75cb6d', 'app.kubernetes.io/name': 'shop' },
      annotations: { 'prometheus.io/scrape': 'true', 'prometheus.io/port': '8080' },
      ownerReferences: [
        {
          apiVersion: 'apps/v1',
          kind: 'ReplicaSet',
          name: 'shop-6d4b75cb6d',
          uid: '0a21d4f7-46ca-4623-9ddb-82552aff30bd',
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
      managedFields: [
        {
          manager: 'kube-controller-manager',
          operation: 'Update',
          apiVersion: 'v1',
          time: '2026-01-02T03:04:05Z',
          fieldsType: 'FieldsV1',
          fieldsV1: {
            'f:metadata': { 'f:generateName': {}, 'f:labels': { '.': {}, 'f:app': {}, 'f:pod-template-hash': {} } },
            'f:spec': {
              'f:containers': { 'k:{"name":"shop"}': { '.': {}, 'f:image': {}, 'f:name': {}, 'f:resources': {} } },
              'f:securityContext': { '.': {}, 'f:runAsNonRoot': {}, 'f:seccompProfile': {} },
            },
          },
        },
      ],
    },
    spec: {
      volumes: [
        {
          name: 'kube-api-access-kd8dd',
          projected: {
            sources: [
              { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
              { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
              {
                downwardAPI: {
                  items: [{ path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }],
                },
              },
            ],
            defaultMode: 420,
          },
        },
      ],
      containers: [
        {
          name: 'shop',
          image: 'registry.example.com/shop:1.2.3',
          ports: [{ name: 'http', containerPort: 8080, protocol: 'TCP' }],
          env: [
            { name: 'LOG_LEVEL', value: 'info' },
            { name: 'POD_NAME', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.name' } } },
          ],
          resources: { limits: { memory: '256Mi' }, requests: { cpu: '100m', memory: '256Mi' } },
          volumeMounts: [
            {
              name: 'kube-api-access-kd8dd',
              readOnly: true,
              mountPath: '/var/run/secrets/kubernetes.io/serviceaccount',
            },
          ],
          livenessProbe: { httpGet: { path: '/healthz', port: 'http', scheme: 'HTTP' }, periodSeconds: 10 },
          readinessProbe: { httpGet: { path: '/readyz', port: 'http', scheme: 'HTTP' }, periodSeconds: 5 },
          terminationMessagePath: '/dev/termination-log',
          terminationMessagePolicy: 'File',
          imagePullPolicy: 'IfNotPresent',
          ...(security.container ? { securityContext: security.container } : {}),
        },
      ],
      restartPolicy: 'Always',
      terminationGracePeriodSeconds: 30,
      dnsPolicy: 'ClusterFirst',
      serviceAccountName: 'shop',
      serviceAccount: 'shop',
      securityContext: security.pod,
      schedulerName: 'default-scheduler',
      tolerations: [
        { key: 'node.kubernetes.io/not-ready', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 },
        { key: 'node.kubernetes.io/unreachable', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 },
      ],
      priority: 0,
      enableServiceLinks: true,
      preemptionPolicy: 'PreemptLowerPriority',
    },
    status: { phase: 'Pending', qosClass: 'Burstable' },
  };
}

/** Builds 1000 reviews of Deployment pods that satisfy the restricted level. */
export function restrictedPodReviews(namespace: string): string[] {
  return Array.from({ length: 1000 }, (_, index) => review(index, namespace, RESTRICTED));
}

/** Builds 1000 reviews of Deployment pods without security contexts. */
export function plainPodReviews(getNamespace: (index: number) => string): string[] {
  return Array.from({ length: 1000 }, (_, index) => review(index, getNamespace(index), UNSPECIFIED));
}

const POD_KIND = { group: '', version: 'v1', kind: 'Pod' };
const PODS = { group: '', version: 'v1', resource: 'pods' };

function review(index: number, namespace: string, security: Security): string {
  const name = `shop-6d4b75cb6d-${index.toString(36).padStart(5, 'x')}`;
  return JSON.stringify({
    kind: 'AdmissionReview',
    apiVersion: 'admission.k8s.io/v1',
    request: {
      uid: `01a86a36-8bbe-41cb-a3a9-${String(index).padStart(12, '0')}`,
      kind: POD_KIND,
      resource: PODS,
      requestKind: POD_KIND,
      requestResource: PODS,
      name,
      namespace,
      operation: 'CREATE',
      userInfo: {
        username: 'system:serviceaccount:kube-system:replicaset-controller',
        uid: '27d3ab6e-d52c-4c5e-9b2d-9f2a3f9c5d2b',
        groups: ['system:serviceaccounts', 'system:serviceaccounts:kube-system', 'system:authenticated'],
      },
      object: pod(name, namespace, security),
      oldObject: null,
      dryRun: false,
      options: { kind: 'CreateOptions', apiVersion: 'meta.k8s.io/v1' },
    },
  });
}
