import { join } from 'node:path';
import { FEATURES } from '../../api/names.ts';
import { failureReason } from '../../config/files.ts';
import { printYaml } from '../../config/yaml.ts';
import {
  buildManifests,
  CONTROL_PLANE_CERTIFICATES,
  controlPlaneFiles,
  type ManifestSettings,
  MINIMUM_MINOR,
  type Profile,
  PROFILES,
} from '../../install/index.ts';
import { UserError } from '../../kube/user-error.ts';
import { ensureCertificates } from '../../tls/index.ts';
import { withCluster } from '../cluster.ts';
import { defineCommand, EXIT, type Io, PROGRAM } from '../command.ts';
import { flag, nonEmpty, oneOf, option, type Sources, type Values } from '../options.ts';
import { printable } from '../output/print.ts';
import { printCommand } from '../output/shell.ts';
import { printForCluster } from './for-cluster.ts';
import { printFiles, writeFiles } from './output-files.ts';
import { applyOptions, DEFAULTS, planOptions } from './plan.ts';
import {
  checkPolicyOptions,
  createStaticFiles,
  kubernetesVersion,
  printForVersion,
  printPolicies,
} from './without-server.ts';

/** Profile for the authorization webhook. It contains static pods and does not install anything in the cluster. */
const CONTROL_PLANE = 'control-plane' as const;

const installOptions = {
  ...planOptions,
  profile: option('NAME', oneOf([...(Object.keys(PROFILES) as Profile[]), CONTROL_PLANE]), undefined, {
    help: `Print a profile without reading a cluster: one of ${Object.keys(PROFILES).join(', ')}, or ${CONTROL_PLANE} (static pods that run the authorization webhook on control plane nodes)`,
  }),
  'without-server': flag({
    help: 'Print policies that enforce Pod Security in the API server, without a Portcullis server. Their settings come from --set and from the policies in the cluster',
  }),
  'for-kubernetes': option('VERSION', kubernetesVersion, undefined, {
    help: 'With --without-server, print the policies for this version without reading a cluster. Use the version of the oldest API server',
  }),
  static: flag({
    help: 'With --without-server and --for-kubernetes, print files that API servers read when they start, so no client can change the policies',
  }),
  'output-dir': option('DIR', nonEmpty, undefined, {
    help: `Write the files of --static, or those of --profile=${CONTROL_PLANE} and the webhook certificates, to a directory instead of stdout`,
  }),
};

const DETAILS = `
Prints installation manifests for the kubeconfig's cluster, and the assumptions and next steps to stderr.
The command changes nothing. Apply the output with kubectl. With --profile, it does not read a cluster.

If Portcullis is installed, settings that the options do not change keep their values. Settings that weaken
enforcement require --allow-weaker. To see the changes first, pipe the output to kubectl diff.

By default, the leader registers the webhooks when a replica is ready. With --set=webhooks.management=static, the
output contains the webhook configurations, and replicas do not change them. API servers then deny pods until the
replicas are ready, so apply the objects with the label app.kubernetes.io/component=webhooks last.

With --without-server, the output contains only policies. With --static, it contains files for the control plane nodes.

Examples:
  portcullis install --image=registry.example.com/portcullis:0.1.0 | kubectl apply --server-side -f -
  kubectl -n portcullis rollout status deployment/portcullis

  portcullis install --set=rollout.phase=Enforce | kubectl diff --server-side -f -
  portcullis install --scc | kubectl apply --server-side -f -
  portcullis install --profile=without-rollout > portcullis.yaml
  portcullis install --profile=control-plane --output-dir=authorizer
  portcullis install --without-server --set='podSecurity.exemptions.namespaces=[kube-system]' \\
    --set=podSecurity.defaults.enforce=baseline | kubectl apply -f -
  portcullis install --without-server --static --for-kubernetes=1.37 --output-dir=static
`;

export const command = defineCommand({
  details: DETAILS,
  options: installOptions,
  async run(options, _operands, io, sources) {
    const { profile, kubeconfig, context } = options;
    if (options['without-server']) return await writePolicies(options, io, sources);
    const policyOption = (['for-kubernetes', 'static'] as const).find((name) => sources.typed.has(name));
    if (policyOption !== undefined) throw new UserError(`--${policyOption} requires --without-server`);
    if (profile === CONTROL_PLANE) return await writeControlPlane(options, io, sources);
    if (options['output-dir'] !== undefined)
      throw new UserError(`--output-dir requires --profile=${CONTROL_PLANE} or --static`);
    if (profile === undefined) return await printForCluster(options, io);
    if (kubeconfig !== undefined || context !== undefined) {
      throw new UserError('--profile cannot be combined with --kubeconfig and --context');
    }
    const settings = applyOptions({ ...DEFAULTS, ...PROFILES[profile] }, options);
    const unused = (['image', 'replicas'] as const).find((name) => options[name] !== undefined);
    if (!settings.hasPods && unused !== undefined) {
      throw new UserError(`--${unused}: the ${profile} profile has no Deployment, because replicas run as processes`);
    }
    const assumed = `the ${profile} profile and Kubernetes 1.${MINIMUM_MINOR} or newer`;
    io.stderr.write(`Assuming ${assumed}, because no cluster was read\n`);
    io.stdout.write(printYaml(buildManifests(settings)));
    if (!settings.hasPods) io.stderr.write(formatProcess(settings));
    return EXIT.passed;
  },
});

/** Returns the command line of a replica, which the manifests do not contain. */
function formatProcess({ features, policy, webhooks }: ManifestSettings): string {
  const initial = Object.keys(policy).length === 0 ? [] : [`--initial-settings=${JSON.stringify(policy)}`];
  const url = webhooks === 'service' ? [] : [`--webhook-url=${webhooks.url}`];
  const list = `--features=${FEATURES.filter((name) => features[name]).join()}`;
  const args = ['serve', '--kubeconfig=replica.kubeconfig', list, ...url, ...initial];
  return `Replicas run as processes: ${printCommand({ program: PROGRAM, args })}\n`;
}

async function writePolicies(options: Values<typeof installOptions>, io: Io, sources: Sources): Promise<number> {
  const { kubeconfig, context, 'for-kubernetes': version, 'output-dir': folder } = options;
  checkPolicyOptions(options, sources);
  if (folder !== undefined && !options.static) throw new UserError('--output-dir requires --static');
  if (version === undefined && options.static) {
    throw new UserError('--static requires --for-kubernetes, because API servers do not list policies from files');
  }
  if (version === undefined) await withCluster(options, io, (client) => printPolicies(client, options, io));
  else if (kubeconfig !== undefined || context !== undefined) {
    throw new UserError('--for-kubernetes cannot be combined with --kubeconfig and --context');
  } else if (options.static) {
    const files = await createStaticFiles(version, options, io);
    if (folder === undefined) printFiles(files, io);
    else await writeFiles(files, folder, io);
  } else await printForVersion(version, options, io);
  return EXIT.passed;
}

const CONTROL_PLANE_OPTIONS: readonly string[] = ['profile', 'image', 'output-dir'];

/** Prints the files for the authorization webhook, or writes them and the certificates to a directory. */
async function writeControlPlane(
  { image = DEFAULTS.image, 'output-dir': folder }: Values<typeof installOptions>,
  io: Io,
  { typed }: Sources,
): Promise<number> {
  const other = [...typed.keys()].find((name) => !CONTROL_PLANE_OPTIONS.includes(name));
  if (other !== undefined) throw new UserError(`--profile=${CONTROL_PLANE} cannot be combined with --${other}`);
  const files = controlPlaneFiles(image);
  if (folder === undefined) {
    printFiles(files, io);
    io.stderr.write('The files also need certificates, which --output-dir creates.\n');
    return EXIT.passed;
  }
  const certificates = join(folder, 'authz');
  try {
    await ensureCertificates({ folder: certificates, ...CONTROL_PLANE_CERTIFICATES, now: () => new Date() });
  } catch (error) {
    throw new UserError(`cannot write to ${folder}: ${failureReason(error)}`, { cause: error });
  }
  await writeFiles(files, folder, io);
  io.stdout.write(`${printable(certificates)}/*.crt, *.key: webhook certificates, valid for one year\n`);
  return EXIT.passed;
}
