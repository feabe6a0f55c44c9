import { printYaml } from '../../config/manifests.ts';
import { UserError } from '../../config/user-error.ts';
import { manifestsOf } from '../../install/index.ts';
import { defineCommand, EXIT } from '../command.ts';
import { gatherFacts } from '../install/gather.ts';
import { installOptions, requestOf } from '../install/options.ts';
import { planFor, planUnseen } from '../install/plan.ts';
import { withCluster } from '../installation/connect.ts';
import { printable } from '../report/text.ts';

const DETAILS = `
Prints the manifests of an installation that fits the cluster of the kubeconfig, and says on the
standard error what it takes for granted. Nothing is changed: kubectl applies what is printed. With
--profile no cluster is looked at.

Apply the webhooks last, when the replicas are ready: until then they would refuse pods. Always apply
server-side, else a webhook that a newer version leaves out stays in the cluster.

Examples:
  portcullis install --image=registry.example.com/portcullis:0.1.0 > portcullis.yaml
  kubectl apply --server-side -f portcullis.yaml -l 'app.kubernetes.io/component!=webhooks'
  kubectl -n portcullis rollout status deployment/portcullis
  kubectl apply --server-side -f portcullis.yaml

  portcullis install --profile=openshift > portcullis.yaml

Exit codes:
  0  printed
  2  wrong usage, or Portcullis does not fit the cluster or cannot look at it
`;

/** Prints what has to be applied to a cluster. */
export const install = defineCommand({
  name: 'install',
  summary: 'Print the manifests of an installation for a cluster',
  details: DETAILS,
  options: installOptions,
  async run(options, _operands, io) {
    const request = requestOf(options);
    if (options.profile !== undefined && (options.kubeconfig !== undefined || options.context !== undefined)) {
      throw new UserError(
        '--profile prints for any cluster, --kubeconfig and --context name one: leave one of them out',
      );
    }
    const plan =
      options.profile === undefined
        ? planFor(await withCluster(options, io, (connection) => gatherFacts(connection, io.signal)), request)
        : planUnseen(request);
    if ('problem' in plan) throw new UserError(plan.problem);
    for (const note of plan.notes) io.stderr.write(`Assumed: ${printable(note)}\n`);
    io.stdout.write(printYaml(manifestsOf(plan.settings)));
    return EXIT.passed;
  },
});
