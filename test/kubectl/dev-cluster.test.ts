/** Tests the development cluster with kubectl. Other tests send the same requests without kubectl. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';
import { createKubectl, hasKubectl, type KubectlResult } from '../support/kubectl.ts';

const POD = (image: string): string => `
apiVersion: v1
kind: Pod
metadata: { name: applied, namespace: shop, labels: { app: applied } }
spec:
  containers:
  - { name: c, image: '${image}' }
`;

const MAP = (value: string): string => `
apiVersion: v1
kind: ConfigMap
metadata: { name: settings, namespace: shop }
data: { key: ${value} }
`;

const POLICY = (...variables: string[]): string => `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: { name: variables }
spec:
  matchConstraints:
    resourceRules: [{ apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods], scope: '*' }]
  validations: [{ expression: 'true' }]
  variables:
${variables.map((name) => `  - { name: ${name}, expression: 'true' }\n`).join('')}`;

interface Step {
  readonly run: string;
  readonly stdin?: string;
  /** The complete output, or a pattern. */
  readonly says: string | RegExp;
  /** The exit code of kubectl. Default: 0. */
  readonly code?: number;
}

/** Each step depends on the previous steps. */
const steps: readonly Step[] = [
  { run: 'create namespace shop --dry-run=server', says: 'namespace/shop created (server dry run)\n' },
  { run: 'get namespace shop', says: 'Error from server (NotFound): namespaces "shop" not found\n', code: 1 },
  { run: 'create namespace shop', says: 'namespace/shop created\n' },
  {
    run: 'create namespace shop',
    says: 'Error from server (AlreadyExists): namespaces "shop" already exists\n',
    code: 1,
  },
  { run: 'get namespaces -o name', says: /^namespace\/default\n(.*\n)*namespace\/shop\n$/ },
  { run: 'run web -n shop --image=nginx --labels=app=web', says: 'pod/web created\n' },
  { run: 'get pods -n shop', says: /^NAME +READY +STATUS +AGE\nweb +0\/1 +Pending +\d+s\n$/ },
  { run: 'get pods -A', says: /^NAMESPACE +NAME .*\nshop +web / },
  { run: 'get pods -n shop -l app=web -o jsonpath={.items[*].metadata.name}', says: 'web' },
  { run: 'get pods -n shop -l app!=web', says: 'No resources found in shop namespace.\n' },
  { run: 'get pods -n shop --field-selector=status.phase=Running', says: 'No resources found in shop namespace.\n' },
  { run: 'get pod web -n shop -o yaml', says: /\n {4}terminationMessagePath: \/dev\/termination-log\n/ },
  { run: 'describe pod web -n shop', says: /^Name: +web\n(.*\n)*Status: +Pending\n/ },
  { run: 'get nothing', says: 'error: the server doesn\'t have a resource type "nothing"\n', code: 1 },

  {
    run: 'apply -f -',
    stdin: 'apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: { name: x }\n',
    says: /no matches for kind "Ingress" in version "networking\.k8s\.io\/v1"\nensure CRDs are installed first\n$/,
    code: 1,
  },
  { run: 'apply -f -', stdin: POD('a'), says: 'pod/applied created\n' },
  { run: 'apply -f -', stdin: POD('a'), says: 'pod/applied unchanged\n' },
  { run: 'diff -f -', stdin: POD('b'), says: /\n- {2}- image: a\n\+ {2}- image: b\n/, code: 1 },
  { run: 'apply -f -', stdin: POD('b'), says: 'pod/applied configured\n' },
  {
    run: 'apply -f -',
    stdin: POD('b').replace('image:', 'imagee:'),
    says: /spec\.containers\[0\]\.image: Required value/,
    code: 1,
  },
  { run: 'label pod applied -n shop tier=front', says: 'pod/applied labeled\n' },
  {
    run: 'label pod applied -n shop tier=back',
    says: /already has a value \(front\), and --overwrite is false/,
    code: 1,
  },
  { run: 'annotate pod applied -n shop note=x', says: 'pod/applied annotated\n' },
  { run: 'get pod applied -n shop --show-labels', says: /app=applied,tier=front\n$/ },
  {
    run: 'wait -n shop --for=jsonpath={.status.phase}=Pending pod/applied --timeout=5s',
    says: 'pod/applied condition met\n',
  },

  {
    run: 'apply --server-side --field-manager=one -f -',
    stdin: MAP('a'),
    says: 'configmap/settings serverside-applied\n',
  },
  {
    run: 'apply --server-side --field-manager=two -f -',
    stdin: MAP('b'),
    says: /^error: Apply failed with 1 conflict: conflict with "one": \.data\.key\n/,
    code: 1,
  },
  {
    run: 'apply --server-side --field-manager=two --force-conflicts -f -',
    stdin: MAP('b'),
    says: 'configmap/settings serverside-applied\n',
  },
  { run: 'get configmap settings -n shop -o jsonpath={.data.key}', says: 'b' },
  { run: 'replace -f -', stdin: MAP('c'), says: 'configmap/settings replaced\n' },

  ...[
    { variables: ['a', 'b', 'c'], says: 'created' },
    { variables: ['a', 'b', 'c'], says: 'unchanged' },
    { variables: ['d', 'b', 'e', 'a'], says: 'configured' },
    { variables: ['d', 'b', 'e', 'a'], says: 'unchanged' },
    { variables: ['c', 'a'], says: 'configured' },
  ].flatMap(({ variables, says }): Step[] => [
    {
      run: 'apply -f -',
      stdin: POLICY(...variables),
      says: `validatingadmissionpolicy.admissionregistration.k8s.io/variables ${says}\n`,
    },
    {
      run: 'get validatingadmissionpolicy variables -o jsonpath={.spec.variables[*].name}',
      says: variables.join(' '),
    },
  ]),

  { run: 'create deployment api -n shop --image=nginx --replicas=2', says: 'deployment.apps/api created\n' },
  { run: 'get deployment api -n shop', says: /^NAME +AGE\napi +\d+s\n$/ },
  { run: 'set image deployment/api -n shop nginx=nginx:2', says: 'deployment.apps/api image updated\n' },
  { run: 'get deployment api -n shop -o jsonpath={.spec.replicas}/{.metadata.generation}', says: '2/2' },
  { run: 'patch deployment api -n shop -p {"spec":{"paused":true}}', says: 'deployment.apps/api patched\n' },
  {
    run: 'patch deployment api -n shop --type=json -p [{"op":"test","path":"/spec/paused","value":false}]',
    says: /^The request is invalid/,
    code: 1,
  },
  { run: 'describe deployment api -n shop', says: /\n +Image: +nginx:2\n/ },
  { run: 'rollout status deployment/api -n shop --timeout=1s', says: /^Waiting for deployment/, code: 1 },

  { run: 'create serviceaccount ci -n shop', says: 'serviceaccount/ci created\n' },
  {
    run: 'create role reader -n shop --verb=get,list --resource=pods',
    says: 'role.rbac.authorization.k8s.io/reader created\n',
  },
  {
    run: 'create rolebinding reader -n shop --role=reader --user=alice --serviceaccount=shop:ci',
    says: 'rolebinding.rbac.authorization.k8s.io/reader created\n',
  },
  { run: 'auth can-i list pods -n shop --as alice', says: 'yes\n' },
  { run: 'auth can-i delete pods -n shop --as alice', says: 'no\n', code: 1 },
  { run: 'auth can-i list pods -n shop --as system:serviceaccount:shop:ci', says: 'yes\n' },
  { run: 'auth whoami -o jsonpath={.status.userInfo.username} --as alice', says: 'alice' },
  { run: 'get pods -n shop -o name --as alice', says: 'pod/applied\npod/web\n' },
  {
    run: 'get secrets -n shop --as alice',
    says: 'Error from server (Forbidden): secrets is forbidden: User "alice" cannot list resource "secrets" in API group "" in the namespace "shop"\n',
    code: 1,
  },

  {
    run: 'exec web -n shop -- ls',
    says: /^(?:Error from server \(BadRequest\)|error: unable to upgrade connection): pod web does not have a host assigned\n$/,
    code: 1,
  },
  { run: 'logs web -n shop', says: '' },
  { run: 'debug web -n shop --image=busybox --profile=general -c dbg -- sh', says: '' },
  { run: 'get pod web -n shop -o jsonpath={.spec.ephemeralContainers[*].name}', says: 'dbg' },
  { run: 'api-resources --api-group=apps --no-headers', says: /^daemonsets(.*\n)+statefulsets/ },
  { run: 'api-versions', says: /^admissionregistration.k8s.io\/v1\n(.*\n)+v1\n$/ },
  { run: 'get --raw /readyz', says: 'ok' },
  { run: 'events -n shop', says: 'No events found in shop namespace.\n' },

  { run: 'delete pod web -n shop', says: /^pod "web" deleted(?: from shop namespace)?\n$/ },
  { run: 'delete pods --all -n shop', says: /^pod "applied" deleted(?: from shop namespace)?\n$/ },
  { run: 'delete namespace shop', says: 'namespace "shop" deleted\n' },
  { run: 'get all -n shop', says: 'No resources found in shop namespace.\n' },
];

describe(
  'kubectl on the development cluster has the expected output for',
  { skip: hasKubectl ? false : 'kubectl is not installed' },
  () => {
    let cluster: TestCluster;
    let kubectl: (args: readonly string[], stdin?: string) => Promise<KubectlResult>;
    before(async () => {
      cluster = await startCluster();
      kubectl = createKubectl(await cluster.kubeconfig());
    });
    after(async () => {
      await cluster.stop();
      assert.deepEqual(cluster.errors, []);
    });

    for (const { run, stdin, says, code = 0 } of steps) {
      test(run, async () => {
        const result = await kubectl(run.split(' '), stdin);
        const output = code === 0 && result.stdout !== '' ? result.stdout : result.stdout + result.stderr;
        if (typeof says === 'string') assert.equal(output, says);
        else assert.match(output, says);
        assert.equal(result.code, code, output);
      });
    }

    test('get --watch, which shows new objects', async () => {
      await kubectl(['create', 'namespace', 'watched']);
      const watching = kubectl('get configmaps -n watched --watch-only -o name --request-timeout=3s'.split(' '));
      await new Promise((resolve) => setTimeout(resolve, 1500));
      await kubectl('create configmap seen -n watched --from-literal=a=b'.split(' '));
      assert.match((await watching).stdout, /configmap\/seen\n/);
    });
  },
);
