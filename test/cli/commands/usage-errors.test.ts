/** Tests invalid arguments and manifests. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { runProgram } from '../../support/memory-io.ts';

const folder = process.cwd();
before(() => process.chdir(join(import.meta.dirname, '../../fixtures')));
after(() => process.chdir(folder));

const SCCS =
  'anyuid, hostaccess, hostmount-anyuid, hostmount-anyuid-v2, hostnetwork, hostnetwork-v2, nested-container, nonroot, nonroot-v2, privileged, restricted, restricted-v2, restricted-v3';
const ACCESS = '-f scc-access/cluster.yaml';
const EXPLAIN = 'explain -f explain';
const REVIEW = 'scc review -f explain';
const YAML_ERROR = 'stdin:1:9: did not find expected node content';
const NO_SUBJECT =
  'PodSecurityPolicySubjectReview "" is invalid: spec.user: Required value: at least one of user, groups or serviceAccountName must be specified';

const NAME_RULE =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/** The arguments, separated by spaces, and the message. Standard input is a document that cannot be parsed. */
const CASES: readonly (readonly [args: string, message: string])[] = [
  ['scc plan -f scc-plan/shop.yaml -n gone', 'namespace "gone" not found'],
  ['scc plan -f -', YAML_ERROR],
  [
    'scc plan -f - --bindings - -o json',
    '--bindings=- prints the bindings instead of the plan: remove --output=json, or specify a file',
  ],
  [
    'scc plan -f scc-plan/shop.yaml --bindings /nonexistent/bindings.yaml',
    'cannot write /nonexistent/bindings.yaml: the directory does not exist',
  ],
  [`scc pods --scc our-own,constructor ${ACCESS}`, `SCC "constructor" not found; existing SCCs: ${SCCS}`],
  [`scc who-can any ${ACCESS}`, `SCC "any" not found; existing SCCs: ${SCCS}`],
  ['scc who-can anyuid', 'no cluster to read: KUBECONFIG and HOME are not set; set --kubeconfig'],
  [
    'scc grant anyuid -z web --for=999999999d',
    'invalid argument "999999999d" for "--for" flag: must be a duration such as 14d or 12h\nSee \'portcullis scc grant --help\' for usage.',
  ],
  ['audit user-namespaces -f -', YAML_ERROR],
  ['olm harden -f ../../examples/olm -n nowhere', 'namespace "nowhere" not found'],
  ['check -f no/such/path', 'the path "no/such/path" does not exist'],
  ['check chart', 'the path "chart" does not exist'],
  ['scan deploy', "unknown command 'scan'\n(Did you mean check?)\nSee 'portcullis --help' for usage."],
  ['lint', "unknown command 'lint'\n(Did you mean check?)\nSee 'portcullis --help' for usage."],
  ['checks', "unknown command 'checks'\n(Did you mean check?)\nSee 'portcullis --help' for usage."],
  ['check -f check/empty.yaml', 'no objects in check/empty.yaml'],
  ['explain deploy/gone -f explain/pods.yaml -n shop', 'deployments.apps "gone" not found in namespace "shop"'],
  ['explain ns/gone -f explain/cluster.yaml', 'namespace "gone" not found'],
  [
    `${EXPLAIN}/wrong-type.yaml`,
    'explain/wrong-type.yaml:5:3: API servers cannot decode the Pod: spec.hostPID: Invalid value: "yes": must be a boolean. Remove the quotes.',
  ],
  [
    `${EXPLAIN}/invalid-metadata.yaml`,
    'explain/invalid-metadata.yaml:3:1: API servers cannot decode the Pod: metadata: Invalid value: "web": must be an object. Use a value of the required type.',
  ],
  [`${EXPLAIN}/cluster.yaml`, 'no pods or workloads in the manifests'],
  [`${EXPLAIN}/root.yaml --as-group operators`, '--as-group requires --as'],
  [`${EXPLAIN}/root.yaml --offline --kubeconfig x`, '--offline cannot be combined with --kubeconfig and --context'],
  [`${REVIEW}/cluster.yaml`, 'no pods, workloads or reviews in the manifests'],
  [`${REVIEW}/no-subject.yaml`, `explain/no-subject.yaml:1:1: ${NO_SUBJECT}`],
  ['scc review -f explain/no-subject.yaml -o yaml -n x', `explain/no-subject.yaml:1:1: ${NO_SUBJECT}`],
  [
    `${REVIEW}/root.yaml --user olga --serviceaccount builder`,
    '--serviceaccount cannot be combined with --user and --group: specify either service accounts or a user with groups',
  ],
  [
    `${REVIEW}/wrong-type.yaml`,
    'explain/wrong-type.yaml:5:3: API servers cannot decode the Pod: spec.hostPID: Invalid value: "yes": must be a boolean. Remove the quotes.',
  ],
  [
    `${REVIEW}/root.yaml -z Builder`,
    `explain/root.yaml:1:1: PodSecurityPolicyReview "" is invalid: spec.serviceAccountNames[0]: Invalid value: "Builder": ${NAME_RULE}`,
  ],
  ['rollout plan -f rollout/cluster.yaml -n gone', 'namespace "gone" not found'],
  ['rollout status -f rollout/cluster.yaml --config nowhere.yaml', 'cannot read nowhere.yaml: there is no such file'],
  [
    'rollout status -f rollout/cluster.yaml --kubeconfig x',
    '--filename reads manifests instead of a cluster: remove --kubeconfig and --context',
  ],
  ['serve --kubeconfig=a --in-cluster', '--kubeconfig and --in-cluster cannot be combined'],
  ['serve --context=a', '--context requires --kubeconfig or KUBECONFIG'],
  [
    'serve --dev-cluster --kubeconfig=a',
    '--dev-cluster cannot be combined with --kubeconfig, --context and --in-cluster',
  ],
  [
    'serve --kubeconfig=a --manifests=b',
    '--manifests requires --dev-cluster: apply manifests to a live cluster with kubectl',
  ],
  ['serve --authorizer', '--authorizer requires --kubeconfig, KUBECONFIG or --in-cluster'],
  ['serve --authorizer --kubeconfig=a', '--authorizer requires --tls-cert-file'],
  ['serve --in-cluster', 'not running in a pod: KUBERNETES_SERVICE_HOST is not set'],
  ['serve --tls-cert-file=x', '--tls-cert-file and --tls-private-key-file must be used together'],
  [
    'serve --tls-cert-file=/nowhere/tls --tls-private-key-file=/nowhere/tls',
    'cannot read /nowhere/tls: there is no such file',
  ],
  ['serve --tls-cert-file=serve --tls-private-key-file=serve', 'cannot read serve: it is a directory'],
  ['serve --client-ca-file=/nowhere/ca.crt', 'cannot read /nowhere/ca.crt: there is no such file'],
  ['serve --client-ca-file=check/empty.yaml', 'check/empty.yaml contains no PEM certificate'],
  ['serve --client-allowed-names=api', '--client-allowed-names requires --client-ca-file'],
  ['serve --config=/nowhere/config.yaml', 'cannot read /nowhere/config.yaml: there is no such file'],
  ['serve --config=/', 'cannot read /: it is a directory'],
  [
    'serve --config=serve/wrong-level.yaml',
    'configuration error: enforce: must be one of privileged, baseline, restricted (serve/wrong-level.yaml:4:3, defaults.enforce)',
  ],
  [
    'serve --config=serve/unknown-option.yaml',
    'invalid configuration: options: Forbidden: unknown field; remove it (serve/unknown-option.yaml:4:1, options)',
  ],
];

/** Errors whose message refers to the help, each with the command, its arguments, and the message. */
const OPTIONS: readonly (readonly [command: string, args: string, message: string])[] = [
  ['olm harden', 'pods -f ../../examples/olm', 'unknown operand "pods": the only operand is namespaces'],
  ['kubelet plan', '-f kubelets/nodes.yaml', '--minimum is required: a Kubernetes version such as 1.33.0'],
  [
    'kubelet plan',
    '--minimum v1.33.0 -f kubelets/nodes.yaml',
    'invalid argument "v1.33.0" for "--minimum" flag: must be a Kubernetes version x.y.z such as 1.33.0',
  ],
  ['completion', 'tcsh', 'unsupported shell tcsh: must be one of bash, zsh, fish'],
  ['rollout status', '-n shop --namespace=test', '"-n, --namespace" flag takes one value, not 2: "shop", "test"'],
  ['version', '--output json -o json', '"-o, --output" flag takes one value, not 2: "json", "json"'],
  ['serve', '--log-level=info --log-level=debug', '"--log-level" flag takes one value, not 2: "info", "debug"'],
  ['scc plan', '--namespace=', 'invalid argument "" for "-n, --namespace" flag: must not be empty'],
  [
    'scc pods',
    '-l app==a=b',
    'invalid argument "app==a=b" for "-l, --selector" flag: must be a label selector such as app=web,tier!=cache',
  ],
  ['scc who-can', 'a b', "too many arguments for 'who-can'. Expected 1 argument but got 2: a, b."],
  ['check', '--exclude=', 'invalid argument "" for "--exclude" flag: must not be empty'],
  ['check', '', '-f is required: files, directories, URLs, or - for standard input'],
  ['explain', '', 'a resource, such as deployment/web or namespace/shop, or -f is required'],
  [
    'explain',
    'service/web',
    '"service/web" must be TYPE/NAME, where TYPE is one of namespace, cronjob, daemonset, deployment, job, pod, replicaset, replicationcontroller, statefulset',
  ],
  ['scc review', '', '-f is required: files, directories, URLs, or - for standard input'],
  [
    'check',
    '--kubernetes-version 1.30 -f -',
    'invalid argument "1.30" for "--kubernetes-version" flag: must be "latest" or "v1.x"',
  ],
  [
    'check',
    '-o xml -f -',
    'invalid argument "xml" for "-o, --output" flag: must be one of table, wide, json, yaml, sarif, junit, github',
  ],
  [
    'check',
    '--namespace-labels=a -f -',
    'invalid argument "a" for "--namespace-labels" flag: must have the form key=value',
  ],
  [
    'check',
    '--namespace-labels=pod-security.kubernetes.io/warn=x -f -',
    'invalid argument "pod-security.kubernetes.io/warn=x" for "--namespace-labels" flag: ' +
      'metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: "x": must be one of privileged, baseline, restricted',
  ],
  [
    'check',
    '--namespace-labels=enforce=baseline -f -',
    'invalid argument "enforce=baseline" for "--namespace-labels" flag: must include one of the labels ' +
      'pod-security.kubernetes.io/enforce, pod-security.kubernetes.io/enforce-version, pod-security.kubernetes.io/audit, ' +
      'pod-security.kubernetes.io/audit-version, pod-security.kubernetes.io/warn, pod-security.kubernetes.io/warn-version',
  ],
  [
    'serve',
    '--secure-port=http',
    'invalid argument "http" for "--secure-port" flag: must be a whole number from 0 to 65535',
  ],
  [
    'serve',
    '--leader-elect-lease-duration=10ms',
    'invalid argument "10ms" for "--leader-elect-lease-duration" flag: must be at least 1s',
  ],
  [
    'serve',
    '--tls-extra-names=localhost,-',
    `invalid argument "localhost,-" for "--tls-extra-names" flag: "-" is not a DNS name or an address: ${NAME_RULE}`,
  ],
];

async function fail(args: string): Promise<string> {
  const words = args.split(' ').filter((word) => word !== '');
  const { code, stdout, stderr } = await runProgram(words, { stdin: 'kind: [' });
  assert.deepEqual([code, stdout], [2, '']);
  return stderr;
}

describe('commands reject invalid arguments with a usage error:', () => {
  for (const [args, message] of CASES) {
    test(args, async () => assert.equal(await fail(args), `error: ${message}\n`));
  }
  for (const [command, args, message] of OPTIONS) {
    test(`${command} ${args}`, async () => {
      const hint = `See 'portcullis ${command} --help' for usage.\n`;
      assert.equal(await fail(`${command} ${args}`), `error: ${message}\n${hint}`);
    });
  }

  test('commands reject a kubeconfig that does not exist', async () => {
    assert.match(await fail('audit user-namespaces --kubeconfig /nonexistent'), /^error: .*\/nonexistent/);
  });
});
