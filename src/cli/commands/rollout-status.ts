import { defineCommand, EXIT } from '../command.ts';
import { printData } from '../report/print-data.ts';
import { styleOf } from '../report/style.ts';
import { gatherRollout } from '../rollout/gather.ts';
import { outlookOn } from '../rollout/next-steps.ts';
import { rolloutOptions } from '../rollout/options.ts';
import { countNamespaces, planNamespaces } from '../rollout/plan-namespaces.ts';
import { dataOfStatus, printStatus } from '../rollout/print-status.ts';

const DETAILS = `
Says where a cluster stands on its way to enforcing the Pod Security Standards, what is in the way, and
what to do next. Namespaces are evaluated as they are now, whatever the server found last: every pod, and
every pod template as security context constraints (SCCs) complete it. Nothing is written.

Reads the configuration file of the installation in the cluster; for the embedded cluster and for
manifests, name it with --config.

Examples:
  portcullis rollout status
  portcullis rollout status -o json
  portcullis rollout status -f exported/ --config config.yaml --scc-mode enforce
`;

/** Tells where the rollout of enforcement stands. */
export const rolloutStatus = defineCommand({
  name: 'rollout status',
  summary: 'Show where the rollout of enforcement stands, and what is in the way',
  details: DETAILS,
  options: rolloutOptions,
  async run(options, _operands, io) {
    const facts = await gatherRollout(options, io, new Date());
    const planned = await planNamespaces(facts, io);
    const counts = countNamespaces(planned);
    const { state, assumptions } = facts;
    const namespaces = planned.filter(({ verdict }) => verdict === 'violating' || verdict === 'inconclusive');
    const report = { state, outlook: outlookOn(state, counts), counts, namespaces, assumptions };
    const { output } = options;
    io.stdout.write(output === 'table' ? printStatus(report, styleOf(io)) : printData(output, dataOfStatus(report)));
    return EXIT.passed;
  },
});
