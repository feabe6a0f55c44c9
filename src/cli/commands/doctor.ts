import { statusOf } from '../break-glass/print.ts';
import { defineCommand, EXIT } from '../command.ts';
import { judgeAll } from '../doctor/checks/index.ts';
import { gatherFacts } from '../doctor/gather/index.ts';
import { foresee } from '../doctor/outage.ts';
import { printDiagnosis, type Diagnosis } from '../doctor/print.ts';
import { withCluster } from '../installation/connect.ts';
import { isOurs } from '../installation/own-webhooks.ts';
import { clusterOptions, namespaceOption } from '../installation/options.ts';
import { DATA_AND_TABLE, outputOption } from '../report/output-option.ts';
import { printData } from '../report/print-data.ts';
import { styleOf } from '../report/style.ts';

const DETAILS = `
Looks at an installation and at what surrounds it, and tells what is wrong, why that matters, and which
command mends it: are webhooks registered, reachable and trusted; do certificates, rights, replicas and
the configuration fit; who else judges pods in this cluster; what would be refused if all replicas were
down, and could they start again.

It reads, and asks the API server for dry runs; it changes nothing. With fewer rights it tells less, and
says what it could not look at.

Examples:
  portcullis doctor
  portcullis doctor -o json | jq '.findings[] | select(.severity == "problem")'

Exit codes:
  0  no problem was found; there may be warnings
  1  there are problems
  2  wrong usage, or the webhook configurations cannot be read
`;

/** Tells whether an installation works, and what happens when it does not. */
export const doctor = defineCommand({
  name: 'doctor',
  summary: 'Find what is wrong with an installation, and how to mend it',
  details: DETAILS,
  options: {
    ...clusterOptions,
    ...namespaceOption,
    output: outputOption(DATA_AND_TABLE),
  },
  async run({ output, namespace, ...options }, _operands, io) {
    const { signal, stdout } = io;
    const diagnosis = await withCluster(options, io, async (connection): Promise<Diagnosis> => {
      const facts = await gatherFacts(connection, { namespace, now: new Date(), signal });
      const { breakGlass } = statusOf(facts.configurations.filter(isOurs));
      return { server: connection.server, breakGlass, findings: judgeAll(facts), outage: foresee(facts) };
    });
    if (output === 'table') stdout.write(printDiagnosis(diagnosis, styleOf(io)));
    else stdout.write(printData(output, diagnosis));
    return diagnosis.findings.some(({ severity }) => severity === 'problem') ? EXIT.violations : EXIT.passed;
  },
});
