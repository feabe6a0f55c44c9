/** Example manifests for the playground. */

interface Example {
  readonly title: string;
  readonly text: string;
}

export const EXAMPLES: readonly [Example, ...Example[]] = [
  {
    title: 'Deployment without security settings',
    text: `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
spec:
  selector:
    matchLabels: { app: web }
  template:
    metadata:
      labels: { app: web }
    spec:
      containers:
        # The image runs as a user that is not root.
        - name: web
          image: registry.example.com/web:1.4
          ports:
            - containerPort: 8080
          securityContext:
            runAsUser: 1001
`,
  },
  {
    title: 'Agent on every node',
    text: `apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: agent
  namespace: monitoring
spec:
  selector:
    matchLabels: { app: agent }
  template:
    metadata:
      labels: { app: agent }
    spec:
      hostNetwork: true
      containers:
        - name: agent
          image: registry.example.com/agent:2.0
          securityContext:
            privileged: true
          volumeMounts:
            - { name: logs, mountPath: /var/log, readOnly: true }
      volumes:
        - name: logs
          hostPath: { path: /var/log }
`,
  },
  {
    title: 'Pod that satisfies restricted',
    text: `apiVersion: v1
kind: Pod
metadata:
  name: api
  namespace: shop
spec:
  securityContext:
    runAsNonRoot: true
    seccompProfile: { type: RuntimeDefault }
  containers:
    - name: api
      image: registry.example.com/api:3.2
      securityContext:
        allowPrivilegeEscalation: false
        capabilities: { drop: [ALL] }
`,
  },
  {
    title: 'Service account with a granted SCC',
    text: `apiVersion: v1
kind: Pod
metadata:
  name: legacy
  namespace: billing
spec:
  serviceAccountName: legacy
  containers:
    - name: legacy
      image: registry.example.com/legacy:1.0
      securityContext:
        runAsUser: 0
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: legacy-anyuid
  namespace: billing
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: system:openshift:scc:anyuid
subjects:
  - kind: ServiceAccount
    name: legacy
    namespace: billing
`,
  },
];
